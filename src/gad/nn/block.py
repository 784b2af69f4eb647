"""One block of Graph Anisotropic Diffusion (Figure 2 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gad.nn.aggregation import SCALERS, DirectionalAggregation
from gad.nn.columns import Linear
from gad.nn.diffusion import Diffusion
from gad.nn.norm import BatchNorm
from gad.operators import GraphOperators

_SLOPE = 0.01


class GADBlock(nn.Module):
    """h = LeakyReLU(diffuse(x)); out = x + MLP[h, filters(h)].

    The filters work in towers (:class:`DirectionalAggregation`), then graph-size norm (÷ √n), batch
    norm, and a linear map with LeakyReLU across towers. Without diffusion the block is
    x + filters(x), which is DGN; without the directional aggregators as well it is PNA.

    Args:
        channels: C.
        diffusion: a diffusion layer, :class:`ImplicitDiffusion` or :class:`SpectralDiffusion`;
            None leaves diffusion out.
        aggregators, scalers, towers, edge_channels, delta, dx_centre: see
            :class:`DirectionalAggregation`.
        batch_norm, graph_norm, residual: parts of the block that can be left out.
        dropout: the probability that a channel of a node is dropped before the residual is added.

    Shapes: x [N, C], edge_attr [E, edge_channels] → [N, C].

    Example:
        >>> import gad, torch
        >>> ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
        >>> block = GADBlock(8, diffusion=gad.nn.ImplicitDiffusion(8), towers=2)
        >>> block(torch.randn(3, 8), gad.build_operators(ring, 3)).shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        channels: int,
        *,
        diffusion: Diffusion | None = None,
        aggregators: Sequence[str] = ("mean", "max", "min", "dx"),
        scalers: Sequence[str] = SCALERS,
        towers: int = 1,
        edge_channels: int = 0,
        delta: float = 1.0,
        dx_centre: str = "message",
        batch_norm: bool = True,
        graph_norm: bool = True,
        residual: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if diffusion is not None and diffusion.channels != channels:
            raise ValueError(
                f"a block of {channels} channels cannot use a diffusion of {diffusion.channels}"
            )
        self.diffusion = diffusion
        self.aggregation = DirectionalAggregation(
            channels,
            aggregators=aggregators,
            scalers=scalers,
            towers=towers,
            edge_channels=edge_channels,
            delta=delta,
            dx_centre=dx_centre,
        )
        self.graph_norm, self.residual = graph_norm, residual
        self.norm = BatchNorm(channels) if batch_norm else None
        self.across_towers = Linear(channels, channels)
        self.combine = None if diffusion is None else Linear(2 * channels, channels)
        self.dropout = dropout

    def forward(
        self, x: Tensor, operators: GraphOperators, edge_attr: Tensor | None = None
    ) -> Tensor:
        """One block: x [N, C] → [N, C]."""
        h = x if self.diffusion is None else F.leaky_relu(self.diffusion(x, operators), _SLOPE)
        f = self.normed_filters(h, operators, edge_attr)
        across = self.across_towers
        if self.combine is None:
            y = F.leaky_relu(across(f), _SLOPE)
        else:
            y = _combine(h, f, across.weight, across.bias, self.combine.weight, self.combine.bias)
        y = F.dropout(y, self.dropout, self.training)
        return x + y if self.residual else y

    def normed_filters(
        self, h: Tensor, operators: GraphOperators, edge_attr: Tensor | None
    ) -> Tensor:
        """The anisotropic part: aggregation, then the norms."""
        f: Tensor = self.aggregation(h, operators, edge_attr)
        factor = operators.inverse_root_size.to(f.dtype) if self.graph_norm else None
        if self.norm is not None:
            f = self.norm(f, factor)
        elif factor is not None:
            f = f * factor[:, None]
        return f


def _combine(h: Tensor, f: Tensor, *weights: Tensor) -> Tensor:
    """W [h, LeakyReLU(V f + a)] + b, weights V, a, W, b."""
    result: Tensor = _Combine.apply(h, f, *weights)  # type: ignore[no-untyped-call]
    return result


class _Combine(torch.autograd.Function):
    """The two linear maps at the end of a block, without their concatenation, as one step."""

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, f: Tensor, V: Tensor, a: Tensor, W: Tensor, b: Tensor
    ) -> Tensor:
        of_h, of_f = W.chunk(2, dim=1)
        across = F.leaky_relu_(torch.addmm(a[:, None], V, f.t()), _SLOPE)
        ctx.save_for_backward(h, f, V, W, across)
        return torch.addmm(b, h, of_h.t()).addmm_(across.t(), of_f.t())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        h, f, V, W, across = ctx.saved_tensors
        of_h, of_f = W.chunk(2, dim=1)
        grad = grad.contiguous()
        grad_h = grad @ of_h
        grad_W = torch.cat([grad.t() @ h, grad.t() @ across.t()], dim=1)
        # The sign of the activation is that of what it was made from.
        grad_across = torch.mm(of_f.t(), grad.t())
        grad_across = torch.ops.aten.leaky_relu_backward(grad_across, across, _SLOPE, True)
        grad_f = torch.mm(V.t(), grad_across).t()
        return grad_h, grad_f, grad_across @ f, grad_across.sum(1), grad_W, grad.sum(0)
