"""One block of Graph Anisotropic Diffusion (Figure 2 of the paper)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gad.nn.aggregation import DirectionalAggregation, FilterOptions
from gad.nn.backends import compiled
from gad.nn.diffusion import Diffusion
from gad.nn.norm import BatchNorm
from gad.operators import GraphOperators

if TYPE_CHECKING:
    from typing_extensions import Unpack


class BlockOptions(FilterOptions, total=False):
    """What :class:`GADBlock` is told besides its width and diffusion, and whoever makes several."""

    batch_norm: bool
    graph_norm: bool
    residual: bool
    dropout: float


class GADBlock(nn.Module):
    """h = LeakyReLU(diffuse(x)); out = x + MLP[h, filters(h)].

    The filters work in towers (:class:`DirectionalAggregation`), then graph-size norm (÷ √n), batch
    norm, and a linear map with LeakyReLU across towers. Without diffusion the block is
    x + filters(x), which is DGN; without the directional aggregators as well it is PNA.

    Every part is a module of its own that may be replaced, wrapped or hooked.

    Args:
        channels: C.
        diffusion: a diffusion layer, :class:`ImplicitDiffusion` or :class:`SpectralDiffusion`;
            None leaves diffusion out.
        aggregators, scalers, towers, edge_channels, delta, dx_centre, messages: see
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

    slope = 0.01  # of LeakyReLU below 0

    def __init__(
        self,
        channels: int,
        *,
        diffusion: Diffusion | None = None,
        batch_norm: bool = True,
        graph_norm: bool = True,
        residual: bool = True,
        dropout: float = 0.0,
        **filters: Unpack[FilterOptions],
    ) -> None:
        super().__init__()
        if diffusion is not None and diffusion.channels != channels:
            raise ValueError(
                f"a block of {channels} channels cannot use a diffusion of {diffusion.channels}"
            )
        self.diffusion = diffusion
        self.aggregation = DirectionalAggregation(channels, **filters)
        self.graph_norm, self.residual = graph_norm, residual
        self.norm = BatchNorm(channels) if batch_norm else None
        self.across_towers = nn.Linear(channels, channels)
        self.combine = None if diffusion is None else nn.Linear(2 * channels, channels)
        self.dropout = dropout

    def forward(
        self, x: Tensor, operators: GraphOperators, edge_attr: Tensor | None = None
    ) -> Tensor:
        """One block: x [N, C] → [N, C]."""
        y = compiled.try_block(self, x, operators, edge_attr)
        if y is not None and not self.drops:
            return y
        if y is None:
            h = x
            if self.diffusion is not None:
                h = F.leaky_relu(self.diffusion(x, operators), self.slope)
            f = self.normed_filters(h, operators, edge_attr)
            y = F.leaky_relu(self.across_towers(f), self.slope)
            if self.combine is not None:
                y = self.combine(torch.cat([h, y], dim=1))
        y = F.dropout(y, self.dropout, self.training)
        return x + y if self.residual else y

    @property
    def drops(self) -> bool:
        """Whether dropout is at work."""
        return self.training and self.dropout > 0

    def normed_filters(
        self, h: Tensor, operators: GraphOperators, edge_attr: Tensor | None
    ) -> Tensor:
        """The anisotropic part: aggregation, then the norms."""
        f: Tensor = self.aggregation(h, operators, edge_attr)
        if self.graph_norm:
            f = f * operators.inverse_root_size.to(f.dtype)[:, None]
        return f if self.norm is None else self.norm(f)
