"""What every diffusion obeys: conservation, the maximum principle, its limits, its symmetries."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gad.operators import HEAT, IMPLICIT, Chebyshev, Cholesky, ConjugateGradient, Eigenbasis
from tests.graphs import ZOO, diffusion_times, examples, graphs, renumbered, ring
from tests.operators.cases import EVERY_CASE
from tests.reference import dense

EVERY_SCHEME = pytest.mark.parametrize("scheme", [HEAT, IMPLICIT], ids=repr)
EVERY_GRAPH = pytest.mark.parametrize("graph", ZOO.values(), ids=list(ZOO))
TIMES = torch.tensor([0.0, 0.3, 4.0, 100.0], dtype=torch.float64)


def diffuse(graph, solver, scheme, x, times):
    operators = graph.operators()
    x = torch.as_tensor(x)
    return solver(operators, x, torch.as_tensor(times, dtype=x.dtype), scheme)


@EVERY_CASE
@EVERY_GRAPH
def test_heat_is_conserved(graph, solver, scheme):
    x, mass = graph.signal(), dense.mass(graph.adjacency)
    h = diffuse(graph, solver, scheme, x, TIMES)
    np.testing.assert_allclose(mass @ h.numpy(), mass @ x, rtol=0, atol=1e-10 * mass.sum())


@EVERY_CASE
@EVERY_GRAPH
def test_maximum_principle(graph, solver, scheme):
    """Nothing becomes hotter than the hottest node of its component, or colder than the coldest."""
    x = graph.signal()
    h = diffuse(graph, solver, scheme, x, TIMES).numpy()
    for nodes in dense.components(graph.adjacency):
        assert (h[nodes] <= x[nodes].max(0) + 1e-10).all()
        assert (h[nodes] >= x[nodes].min(0) - 1e-10).all()


@EVERY_CASE
@EVERY_GRAPH
def test_constants_stay(graph, solver, scheme):
    x = torch.tensor([[1.0, -2.0, 1e3, 1e-3]], dtype=torch.float64).expand(graph.num_nodes, 4)
    torch.testing.assert_close(diffuse(graph, solver, scheme, x, TIMES), x, rtol=1e-11, atol=1e-11)


@EVERY_CASE
@EVERY_GRAPH
def test_time_zero_changes_nothing(graph, solver, scheme):
    x = torch.from_numpy(graph.signal())
    h = diffuse(graph, solver, scheme, x, torch.zeros(4))
    torch.testing.assert_close(h, x, rtol=0, atol=1e-12)


def long_time_limit(graph, x):
    """The mass-weighted mean of each component."""
    limit, mass = np.empty_like(x), dense.mass(graph.adjacency)
    for nodes in dense.components(graph.adjacency):
        limit[nodes] = mass[nodes] @ x[nodes] / mass[nodes].sum()
    return limit


@EVERY_SCHEME
@EVERY_GRAPH
def test_long_times_give_the_mean_of_each_component(graph, scheme):
    x = graph.signal(2)
    h = diffuse(graph, Eigenbasis(), scheme, x, [1e14, 1e30])
    np.testing.assert_allclose(h, long_time_limit(graph, x), rtol=0, atol=1e-11)


@pytest.mark.parametrize("solver", [Cholesky(), ConjugateGradient()], ids=repr)
@EVERY_GRAPH
def test_long_implicit_steps_give_the_mean_of_each_component(graph, solver):
    x = graph.signal(1)
    h = diffuse(graph, solver, IMPLICIT, x, [1e7])
    np.testing.assert_allclose(h, long_time_limit(graph, x), rtol=0, atol=1e-4)


@pytest.mark.parametrize("solver", [Eigenbasis(), Chebyshev()], ids=repr)
@EVERY_GRAPH
def test_heat_is_a_semigroup(graph, solver):
    """Diffusing for s and then for t is diffusing for s + t."""
    x = torch.from_numpy(graph.signal(3))
    s, t = torch.tensor([[0.2, 3.0, 40.0], [1.0, 0.0, 7.5]], dtype=torch.float64)
    twice = diffuse(graph, solver, HEAT, diffuse(graph, solver, HEAT, x, s), t)
    torch.testing.assert_close(twice, diffuse(graph, solver, HEAT, x, s + t), rtol=0, atol=1e-11)


@EVERY_GRAPH
def test_small_implicit_steps_approach_heat(graph):
    """(1 + tλ/n)^−n → exp(−tλ), with an error of order 1/n."""
    x, steps, operators = torch.from_numpy(graph.signal(1)), 200, graph.operators()
    h, step = x, x.new_tensor([2.0 / 200])
    for _ in range(steps):
        h = Eigenbasis()(operators, h, step, IMPLICIT)
    # (1 + a/n)⁻ⁿ − e⁻ᵃ ≤ a²e⁻ᵃ/2n ≤ 2e⁻²/n, for each eigenvalue.
    bound = 2 * np.exp(-2) / steps * 1.05
    mass = torch.from_numpy(dense.mass(graph.adjacency))[:, None]
    error = (mass * (h - Eigenbasis()(operators, x, 200 * step, HEAT)) ** 2).sum().sqrt()
    assert error <= bound * (mass * x**2).sum().sqrt()


@EVERY_CASE
@examples(15)
@given(st.data())
def test_numbering_does_not_matter(solver, scheme, data):
    graph, other, permutation = data.draw(renumbered(graphs(max_nodes=12)))
    times = data.draw(diffusion_times())
    x = graph.signal(len(times))
    y = np.empty_like(x)
    y[permutation] = x
    h = diffuse(graph, solver, scheme, x, times)
    torch.testing.assert_close(
        diffuse(other, solver, scheme, y, times)[permutation], h, rtol=0, atol=1e-10
    )


def test_reach_on_a_chain_is_the_root_of_the_time():
    """Heat from one node spreads over √t bonds, root mean square, for both schemes."""
    n = 401
    x = torch.zeros(n, 2, dtype=torch.float64)
    x[n // 2] = 1
    times = torch.tensor([9.0, 100.0], dtype=torch.float64)
    distance = (torch.arange(n) - n // 2).double()
    operators = ring(n).operators(basis=False, directions=False)
    for scheme in (HEAT, IMPLICIT):
        h = Chebyshev()(operators, x, times, scheme)
        torch.testing.assert_close((distance**2) @ h, times, rtol=1e-6, atol=0)
