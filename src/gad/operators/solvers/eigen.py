"""h = Φ r_t(Λ) Φᵀ M x by the eigenbasis: exact, two small products per component."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gad.operators.graph_operators import GraphOperators
from gad.operators.layouts import PaddedBasis
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
        basis = operators.padded_basis
        times = times.to(x.dtype)
        responses = [
            scheme.response(b.eigenvalues.to(x.dtype)[:, :, None], times) for b in basis.buckets
        ]
        result: Tensor = _SpectralProduct.apply(x.t(), basis, *responses)  # type: ignore[no-untyped-call]
        return result.t()

    def __repr__(self) -> str:
        return "Eigenbasis()"


class _SpectralProduct(torch.autograd.Function):
    """Y = Φ (R ⊙ ΦᵀM X) for X [C, N] and responses R [U, K, C] of each bucket.

    The operator is self-adjoint under the mass: the gradient to X is the same product with ΦᵀM and
    Φᵀ exchanged, and that to R is the product of the two sides' coefficients. Nothing is padded,
    gathered or summed by autograd.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, basis: PaddedBasis, *responses: Tensor) -> Tensor:
        sides = [(b.analysis, b.synthesis) for b in basis.buckets]
        y, coefficients = _filter(x, basis, sides, responses)
        ctx.basis = basis
        ctx.save_for_backward(*responses, *coefficients)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        count = len(ctx.basis.buckets)
        responses, coefficients = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        sides = [(b.synthesis, b.analysis) for b in ctx.basis.buckets]
        grad_x, grad_coefficients = _filter(grad, ctx.basis, sides, responses)
        grad_r = [a * b for a, b in zip(coefficients, grad_coefficients, strict=True)]
        return grad_x, None, *grad_r


def _filter(
    x: Tensor,
    basis: PaddedBasis,
    sides: list[tuple[Tensor, Tensor]],
    responses: tuple[Tensor, ...],
) -> tuple[Tensor, list[Tensor]]:
    """rightᵀ (R ⊙ left x) in every bucket, and the coefficients left x [U, K, C]."""
    x = x.contiguous()
    channels = x.shape[0]
    gathered = x.index_select(1, basis.nodes)
    joined = torch.empty_like(gathered)
    coefficients = []
    first = 0
    for (left, right), response in zip(sides, responses, strict=True):
        units, _, size = left.shape
        span = slice(first, first + units * size)
        padded = gathered[:, span].view(channels, units, size).permute(1, 2, 0)
        coefficient = torch.bmm(left.to(x.dtype), padded)
        into = joined[:, span].view(channels, units, size).transpose(0, 1)
        torch.bmm((response * coefficient).transpose(1, 2), right.to(x.dtype), out=into)
        coefficients.append(coefficient)
        first += units * size
    return joined.index_select(1, basis.position), coefficients
