"""Messages between the atoms of a ring."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gad.operators import GraphOperators
from gad.operators.junction import RING, junction


class RingMessages(nn.Module):
    """All atoms of a ring hear of one another: through the ring, whose state is z_c.

    With i ∈ c for "atom i lies in ring c"::

        z_c = LeakyReLU(A mean_{i ∈ c} h_i + a),    h_i ← h_i + B Σ_{c ∋ i} z_c

    A ring is any shortest cycle through one of its bonds (:mod:`gad.operators.junction`), so
    nothing depends on the numbering; an atom that lies on none stays as it is. Laplacian and
    directions remain those of the molecule.

    Args:
        channels: C.
        ring_channels: of z.

    Shapes: h [N, C] → [N, C].

    Example:
        >>> import gad, torch
        >>> ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
        >>> RingMessages(8, 4)(torch.randn(3, 8), gad.build_operators(ring, 3)).shape
        torch.Size([3, 8])
    """

    slope = 0.01  # of LeakyReLU below 0

    def __init__(self, channels: int, ring_channels: int) -> None:
        super().__init__()
        self.up = nn.Linear(channels, ring_channels)
        self.down = nn.Linear(ring_channels, channels, bias=False)

    def forward(self, h: Tensor, operators: GraphOperators) -> Tensor:
        """Atoms to rings and back."""
        atom, ring, sizes = rings(operators)
        total = h.new_zeros(sizes.numel(), h.shape[1])
        total = total.index_add(0, ring, h.index_select(0, atom))
        z = F.leaky_relu(self.up(total / sizes.to(h.dtype)[:, None]), self.slope)
        return h.index_add(0, atom, self.down(z).index_select(0, ring))


def rings(operators: GraphOperators) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs of an atom and a ring that it lies in, [P] and [P], and the sizes of all rings [R].

    >>> import gad, torch
    >>> pairs = torch.tensor([[0, 1, 2, 0], [1, 2, 0, 3]])
    >>> tailed = gad.build_operators(torch.cat([pairs, pairs.flip(0)], dim=1), 4)
    >>> atom, ring, sizes = rings(tailed)
    >>> sorted(atom.tolist()), ring.tolist(), sizes.tolist()
    ([0, 1, 2], [0, 0, 0], [3])
    """

    def found() -> tuple[Tensor, Tensor, Tensor]:
        clusters = junction(operators)
        is_ring = clusters.kind == RING
        number = is_ring.cumsum(0) - 1
        own = is_ring[clusters.cluster]
        ring = number[clusters.cluster[own]]
        return clusters.atom[own], ring, torch.bincount(ring, minlength=int(is_ring.sum()))

    return operators.once("rings", found)
