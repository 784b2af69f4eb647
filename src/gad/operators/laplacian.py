"""The graph Laplacian and what it is made of: checked edges, masses, components.

A graph has N nodes and undirected edges, each given in both directions. With adjacency A, degrees
D and Laplacian L = D − A, the mass matrix M is D with 1 in place of 0 for an isolated node.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor


class GraphError(ValueError):
    """A graph that cannot be used as given; the message says where and what to do."""


@dataclass(frozen=True)
class Edges:
    """Directed edges j → i of an undirected graph, sorted by (target, source), without loops.

    ``source`` and ``target`` are int64 [E], ``weight`` is float64 [E] and positive, and
    ``position`` [E] says where each edge stood in the list it was read from and ``reverse`` [E]
    where the edge i → j stands.
    """

    source: Tensor
    target: Tensor
    weight: Tensor
    position: Tensor
    reverse: Tensor


def check_edges(edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None = None) -> Edges:
    """Read an edge list, refusing what has no defined meaning.

    Self-loops are ignored: a loop carries no difference, and L does not see it. Edges outside the
    graph, edges without their reverse, duplicate edges and weights that are not positive and finite
    are errors.

    >>> check_edges(torch.tensor([[0, 1, 1], [1, 0, 1]]), 2).target
    tensor([0, 1])
    """
    if num_nodes < 1:
        raise GraphError("a graph needs at least one node: this batch is empty")
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.is_floating_point():
        raise GraphError(f"edge_index must be integers [2, E], not {_describe(edge_index)}")
    source, target = edge_index.detach().to("cpu", torch.int64)
    count = source.numel()
    if edge_weight is None:
        weight = torch.ones(count, dtype=torch.float64)
    else:
        if edge_weight.numel() != count:
            raise GraphError(f"{count} edges but {edge_weight.numel()} edge weights")
        weight = edge_weight.detach().reshape(-1).to("cpu", torch.float64)
    if count:
        low, high = int(edge_index.min()), int(edge_index.max())
        if low < 0 or high >= num_nodes:
            raise GraphError(
                f"edge_index names node {low if low < 0 else high}, "
                f"but the graph has nodes 0 to {num_nodes - 1}"
            )
        good = torch.isfinite(weight) & (weight > 0)
        if not good.all():
            e = int((~good).nonzero()[0])
            raise GraphError(
                f"edge {int(source[e])} → {int(target[e])} has weight {float(weight[e])}: "
                "weights must be positive and finite"
            )
    position = (source != target).nonzero().flatten()
    source, target, weight = source[position], target[position], weight[position]
    key = target * num_nodes + source
    order = key.argsort()
    key = key[order]
    repeated = (key[1:] == key[:-1]).nonzero().flatten()
    if repeated.numel():
        j, i = int(key[repeated[0]]) % num_nodes, int(key[repeated[0]]) // num_nodes
        raise GraphError(
            f"edge {j} → {i} is given more than once: merge duplicate edges first "
            "(torch_geometric.utils.coalesce), adding their weights if that is what they mean"
        )
    # Sorted by (source, target) the edges list their reverses in the order of the edges.
    back, reverse = (source[order] * num_nodes + target[order]).sort()
    edges = Edges(source[order], target[order], weight[order], position[order], reverse)
    _check_symmetry(edges, key, back, num_nodes)
    return edges


def _check_symmetry(edges: Edges, key: Tensor, back: Tensor, num_nodes: int) -> None:
    """Every edge has its reverse, with the same weight."""
    if not torch.equal(key, back):
        # `back` has an edge's (source, target), `key` what is there as (target, source).
        lonely = int(back[~torch.isin(back, key)][0])
        j, i = lonely // num_nodes, lonely % num_nodes
        raise GraphError(
            f"edge {j} → {i} has no reverse {i} → {j}: give undirected edges in both directions "
            "(torch_geometric.utils.to_undirected does that)"
        )
    reverse_weight = edges.weight[edges.reverse]
    unequal = (edges.weight - reverse_weight).abs() > 1e-6 * edges.weight
    if unequal.any():
        e = int(unequal.nonzero()[0])
        raise GraphError(
            f"edge {int(edges.source[e])} → {int(edges.target[e])} weighs {float(edges.weight[e])} "
            f"one way and {float(reverse_weight[e])} the other: weights must be symmetric"
        )


def masses(edges: Edges, num_nodes: int) -> Tensor:
    """Weighted degrees, 1 for an isolated node: the diagonal of M, float64 [N]."""
    mass = torch.zeros(num_nodes, dtype=torch.float64)
    mass.index_add_(0, edges.target, edges.weight)
    return torch.where(mass > 0, mass, torch.ones_like(mass))


def components(edges: Edges, num_nodes: int) -> Tensor:
    """The connected component of each node, numbered by their first nodes: int64 [N]."""
    ones = np.ones(edges.source.numel(), dtype=np.int8)
    adjacency = coo_matrix(
        (ones, (edges.target.numpy(), edges.source.numpy())), shape=(num_nodes, num_nodes)
    )
    _, label = connected_components(adjacency, directed=False)
    # SciPy happens to number components by their first nodes; rely on the fact, not the accident.
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    rank = np.empty_like(first)
    rank[np.argsort(first)] = np.arange(first.size)
    return torch.from_numpy(rank[inverse].astype(np.int64))


def check_batch(batch: Tensor | None, edges: Edges, num_nodes: int) -> tuple[Tensor, int]:
    """The graph of each node [N] and the number of graphs, every graph present and in order."""
    if batch is None:
        return torch.zeros(num_nodes, dtype=torch.int64), 1
    graph = batch.detach().to("cpu", torch.int64)
    if graph.shape != (num_nodes,):
        raise GraphError(f"batch must give a graph for each of the {num_nodes} nodes")
    if (graph < 0).any():
        raise GraphError("batch numbers graphs from 0: it has a negative number")
    step = torch.diff(graph, prepend=graph.new_tensor([-1]))
    if (step < 0).any():
        raise GraphError("batch must be sorted: the nodes of one graph stand together")
    if (step > 1).any():
        missing = int(graph[int((step > 1).nonzero()[0])]) - 1
        raise GraphError(f"graph {missing} of the batch has no nodes")
    crossing = (graph[edges.source] != graph[edges.target]).nonzero().flatten()
    if crossing.numel():
        j, i = int(edges.source[crossing[0]]), int(edges.target[crossing[0]])
        raise GraphError(f"edge {j} → {i} joins two graphs of the batch")
    return graph, int(graph[-1]) + 1


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
