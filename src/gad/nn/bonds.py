"""States of edges that follow those of their nodes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gad.nn.norm import BatchNorm
from gad.operators import GraphOperators


class BondUpdate(nn.Module):
    """e_ij ← e_ij + V LeakyReLU(norm(U [h_i, h_j, e_ij])): later messages read the new e_ij.

    An edge and its reverse have states of their own: j → i is what i hears of j.

    Args:
        channels: C, of the nodes.
        edge_channels: D, of the edges.
        batch_norm: normalise over the edges.

    Shapes: h [N, C], e [E, D] in the order of the ``edge_index`` the operators were built from →
    [E, D]. A loop, which is no edge of the operators, keeps its state.

    Example:
        >>> import gad, torch
        >>> pair = gad.build_operators(torch.tensor([[0, 1], [1, 0]]), 2)
        >>> BondUpdate(8, 4)(torch.randn(2, 8), pair, torch.randn(2, 4)).shape
        torch.Size([2, 4])
    """

    slope = 0.01  # of LeakyReLU below 0

    def __init__(self, channels: int, edge_channels: int, *, batch_norm: bool = True) -> None:
        super().__init__()
        self.nodes = nn.Linear(channels, 2 * edge_channels, bias=False)
        self.edges = nn.Linear(edge_channels, edge_channels, bias=not batch_norm)
        self.norm = BatchNorm(edge_channels) if batch_norm else None
        self.outer = nn.Linear(edge_channels, edge_channels)

    def forward(self, h: Tensor, operators: GraphOperators, e: Tensor) -> Tensor:
        """The states of edges after this step."""
        # U is linear, so nodes are mapped before they are looked up at edges.
        target, source = self.nodes(h).chunk(2, dim=1)
        y = target.index_select(0, operators.target) + source.index_select(0, operators.source)
        y = y + self.edges(e.index_select(0, operators.edge_position))
        y = F.leaky_relu(y if self.norm is None else self.norm(y), self.slope)
        return torch.index_add(e, 0, operators.edge_position, self.outer(y))
