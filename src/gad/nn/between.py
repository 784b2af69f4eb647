"""What happens between the blocks of a model, beside what they do themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from gad.nn.pairs import KernelFilter, PairWeights, Weights
from gad.operators import GraphOperators

Exchange = Callable[[int, Tensor, Any], tuple[Tensor, Any]]
"""Number of a block, what it left at nodes, what is known of edges → both, after the exchange."""


class Round(nn.Module):
    """What follows one block: a filter over all pairs of nodes.

    Args:
        pairs: :class:`KernelFilter`, or None.
    """

    def __init__(self, pairs: KernelFilter | None = None) -> None:
        super().__init__()
        self.pairs = pairs

    def forward(self, h: Tensor, weights: Weights | None) -> Tensor:
        """Nodes h [N, C] → [N, C]."""
        if self.pairs is not None and weights is not None:
            h = self.pairs(h, weights)
        return h


class Between(nn.Module):
    """What follows each of L blocks; every part may be missing.

    Args:
        channels: C.
        layers: L.
        pairs: the weights of all pairs of nodes, L · G heads for filters of G heads each
            (:class:`KernelFilter`).
        batch_norm, dropout: as in :class:`gad.nn.GADBlock`.

    Example:
        >>> import gad, torch
        >>> from gad.operators import IMPLICIT
        >>> ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
        >>> pairs = gad.nn.PairWeights(2 * 4, IMPLICIT)
        >>> model = gad.nn.GAD(8, layers=2, between=Between(8, 2, pairs=pairs))
        >>> model(torch.randn(3, 8), gad.build_operators(ring, 3)).shape
        torch.Size([1, 1])
    """

    def __init__(
        self,
        channels: int,
        layers: int,
        *,
        pairs: PairWeights | None = None,
        batch_norm: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if pairs is not None and pairs.heads % layers:
            raise ValueError(f"{pairs.heads} heads cannot be shared by {layers} layers")
        self.pairs = pairs
        heads = 0 if pairs is None else pairs.heads // layers
        self.rounds = nn.ModuleList(
            Round(
                KernelFilter(channels, heads, batch_norm=batch_norm, dropout=dropout)
                if heads
                else None
            )
            for _ in range(layers)
        )

    def prepare(self, operators: GraphOperators) -> Exchange:
        """What depends on the graphs alone is worked out once, for all blocks."""
        weights: list[Weights | None] = [None] * len(self.rounds)
        if self.pairs is not None:
            weights = list(self.pairs(operators).split(len(self.rounds)))

        def exchange(number: int, h: Tensor, edges: Any) -> tuple[Tensor, Any]:
            return self.rounds[number](h, weights[number]), edges

        return exchange
