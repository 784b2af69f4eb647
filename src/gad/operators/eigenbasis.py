"""The eigenbasis of L φ = λ M φ for thousands of small components at once.

Every connected component is decomposed on its own, since nothing flows between components: its
constant vector has the eigenvalue 0 *exactly*, and its φ₁ is its own. Components of equal size are
stacked and solved together in float64 through the symmetric M^(−1/2) L M^(−1/2).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gad import native

# Neighbouring eigenvalues closer than this share an eigenspace.
SAME_EIGENVALUE = 1e-8
# Entries of the stacked dense matrices solved at once: bounds memory, not results.
_STACK = 1 << 24
# Nodes up to which the compiled kernel is quicker than LAPACK.
_COMPILED = 128


@dataclass(frozen=True)
class Partition:
    """Nodes listed component by component.

    ``members`` [N] are the nodes, ``sizes`` [U] how many each of the U components has, ``slot`` [N]
    is a node's place within its component.
    """

    members: Tensor
    sizes: Tensor
    component: Tensor
    slot: Tensor

    @staticmethod
    def of(component: Tensor) -> Partition:
        """Partition the nodes by the component [N] of each."""
        members = component.argsort(stable=True)
        sizes = torch.bincount(component)
        slot = torch.empty_like(component)
        slot[members] = ragged_arange(sizes)
        return Partition(members, sizes, component, slot)


@dataclass(frozen=True)
class Spectra:
    """Eigenpairs of every component, flat.

    ``values`` [ΣK] ascend within a component and ``vectors`` [Σ n·K] are its n × K matrix Φ row by
    row, with ΦᵀMΦ = I; ``counts`` [U] are the K.
    """

    values: Tensor
    vectors: Tensor
    counts: Tensor


def ragged_arange(counts: Tensor) -> Tensor:
    """Count every run from zero: 0, 1, …, counts[0] − 1, 0, 1, …, counts[1] − 1, and so on.

    >>> ragged_arange(torch.tensor([2, 0, 3]))
    tensor([0, 1, 0, 1, 2])
    """
    total = int(counts.sum())
    start = (counts.cumsum(0) - counts).repeat_interleave(counts, output_size=total)
    return torch.arange(total, device=counts.device) - start


def starts(counts: Tensor) -> Tensor:
    """Where each run of a flat array begins: [0, counts[0], counts[0] + counts[1], …]."""
    return counts.cumsum(0) - counts


def decompose(
    source: Tensor, target: Tensor, weight: Tensor, mass: Tensor, partition: Partition
) -> Spectra:
    """All eigenpairs of every component, in float64."""
    sizes = partition.sizes
    values = torch.zeros(int(sizes.sum()), dtype=torch.float64)
    vectors = torch.zeros(int(sizes.square().sum()), dtype=torch.float64)
    spectra = Spectra(values, vectors, sizes.clone())
    compiled = (sizes <= _COMPILED) & native.accepts()
    if compiled.any():
        _decompose_compiled(source, target, weight, mass, partition, compiled, spectra)
    if compiled.all():
        return spectra
    member_start, vector_start = starts(sizes), starts(sizes.square())
    unit_of_edge = partition.component[target]
    symmetric = -weight / (mass[target] * mass[source]).sqrt()
    edge_order = sizes[unit_of_edge].argsort(stable=True)
    edge_sizes = sizes[unit_of_edge][edge_order].contiguous()
    for size in sizes[~compiled].unique().tolist():
        units = (sizes == size).nonzero().flatten()
        low, high = torch.searchsorted(edge_sizes, torch.tensor([size, size + 1])).tolist()
        edges = edge_order[low:high]
        place = torch.empty(sizes.numel(), dtype=torch.int64)
        place[units] = torch.arange(units.numel())
        local = (place[unit_of_edge[edges]] * size + partition.slot[target[edges]]) * size
        local += partition.slot[source[edges]]
        local, by_place = local.sort()
        entries = symmetric[edges[by_place]]
        per_stack = max(1, _STACK // (size * size))
        within = torch.arange(size)
        for first in range(0, units.numel(), per_stack):
            chosen = units[first : first + per_stack]
            matrix = torch.zeros(chosen.numel(), size, size, dtype=torch.float64)
            bounds = torch.tensor([first, first + chosen.numel()]) * size * size
            a, b = torch.searchsorted(local, bounds).tolist()
            matrix.view(-1)[local[a:b] - first * size * size] = entries[a:b]
            nodes = partition.members[member_start[chosen, None] + within]
            lam, phi = _solve(matrix, mass[nodes])
            values[member_start[chosen, None] + within] = lam
            for start, own in zip(vector_start[chosen].tolist(), phi, strict=True):
                vectors[start : start + size * size] = own.flatten()
    return spectra


def _decompose_compiled(
    source: Tensor,
    target: Tensor,
    weight: Tensor,
    mass: Tensor,
    partition: Partition,
    chosen: Tensor,
    spectra: Spectra,
) -> None:
    """The eigenpairs of the chosen components [U], one after the other, by the compiled kernel."""
    sizes, units = partition.sizes, chosen.nonzero().flatten()
    begin = torch.zeros(mass.numel() + 1, dtype=torch.int64)
    begin[1:] = torch.bincount(target, minlength=mass.numel()).cumsum(0)
    order = target.argsort(stable=True)
    native.call(
        "decompose", units.numel(), units, sizes, starts(sizes), starts(sizes.square()),
        partition.members, partition.slot, mass.contiguous(), begin, order, source.contiguous(),
        weight.contiguous(), spectra.values, spectra.vectors,
    )  # fmt: skip


def _solve(matrix: Tensor, mass: Tensor) -> tuple[Tensor, Tensor]:
    """λ [G, n] and Φ [G, n, n] of stacked connected components, from the off-diagonal of L_sym.

    The null vector M^(1/2)·1 is known, so it is moved out of the way (to 3, above every λ ≤ 2)
    before the solve and put first after it: λ₀ is then 0 and φ₀ constant, both exactly, and every
    other vector is orthogonal to it however small λ₁ is.
    """
    size = matrix.shape[-1]
    total = mass.sum(-1)
    if size == 1:
        return torch.zeros_like(mass), total.rsqrt()[:, None, None]
    root = mass.sqrt()
    null = root / total.sqrt()[:, None]
    matrix = matrix + 3 * null[:, :, None] * null[:, None, :]
    matrix.diagonal(dim1=1, dim2=2).add_(1.0)
    lam, psi = torch.linalg.eigh(matrix)
    lam = lam.roll(1, dims=-1).clamp_(0.0, 2.0)
    phi = psi.roll(1, dims=-1) / root[:, :, None]
    lam[:, 0] = 0.0
    phi[:, :, 0] = total.rsqrt()[:, None]
    return lam, phi


def truncate(spectra: Spectra, partition: Partition, graph_of_unit: Tensor, k: int) -> Spectra:
    """The first k eigenpairs of each graph, and the rest of the eigenspace that k would split."""
    num_graphs = int(graph_of_unit.max()) + 1
    counts = spectra.counts
    unit = torch.arange(counts.numel()).repeat_interleave(counts)
    graph = graph_of_unit[unit]
    by_value = spectra.values.argsort(stable=True)
    order = by_value[graph[by_value].argsort(stable=True)]
    sorted_values, sorted_graph = spectra.values[order], graph[order]
    rank = ragged_arange(torch.bincount(sorted_graph, minlength=num_graphs))
    # A pair past k stays while it is joined to its predecessor and the predecessor stays.
    gap = torch.diff(sorted_values, prepend=sorted_values[:1]) > SAME_EIGENVALUE
    breaks = (gap & (rank >= k)).to(torch.int64).cumsum(0)
    keep_sorted = breaks == breaks[(rank == 0).nonzero().flatten()][sorted_graph]
    keep = torch.empty_like(keep_sorted)
    keep[order] = keep_sorted
    kept = torch.zeros_like(counts).index_add_(0, unit, keep.to(counts.dtype))
    row_unit = torch.arange(counts.numel()).repeat_interleave(partition.sizes)
    columns = counts[row_unit]
    column = ragged_arange(columns)
    row_keep = column < kept[row_unit].repeat_interleave(columns)
    return Spectra(spectra.values[keep], spectra.vectors[row_keep], kept)


def first_eigenspaces(spectra: Spectra) -> Tensor:
    """The dimension of each component's φ₁ eigenspace, 0 for a single node: [U]."""
    counts = spectra.counts
    unit = torch.arange(counts.numel()).repeat_interleave(counts)
    rank = ragged_arange(counts)
    breaks = torch.diff(spectra.values, prepend=spectra.values[:1]) > SAME_EIGENVALUE
    gaps = (breaks & (rank > 1)).to(torch.int64).cumsum(0)
    # An eigenpair belongs to φ₁'s space when no gap lies between rank 1 and its own.
    inside = (rank >= 1) & (gaps == gaps[starts(counts)][unit])
    return torch.zeros_like(counts).index_add_(0, unit, inside.to(counts.dtype))
