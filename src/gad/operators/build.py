"""From an edge list to the operators: everything a graph needs, worked out once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from gad.operators.directions import (
    Potentials,
    fiedler_potentials,
    field,
    transpose,
    user_potentials,
)
from gad.operators.eigenbasis import Partition, decompose, starts, truncate
from gad.operators.fiedler import DENSE_LIMIT, fiedler
from gad.operators.graph_operators import GraphOperators
from gad.operators.laplacian import (
    Edges,
    check_batch,
    check_edges,
    components,
    masses,
)


def build_operators(
    edge_index: Tensor,
    num_nodes: int,
    *,
    batch: Tensor | None = None,
    k: int | None = None,
    basis: bool = True,
    edge_weight: Tensor | None = None,
    potential: Tensor | None = None,
    directions: bool = True,
    combinatorial: bool = False,
    transposed: bool = False,
    dtype: torch.dtype | None = None,
) -> GraphOperators:
    """Work out the operators of one graph, or of a batch of graphs at once.

    The eigenbasis of L φ = λ M φ is solved in float64, component by component, with components of
    equal size solved together; the directions are the field of φ₁ of each component.

    Args:
        edge_index: undirected edges, both directions, as [2, E] (source j, target i). Self-loops
            are ignored; duplicate or one-way edges are errors.
        num_nodes: N.
        batch: the graph of each node [N], sorted; one graph if left out.
        k: keep the first k eigenpairs of each graph, extended to the end of their eigenspace.
        basis: False for large graphs: nothing is decomposed, φ₁ comes from a sparse eigensolver
            whose residual is reported in ``residual``.
        edge_weight: positive symmetric weights [E].
        potential: your own scalar field [N] or fields [N, m] for the directions, instead of φ₁.
        directions: False leaves the directions out.
        combinatorial: directions from φ₁ of L φ = λ φ instead of L φ = λ M φ, as DGN's authors
            have it.
        transposed: F̂ᵀ instead of F̂, as the paper's published code has it: for comparison.
        dtype: of the result; by default that of ``edge_weight``, or PyTorch's default type.

    Example:
        >>> import torch, gad
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> gad.build_operators(path, 3).spectrum()
        tensor([0., 1., 2.])
    """
    if k is not None and k < 1:
        raise ValueError(f"k is the number of eigenpairs to keep, at least 1, not {k}")
    edges = check_edges(edge_index, num_nodes, edge_weight)
    graph, num_graphs = check_batch(batch, edges, num_nodes)
    mass = masses(edges, num_nodes)
    partition = Partition.of(components(edges, num_nodes))
    graph_of_unit = graph[partition.members[starts(partition.sizes)]]
    residual = torch.zeros(num_graphs, dtype=torch.float64)
    spectra = potentials = None
    if basis:
        spectra = decompose(edges.source, edges.target, edges.weight, mass, partition)
    if potential is not None:
        potentials = user_potentials(potential, partition)
    elif spectra is not None and not combinatorial:
        potentials = fiedler_potentials(spectra, partition)
    elif directions:
        own, own_mass = _regular(edges, partition) if combinatorial else (edges, mass)
        if basis:
            found = decompose(own.source, own.target, own.weight, own_mass, partition)
            potentials = fiedler_potentials(found, partition)
        else:
            potentials = _sparse_potentials(own, own_mass, partition)
            residual.scatter_reduce_(0, graph_of_unit, potentials.noise, "amax")
    flow = None
    if directions and potentials is not None:
        flow = field(edges.source, edges.target, edges.weight, mass, potentials, partition)
        flow = transpose(flow, edges.reverse) if transposed else flow
    if spectra is not None and k is not None:
        spectra = truncate(spectra, partition, graph_of_unit, k)
    operators = GraphOperators(
        batch=graph,
        num_graphs=num_graphs,
        mass=mass,
        source=edges.source,
        target=edges.target,
        weight=edges.weight,
        reverse=edges.reverse,
        edge_position=edges.position,
        num_given_edges=edge_index.shape[1],
        members=partition.members,
        component_sizes=partition.sizes,
        eigenvalues=None if spectra is None else spectra.values,
        eigenvectors=None if spectra is None else spectra.vectors,
        basis_counts=None if spectra is None else spectra.counts,
        field=None if flow is None else flow.first,
        field_norm=None if flow is None else flow.norm,
        field_directions=None if flow is None else flow.directions,
        field_others=None if flow is None else flow.others,
        residual=None if flow is None else residual,
    )
    if dtype is None:
        dtype = edge_weight.dtype if edge_weight is not None else torch.get_default_dtype()
        dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    return operators.to(edge_index.device, dtype)


def _regular(edges: Edges, partition: Partition) -> tuple[Edges, Tensor]:
    """Every component made regular by loops: its normalised Laplacian is then L/c, so φ₁ that of L.

    Returns the edges with the loops, and the masses: c, the largest degree of the component.
    """
    nodes, unit = torch.arange(partition.component.numel()), partition.component
    degree = torch.zeros(nodes.numel(), dtype=torch.float64)
    degree.index_add_(0, edges.target, edges.weight)
    largest = torch.zeros(partition.sizes.numel(), dtype=torch.float64)
    mass = largest.scatter_reduce_(0, unit, degree, "amax")[unit]
    mass = torch.where(mass > 0, mass, torch.ones_like(mass))
    loops = replace(
        edges,
        source=torch.cat([edges.source, nodes]),
        target=torch.cat([edges.target, nodes]),
        weight=torch.cat([edges.weight, mass - degree]),
    )
    return loops, mass


def _sparse_potentials(edges: Edges, mass: Tensor, partition: Partition) -> Potentials:
    """φ₁'s eigenspace of every component without a full decomposition of the large ones."""
    large = (partition.sizes > DENSE_LIMIT).nonzero().flatten().tolist()
    small = (partition.sizes <= DENSE_LIMIT)[partition.component]
    counts = torch.zeros(partition.sizes.numel(), dtype=torch.int64)
    noise = torch.zeros(partition.sizes.numel(), dtype=torch.float64)
    blocks: dict[int, Tensor] = {}
    if small.any():
        blocks_small, counts_small = _dense_blocks(edges, mass, partition, small)
        blocks.update(blocks_small)
        counts += counts_small
    for unit in large:
        nodes = partition.members[starts(partition.sizes)[unit] :][: int(partition.sizes[unit])]
        inside = partition.component[edges.target] == unit
        row = partition.slot[edges.target[inside]].numpy()
        column = partition.slot[edges.source[inside]].numpy()
        n = nodes.numel()
        adjacency = csr_matrix((edges.weight[inside].numpy(), (row, column)), shape=(n, n))
        found = fiedler(adjacency, mass[nodes].numpy())
        blocks[unit] = torch.from_numpy(np.ascontiguousarray(found.vectors)).reshape(-1)
        counts[unit], noise[unit] = found.vectors.shape[1], found.residual
    flat = [blocks[unit] for unit in sorted(blocks)]
    return Potentials(torch.cat(flat) if flat else torch.zeros(0), counts, noise)


def _dense_blocks(
    edges: Edges, mass: Tensor, partition: Partition, small: Tensor
) -> tuple[dict[int, Tensor], Tensor]:
    """φ₁'s eigenspaces of the small components, by the dense solve."""
    nodes = partition.members[small[partition.members]]
    renumber = torch.full_like(partition.members, -1)
    renumber[nodes] = torch.arange(nodes.numel())
    unit, inverse = partition.component[nodes].unique(return_inverse=True)
    own = Partition.of(inverse)
    keep = small[edges.target]
    source, target = renumber[edges.source[keep]], renumber[edges.target[keep]]
    spectra = decompose(source, target, edges.weight[keep], mass[nodes], own)
    found = fiedler_potentials(spectra, own)
    counts = torch.zeros(partition.sizes.numel(), dtype=torch.int64)
    counts[unit] = found.counts
    pieces = found.values.split((own.sizes * found.counts).tolist())
    return dict(zip(unit.tolist(), pieces, strict=True)), counts
