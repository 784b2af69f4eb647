"""Four solvers, one answer: every solver × scheme against dense matrices, values and gradients."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ive

from gad import native
from gad.operators import (
    HEAT,
    IMPLICIT,
    Chebyshev,
    Cholesky,
    ConjugateGradient,
    Eigenbasis,
    ImplicitStep,
    Scheme,
)
from gad.operators.solvers.chebyshev import coefficients
from gad.operators.solvers.walk import Walk
from tests.graphs import (
    ZOO,
    diffusion_times,
    disjoint,
    examples,
    graphs,
    grid,
    molecule,
    path,
    ring,
    weighted,
)
from tests.operators.cases import EVERY_CASE
from tests.reference import dense

MATRIX = {HEAT: dense.heat_matrix, IMPLICIT: dense.implicit_matrix}
SLOPE = {HEAT: dense.heat_slope, IMPLICIT: dense.implicit_slope}


def expected(graph, scheme, x, times, g):
    """h = H_t x of each channel, and the gradients of Σ g ⊙ h to x and to the times."""
    A = graph.adjacency
    H = [MATRIX[scheme](A, t) for t in times]
    slope = [SLOPE[scheme](A, t) for t in times]
    h = np.stack([H_t @ x_c for H_t, x_c in zip(H, x.T, strict=True)], axis=1)
    grad_x = np.stack([H_t.T @ g_c for H_t, g_c in zip(H, g.T, strict=True)], axis=1)
    grad_t = np.array([g_c @ s @ x_c for g_c, s, x_c in zip(g.T, slope, x.T, strict=True)])
    return h, grad_x, grad_t


def computed(graph, solver, scheme, x, times, g, dtype):
    x = torch.tensor(x, dtype=dtype, requires_grad=True)
    times = torch.tensor(times, dtype=dtype, requires_grad=True)
    h = solver(graph.operators(dtype), x, times, scheme)
    assert h.shape == x.shape
    assert h.dtype == dtype
    h.backward(torch.tensor(g, dtype=dtype))
    return h.detach(), x.grad, times.grad


def assert_same_as_dense(graph, solver, scheme, times, dtype, tolerance, seed=0):
    x, g = graph.signal(len(times), seed), graph.signal(len(times), seed + 1)
    # A gradient to x grows with the ratio of the masses, one to t with the size of the sum.
    spread = np.sqrt(np.ptp(np.log(dense.mass(graph.adjacency))) + 1)
    scales = (1.0, spread, max(1.0, np.abs(g).sum()))
    names = ("values", "gradient to x", "gradient to the times")
    wanted = expected(graph, scheme, x, times, g)
    found = computed(graph, solver, scheme, x, times, g, dtype)
    for name, scale, a, b in zip(names, scales, found, wanted, strict=True):
        np.testing.assert_allclose(
            a.numpy(), b, rtol=tolerance, atol=tolerance * scale, err_msg=f"{name}, {times=}"
        )


@EVERY_CASE
@examples(25)
@given(st.data())
def test_any_graph_in_double_precision(solver, scheme, data):
    graph, times = data.draw(graphs(max_nodes=10)), data.draw(diffusion_times())
    assert_same_as_dense(graph, solver, scheme, times, torch.float64, 1e-9)


@EVERY_CASE
@examples(25)
@given(st.data())
def test_any_graph_in_single_precision(solver, scheme, data):
    graph, times = data.draw(graphs(max_nodes=10)), data.draw(diffusion_times())
    assert_same_as_dense(graph, solver, scheme, times, torch.float32, 1e-4)


@EVERY_CASE
@pytest.mark.parametrize("graph", ZOO.values(), ids=list(ZOO))
def test_every_graph_of_the_zoo(graph, solver, scheme):
    assert_same_as_dense(graph, solver, scheme, [0.0, 0.7, 12.0, 100.0], torch.float64, 1e-9)


@EVERY_CASE
@pytest.mark.parametrize("time", [0.0, 1e-14, 1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)], ids=["double", "single"]
)
def test_a_time_can_leave_zero(solver, scheme, time, dtype, tolerance):
    """At t = 0 nothing has moved yet, but the slope −M⁻¹L x is there."""
    graph = weighted(molecule(15))
    assert_same_as_dense(graph, solver, scheme, [time], dtype, tolerance)


@EVERY_CASE
@pytest.mark.parametrize("which", ["x", "times", "both"])
def test_gradients_by_finite_differences(solver, scheme, which):
    graph = disjoint(weighted(molecule(7, rings=1)), path(1), path(2))
    operators = graph.operators()
    x = torch.from_numpy(graph.signal(2)).requires_grad_(which in {"x", "both"})
    times = torch.tensor([0.3, 5.0], dtype=torch.float64).requires_grad_(which in {"times", "both"})
    assert torch.autograd.gradcheck(
        lambda x, times: solver(operators, x, times, scheme), (x, times), atol=1e-7, rtol=1e-5
    )


@EVERY_CASE
def test_a_tensor_in_any_memory_order(solver, scheme):
    graph = molecule(20)
    operators, times = graph.operators(), torch.tensor([0.5, 2.0, 9.0], dtype=torch.float64)
    x = torch.from_numpy(graph.signal(3))
    turned = x.t().contiguous().t()
    spaced = torch.zeros(20, 6, dtype=torch.float64)[:, ::2].copy_(x)
    h = solver(operators, x, times, scheme)
    for same in (turned, spaced):
        assert not same.is_contiguous()
        torch.testing.assert_close(solver(operators, same, times, scheme), h, rtol=0, atol=1e-12)


@EVERY_CASE
@pytest.mark.parametrize("x_type", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("times_type", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("operators_type", [torch.float32, torch.float64], ids=str)
def test_the_result_has_the_type_of_the_signal(solver, scheme, x_type, times_type, operators_type):
    """Signal, times and operators may differ in precision; each gradient has its own type."""
    graph, exact = molecule(12), [0.5, 3.0]
    x = torch.tensor(graph.signal(2), dtype=x_type, requires_grad=True)
    times = torch.tensor(exact, dtype=times_type, requires_grad=True)
    h = solver(graph.operators(operators_type), x, times, scheme)
    wanted = expected(graph, scheme, graph.signal(2), exact, np.ones((12, 2)))
    h.sum().backward()
    for found, right, kind in zip(
        (h, x.grad, times.grad), wanted, (x_type, x_type, times_type), strict=True
    ):
        assert found.dtype == kind
        np.testing.assert_allclose(found.detach(), right, rtol=1e-4, atol=1e-4)


@EVERY_CASE
def test_wrong_shapes_are_refused(solver, scheme):
    operators = path(3).operators()
    two = torch.ones(2, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"x must be \[N, C\] with N = 3 nodes, not \[4, 2\]"):
        solver(operators, torch.ones(4, 2).double(), two, scheme)
    with pytest.raises(ValueError, match=r"x must be \[N, C\]"):
        solver(operators, torch.ones(3).double(), two, scheme)
    with pytest.raises(ValueError, match=r"2 channels need as many times, not \[3\]"):
        solver(operators, torch.ones(3, 2).double(), torch.ones(3).double(), scheme)
    with pytest.raises(ValueError, match="channels need as many times"):
        solver(operators, torch.ones(3, 2).double(), torch.tensor(1.0).double(), scheme)


@pytest.mark.parametrize("solver", [Cholesky(), ConjugateGradient()], ids=repr)
def test_a_linear_solve_is_the_implicit_scheme(solver):
    with pytest.raises(ValueError, match="implicit scheme, not Heat"):
        solver(path(3).operators(), torch.ones(3, 1).double(), torch.ones(1).double(), HEAT)


# ------------------------------------------------------------------------------ Chebyshev


def heat_coefficients(t, count):
    """exp(−t(1 + s)) = e⁻ᵗ (I₀(t) + 2 Σ (−1)ʲ I_j(t) T_j(s))."""
    j = np.arange(count)
    return (-1.0) ** j * np.where(j == 0, 1, 2) * ive(j, t)


def implicit_coefficients(t, count):
    """1 / (1 + t + ts) has one pole; its coefficients are a geometric series."""
    j, a = np.arange(count), (1 + t) / t
    ratio = 1 / (a + np.sqrt(a * a - 1))
    return np.where(j == 0, 1, 2) * (-ratio) ** j / (t * np.sqrt(a * a - 1))


CLOSED_FORMS = pytest.mark.parametrize(
    ("scheme", "closed"), [(HEAT, heat_coefficients), (IMPLICIT, implicit_coefficients)]
)


@CLOSED_FORMS
@pytest.mark.parametrize("t", [0.01, 1.0, 30.0])
def test_chebyshev_coefficients_in_closed_form(scheme, closed, t):
    found = coefficients(scheme, torch.tensor([t], dtype=torch.float64), 200)
    np.testing.assert_allclose(found[:, 0], closed(t, 201), rtol=0, atol=1e-14)


@CLOSED_FORMS
@pytest.mark.parametrize("degree", [0, 1, 3, 8, 20])
@pytest.mark.parametrize("t", [0.1, 2.0, 50.0])
def test_chebyshev_error_bound(scheme, closed, degree, t):
    """‖error‖_M ≤ Σ_{j > J} |c_j| ‖x‖_M, twice that for coefficients from samples of r_t."""
    graph = weighted(molecule(30, seed=7))
    mass, x = dense.mass(graph.adjacency), graph.signal(1)
    times = torch.tensor([t], dtype=torch.float64)
    h = Chebyshev(degree)(graph.operators(basis=False, directions=False), torch.from_numpy(x),
                          times, scheme)  # fmt: skip
    error = h.numpy() - MATRIX[scheme](graph.adjacency, t) @ x
    tail = np.abs(closed(t, 2000)[degree + 1 :]).sum()
    norm = np.sqrt(mass @ x**2)
    assert np.sqrt(mass @ error**2) <= 2 * tail * norm + 1e-13 * norm


@pytest.mark.parametrize("scheme", [HEAT, IMPLICIT], ids=repr)
@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-6, 1e-10])
def test_chebyshev_reaches_the_tolerance_asked_for(scheme, tolerance):
    graph = disjoint(molecule(30, seed=8), grid(5, 5), path(1))
    mass, times = dense.mass(graph.adjacency), [0.0, 0.4, 6.0, 100.0]
    x = graph.signal(4)
    h = Chebyshev(tolerance=tolerance)(
        graph.operators(basis=False, directions=False),
        torch.from_numpy(x), torch.tensor(times, dtype=torch.float64), scheme,
    )  # fmt: skip
    wanted, _, _ = expected(graph, scheme, x, times, x)
    error, norm = np.sqrt(mass @ (h.numpy() - wanted) ** 2), np.sqrt(mass @ x**2)
    assert (error <= tolerance * norm).all()


@pytest.mark.parametrize("tolerance", [1e-2, 1e-6])
@pytest.mark.parametrize("t", [0.03, 0.7, 9.0, 300.0])
def test_the_implicit_polynomial_is_the_best_of_its_degree(t, tolerance):
    """Its error is that of the best approximation, q^J t / (1 + 2t), and alternates J + 2 times."""
    times = torch.tensor([t], dtype=torch.float64)
    (degree,) = Chebyshev(tolerance=tolerance).degrees(times, IMPLICIT, torch.float64).tolist()
    # On a ring eigenvalues are dense in [0, 2], and a unit of heat holds all of them.
    n = 4000
    p = np.cos(2 * np.pi * np.arange(n) / n)
    operators = ring(n).operators(basis=False, directions=False)
    x = torch.zeros(n, 1, dtype=torch.float64)
    x[0] = 1
    h = Chebyshev(tolerance=tolerance)(operators, x, times, IMPLICIT)
    error = np.fft.fft(h.flatten().numpy()).real - 1 / (1 + t * (1 - p))
    q = t / (1 + t + np.sqrt(1 + 2 * t))
    best = q**degree * t / (1 + 2 * t)
    assert best <= tolerance < best / q or degree == 1
    np.testing.assert_allclose(np.abs(error).max(), best, rtol=1e-3)
    signs = np.sign(error[: n // 2 + 1][np.abs(error[: n // 2 + 1]) > 0.9 * best])
    assert (np.diff(signs) != 0).sum() + 1 == degree + 2


def test_chebyshev_refuses_what_no_polynomial_reaches():
    with pytest.raises(ValueError, match="at time nan"):
        Chebyshev()(path(3).operators(), torch.ones(3, 1), torch.tensor([torch.nan]), IMPLICIT)
    with pytest.raises(ValueError, match=r"at time 1e\+09.*looser tolerance"):
        Chebyshev()(path(3).operators(), torch.ones(3, 1).double(), torch.tensor([1e9]).double(),
                    IMPLICIT)  # fmt: skip


def test_chebyshev_arguments():
    with pytest.raises(ValueError, match="a degree or a tolerance, not both"):
        Chebyshev(5, 1e-3)
    with pytest.raises(ValueError, match="at least 0, not -1"):
        Chebyshev(-1)
    with pytest.raises(ValueError, match="between 0 and 1, not 2"):
        Chebyshev(tolerance=2)


# ------------------------------------------------------------------------------ conjugate gradients


def test_conjugate_gradients_say_when_they_stop_early():
    graph = grid(12, 12)
    x, times = torch.from_numpy(graph.signal(2)), torch.tensor([1.0, 1000.0]).double()
    operators = graph.operators(basis=False, directions=False)
    with pytest.warns(RuntimeWarning, match=r"stopped after 3 iterations .*asked for 1\.0e-12"):
        ConjugateGradient(max_iterations=3)(operators, x, times, IMPLICIT)


def test_conjugate_gradients_need_iterations_like_the_root_of_the_time():
    """√κ/2 · log(2√κ/ε) iterations are enough, κ = 1 + 2t, whatever the size of the graph."""
    t, tolerance = 50.0, 1e-8
    root = np.sqrt(1 + 2 * t)
    enough = int(root / 2 * np.log(2 * root / tolerance)) + 1
    graph = grid(60, 60)
    x = torch.from_numpy(graph.signal(1)).requires_grad_()
    operators = graph.operators(basis=False, directions=False)
    solver = ConjugateGradient(tolerance, max_iterations=enough)
    h = solver(operators, x, torch.tensor([t]).double(), IMPLICIT)
    mass = operators.mass[:, None]
    residual = x - h - t * (h - operators.random_walk @ h)
    assert (mass * residual**2).sum().sqrt() <= 2 * tolerance * (mass * x**2).sum().sqrt()
    # Σ m h is conserved, so its gradient is the mass.
    (mass * h).sum().backward()
    torch.testing.assert_close(x.grad, mass, rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", [1e-25, 1e-18, 1e18, 1e25])
def test_conjugate_gradients_at_any_size_of_signal(size):
    """The system is linear: a tiny gradient or a huge one is solved as well as any other."""
    graph = molecule(20)
    operators, times = graph.operators(torch.float32), torch.tensor([3.0])
    x = torch.from_numpy(graph.signal(1)).float()
    h = ConjugateGradient()(operators, x, times, IMPLICIT)
    scaled = ConjugateGradient()(operators, size * x, times, IMPLICIT)
    torch.testing.assert_close(scaled / size, h, rtol=0, atol=1e-5)


def test_conjugate_gradient_arguments():
    with pytest.raises(ValueError, match="between 0 and 1, not 0"):
        ConjugateGradient(tolerance=0)


# ------------------------------------------------------------------------------ one's own scheme


class Rational(Scheme):
    """A scheme of the user's, with nothing but a response: r_t(λ) = (1 − a) / (1 + tλ²) + a."""

    def __init__(self, floor=0.25):
        self.floor = torch.tensor(floor, dtype=torch.float64, requires_grad=True)

    def response(self, eigenvalues, times):
        floor = self.floor.to(times.dtype)
        return (1 - floor) / (1 + times * eigenvalues**2) + floor


