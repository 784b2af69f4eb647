"""The implicit step as a Chebyshev polynomial, whose coefficients are a geometric series.

With P = I − M⁻¹L, √ = √(1 + 2t) and q = t / (1 + t + √) < 1,

    1 / (1 + t(1 − p)) = (1 + 2 Σ_{j ≥ 1} qʲ T_j(p)) / √.

With the last term of J divided by 1 − q² this is the best of all polynomials of degree J, and its
error q^J t / (1 + 2t) for every p in [−1, 1] (Bernstein). Summed from the last term to the first
(Clenshaw) it is a recurrence whose coefficients do not change: z ← 2q P z − q² z' + x with z' the
z before, from z = x / (1 − q²) on, and h = (z − q² z'') / √ at its end. Three vectors are read and
one is written, without a sum beside them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gad import native
from gad.operators.derivatives import first_only
from gad.operators.solvers.walk import Walk


def ratio_and_scale(times: Tensor) -> tuple[Tensor, Tensor]:
    """The ratio q and 1/√(1 + 2t) of every channel [C], float64.

    >>> [float(value) for value in ratio_and_scale(torch.tensor(4.0))]
    [0.5, 0.3333333333333333]
    """
    exact = times.detach().to(torch.float64)
    root = (1 + 2 * exact).sqrt()
    return exact / (1 + exact + root), 1 / root


def degrees(times: Tensor, tolerance: float) -> Tensor:
    """The smallest J ≥ 1 whose error is within the tolerance, of every channel: int64 [C].

    >>> degrees(torch.tensor([0.0, 1.0, 100.0]), 1e-6)
    tensor([ 1, 10, 93])
    """
    # At t = 0 there is no error, and the logarithm of q none either.
    exact = times.detach().to(torch.float64).clamp_min(1e-300)
    q, _ = ratio_and_scale(exact)
    needed = (tolerance * (1 + 2 * exact) / exact).log() / q.log()
    return needed.ceil().clamp_min(1).long()


def resolvent(walk: Walk, x: Tensor, times: Tensor, steps: Tensor) -> Tensor:
    """(M + tL)⁻¹ M x by polynomials of these degrees: x [N, C], times and steps [C] → [N, C]."""
    h: Tensor = _Resolvent.apply(walk.enter(x), times, steps, walk)  # type: ignore[no-untyped-call]
    return walk.leave(h)


class _Resolvent(torch.autograd.Function):
    """h = K⁻¹ x with K = I + t M⁻¹L, self-adjoint under the mass.

    With u = K⁻¹ M⁻¹ g of the incoming gradient g, that to x is M u and that to t is −⟨u, M⁻¹L h⟩:
    the same polynomial once more, and one step of the walk.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, times: Tensor, steps: Tensor, walk: Walk) -> Tensor:
        h = _polynomial(walk, x, times, steps)
        ctx.save_for_backward(h, times, steps)
        ctx.walk = walk
        return h

    @staticmethod
    @first_only("use the Eigenbasis")
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (h, times, steps), walk = ctx.saved_tensors, ctx.walk
        mass = walk.mass[:, None]
        u = _polynomial(walk, grad / mass, times, steps)
        grad_t = walk.slope(h, u).to(times) if ctx.needs_input_grad[1] else None
        return u.mul_(mass), grad_t, None, None


def _polynomial(walk: Walk, x: Tensor, times: Tensor, steps: Tensor) -> Tensor:
    """The polynomials of degrees ``steps`` [C] of every channel of x [N, C].

    Channels of a low degree come last and are left out of the later steps.
    """
    order = steps.argsort(descending=True, stable=True)
    steps, x = steps[order], x[:, order].contiguous()
    q, scale = (value[order].to(x.dtype) for value in ratio_and_scale(times))
    h = torch.empty_like(x)
    if walk.columns is not None:
        native.call(
            "walk_resolvent", *x.shape, walk.matrix.crow_indices(), walk.columns,
            walk.matrix.values(), x, q, scale, steps, order, torch.empty_like(x),
            torch.empty_like(x), h,
        )  # fmt: skip
        return h
    square = q.square()
    now, before = x / (1 - square), torch.zeros_like(x)
    for j in range(1, int(steps.max()) + 1 if steps.numel() else 1):
        less = before.mul_(square)
        after = (walk.matrix @ now).mul_(2 * q).add_(x).sub_(less)
        stays = int((steps > j).sum())
        h[:, order[stays:]] = scale[stays:] * (after - less)[:, stays:]
        before, now, x = (v[:, :stays].contiguous() for v in (now, after, x))
        q, square, scale, steps, order = (v[:stays] for v in (q, square, scale, steps, order))
    return h
