"""Batch normalisation over nodes."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation over nodes: x [N, C] → γ (x − mean) / √(var + ε) + β.

    :class:`torch.nn.BatchNorm1d`, but centred first, so that a channel that is constant is β and
    not rounding times 1/√ε; a batch of one node is normalised to β instead of refused.
    """

    def __init__(self, channels: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__(channels, eps, momentum)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name torch uses
        """Normalise x [N, C] by the batch (training) or by the running statistics."""
        if not self.training:
            return super().forward(input)
        mean = input.mean(0)
        centred = input - mean
        var = centred.square().mean(0)
        if self.track_running_stats:
            self._follow(mean.detach(), var.detach(), input.shape[0])
        return centred * ((var + self.eps).rsqrt() * self.weight) + self.bias

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
