"""r_t(M⁻¹L) x as a Chebyshev polynomial: cost linear in edges, nothing decomposed.

M⁻¹L has its spectrum in [0, 2] whatever the graph, so with λ = 1 + s the function is expanded on
s ∈ [−1, 1]: r_t(λ) ≈ Σ_{j ≤ J} c_j(t) T_j(s). The coefficients come from r_t at the Chebyshev
nodes, so gradients flow to t. Since |T_j| ≤ 1, the error is at most (Σ_{j > J} |c_j|) · ‖x‖_M in
the mass-weighted norm, which is how a degree is chosen for an accuracy; likewise the error of
gradients to t, with the derivatives of the coefficients.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gad.operators.derivatives import first_only
from gad.operators.graph_operators import GraphOperators
from gad.operators.schemes import ImplicitStep, Scheme
from gad.operators.solvers.base import check_signal, check_tolerance
from gad.operators.solvers.resolvent import degrees as resolvent_degrees
from gad.operators.solvers.resolvent import resolvent
from gad.operators.solvers.walk import Walk

# Degrees tried when an accuracy is asked for; times so long that the last does not reach it are an
# error rather than a wrong answer.
_DEGREES = (16, 32, 64, 128, 256, 512, 1024, 2048)


class Chebyshev:
    """Apply r_t as a polynomial of the Laplacian, of a chosen degree or to a chosen accuracy.

    Args:
        degree: the degree J of the polynomial, the same for all channels.
        tolerance: without a degree: the smallest J whose remaining coefficients sum to less, for
            each channel its own. By default 1e-6 in float32 and 1e-12 in float64.
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
        degrees, walk = self.degrees(times, scheme, x.dtype), Walk.of(operators, x)
        if self._in_closed_form(scheme):
            return resolvent(walk, x, times, degrees)
        c = coefficients(scheme, times, int(degrees.max()) if degrees.numel() else 0)
        # What a channel does not need is 0, whoever else needs it.
        c = c * (torch.arange(c.shape[0], device=c.device)[:, None] <= degrees)
        result: Tensor = _Polynomial.apply(walk.enter(x), c.to(x.dtype), degrees, walk)  # type: ignore[no-untyped-call]
        return walk.leave(result)

    @torch.no_grad()
    def degrees(self, times: Tensor, scheme: Scheme, dtype: torch.dtype) -> Tensor:
        """The degree of every channel's polynomial for signals of this type: int64 [C]."""
        if self.degree is not None:
            return torch.full_like(times, self.degree, dtype=torch.int64)
        tolerance = self.tolerance or (1e-12 if dtype == torch.float64 else 1e-6)
        exact = times.detach().to(torch.float64)
        if not self._in_closed_form(scheme):
            return self._degrees(exact, scheme, tolerance)
        degrees = resolvent_degrees(exact, tolerance)
        if not bool(((degrees > 0) & (degrees <= _DEGREES[-1] // 2)).all()):
            raise _too_long(tolerance, exact)
        return degrees

    def _in_closed_form(self, scheme: Scheme) -> bool:
        """Whether the series is known and cut where it does not matter, also for gradients."""
        return type(scheme) is ImplicitStep and self.degree is None

    def _degrees(self, times: Tensor, scheme: Scheme, tolerance: float) -> Tensor:
        """The smallest degrees within the tolerance."""
        for most in _DEGREES:
            # Gradients to t are the same polynomial with derived coefficients: those must have died
            # out as well, or a time near 0, where all c_j vanish, could never leave it.
            ones = torch.ones_like(times)
            c, slope = torch.func.jvp(partial(_of_times, scheme, most), (times,), (ones,))  # type: ignore[misc]
            size = torch.maximum(c.abs(), slope.abs())
            tail = size.flip(0).cumsum(0).flip(0)
            # The sum past `most` is unseen: trust the tail only if it has long died out.
            if bool((tail[most // 2] <= tolerance).all()):
                return (tail[1:] > tolerance).sum(0)
        raise _too_long(tolerance, times)

    def __repr__(self) -> str:
        what = f"tolerance={self.tolerance}" if self.degree is None else f"degree={self.degree}"
        return f"Chebyshev({what})"


def _too_long(tolerance: float, times: Tensor) -> ValueError:
    return ValueError(
        f"no polynomial of degree {_DEGREES[-1]} reaches {tolerance:g} at time "
        f"{float(times.max()):g}: ask for a looser tolerance or name a degree"
    )


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

    S is self-adjoint under the mass. So with T_j = T_j(S) M⁻¹ g of the incoming gradient g, that to
    x is M Σ_j c_j ⊙ T_j, and that to c_j is ⟨x, T_j⟩: one recurrence gives both.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, c: Tensor, degrees: Tensor, walk: Walk) -> Tensor:
        ctx.save_for_backward(x, c, degrees)
        ctx.walk = walk
        return _polynomial(walk, x, c, degrees)[0]

    @staticmethod
    @first_only("use the Eigenbasis")
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, c, degrees = ctx.saved_tensors
        mass = ctx.walk.mass[:, None]
        other = x if ctx.needs_input_grad[1] else None
        grad_x, grad_c = _polynomial(ctx.walk, grad / mass, c, degrees, other)
        return grad_x.mul_(mass), grad_c, None, None


def _polynomial(
    walk: Walk, x: Tensor, c: Tensor, degrees: Tensor, other: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Σ_j c_j ⊙ T_j x, and the inner products ⟨other, T_j x⟩ [J + 1, C].

    T_{j+1} = 2 S T_j − T_{j−1}, with S = −P. Channels of a low degree come last and are left out of
    the later steps.
    """
    order = degrees.argsort(descending=True, stable=True)
    moved = not bool((degrees[1:] <= degrees[:-1]).all())
    if moved:
        x, c = x[:, order], c[:, order]
        other = None if other is None else other[:, order].contiguous()
    before = x.clone(memory_format=torch.contiguous_format)
    other = None if other is None else other.contiguous()
    c = c.contiguous()
    total = before * c[0]
    dots = None if other is None else torch.zeros_like(c, dtype=torch.float64)
    if dots is not None and other is not None:
        dots[0] = walk.inner(other, before)
    now, minus = before, torch.full_like(c[0], -1.0)
    active = (degrees >= torch.arange(c.shape[0], device=c.device)[:, None]).sum(1).tolist()
    for j in range(1, c.shape[0]):
        # T_1 x = −P x; x itself is T_0 and the one before from the second step on.
        a, b, out = (minus, torch.zeros_like(minus), None) if j == 1 else (2 * minus, minus, before)
        after, dot = walk.step(
            now, before, a, b, active=active[j], weight=c[j], total=total, other=other, out=out
        )
        before, now = now, after
        if dots is not None and dot is not None:
            dots[j, : active[j]] = dot[: active[j]].to(dots.device)
    grads = None if dots is None else dots.to(c.dtype)
    if not moved:
        return total, grads
    back = order.argsort()
    return total[:, back], None if grads is None else grads[:, back]
