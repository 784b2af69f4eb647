"""Diffusion layers: times one can set, read and learn, and the solver they choose."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gad.nn import Diffusion, ImplicitDiffusion, SpectralDiffusion
from gad.nn.diffusion import spread_times
from gad.operators import (
    HEAT,
    IMPLICIT,
    Chebyshev,
    Cholesky,
    ConjugateGradient,
    Eigenbasis,
    Heat,
    ImplicitStep,
    build_operators,
)
from gad.settings.model import Inputs, build_model
from gad.settings.recipe import Recipe
from tests.graphs import ZOO, Graph, disjoint, grid, isolated, molecule, path, ring
from tests.nn.samples import EVERY_SCHEME
from tests.reference import dense

MATRIX = {SpectralDiffusion: dense.heat_matrix, ImplicitDiffusion: dense.implicit_matrix}
SLOPE = {SpectralDiffusion: dense.heat_slope, ImplicitDiffusion: dense.implicit_slope}
WITH_AND_WITHOUT_BASIS = pytest.mark.parametrize("basis", [True, False], ids=["basis", "no basis"])
EVERY_GRAPH = pytest.mark.parametrize("graph", ZOO.values(), ids=list(ZOO))


# ------------------------------------------------------------------------------ times


@EVERY_SCHEME
def test_times_are_read_back_exactly(scheme):
    times = [0.0, 1e-30, 0.1, 1 / 3, 1.0, 25.0, 1e6]
    layer = scheme(7, times=times)
    assert layer.times.tolist() == torch.tensor(times).tolist()
    layer.set_times(torch.tensor(times).flip(0))
    assert layer.times.tolist() == torch.tensor(times).flip(0).tolist()
    layer.set_times(0)
    assert layer.times.tolist() == [0.0] * 7
    layer.set_times(2.5)
    assert layer.times.tolist() == [2.5] * 7


@EVERY_SCHEME
def test_times_are_a_differentiable_tensor_of_one_time_per_channel(scheme):
    layer = scheme(3)
    assert layer.channels == 3
    assert layer.times.shape == (3,)
    assert layer.times.requires_grad
    assert [name for name, _ in layer.named_parameters()] == ["raw_times"]


@pytest.mark.parametrize("value", [-1e-9, -3.0, math.nan, math.inf, -math.inf])
@EVERY_SCHEME
def test_impossible_times_are_refused(scheme, value):
    with pytest.raises(ValueError, match="finite and at least 0"):
        scheme(2, times=[1.0, value])
    layer = scheme(2, times=[1.0, 2.0])
    with pytest.raises(ValueError, match="finite and at least 0"):
        layer.set_times(value)
    assert layer.times.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("times", [[1.0], [1.0, 2.0], [1.0] * 4, [[1.0, 2.0, 3.0]]])
@EVERY_SCHEME
def test_the_wrong_number_of_times_is_refused(scheme, times):
    with pytest.raises(ValueError, match="3 channels need as many times"):
        scheme(3, times=times)


@EVERY_SCHEME
def test_setting_times_is_no_part_of_a_gradient(scheme):
    layer = scheme(2)
    layer.set_times(torch.tensor([1.0, 2.0], requires_grad=True))
    assert layer.raw_times.is_leaf
    assert layer.raw_times.requires_grad


@EVERY_SCHEME
def test_set_times_after_a_move_to_double(scheme):
    layer = scheme(2).double()
    layer.set_times([0.1, 0.2])
    assert layer.times.dtype == torch.float64
    assert layer.times.tolist() == [0.1, 0.2]


@pytest.mark.parametrize("channels", [1, 5, 16, 75])
@EVERY_SCHEME
def test_times_start_spread_from_local_to_global(scheme, channels):
    """From a fraction of a bond to several bonds, evenly in logarithm, in every tower."""
    reach = scheme(channels).reach
    assert ((reach > 0.1) & (reach < 10)).all()
    if channels >= 5:
        assert (reach < 1).any()
        assert (reach > 2).any()
    for tower in reach.split(5) if channels == 75 else ():
        assert tower.max() > 3 * tower.min()


@pytest.mark.parametrize("longest", [0.0, 0.05, 1.0, 100.0])
def test_times_start_up_to_the_longest(longest):
    times = spread_times(200, longest)
    assert float(times.max()) == pytest.approx(longest, rel=0.05)
    assert float(times.min()) == pytest.approx(min(longest, 0.1), rel=0.05)


def test_a_recipe_says_from_where_times_are_learned():
    recipe = Recipe.of(width=20, longest_time=2.0)
    model = build_model(recipe, Inputs((28,), 0, (4,), 0), 1)
    assert all(1.5 < float(layer.times.detach().max()) <= 2.0 for layer in model.diffusions())


@EVERY_SCHEME
def test_default_times_do_not_depend_on_chance(scheme):
    torch.manual_seed(0)
    first = scheme(8).times
    torch.manual_seed(1)
    torch.testing.assert_close(scheme(8).times, first, rtol=0, atol=0)


@EVERY_SCHEME
def test_reach_is_the_root_mean_square_distance_on_a_chain(scheme):
    """Heat from the middle of a long path has spread to √t, for both schemes."""
    n, times = 401, [0.0, 0.5, 4.0, 25.0]
    layer = scheme(4, times=times).double()
    spike = torch.zeros(n, 4, dtype=torch.float64)
    spike[n // 2] = 1
    h = layer(spike, path(n).operators()).detach()
    distance = (torch.arange(n, dtype=torch.float64) - n // 2)[:, None]
    mean_square = (h * distance**2).sum(0)
    torch.testing.assert_close(layer.reach**2, mean_square, rtol=1e-9, atol=1e-9)
    assert not layer.reach.requires_grad


# ------------------------------------------------------------------------------ learning times


def heat_wanted(scheme, graph: Graph, times, basis: bool, wanted: float):
    """A layer, and a loss smallest where every channel has diffused for the wanted time."""
    operators = graph.operators(torch.float32, basis=basis)
    layer = scheme(len(times), times=times)
    x = torch.from_numpy(graph.signal(len(times))).float()
    with torch.no_grad():
        target = scheme(len(times), times=wanted)(x, operators)
    return layer, lambda: (layer(x, operators) - target).square().sum()


@WITH_AND_WITHOUT_BASIS
@EVERY_SCHEME
def test_time_leaves_zero_by_gradient(scheme, basis):
    layer, loss = heat_wanted(scheme, molecule(), [0.0] * 4, basis, wanted=1.0)
    optimiser = torch.optim.SGD(layer.parameters(), lr=1e-3)
    before = loss()
    before.backward()
    assert (layer.raw_times.grad < 0).all()
    optimiser.step()
    assert (layer.times > 0).all()
    assert loss() < before


@WITH_AND_WITHOUT_BASIS
@EVERY_SCHEME
def test_time_comes_back_from_below_zero(scheme, basis):
    """An optimiser with momentum may push the parameter below 0; the time is 0, and can return."""
    layer, loss = heat_wanted(scheme, molecule(), [0.0] * 4, basis, wanted=1.0)
    with torch.no_grad():
        layer.raw_times.fill_(-0.01)
    assert layer.times.tolist() == [0.0] * 4
    loss().backward()
    assert (layer.raw_times.grad < 0).all()


@pytest.mark.slow
@WITH_AND_WITHOUT_BASIS
@EVERY_SCHEME
def test_times_are_learned_from_zero(scheme, basis):
    layer, loss = heat_wanted(scheme, molecule(), [0.0, 0.0, 9.0], basis, wanted=2.0)
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(400):
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()
    torch.testing.assert_close(layer.times.detach(), torch.full((3,), 2.0), rtol=0.02, atol=0)


@EVERY_SCHEME
def test_times_stay_at_or_above_zero_whatever_the_optimiser_does(scheme):
    """A loss that wants less than no heat drives the time to 0 and not further."""
    layer, _ = heat_wanted(scheme, molecule(), [0.3] * 4, True, wanted=0.0)
    operators = molecule().operators(torch.float32)
    x = torch.from_numpy(molecule().signal(4)).float()
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(60):
        optimiser.zero_grad()
        (-layer(x, operators).square().sum()).backward()
        optimiser.step()
        assert (layer.times >= 0).all()
        assert torch.isfinite(layer.raw_times).all()
    assert layer.times.tolist() == [0.0] * 4


def test_gradient_is_stopped_only_where_it_would_push_below_zero():
    layer = SpectralDiffusion(6)
    with torch.no_grad():
        layer.raw_times.copy_(torch.tensor([1.0, 1.0, 0.0, 0.0, -0.5, -0.5]))
    incoming = torch.tensor([2.0, -2.0, 2.0, -2.0, 2.0, -2.0])
    layer.times.backward(incoming)
    assert layer.raw_times.grad.tolist() == [2.0, -2.0, 0.0, -2.0, 0.0, -2.0]


# ------------------------------------------------------------------------------ what is computed


@WITH_AND_WITHOUT_BASIS
@EVERY_GRAPH
@EVERY_SCHEME
def test_layer_equals_the_dense_definition(scheme, graph, basis):
    times = [0.0, 0.1, 1.0, 7.0]
    layer, x = scheme(4, times=times).double(), graph.signal(4)
    layer.set_times(times)
    h = layer(torch.from_numpy(x), graph.operators(basis=basis, directions=False))
    for c, t in enumerate(times):
        expected = torch.from_numpy(MATRIX[scheme](graph.adjacency, t) @ x[:, c])
        torch.testing.assert_close(h[:, c].detach(), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("time", [0.0, 1e-6, 1e-4, 1e-2, 0.5, 3.0, 20.0])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 2e-6)])
@WITH_AND_WITHOUT_BASIS
@EVERY_SCHEME
def test_gradient_to_times_equals_the_dense_slope(scheme, basis, dtype, tolerance, time):
    """dh/dt, at 0 and close to it as well as far from it."""
    graph = molecule()
    layer = scheme(1).to(dtype)
    layer.set_times(time)
    x, pull = graph.signal(1), graph.signal(1, seed=1)
    slope = float(pull[:, 0] @ SLOPE[scheme](graph.adjacency, time) @ x[:, 0])
    # At 0 only a gradient that asks for heat passes.
    asking = 1.0 if slope < 0 else -1.0
    h = layer(torch.from_numpy(x).to(dtype), graph.operators(dtype, basis=basis))
    (h * torch.from_numpy(asking * pull).to(dtype)).sum().backward()
    size = float((x**2).sum() * (pull**2).sum()) ** 0.5
    assert float(layer.raw_times.grad) == pytest.approx(asking * slope, abs=tolerance * size)


@EVERY_SCHEME
def test_wrong_shapes_are_refused(scheme):
    operators = ring(5).operators(torch.float32)
    with pytest.raises(ValueError, match="N = 5 nodes"):
        scheme(3)(torch.zeros(4, 3), operators)
    with pytest.raises(ValueError, match="2 channels need as many times"):
        scheme(3)(torch.zeros(5, 2), operators)


# ------------------------------------------------------------------------------ solvers


def test_schemes():
    assert isinstance(SpectralDiffusion(2).scheme, Heat)
    assert isinstance(ImplicitDiffusion(2).scheme, ImplicitStep)


@pytest.mark.parametrize(
    ("scheme", "options", "solver"),
    [
        (SpectralDiffusion, {}, Eigenbasis),
        (SpectralDiffusion, {"k": 5}, Eigenbasis),
        (SpectralDiffusion, {"basis": False}, Chebyshev),
        (ImplicitDiffusion, {}, Eigenbasis),
        (ImplicitDiffusion, {"k": 5}, Chebyshev),
        (ImplicitDiffusion, {"k": 1000}, Eigenbasis),
        (ImplicitDiffusion, {"basis": False}, Chebyshev),
    ],
)
def test_default_solver(scheme, options, solver):
    operators = molecule().operators(**options)
    assert isinstance(scheme(2).choose_solver(operators), solver)


@pytest.mark.parametrize("solver", [Eigenbasis(), Chebyshev(), Cholesky(), ConjugateGradient()])
def test_a_given_solver_is_used(solver):
    operators = molecule().operators()
    assert ImplicitDiffusion(2, solver=solver).choose_solver(operators) is solver
    assert Diffusion(2, IMPLICIT, solver=solver).choose_solver(operators) is solver
    assert repr(solver) in repr(ImplicitDiffusion(2, solver=solver))


@pytest.mark.parametrize(
    ("nodes", "solver", "other"),
    [(1600, Chebyshev, ConjugateGradient), (1000, ConjugateGradient, Chebyshev)],
    ids=["grid", "random"],
)
def test_without_a_basis_the_cheaper_solver_gives_the_same(nodes, solver, other):
    """News travels slowly on a grid, quickly on rings in random orders."""
    torch.manual_seed(0)
    if solver is Chebyshev:
        pairs = grid(40, 40).edge_index
    else:
        orders = [torch.randperm(nodes) for _ in range(5)]
        rings = torch.cat([torch.stack([order, order.roll(1)]) for order in orders], dim=1)
        pairs = torch.cat([rings, rings.flip(0)], dim=1).unique(dim=1)
    operators = build_operators(pairs, nodes, basis=False, directions=False)
    found = []
    for named in (None, other()):
        layer = ImplicitDiffusion(5, solver=named, times=[0.1, 100.0, 0.0, 3.0, 1.0])
        assert named is not None or isinstance(layer.choose_solver(operators), solver)
        x = torch.randn(nodes, 5, generator=torch.Generator().manual_seed(1)).requires_grad_()
        layer(x, operators).square().sum().backward()
        found.append((x.grad, layer.raw_times.grad))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-4, atol=2e-5)
    # Short times need few steps either way, very long ones too many of a polynomial.
    layer = ImplicitDiffusion(1, times=[0.5])
    assert isinstance(layer.choose_solver(operators), Chebyshev)
    layer = ImplicitDiffusion(1, times=[1e6])
    assert isinstance(layer.choose_solver(operators), ConjugateGradient)


def test_any_scheme_finds_a_solver():
    operators = molecule().operators()
    assert isinstance(Diffusion(2, HEAT).choose_solver(operators), Eigenbasis)


@EVERY_GRAPH
def test_implicit_on_a_cut_basis_is_the_implicit_step_all_the_same(graph):
    """A cut basis is not enough for (M + tL)⁻¹; conjugate gradients give the result of the full."""
    x = torch.from_numpy(graph.signal(4))
    layer = ImplicitDiffusion(4, times=[0.0, 0.2, 3.0, 40.0]).double()
    full = layer(x, graph.operators()).detach()
    torch.testing.assert_close(layer(x, graph.operators(k=2)).detach(), full, rtol=0, atol=1e-9)


def test_spectral_on_a_cut_basis_is_the_cut_expansion():
    graph, k = molecule(), 6
    x, t = graph.signal(1), 0.7
    lam, _ = dense.eigenpairs(graph.adjacency)
    assert lam[k] - lam[k - 1] > 1e-3
    response = torch.from_numpy(-t * lam[:k]).exp().numpy()
    expected = torch.from_numpy(dense.truncated_matrix(graph.adjacency, k, response) @ x)
    layer = SpectralDiffusion(1, times=[t]).double()
    layer.set_times(t)
    h = layer(torch.from_numpy(x), graph.operators(k=k)).detach()
    torch.testing.assert_close(h, expected, rtol=0, atol=1e-10)
    full = layer(torch.from_numpy(x), graph.operators()).detach()
    assert (h - full).abs().max() > 1e-3


@settings(max_examples=25)
@given(st.lists(st.floats(0, 50), min_size=1, max_size=5))
def test_isolated_nodes_keep_their_value(times):
    graph = disjoint(isolated(2), ring(4))
    x = torch.from_numpy(graph.signal(len(times)))
    for scheme in (ImplicitDiffusion, SpectralDiffusion):
        h = scheme(len(times), times=times).double()(x, graph.operators())
        torch.testing.assert_close(h[:2].detach(), x[:2], rtol=1e-12, atol=1e-12)
