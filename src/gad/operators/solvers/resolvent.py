"""The implicit step as a Chebyshev polynomial, whose coefficients are a geometric series.

With P = I − M⁻¹L, √ = √(1 + 2t) and q = t / (1 + t + √) < 1,

    1 / (1 + t(1 − p)) = (1 + 2 Σ_{j ≥ 1} qʲ T_j(p)) / √.

Cut after J terms, the rest is at most 2 q^(J+1) / ((1 − q) √) for any p in [−1, 1]. Summed from the
last term to the first (Clenshaw) this is a recurrence whose coefficients do not change,
z ← 2q P z − q² z' + x with z' the z before, and h = (z − q² z'') / √ at its end: three vectors are
read and one is written, without a sum beside them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gad import native
from gad.operators.derivatives import first_only
from gad.operators.solvers.walk import Walk


def ratio_and_scale(times: Tensor) -> tuple[Tensor, Tensor]:
    """q and 1/√(1 + 2t) of every channel [C], float64.

    >>> [float(value) for value in ratio_and_scale(torch.tensor(4.0))]
    [0.5, 0.3333333333333333]
    """
    exact = times.detach().to(torch.float64)
    root = (1 + 2 * exact).sqrt()
    return exact / (1 + exact + root), 1 / root


def degrees(times: Tensor, tolerance: float) -> Tensor:
    """The smallest J ≥ 1 whose rest is within the tolerance, of every channel: int64 [C].

    >>> degrees(torch.tensor([0.0, 1.0, 100.0]), 1e-6)
    tensor([ 1, 10, 98])
    """
    q, scale = ratio_and_scale(times)
    # At t = 0 there is no rest, and the logarithm of q none either.
    q = q.clamp_min(torch.finfo(q.dtype).tiny)
    needed = (tolerance * (1 - q) / (2 * scale)).log() / q.log()
    return (needed - 1).ceil().clamp_min(1).long()


class Resolvent(torch.autograd.Function):
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
    now, before, square = x, torch.zeros_like(x), q.square()
    for j in range(1, int(steps.max()) + 1 if steps.numel() else 1):
        less = before.mul_(square)
        after = (walk.matrix @ now).mul_(2 * q).add_(x).sub_(less)
        stays = int((steps > j).sum())
        h[:, order[stays:]] = scale[stays:] * (after - less)[:, stays:]
        # The first `now` is x itself, which is needed to the end.
        before = (now.clone() if j == 1 else now)[:, :stays].contiguous()
        now, x = after[:, :stays].contiguous(), x[:, :stays]
        q, square, scale, steps, order = (v[:stays] for v in (q, square, scale, steps, order))
    return h
