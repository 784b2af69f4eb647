"""Column-major activations: logical shape [N, C], stored as [C, N].

The filters keep every channel's values of all nodes together in memory. Towers are then contiguous
blocks of rows, a neighbourhood reduction runs along thousands of nodes rather than a dozen
channels, and products take either layout as it is. Nothing outside sees it: shapes are as
everywhere, only strides differ, and between blocks activations are row-major again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Linear(nn.Linear):
    """``x Wᵀ + b`` with a column-major result: x [N, in] → [N, out]."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name nn.Linear uses
        """``x Wᵀ + b``."""
        return affine(self.weight, input, self.bias)


def affine(weight: Tensor, x: Tensor, bias: Tensor | None) -> Tensor:
    """``x Wᵀ + b`` for W [out, in] and x [N, in], column-major [N, out]."""
    if bias is None:
        return torch.mm(weight, x.t()).t()
    return torch.addmm(bias[:, None], weight, x.t()).t()


class _Rearrange(torch.autograd.Function):
    """x[:, index] for a permutation, whose gradient is the inverse permutation."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(index, inverse)
        return x.index_select(1, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        index, inverse = ctx.saved_tensors
        return _Rearrange.apply(grad, inverse, index), None, None  # type: ignore[no-untyped-call]


def rearrange(x: Tensor, index: Tensor | None, inverse: Tensor | None) -> Tensor:
    """The columns of x [C, N] in another order; None is the order they are in."""
    if index is None:
        return x
    result: Tensor = _Rearrange.apply(x, index, inverse)  # type: ignore[no-untyped-call]
    return result
