"""How many simple cycles of each length run through every node and every edge.

A cycle of length ℓ is found once, from its first node s (in some order of the nodes): it falls into
two paths from s to the node across, of ⌈ℓ/2⌉ and ⌊ℓ/2⌋ edges, which meet nowhere in between. So
paths of at most half the longest length are grown from all nodes of all graphs at once, through
nodes that come after s alone, and joined at their ends. The work is that of paths half as long, and
no Python loop runs over graphs, nodes or cycles.

Nodes of high degree come first in the order: paths that start elsewhere do not pass through them,
and what is left between the junctions of rings is chains.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gad.operators.eigenbasis import ragged_arange, starts
from gad.operators.laplacian import Edges, GraphError, check_batch, check_edges

# Paths and pairs of paths that one graph may ask for: about a second's work, or so many a node
# where the graph is large (a molecule needs ten a node, a square lattice a hundred).
LIMIT = 1 << 21
_PER_NODE = 256
# Start nodes taken at once, and rows beyond which they are halved: bounds memory, not results.
_STARTS = 1 << 13
_ROWS = 1 << 20


class CycleLimitError(GraphError):
    """A graph with too many paths to look for its cycles; ``graph`` says which of the batch."""

    def __init__(self, graph: int, message: str) -> None:
        super().__init__(message)
        self.graph = graph


def cycle_lengths(longest: int) -> int:
    """How many lengths there are from 3 to ``longest``: the columns of :func:`count_cycles`."""
    return max(0, longest - 2)


def count_cycles(
    edge_index: Tensor,
    num_nodes: int,
    longest: int,
    *,
    batch: Tensor | None = None,
    limit: int = LIMIT,
) -> tuple[Tensor, Tensor]:
    """Count the simple cycles of lengths 3 … ``longest`` through each node and each edge.

    Cycles as subgraphs: no node twice, wherever they begin and whichever way they go round. An
    edge with a count above 0 lies on a ring of at most ``longest`` members.

    Args:
        edge_index: undirected edges, both directions, [2, E]; self-loops count for nothing.
        num_nodes: N.
        longest: the length of the longest cycles counted.
        batch: the graph of each node [N], sorted; one graph if left out.
        limit: the paths (of half the longest length) and pairs of paths a graph may ask for, or 256
            a node where that is more. Time and memory stay in proportion to it.

    Returns:
        int64 [N, longest − 2] of nodes and [E, longest − 2] of edges, a column for each length.

    Raises:
        CycleLimitError: if a graph is too dense or too large; the message gives its size.

    Example:
        Two triangles that share an edge form a square as well:

        >>> pairs = torch.tensor([[0, 0, 1, 0, 2], [1, 2, 2, 3, 3]])
        >>> nodes, edges = count_cycles(torch.cat([pairs, pairs.flip(0)], dim=1), 4, 4)
        >>> nodes.tolist()
        [[2, 1], [1, 1], [2, 1], [1, 1]]
        >>> edges[1].tolist()
        [2, 0]
    """
    if longest < 3:
        raise ValueError(f"the shortest cycle has length 3, so longest = {longest} is too small")
    edges = check_edges(edge_index, num_nodes)
    graph, num_graphs = check_batch(batch, edges, num_nodes)
    of_nodes = torch.zeros(num_nodes, longest - 2, dtype=torch.int64)
    of_bonds = torch.zeros(edges.source.numel(), longest - 2, dtype=torch.int64)
    for nodes, bonds in find_cycles(edges, graph, num_graphs, longest, limit):
        _count(of_nodes[:, len(nodes) - 3], nodes)
        _count(of_bonds[:, len(nodes) - 3], bonds)
    of_edges = of_bonds.new_zeros(edge_index.shape[1], longest - 2)
    of_edges[edges.position] = of_bonds + of_bonds[edges.reverse]
    return of_nodes.to(edge_index.device), of_edges.to(edge_index.device)


def find_cycles(
    edges: Edges, graph: Tensor, num_graphs: int, longest: int, limit: int = LIMIT
) -> Iterator[tuple[Tensor, Tensor]]:
    """The simple cycles up to a length, each once, in portions of one length ℓ.

    Args:
        edges: of all graphs; weights and positions do not matter.
        graph: the graph of each node [N].
        num_graphs: B.
        longest: the length of the longest cycles.
        limit: as in :func:`count_cycles`.

    Yields:
        Nodes [ℓ, …] and bonds [ℓ, …]; a bond is known by the lower number of its two edges.
    """
    search = _Search.of(edges, graph.numel(), longest)
    spent = torch.zeros(num_graphs, dtype=torch.int64)
    of_start = graph[search.node]
    allowed = (_PER_NODE * torch.bincount(graph, minlength=num_graphs)).clamp_min(limit)
    blocks = list(torch.split(search.degree.nonzero().flatten(), _STARTS))
    while blocks:
        block = blocks.pop()
        alone = block.numel() == 1
        rows = int(allowed.max()) if alone else _ROWS
        budget = _Budget(of_start, spent.clone(), allowed, rows)
        try:
            cycles = list(search.cycles(block, longest, budget))
        except _TooManyRowsError:
            if alone:
                raise _refusal(int(of_start[block]), graph, edges, longest) from None
            blocks += block.chunk(2)
            continue
        spent = budget.spent
        for nodes, bonds in cycles:
            yield search.node[nodes], bonds


def _count(counts: Tensor, index: Tensor) -> None:
    """Add 1 for every time a place is named."""
    counts.index_add_(0, index.flatten(), torch.ones_like(index).flatten())


@dataclass(frozen=True)
class _Paths:
    """P simple paths of a edges: ``nodes`` [a + 1, P], ``bonds`` [a, P], sorted by ``key`` [P].

    The key is one number for the first and the last node.
    """

    nodes: Tensor
    bonds: Tensor
    key: Tensor


@dataclass(frozen=True)
class _Search:
    """The graphs in the order of the search: node r is ``node[r]``, with ``degree[r]`` neighbours.

    ``neighbour`` and ``bond`` list them from ``first[r]`` on; a bond is known by one of the two
    numbers its edges have.
    """

    node: Tensor
    degree: Tensor
    first: Tensor
    neighbour: Tensor
    bond: Tensor

    @staticmethod
    def of(edges: Edges, num_nodes: int, longest: int) -> _Search:
        """Take off leaves, which lie on no cycle, and put nodes of high degree first."""
        target, source = edges.target, edges.source
        bond = torch.minimum(torch.arange(target.numel()), edges.reverse)
        degree = torch.bincount(target, minlength=num_nodes)
        # A few rounds are enough to make the search quick; a long chain would take many.
        for _ in range(longest):
            inner = (degree[target] > 1) & (degree[source] > 1)
            if bool(inner.all()):
                break
            target, source, bond = target[inner], source[inner], bond[inner]
            degree = torch.bincount(target, minlength=num_nodes)
        node = degree.argsort(descending=True, stable=True)
        rank = torch.empty_like(node)
        rank[node] = torch.arange(num_nodes)
        order = rank[target].argsort(stable=True)
        degree = degree[node]
        return _Search(node, degree, starts(degree), rank[source[order]], bond[order])

    def cycles(
        self, start: Tensor, longest: int, budget: _Budget
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Cycles whose first node is in ``start``, by length: nodes [ℓ, …], bonds [ℓ, …]."""
        paths = self.grow(_Paths(start[None], start[None][:0], start), budget)
        for length in range(3, longest + 1):
            half = paths
            if length % 2:
                paths = self.grow(paths, budget)
            yield self.join(paths, half, budget)

    def grow(self, paths: _Paths, budget: _Budget) -> _Paths:
        """All paths by another edge, to nodes after the first that are not on them yet."""
        first, last = paths.nodes[0], paths.nodes[-1]
        count = self.degree[last]
        budget.charge(first, count)
        row = torch.arange(last.numel()).repeat_interleave(count)
        at = self.first[last[row]] + ragged_arange(count)
        new = self.neighbour[at]
        free = new > first[row]
        for before in paths.nodes[1:-1]:
            free &= new != before[row]
        row, at, new = row[free], at[free], new[free]
        nodes = torch.cat([paths.nodes[:, row], new[None]])
        bonds = torch.cat([paths.bonds[:, row], self.bond[at][None]])
        key, order = (nodes[0] * self.node.numel() + new).sort()
        return _Paths(nodes[:, order], bonds[:, order], key)

    def join(self, paths: _Paths, half: _Paths, budget: _Budget) -> tuple[Tensor, Tensor]:
        """Cycles made of two paths with the same ends that meet nowhere else: nodes and bonds."""
        low = torch.searchsorted(half.key, paths.key)
        count = torch.searchsorted(half.key, paths.key, right=True) - low
        budget.charge(paths.nodes[0], count)
        there = torch.arange(low.numel()).repeat_interleave(count)
        back = low[there] + ragged_arange(count)
        # Of the two ways round, the one whose first step goes to the earlier node.
        one_way = paths.nodes[1, there] < half.nodes[1, back]
        there, back = there[one_way], back[one_way]
        apart = torch.ones_like(there, dtype=torch.bool)
        for x in paths.nodes[1:-1]:
            for y in half.nodes[1:-1]:
                apart &= x[there] != y[back]
        there, back = there[apart], back[apart]
        nodes = torch.cat([paths.nodes[:, there], half.nodes[1:-1, back]])
        return nodes, torch.cat([paths.bonds[:, there], half.bonds[:, back]])


class _TooManyRowsError(Exception):
    """Paths from these start nodes would need too much memory, or too much time."""


@dataclass
class _Budget:
    """What may be asked for: rows of this block of start nodes, and by each graph in all.

    ``graph`` [N] is that of a start node, ``spent`` [B] what it has asked for of the ``allowed``.
    """

    graph: Tensor
    spent: Tensor
    allowed: Tensor
    rows: int

    def charge(self, start: Tensor, count: Tensor) -> None:
        """Paths from ``start`` [P] ask for ``count`` [P] rows: raise before there are too many."""
        self.rows -= int(count.sum())
        self.spent.index_add_(0, self.graph[start], count)
        if self.rows < 0 or bool((self.spent > self.allowed).any()):
            raise _TooManyRowsError


def _refusal(number: int, graph: Tensor, edges: Edges, longest: int) -> CycleLimitError:
    nodes, count = (graph == number).sum(), (graph[edges.target] == number).sum() // 2
    return CycleLimitError(
        number,
        f"graph {number} ({int(nodes):,} nodes, {int(count):,} edges) has too many paths to count "
        f"its cycles up to length {longest}: count shorter cycles only",
    )
