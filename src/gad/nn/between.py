"""What happens between the blocks of a model, beside what they do themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from gad.nn.bonds import BondUpdate
from gad.nn.pairs import KernelFilter, PairWeights, Weights
from gad.nn.rings import RingMessages
from gad.operators import GraphOperators

Exchange = Callable[[int, Tensor, Any], tuple[Tensor, Any]]
"""Number of a block, what it left at nodes, what is known of edges → both, after the exchange."""


class Round(nn.Module):
    """What follows one block; every part may be None.

    Args:
        pairs: a filter over all pairs of nodes.
        rings: messages between the atoms of a ring.
        bonds: an update of the states of edges, by which the next block sees them.
    """

    def __init__(
        self,
        *,
        pairs: KernelFilter | None = None,
        rings: RingMessages | None = None,
        bonds: BondUpdate | None = None,
    ) -> None:
        super().__init__()
        self.pairs, self.rings, self.bonds = pairs, rings, bonds

    def forward(
        self, h: Tensor, operators: GraphOperators, edges: Any, weights: Weights | None
    ) -> tuple[Tensor, Any]:
        """Nodes h [N, C] and edges [E, D], both after the exchange."""
        if self.pairs is not None and weights is not None:
            h = self.pairs(h, weights)
        if self.rings is not None:
            h = self.rings(h, operators)
        if self.bonds is not None:
            edges = self.bonds(h, operators, edges)
        return h, edges


class Between(nn.Module):
    """What follows each of L blocks; every part may be missing.

    Args:
        channels: C.
        layers: L.
        pairs: the weights of all pairs of nodes, L · G heads for filters of G heads each
            (:class:`KernelFilter`).
        ring_channels: of the messages between the atoms of a ring (:class:`RingMessages`); 0 for
            none.
        bond_states: D, the channels of edges whose states follow the nodes' after every block but
            the last (:class:`BondUpdate`); 0 if edges stay as they are.
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
        ring_channels: int = 0,
        bond_states: int = 0,
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
                pairs=KernelFilter(channels, heads, batch_norm=batch_norm, dropout=dropout)
                if heads
                else None,
                rings=RingMessages(channels, ring_channels) if ring_channels else None,
                # Nobody would read what follows the last block.
                bonds=BondUpdate(channels, bond_states, batch_norm=batch_norm)
                if bond_states and number + 1 < layers
                else None,
            )
            for number in range(layers)
        )

    def prepare(self, operators: GraphOperators) -> Exchange:
        """What depends on the graphs alone is worked out once, for all blocks."""
        weights: list[Weights | None] = [None] * len(self.rounds)
        if self.pairs is not None:
            weights = list(self.pairs(operators).split(len(self.rounds)))

        def exchange(number: int, h: Tensor, edges: Any) -> tuple[Tensor, Any]:
            after: tuple[Tensor, Any] = self.rounds[number](h, operators, edges, weights[number])
            return after

        return exchange
