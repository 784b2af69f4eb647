"""h = Φ r_t(Λ) Φᵀ M x by the eigenbasis: exact, two small products per component."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gad.operators.graph_operators import GraphOperators
from gad.operators.layouts import Basis
from gad.operators.schemes import Scheme
from gad.operators.solvers.base import check_signal


class Eigenbasis:
    """Apply r_t through the eigenbasis the operators carry (truncated if they are)."""

    def __call__(
        self, operators: GraphOperators, x: Tensor, times: Tensor, scheme: Scheme
    ) -> Tensor:
        """``Φ r_t(Λ) Φᵀ M x``."""
        operators.need_basis()
        check_signal(operators, x, times)
        times = times.to(x.dtype)
        result: Tensor = _SpectralProduct.apply(x, times, operators.basis_for(x), scheme)  # type: ignore[no-untyped-call]
        return result

    def __repr__(self) -> str:
        return "Eigenbasis()"


class _SpectralProduct(torch.autograd.Function):
    """Y = Φ (R ⊙ ΦᵀM X) for X [N, C] and the responses R = r_t(λ) [ΣK, C].

    The operator is self-adjoint under the mass: the gradient to X is the same product with ΦᵀM and
    Φᵀ exchanged, and that to R is the product of the two sides' coefficients. Nothing is padded,
    gathered or summed by autograd.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, times: Tensor, basis: Basis, scheme: Scheme) -> Tensor:
        response = scheme.response(basis.eigenvalues.to(x.dtype)[:, None], times)
        y, coefficients = basis.filter(x, response, adjoint=False)
        ctx.basis, ctx.scheme = basis, scheme
        ctx.save_for_backward(response, coefficients)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        response, coefficients = ctx.saved_tensors
        grad_x, along = ctx.basis.filter(grad, response, adjoint=True)
        grad_times = None
        if ctx.needs_input_grad[1]:
            along *= coefficients
            along *= ctx.scheme.slope(ctx.basis.eigenvalues.to(along.dtype)[:, None], response)
            grad_times = along.sum(0)
        return grad_x, grad_times, None, None
