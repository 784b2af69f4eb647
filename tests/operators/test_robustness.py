"""Odd graphs work, impossible ones are refused with a message that helps."""

from __future__ import annotations

import pytest
import torch

from gad.operators import (
    HEAT,
    Eigenbasis,
    GraphError,
    build_operators,
)
from tests.graphs import ZOO, complete, disjoint, graph, isolated, molecule, path, ring, star
from tests.operators.cases import CASES

ODD = {
    **ZOO,
    "complete30": complete(30),
    "star200": star(200),
    "many isolated": disjoint(isolated(40), path(3), isolated(40)),
    "many components": disjoint(*[ring(3 + n % 5) for n in range(20)]),
}


def forward_and_backward(operators):
    """Diffuse by every solver, filter, and return all results and gradients."""
    x = torch.sin(torch.arange(4.0 * operators.num_nodes)).reshape(-1, 4).to(operators.dtype)
    times = torch.tensor([0.0, 0.2, 3.0, 100.0], dtype=operators.dtype)
    for solver, scheme in CASES:
        x, times = x.detach().requires_grad_(), times.detach().requires_grad_()
        h = solver(operators, x, times, scheme)
        out = h + operators.directional_average(h) + operators.directional_derivative(h)
        (out**2).sum().backward()
        yield from (h, out, x.grad, times.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["single", "double"])
@pytest.mark.parametrize("graph", ODD.values(), ids=list(ODD))
def test_everything_is_finite(graph, dtype):
    for tensor in forward_and_backward(graph.operators(dtype)):
        assert torch.isfinite(tensor).all()


@pytest.mark.slow
def test_a_long_path_is_finite():
    graph = path(2000)
    operators = graph.operators(torch.float32)
    x = torch.from_numpy(graph.signal(2)).float().requires_grad_()
    times = torch.tensor([1.0, 100.0], requires_grad=True)
    h = Eigenbasis()(operators, x, times, HEAT)
    out = h + operators.directional_average(h) + operators.directional_derivative(h)
    out.square().sum().backward()
    for tensor in (out, x.grad, times.grad):
        assert torch.isfinite(tensor).all()
    rows = torch.zeros(2000).index_add(0, operators.target, operators.field_norm)
    torch.testing.assert_close(rows, torch.ones(2000))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_one_node(dtype):
    operators = build_operators(torch.zeros(2, 0, dtype=dtype), 1)
    assert operators.spectrum().tolist() == [0]
    assert operators.mass.tolist() == [1]
    x = torch.tensor([[3.0]])
    for solver, scheme in CASES:
        torch.testing.assert_close(solver(operators, x, torch.tensor([5.0]), scheme), x)
    assert operators.directional_average(x).tolist() == [[0]]
    assert operators.directional_derivative(x).tolist() == [[0]]


def test_no_edges():
    graph = isolated(4)
    operators, x = graph.operators(), torch.from_numpy(graph.signal())
    times = torch.tensor([0.0, 1.0, 9.0, 70.0]).double()
    for solver, scheme in CASES:
        torch.testing.assert_close(solver(operators, x, times, scheme), x, rtol=1e-11, atol=1e-11)
    assert not operators.directional_average(x).any()
    assert not operators.directional_derivative(x).any()


