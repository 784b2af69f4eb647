"""(M + tL) h = M x by preconditioned conjugate gradients: cost linear in edges.

With the diagonal M(1 + t) as preconditioner the condition number is at most 1 + 2t, so the number
of iterations grows with √t and not with the graph. The backward pass is another solve.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from gad.operators.derivatives import first_only
from gad.operators.graph_operators import GraphOperators
from gad.operators.schemes import Scheme
from gad.operators.solvers.base import check_implicit, check_signal, check_tolerance
from gad.operators.solvers.walk import Walk


class ConjugateGradient:
    """Solve (M + tL) h = M x for every channel at once.

    Args:
        tolerance: stop when ‖M x − (M + tL) h‖ ≤ tolerance · ‖M x‖ in every channel, both norms
            taken under M⁻¹; by default 1e-6 in float32 and 1e-12 in float64.
        max_iterations: give up (with a warning that says how far it came) after so many.
    """

    def __init__(self, tolerance: float | None = None, max_iterations: int = 2000) -> None:
        self.tolerance = check_tolerance(tolerance)
        self.max_iterations = max_iterations

    def __call__(
        self, operators: GraphOperators, x: Tensor, times: Tensor, scheme: Scheme
    ) -> Tensor:
        """``(M + tL)⁻¹ M x``."""
        check_implicit(self, scheme)
        check_signal(operators, x, times)
        tolerance = self.tolerance or (1e-12 if x.dtype == torch.float64 else 1e-6)
        walk = Walk.of(operators, x)
        result: Tensor = _ImplicitSolve.apply(  # type: ignore[no-untyped-call]
            walk.enter(x), times.to(x.dtype), walk, tolerance, self.max_iterations
        )
        return walk.leave(result)

    def __repr__(self) -> str:
        return f"ConjugateGradient(tolerance={self.tolerance})"


class _ImplicitSolve(torch.autograd.Function):
    """h = K⁻¹ x with K = I + t M⁻¹L = (1 + t) I − tP, self-adjoint under the mass.

    With u = M K⁻¹ M⁻¹ g: the gradient to x is u, and that to t is −Σ u ⊙ (M⁻¹L h).
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, times: Tensor, walk: Walk, tolerance: float, most: int
    ) -> Tensor:
        h, _ = conjugate_gradients(walk, times, x, tolerance, most)
        ctx.save_for_backward(h, times)
        ctx.walk, ctx.tolerance, ctx.most = walk, tolerance, most
        return h

    @staticmethod
    @first_only("use Eigenbasis or Cholesky")
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (h, times), walk = ctx.saved_tensors, ctx.walk
        mass = walk.mass[:, None]
        u, _ = conjugate_gradients(walk, times, grad / mass, ctx.tolerance, ctx.most)
        grad_t = walk.slope(h, u).to(h) if ctx.needs_input_grad[1] else None
        return u.mul_(mass), grad_t, None, None, None


def conjugate_gradients(
    walk: Walk, times: Tensor, b: Tensor, tolerance: float, most: int
) -> tuple[Tensor, int]:
    """K⁻¹ b under the inner product ⟨a, b⟩ = Σ m a b, where K is self-adjoint; and how many steps.

    In this inner product the Jacobi preconditioner is the scalar 1/(1 + t) of each channel, which
    changes no iterate: nothing is needed for it.
    """
    # Squares of very small or large channels would leave the range of floating numbers.
    low, high = torch.aminmax(b, dim=0) if b.shape[0] else (b.sum(0), b.sum(0))
    scale = torch.maximum(-low, high)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    r = torch.empty_like(b, memory_format=torch.contiguous_format)
    torch.div(b, scale, out=r)
    p, x = r.clone(), torch.zeros_like(r)
    stay, leave = 1 + times, -times
    rr = walk.inner(r, r)
    goal = tolerance**2 * rr
    kp = None
    for iteration in range(most):
        active = rr > goal
        if not bool(active.any()):
            return x.mul_(scale), iteration
        # K p = (1 + t) p − t P p
        kp, curvature = walk.step(p, p, leave, stay, active=r.shape[1], other=p, out=kp)
        assert curvature is not None
        # A channel that has arrived stands still: its step is 0, not 0/0.
        alpha = torch.where(active & (curvature > 0), rr / curvature, torch.zeros_like(rr))
        before, step = rr, alpha.to(x.dtype)
        rr = walk.descend(step, kp, r)
        beta = torch.where(active, rr / before, torch.zeros_like(rr))
        walk.turn(step, beta.to(x.dtype), r, x, p)
    left = float((rr / goal.clamp_min(torch.finfo(rr.dtype).tiny)).max().sqrt() * tolerance)
    if left > tolerance:
        warnings.warn(
            f"conjugate gradients stopped after {most} iterations at a relative residual of "
            f"{left:.1e} (asked for {tolerance:.1e})",
            RuntimeWarning,
            stacklevel=2,
        )
    return x.mul_(scale), most
