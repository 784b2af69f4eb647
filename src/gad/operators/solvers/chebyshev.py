"""r_t(M⁻¹L) x as a Chebyshev polynomial: cost linear in edges, nothing decomposed.

M⁻¹L has its spectrum in [0, 2] whatever the graph, so with λ = 1 + s the function is expanded on
s ∈ [−1, 1]: r_t(λ) ≈ Σ_{j ≤ J} c_j(t) T_j(s). The coefficients come from r_t at the Chebyshev
nodes, so gradients flow to t. Since |T_j| ≤ 1, the error is at most (Σ_{j > J} |c_j|) · ‖x‖_M in
the mass-weighted norm, which is how a degree is chosen for an accuracy; likewise the error of
gradients to t, with the derivatives of the coefficients.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gad.operators.derivatives import first_only
from gad.operators.graph_operators import GraphOperators
from gad.operators.schemes import Scheme
from gad.operators.solvers.base import check_signal, check_tolerance

# Degrees tried when an accuracy is asked for; times so long that the last does not reach it are an
# error rather than a wrong answer.
_DEGREES = (16, 32, 64, 128, 256, 512, 1024, 2048)


class Chebyshev:
    """Apply r_t as a polynomial of the Laplacian, of a chosen degree or to a chosen accuracy.

    Args:
        degree: the degree J of the polynomial, the same for all channels.
        tolerance: without a degree: the smallest J whose remaining coefficients sum to less, for
            every channel. By default 1e-6 in float32 and 1e-12 in float64.
    """

    def __init__(self, degree: int | None = None, tolerance: float | None = None) -> None:
        if degree is not None and tolerance is not None:
            raise ValueError("choose a degree or a tolerance, not both")
        if degree is not None and degree < 0:
            raise ValueError(f"the degree of a polynomial is at least 0, not {degree}")
        self.degree, self.tolerance = degree, check_tolerance(tolerance)

    def __call__(
        self, operators: GraphOperators, x: Tensor, times: Tensor, scheme: Scheme
    ) -> Tensor:
        """``Σ_j c_j(t) T_j(M⁻¹L − I) x``."""
        check_signal(operators, x, times)
        degree = self.degree
        if degree is None:
            with torch.no_grad():
                degree = self._degree(times.detach().to(torch.float64), scheme, x.dtype)
        c = coefficients(scheme, times, degree)
        walk = operators.random_walk.to(x.dtype)
        result: Tensor = _Polynomial.apply(x, c, walk, operators.mass.to(x.dtype))  # type: ignore[no-untyped-call]
        return result

    def _degree(self, times: Tensor, scheme: Scheme, dtype: torch.dtype) -> int:
        """The smallest degree within the tolerance for every channel."""
        tolerance = self.tolerance or (1e-12 if dtype == torch.float64 else 1e-6)
        for most in _DEGREES:
            # Gradients to t are the same polynomial with derived coefficients: those must have died
            # out as well, or a time near 0, where all c_j vanish, could never leave it.
            ones = torch.ones_like(times)
            c, slope = torch.func.jvp(partial(_of_times, scheme, most), (times,), (ones,))  # type: ignore[misc]
            size = torch.maximum(c.abs(), slope.abs())
            tail = size.flip(0).cumsum(0).flip(0).amax(1)
            # The sum past `most` is unseen: trust the tail only if it has long died out.
            if float(tail[most // 2]) <= tolerance:
                return int((tail[1:] > tolerance).sum())
        longest = float(times.max())
        raise ValueError(
            f"no polynomial of degree {_DEGREES[-1]} reaches {tolerance:g} at time {longest:g}: "
            "ask for a looser tolerance or name a degree"
        )

    def __repr__(self) -> str:
        what = f"tolerance={self.tolerance}" if self.degree is None else f"degree={self.degree}"
        return f"Chebyshev({what})"


def coefficients(scheme: Scheme, times: Tensor, degree: int) -> Tensor:
    """c_j(t) for j ≤ degree, by a cosine transform of r_t at the Chebyshev nodes: [J + 1, C].

    >>> from gad.operators.schemes import HEAT
    >>> coefficients(HEAT, torch.tensor([0.0]), 2).flatten().abs().round(decimals=6)
    tensor([1., 0., 0.])
    """
    nodes = 2 * degree + 8
    exact = times.to(torch.float64)
    angle = (torch.arange(nodes, dtype=torch.float64, device=times.device) + 0.5) * math.pi / nodes
    r = scheme.response((1 + angle.cos())[:, None], exact)
    order = torch.arange(degree + 1, dtype=torch.float64, device=times.device)
    c = (2 / nodes) * torch.cos(order[:, None] * angle) @ r
    half = torch.ones_like(order)
    half[0] = 0.5
    return (half[:, None] * c).to(times.dtype)


def _of_times(scheme: Scheme, degree: int, times: Tensor) -> Tensor:
    return coefficients(scheme, times, degree)


class _Polynomial(torch.autograd.Function):
    """y = Σ_j c_j ⊙ T_j(S) x with S = M⁻¹L − I = −P, keeping three vectors at a time.

    S is self-adjoint under the mass, so the gradient to x is M p(S) M⁻¹ of the incoming one; that
    to c_j is its inner product with T_j(S) x, whose recurrence is run again rather than stored.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, c: Tensor, walk: Tensor, mass: Tensor) -> Tensor:
        ctx.save_for_backward(x, c, walk, mass)
        y = torch.zeros_like(x, memory_format=torch.contiguous_format)
        for c_j, t_j in zip(c, _chebyshev(walk, x, c.shape[0]), strict=True):
            y.addcmul_(t_j, c_j)
        return y

    @staticmethod
    @first_only("use the Eigenbasis")
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, c, walk, mass = ctx.saved_tensors
        grad_x = grad_c = None
        if ctx.needs_input_grad[0]:
            grad_x = torch.zeros_like(grad, memory_format=torch.contiguous_format)
            lifted = grad / mass[:, None]
            for c_j, t_j in zip(c, _chebyshev(walk, lifted, c.shape[0]), strict=True):
                grad_x.addcmul_(t_j, c_j)
            grad_x *= mass[:, None]
        if ctx.needs_input_grad[1]:
            grad_c = torch.stack([(grad * t).sum(0) for t in _chebyshev(walk, x, c.shape[0])])
        return grad_x, grad_c, None, None


def _chebyshev(walk: Tensor, x: Tensor, count: int) -> Iterator[Tensor]:
    """T_0(S) x, T_1(S) x, …: T_{j+1} = 2 S T_j − T_{j−1}, with S = −P."""
    before, now = x.contiguous(), x
    yield before
    if count > 1:
        now = -(walk @ before)
        yield now
    for _ in range(2, count):
        before, now = now, torch.addmm(before, walk, now, beta=-1, alpha=-2)
        yield now
