"""HIMP: message passing on the molecule, on its junction graph, and between them.

Fey, Yuen and Weichert, "Hierarchical Inter-Message Passing for Learning on Molecular Graphs", 2020.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gad.nn.norm import BatchNorm
from gad.operators import GraphOperators
from gad.operators.junction import junction


class HIMP(nn.Module):
    """L rounds of four steps, on atoms h [N, C] and on clusters z [K, C] (rings, bonds, atoms).

    With i ∈ c for "atom i lies in cluster c", and z at first an embedding of the cluster's kind::

        h ← block(h)                              atoms to their neighbours
        z ← z + ReLU(A mean_{i ∈ c} h_i)          atoms to clusters
        z ← z + ReLU(norm(MLP(z + Σ_c' z_c')))    clusters to those they are linked to
        h ← h + ReLU(B mean_{c ∋ i} z_c)          clusters to atoms

    Args:
        blocks: L message-passing blocks for the atoms, called as block(h, operators, edge_attr).
        channels: C.
        batch_norm, dropout: of the clusters' messages.
    """

    def __init__(
        self,
        blocks: Sequence[nn.Module],
        channels: int,
        *,
        batch_norm: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.atoms = nn.ModuleList(blocks)
        self.kind = nn.Embedding(3, channels)
        self.clusters = nn.ModuleList(_mlp(channels) for _ in blocks)
        self.norms = nn.ModuleList(
            BatchNorm(channels) if batch_norm else nn.Identity() for _ in blocks
        )
        self.up = nn.ModuleList(nn.Linear(channels, channels) for _ in blocks)
        self.down = nn.ModuleList(nn.Linear(channels, channels) for _ in blocks)
        self.dropout = dropout

    def forward(
        self, x: Tensor, operators: GraphOperators, edge_attr: Tensor | None = None
    ) -> Tensor:
        """All rounds: x [N, C] → [N, C]."""
        tree = junction(operators)
        h, z = x, self.kind(tree.kind)
        rounds = zip(self.atoms, self.up, self.clusters, self.norms, self.down, strict=True)
        for atoms, up, cluster, norm, down in rounds:
            h = atoms(h, operators, edge_attr)
            z = z + F.relu(up(_mean(h, tree.atom, tree.cluster, len(z))))
            y = norm(cluster(z.index_add(0, tree.target, z.index_select(0, tree.source))))
            z = z + F.dropout(F.relu(y), self.dropout, self.training)
            h = h + F.relu(down(_mean(z, tree.cluster, tree.atom, len(h))))
        return h


def _mlp(channels: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, channels))


def _mean(values: Tensor, source: Tensor, target: Tensor, count: int) -> Tensor:
    """The mean of values [·, C] over the pairs source → target: [count, C]."""
    total = values.new_zeros(count, values.shape[1])
    total = total.index_add(0, target, values.index_select(0, source))
    return total / torch.bincount(target, minlength=count).to(values.dtype)[:, None]
