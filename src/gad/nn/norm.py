"""Batch normalisation over nodes, of one process or of several together."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed, nn


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation over nodes: x [N, C] → γ (x − mean) / √(var + ε) + β.

    :class:`torch.nn.BatchNorm1d`, but centred first, so that a channel that is constant is β and
    not rounding times 1/√ε; a batch of one node is normalised to β instead of refused, and one of
    none stays empty.

    With ``share`` (:func:`synchronise`) the mean and the variance are those of the nodes of all
    processes that train together, values and gradients, on any device: what one process would have
    had of the whole batch.
    """

    share: float | None = None

    def __init__(self, channels: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__(channels, eps, momentum)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name torch uses
        """Normalise x [N, C] by the batch (training) or by the running statistics."""
        if not self.training:
            return super().forward(input)
        nodes = input.shape[0]
        if self.share is None:
            average = torch.mean if nodes else torch.sum  # of nothing there is no mean
            mean = average(input, 0)
            centred = input - mean
            var = average(centred.square(), 0)
        else:
            count = input.new_tensor([self.share * nodes], dtype=torch.float64)
            total = self._over_all(torch.cat([self.share * input.sum(0, dtype=count.dtype), count]))
            nodes = int(total[-1])
            mean = (total[:-1] / max(nodes, 1)).to(input.dtype)
            centred = input - mean
            squares = self.share * centred.square().sum(0, dtype=count.dtype)
            var = (self._over_all(squares) / max(nodes, 1)).to(input.dtype)
        if self.track_running_stats:
            self._follow(mean.detach(), var.detach(), nodes)
        return centred * ((var + self.eps).rsqrt() * self.weight) + self.bias

    @staticmethod
    def _over_all(values: Tensor) -> Tensor:
        """The sum over all processes."""
        summed: Tensor = _Sum.apply(values)  # type: ignore[no-untyped-call]
        return summed

    @torch.no_grad()
    def _follow(self, mean: Tensor, var: Tensor, nodes: int) -> None:
        """Move the running statistics towards those of a batch."""
        if self.running_mean is None or self.running_var is None or not nodes:
            return
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        step = 1 / int(self.num_batches_tracked or 1) if self.momentum is None else self.momentum
        unbiased = var * (nodes / max(nodes - 1, 1))
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), step)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), step)


class _Sum(torch.autograd.Function):
    """S = Σ_p s_p over all processes p; as every loss reads S, ∂/∂s_p is Σ_q ∂loss_q/∂S."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        del ctx
        return _summed(values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        del ctx
        return _summed(grad)


def _summed(values: Tensor) -> Tensor:
    total = values.clone(memory_format=torch.contiguous_format)
    distributed.all_reduce(total)
    return total


def synchronise(model: nn.Module, share: float | None) -> None:
    """Let batch norms work over all processes; None lets each work by itself again.

    Args:
        model: whose :class:`BatchNorm` are meant.
        share: 1 if the nodes of this process count, 0 if they only stand in because it has none.
    """
    for module in model.modules():
        if isinstance(module, BatchNorm):
            module.share = share
