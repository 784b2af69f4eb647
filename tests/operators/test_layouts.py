"""Layouts for multiplication: jagged diagonals hold every edge once, buckets every eigenvector."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given

from gad import native
from gad.operators import HEAT, Eigenbasis, build_operators, layouts
from tests.graphs import ZOO, disjoint, examples, graphs, molecules, ring

EVERY_GRAPH = pytest.mark.parametrize("graph", ZOO.values(), ids=list(ZOO))


@pytest.fixture(params=["compiled", "plain"], autouse=True, scope="module")
def path_taken(request):
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "plain":
            patch.setattr(native, "accepts", lambda *_: False)
        elif native.library() is None:
            pytest.skip("there is no C compiler")
        yield


def assert_jagged(operators, edge_index):
    """Read the edges back out of the jagged diagonals, slot by slot."""
    layout, n = operators.neighbours, operators.num_nodes
    order = torch.arange(n) if layout.order is None else layout.order
    if layout.rank is not None:
        assert torch.equal(order[layout.rank], torch.arange(n))
    assert torch.equal(layout.degree, operators.degree[order])
    assert (layout.degree.diff() <= 0).all()
    given = torch.arange(operators.num_edges) if layout.given is None else layout.given
    seen = torch.zeros(operators.num_edges, dtype=torch.int64)
    end = 0
    for count in layout.counts:
        first, last = end, end + count
        end = last
        targets, sources = order[:count], order[layout.source[first:last]]
        edges = layout.edges[first:last]
        assert torch.equal(operators.target[edges], targets)
        assert torch.equal(operators.source[edges], sources)
        assert torch.equal(edge_index[:, given[first:last]], torch.stack([sources, targets]))
        seen[edges] += 1
    assert end == operators.num_edges
    assert (seen == 1).all()
    # Going back along an edge twice is standing still, and back swaps source and target.
    back = layout.reverse
    assert torch.equal(back[back], torch.arange(end))
    assert torch.equal(operators.source[layout.edges[back]], operators.target[layout.edges])
    assert torch.equal(operators.target[layout.edges[back]], operators.source[layout.edges])


@EVERY_GRAPH
def test_neighbours(graph):
    assert_jagged(graph.operators(), graph.edge_index)


@examples(50)
@given(graphs(max_nodes=9))
def test_neighbours_of_any_graph(graph):
    assert_jagged(graph.operators(), graph.edge_index)


@EVERY_GRAPH
def test_the_reverse_of_an_edge(graph):
    operators = graph.operators()
    assert torch.equal(operators.source[operators.reverse], operators.target)
    assert torch.equal(operators.target[operators.reverse], operators.source)


@EVERY_GRAPH
def test_the_field_on_arranged_edges(graph):
    """The directional filters of arranged operators are those of the operators themselves."""
    operators, x = graph.operators(), torch.from_numpy(graph.signal(2))
    arranged, order = operators.arranged(), operators.neighbours.order
    order = torch.arange(graph.num_nodes) if order is None else order
    for name in ("directional_average", "directional_derivative"):
        found, expected = getattr(arranged, name)(x[order]), getattr(operators, name)(x)[order]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)


def test_neighbours_with_self_loops():
    edges = torch.tensor([[0, 0, 1, 1, 2, 1], [0, 1, 0, 2, 1, 1]])
    assert_jagged(build_operators(edges, 3), edges)


def test_neighbours_of_edges_given_in_the_layout_order():
    """A ring given slot by slot needs no index at all; the answer is the same."""
    graph = ring(5)
    operators = graph.operators()
    layout = operators.neighbours
    order = layout.edges
    edges = torch.stack([operators.source[order], operators.target[order]])
    again = build_operators(edges, 5)
    assert again.neighbours.order is None
    assert again.neighbours.given is None
    assert_jagged(again, edges)


def test_buckets_hold_every_eigenvector_once():
    graph = disjoint(*molecules(40, seed=9), *ZOO.values())
    operators = graph.operators()
    basis = operators.padded_basis
    assert torch.equal(basis.nodes[basis.position], torch.arange(graph.num_nodes))
    values, _, counts = operators.need_basis()
    kept = torch.cat([
        b.eigenvalues[b.synthesis.abs().sum(-1) > 0] for b in basis.buckets
    ])  # fmt: skip
    assert kept.numel() == int(counts.sum())
    torch.testing.assert_close(kept.sort().values, values.sort().values, rtol=0, atol=0)
    entries = sum(b.synthesis.numel() for b in basis.buckets)
    sizes = operators.component_sizes
    assert entries <= 1.26**2 * 2 * int((sizes * sizes).sum())


def test_a_small_bucket_limit_changes_nothing(monkeypatch):
    """Cutting buckets bounds memory; the products are the same."""
    graph = disjoint(*molecules(30, seed=5))
    x, times = torch.from_numpy(graph.signal(2)), torch.tensor([0.5, 8.0]).double()
    whole, cut = graph.operators(), graph.operators()
    h = Eigenbasis()(whole, x, times, HEAT)
    monkeypatch.setattr(layouts, "_BUCKET", 2000)
    torch.testing.assert_close(Eigenbasis()(cut, x, times, HEAT), h, rtol=0, atol=1e-13)
    assert len(cut.padded_basis.buckets) > len(whole.padded_basis.buckets)