def test_isolated_nodes_change_nothing_for_the_others():
    inner = molecule(9)
    outer = disjoint(isolated(2), inner, isolated(1))
    x = torch.from_numpy(outer.signal())
    times = torch.tensor([0.0, 1.0, 9.0, 70.0]).double()
    alone, among = inner.operators(), outer.operators()
    for solver, scheme in CASES:
        h = solver(among, x, times, scheme)
        torch.testing.assert_close(
            h[2:-1], solver(alone, x[2:-1], times, scheme), rtol=0, atol=1e-11
        )
        torch.testing.assert_close(h[:2], x[:2], rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(
        among.directional_average(x)[2:-1], alone.directional_average(x[2:-1]), rtol=0, atol=1e-12
    )


def test_two_nodes():
    """K₂: λ = 0, 2, and all there is to say in one line each."""
    operators = path(2).operators()
    assert operators.spectrum().tolist() == pytest.approx([0, 2])
    x = torch.tensor([[1.0], [3.0]]).double()
    t = torch.tensor([0.7]).double()
    gap = torch.exp(-2 * t)
    torch.testing.assert_close(Eigenbasis()(operators, x, t, HEAT), torch.stack([2 - gap, 2 + gap]))
    torch.testing.assert_close(operators.directional_average(x), x.flip(0))
    torch.testing.assert_close(operators.directional_derivative(x), torch.full_like(x, 2.0))


def test_self_loops_are_ignored():
    plain = molecule(12)
    loops = torch.tensor([[3, 0, 11], [3, 0, 11]])
    edges = torch.cat([loops[:, :1], plain.edge_index, loops[:, 1:]], dim=1)
    weight = torch.ones(edges.shape[1]).double()
    weight[0] = 9.0
    looped = build_operators(edges, 12, edge_weight=weight)
    operators = plain.operators()
    assert looped.num_edges == operators.num_edges
    assert looped.num_given_edges == operators.num_given_edges + 3
    assert torch.equal(edges[:, looped.edge_position], torch.stack([looped.source, looped.target]))
    for a, b in zip(forward_and_backward(looped), forward_and_backward(operators), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_only_self_loops():
    operators = build_operators(torch.tensor([[0, 1], [0, 1]]), 2)
    assert operators.num_edges == 0
    assert operators.mass.tolist() == [1, 1]


# ------------------------------------------------------------------------------ what is refused

PAIR = torch.tensor([[0, 1], [1, 0]])


def test_an_empty_graph():
    with pytest.raises(GraphError, match="at least one node"):
        build_operators(torch.zeros(2, 0, dtype=torch.int64), 0)


@pytest.mark.parametrize(
    ("edges", "shown"),
    [
        (torch.zeros(2, 0), r"float32 \[2, 0\]"),
        (torch.zeros(3, 2, dtype=torch.int64), r"int64 \[3, 2\]"),
        (torch.zeros(2, dtype=torch.int64), r"int64 \[2\]"),
    ],
)
def test_edges_that_are_no_edges(edges, shown):
    with pytest.raises(GraphError, match=rf"edge_index must be integers \[2, E\], not {shown}"):
        build_operators(edges, 3)


def test_an_edge_out_of_the_graph():
    with pytest.raises(GraphError, match="names node 5, but the graph has nodes 0 to 1"):
        build_operators(torch.tensor([[0, 5], [5, 0]]), 2)
    with pytest.raises(GraphError, match="names node -1"):
        build_operators(torch.tensor([[0, -1], [-1, 0]]), 2)


def test_duplicate_edges():
    edges = torch.tensor([[0, 1, 1, 2, 0], [1, 0, 2, 1, 1]])
    with pytest.raises(GraphError, match=r"edge 0 → 1 is given more than once.*coalesce"):
        build_operators(edges, 3)


def test_one_way_edges():
    edges = torch.tensor([[0, 1, 1], [1, 0, 2]])
    with pytest.raises(GraphError, match=r"edge 1 → 2 has no reverse 2 → 1.*to_undirected"):
        build_operators(edges, 3)


def test_weights_that_differ_one_way_and_the_other():
    with pytest.raises(GraphError, match=r"weighs 1\.0 one way and 2\.0 the other|weighs 2\.0 one"):
        build_operators(PAIR, 2, edge_weight=torch.tensor([1.0, 2.0]))


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_weights_that_are_no_weights(bad):
    with pytest.raises(GraphError, match=r"edge 0 → 1 has weight .*positive and finite"):
        build_operators(PAIR, 2, edge_weight=torch.tensor([bad, bad]))


def test_too_few_weights():
    with pytest.raises(GraphError, match="2 edges but 3 edge weights"):
        build_operators(PAIR, 2, edge_weight=torch.ones(3))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([0, 0, 1, 0], "must be sorted"),
        ([0, 0, 2, 2], "graph 1 of the batch has no nodes"),
        ([1, 1, 1, 1], "graph 0 of the batch has no nodes"),
        ([0, 1, 1, 1], "edge 1 → 0 joins two graphs|edge 0 → 1 joins two graphs"),
        ([0, 0, 0], "for each of the 4 nodes"),
        ([-1, -1, -1, -1], "batch"),
        ([-1, -1, 0, 0], "batch"),
    ],
)
def test_a_batch_that_is_no_batch(batch, message):
    pairs = graph(4, [(0, 1), (2, 3)])
    with pytest.raises(GraphError, match=message):
        pairs.operators(batch=torch.tensor(batch))


def test_a_graph_error_is_a_value_error():
    assert issubclass(GraphError, ValueError)
