"""Counts of cycles: known graphs, and every graph against all orders of its nodes."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
import torch
from hypothesis import given

from gad.operators import GraphError, cycles
from gad.operators.cycles import CycleLimitError, count_cycles, cycle_lengths
from tests.graphs import (
    ZOO,
    Graph,
    c60,
    complete,
    complete_bipartite,
    disjoint,
    examples,
    graph,
    graphs,
    grid,
    hypercube,
    isolated,
    molecules,
    path,
    renumber,
    renumbered,
    ring,
)


def count(of: Graph, longest: int = 8, **options) -> tuple[np.ndarray, np.ndarray]:
    nodes, edges = count_cycles(of.edge_index, of.num_nodes, longest, **options)
    assert nodes.shape == (of.num_nodes, longest - 2)
    assert edges.shape == (2 * len(of.pairs), longest - 2)
    return nodes.numpy(), edges.numpy()


def all_cycles(of: Graph, length: int) -> list[tuple[int, ...]]:
    """Every cycle once, by trying every order of every choice of nodes."""
    near = of.adjacency > 0
    return [
        (nodes[0], *rest)
        for nodes in combinations(range(of.num_nodes), length)
        for rest in permutations(nodes[1:])
        if rest[0] < rest[-1]
        and all(near[a, b] for a, b in zip((nodes[0], *rest), (*rest, nodes[0]), strict=True))
    ]


def reference(of: Graph, longest: int) -> tuple[np.ndarray, np.ndarray]:
    nodes = np.zeros((of.num_nodes, longest - 2), int)
    pairs = np.zeros((of.num_nodes, of.num_nodes, longest - 2), int)
    for length in range(3, longest + 1):
        for cycle in all_cycles(of, length):
            for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True):
                nodes[a, length - 3] += 1
                pairs[a, b, length - 3] += 1
                pairs[b, a, length - 3] += 1
    source, target = of.edge_index.numpy()
    return nodes, pairs[source, target]


def totals(of: Graph, longest: int) -> list[int]:
    """How many cycles of each length there are in all."""
    nodes, edges = count(of, longest)
    lengths = np.arange(3, longest + 1)
    found = nodes.sum(0) / lengths
    # A cycle has as many edges as nodes, and each edge is listed twice.
    np.testing.assert_array_equal(edges.sum(0), 2 * nodes.sum(0))
    assert (found == found.astype(int)).all()
    return found.astype(int).tolist()


PETERSEN = graph(
    10, [p for i in range(5) for p in ((i, (i + 1) % 5), (i, i + 5), (i + 5, (i + 2) % 5 + 5))]
)
NAPHTHALENE = graph(10, [*((i, i + 1) for i in range(9)), (9, 0), (4, 9)])
NORBORNANE = graph(7, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 6), (3, 6)])


@pytest.mark.parametrize(
    ("of", "wanted"),
    [
        (complete(4), [4, 3]),
        (complete(5), [10, 15, 12]),
        (complete_bipartite(3, 3), [0, 9, 0, 6]),
        (hypercube(3), [0, 6, 0, 16, 0, 6]),
        (PETERSEN, [0, 0, 12, 10, 0, 15, 20]),
        (NAPHTHALENE, [0, 0, 0, 2, 0, 0, 0, 1]),
        (NORBORNANE, [0, 0, 2, 1]),
        (grid(3, 3), [0, 4, 0, 4, 0, 5]),
        (c60(), [0, 0, 12, 20, 0, 0, 60]),
        (ring(8), [0, 0, 0, 0, 0, 1]),
        (ring(9), [0, 0, 0, 0, 0, 0]),
        (path(30), [0, 0, 0, 0]),
        (disjoint(ring(3), isolated(2), ring(3)), [2, 0]),
    ],
    ids=str,
)
def test_known_graphs(of, wanted):
    assert totals(of, len(wanted) + 2) == wanted


def test_atoms_and_bonds_of_fused_rings():
    nodes, edges = count(NAPHTHALENE, 10)
    shared = (4, 9)
    assert [n[3] for n in nodes] == [2 if i in shared else 1 for i in range(10)]
    assert (nodes[:, 7] == 1).all()
    for pair, of_bond in zip(NAPHTHALENE.pairs.tolist(), edges, strict=False):
        between = pair == list(shared)
        assert of_bond[3] == (2 if between else 1)
        assert of_bond[7] == (0 if between else 1)


@given(graphs(max_nodes=7, weighted=False))
@examples(60)
def test_any_graph_by_trying_everything(of):
    longest = max(3, of.num_nodes)
    for found, wanted in zip(count(of, longest), reference(of, longest), strict=True):
        np.testing.assert_array_equal(found, wanted)


@given(renumbered(graphs(max_nodes=12, weighted=False)))
@examples(30)
def test_numbering_does_not_matter(case):
    of, other, permutation = case
    nodes, edges = count(of)
    other_nodes, other_edges = count(other)
    np.testing.assert_array_equal(other_nodes[permutation], nodes)
    place = {tuple(pair): e for e, pair in enumerate(other.edge_index.t().tolist())}
    at = [place[int(permutation[j]), int(permutation[i])] for j, i in of.edge_index.t().tolist()]
    np.testing.assert_array_equal(other_edges[at].reshape(edges.shape), edges)


def test_a_batch_is_its_graphs_one_by_one():
    several = [*molecules(40, seed=3), *(g for g in ZOO.values() if g.weights is None)]
    several = [renumber(g, np.random.default_rng(0).permutation(g.num_nodes)) for g in several]
    together = disjoint(*several)
    sizes = torch.tensor([g.num_nodes for g in several])
    batch = torch.arange(len(several)).repeat_interleave(sizes)
    nodes, edges = count(together, batch=batch)
    separate = [count(g) for g in several]
    np.testing.assert_array_equal(nodes, np.concatenate([n for n, _ in separate]))
    half = [e[: len(e) // 2] for _, e in separate]
    np.testing.assert_array_equal(edges[: len(edges) // 2], np.concatenate(half))


def test_blocks_of_any_size_give_the_same(monkeypatch):
    whole = [count(g) for g in (hypercube(4), c60(), complete(7))]
    monkeypatch.setattr(cycles, "_ROWS", 200)
    for of, (nodes, edges) in zip((hypercube(4), c60(), complete(7)), whole, strict=True):
        other = count(of)
        np.testing.assert_array_equal(other[0], nodes)
        np.testing.assert_array_equal(other[1], edges)


def test_loops_and_lone_nodes_count_for_nothing():
    pairs = torch.tensor([[0, 1, 1, 2, 2, 0, 1], [1, 0, 2, 1, 0, 2, 1]])
    nodes, edges = count_cycles(pairs, 4, 3)
    assert nodes.flatten().tolist() == [1, 1, 1, 0]
    assert edges.flatten().tolist() == [1, 1, 1, 1, 1, 1, 0]
    nodes, edges = count_cycles(torch.zeros(2, 0, dtype=torch.int64), 3, 5)
    assert (nodes.shape, int(nodes.sum()), edges.shape) == ((3, 3), 0, (0, 3))


def test_a_graph_that_is_too_dense_is_named():
    both = disjoint(ring(6), complete(40))
    batch = torch.tensor([0] * 6 + [1] * 40)
    with pytest.raises(CycleLimitError, match=r"graph 1 \(40 nodes, 780 edges\).*length 8") as told:
        count(both, batch=batch)
    assert told.value.graph == 1
    assert count(both, 3, batch=batch)[0][6:].flatten().tolist() == [39 * 38 // 2] * 40
    with pytest.raises(CycleLimitError, match=r"graph 0 \(8 nodes, 28 edges\)"):
        count(complete(8), limit=100)
    assert totals(complete(8), 8)[-1] == 2520


def test_long_chains_and_large_sparse_graphs_are_quick():
    assert not count(path(20_000))[0].any()
    nodes, edges = count(grid(60, 60))
    assert nodes[:, 1].sum() == 4 * 59 * 59
    assert edges[:, 1].max() == 2


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(ValueError, match="shortest cycle has length 3"):
        count(ring(3), 2)
    with pytest.raises(GraphError, match=r"0 → 1"):
        count_cycles(torch.tensor([[0], [1]]), 2, 3)


def test_lengths():
    assert [cycle_lengths(n) for n in (0, 3, 8)] == [0, 1, 6]
