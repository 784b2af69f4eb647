"""Batch normalisation of column-major activations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class BatchNorm(nn.Module):
    """Batch normalisation over nodes: x [N, C] → γ (x − mean) / √(var + ε) + β.

    The same function as :class:`torch.nn.BatchNorm1d` with the same parameters and buffers, for
    column-major activations; a batch of one node is normalised to β instead of refused.
    """

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, channels: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps = eps
        self.momentum = momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x: Tensor, factor: Tensor | None = None) -> Tensor:
        """Normalise x [N, C] by the batch (training) or by the running statistics.

        With a ``factor`` for every node [N], it is factor · x that is normalised.
        """
        if not self.training:
            scale = self.weight * (self.running_var + self.eps).rsqrt()
            shift = self.bias - self.running_mean * scale
            x = x if factor is None else x * factor[:, None]
            return torch.addcmul(shift[:, None], x.t(), scale[:, None]).t()
        y, mean, var = _Normalise.apply(x.t(), self.weight, self.bias, factor, self.eps)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            n = x.shape[0]
            unbiased = var * (n / max(n - 1, 1))
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), self.momentum)
            self.num_batches_tracked += 1
        result: Tensor = y.t()
        return result

    def extra_repr(self) -> str:
        """The number of channels."""
        return f"{self.weight.numel()}"


class _Normalise(torch.autograd.Function):
    """y = γ ξ + β with ξ = (s x − mean)/σ along the rows of x [C, N], s [N] or None."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, factor: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        x = x if factor is None else x * factor
        mean = x.mean(1)
        centred = x - mean[:, None]
        var = torch.linalg.vecdot(centred, centred) / x.shape[1]
        inverse = (var + eps).rsqrt()
        y = torch.addcmul(bias[:, None], centred, (weight * inverse)[:, None])
        ctx.save_for_backward(centred, weight, inverse, factor)
        ctx.mark_non_differentiable(mean, var)
        return y, mean, var

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        centred, weight, inverse, factor = ctx.saved_tensors
        n = centred.shape[1]
        grad = grad.contiguous()
        grad_bias = grad.sum(1)
        along = torch.linalg.vecdot(grad, centred) * inverse
        # dx = (γ/σ) (g − mean g − ξ · mean(g ξ))
        scale = weight * inverse
        grad_x = torch.addcmul(
            (-scale * grad_bias / n)[:, None], centred, (-scale * inverse * along / n)[:, None]
        )
        grad_x.addcmul_(grad, scale[:, None])
        if factor is not None:
            grad_x *= factor
        return grad_x, along, grad_bias, None, None