class Step(ImplicitStep):
    """Looks like the implicit step to isinstance, and is another function."""

    def response(self, eigenvalues, times):
        return super().response(eigenvalues, 2 * times)


@pytest.mark.parametrize("compiled", [True, False], ids=["kernels", "plain"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("solver", [Eigenbasis(), Chebyshev()], ids=repr)
def test_a_scheme_that_defines_a_response_alone(solver, dtype, compiled):
    """Values and gradients to x, to the times and to a parameter of the scheme's own."""
    graph = disjoint(molecule(), path(3))
    A, times = graph.adjacency, [0.0, 0.5, 3.0]
    S = dense.laplacian(A) / dense.mass(A)[:, None]
    x = torch.tensor(graph.signal(3), dtype=torch.float64, requires_grad=True)
    t = torch.tensor(times, dtype=torch.float64, requires_grad=True)
    wanted_scheme, scheme = Rational(), Rational()
    one = torch.eye(len(A), dtype=torch.float64)
    matrix = torch.from_numpy(S @ S)
    floor = wanted_scheme.floor
    h = torch.stack(
        [
            (1 - floor) * torch.linalg.solve(one + t[c] * matrix, x[:, c]) + floor * x[:, c]
            for c in range(3)
        ],
        dim=1,
    )
    pull = torch.tensor(graph.signal(3, 1))
    h.backward(pull)
    own, own_t = (v.detach().to(dtype).requires_grad_() for v in (x, t))
    with nullcontext() if compiled else native.plain():
        y = solver(graph.operators(dtype), own, own_t, scheme)
    y.backward(pull.to(dtype))
    tolerance = 1e-8 if dtype == torch.float64 else 2e-4
    for a, b in ((y, h), (own.grad, x.grad), (own_t.grad, t.grad), (scheme.floor.grad, floor.grad)):
        torch.testing.assert_close(a.double(), b, rtol=tolerance, atol=tolerance)


def test_a_response_that_knows_no_times():
    class Constant(Scheme):
        def response(self, eigenvalues, _times):
            return 0.5 * torch.ones_like(eigenvalues)

    x = torch.tensor(molecule().signal(2), requires_grad=True)
    y = Eigenbasis()(molecule().operators(), x, torch.zeros(2).double(), Constant())
    torch.testing.assert_close(y, 0.5 * x)


@pytest.mark.parametrize("solver", [Cholesky(), ConjugateGradient()], ids=repr)
def test_linear_solves_refuse_what_only_looks_implicit(solver):
    x = torch.tensor(molecule().signal(2))
    with pytest.raises(ValueError, match="use Eigenbasis or Chebyshev"):
        solver(molecule().operators(), x, torch.ones(2).double(), Step())


@pytest.mark.parametrize("solver", [Chebyshev(), ConjugateGradient()], ids=repr)
def test_second_derivatives_are_refused_where_they_would_be_0(solver):
    x = torch.tensor(molecule().signal(2), requires_grad=True)
    y = solver(molecule().operators(), x, torch.ones(2).double(), IMPLICIT)
    with pytest.raises(RuntimeError, match="second derivatives"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


@pytest.mark.skipif(not native.status().active, reason="no compiled kernels")
@pytest.mark.parametrize("channels", [1, 5, 8, 16, 23, 40])
@pytest.mark.parametrize(
    ("solver", "scheme"),
    [
        (Chebyshev(), HEAT),
        (Chebyshev(), IMPLICIT),
        (Chebyshev(degree=9), IMPLICIT),
        (ConjugateGradient(), IMPLICIT),
    ],
    ids=str,
)
def test_compiled_steps_are_those_of_pytorch(channels, solver, scheme):
    """Whatever the number of channels, and with channels that need different degrees."""
    case = weighted(disjoint(grid(6, 7), molecule(12), path(1)))
    operators = case.operators(torch.float32, basis=False, directions=False)
    torch.manual_seed(0)
    drawn, g = torch.randn(2, case.num_nodes, channels)
    found = []
    for how in (nullcontext, native.plain):
        x = drawn.clone().requires_grad_()
        times = torch.linspace(9, 0, channels).roll(3).requires_grad_()
        with how():
            assert (Walk.of(operators, x).columns is None) == (how is native.plain)
            h = solver(operators, x, times, scheme)
            (h * g).sum().backward()
        found.append((h.detach(), x.grad, times.grad))
    for fast, plain in zip(*found, strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("scheme", [HEAT, IMPLICIT], ids=repr)
def test_a_channel_has_the_degree_it_needs(scheme):
    """Alone or beside one that needs more: the same numbers."""
    operators = grid(9, 9).operators(torch.float64, basis=False, directions=False)
    x, times = torch.randn(81, 3, dtype=torch.float64), torch.tensor([0.1, 20.0, 2.0]).double()
    degrees = Chebyshev().degrees(times, scheme, x.dtype)
    assert degrees[0] < degrees[2] < degrees[1]
    together = Chebyshev()(operators, x, times, scheme)
    for c in range(3):
        alone = Chebyshev()(operators, x[:, [c]], times[[c]], scheme)
        torch.testing.assert_close(together[:, [c]], alone, rtol=0, atol=1e-12)
