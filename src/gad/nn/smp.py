"""SMP: structural message passing, where every node carries a context of all others.

Vignac, Loukas and Frossard, "Building Powerful and Equivariant Graph Neural Networks with
Structural Message-Passing", 2020; the layer is their fast variant, linear but for one product.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gad.nn.norm import BatchNorm
from gad.operators import GraphOperators
from gad.operators.eigenbasis import ragged_arange, starts


@dataclass(frozen=True)
class Contexts:
    """The rows of all contexts: U_i[k] for nodes i, k of the same graph, P = Σ n² of them.

    Attributes:
        node: i of each row [P].
        own: the row U_i[i] of each node [N].
        edge: the edge of each of Q = Σ E n messages, one for each row of a context [Q].
        source, target: from row U_j[k] to row U_i[k] [Q].
        inverse_size: 1/n of each node's graph [N].
    """

    node: Tensor
    own: Tensor
    edge: Tensor
    source: Tensor
    target: Tensor
    inverse_size: Tensor

    @staticmethod
    def of(operators: GraphOperators) -> Contexts:
        """The rows of a batch, worked out once."""
        return operators.once("contexts", lambda: Contexts._of(operators))

    @staticmethod
    def _of(operators: GraphOperators) -> Contexts:
        sizes, batch = operators.graph_sizes, operators.batch
        numbers = torch.arange(operators.num_nodes, device=operators.device)
        # The place of a node among those of its graph, in whatever order nodes stand.
        order = batch.argsort(stable=True)
        place = torch.empty_like(order)
        place[order] = numbers - starts(sizes)[batch[order]]
        rows = sizes[batch]
        first = starts(rows)
        messages = rows[operators.target]
        edge = torch.arange(operators.num_edges, device=operators.device)
        edge, k = edge.repeat_interleave(messages), ragged_arange(messages)
        return Contexts(
            node=numbers.repeat_interleave(rows),
            own=first + place,
            edge=edge,
            source=first[operators.source[edge]] + k,
            target=first[operators.target[edge]] + k,
            inverse_size=rows.to(operators.dtype).reciprocal(),
        )

    def mean(self, U: Tensor) -> Tensor:
        """The mean of each node's context: [P, C] → [N, C]."""
        total = U.new_zeros(len(self.own), U.shape[1]).index_add(0, self.node, U)
        return total * self.inverse_size.to(U.dtype)[:, None]


class ContextMessages(nn.Module):
    """One layer of contexts U_i [n, C], equivariant to the order of their rows.

    With 1 a column of ones, ⊙ by channels, and (1 + E e_ij) left out where there are no bonds::

        V_j = U_j A + 1 mean(U_j) B
        S_i = Σ_j V_j ⊙ (1 + E e_ij)
        U_i ← U_i + ReLU(norm(U_i W₀ + S_i W₁ + U_i W₂ ⊙ S_i W₃))

    Args:
        channels: C.
        edge_channels: channels of e_ij, 0 for none.
        batch_norm, dropout: after the sum.
    """

    def __init__(
        self, channels: int, edge_channels: int = 0, *, batch_norm: bool, dropout: float
    ) -> None:
        super().__init__()
        self.row = nn.Linear(channels, channels, bias=False)
        self.all_rows = nn.Linear(channels, channels, bias=False)
        self.edge = nn.Linear(edge_channels, channels, bias=False) if edge_channels else None
        # W₀ and W₂ read the context, W₁ and W₃ the sum of messages.
        self.own = nn.Linear(channels, 2 * channels)
        self.sum = nn.Linear(channels, 2 * channels)
        self.norm = BatchNorm(channels) if batch_norm else nn.Identity()
        self.dropout = dropout

    def forward(self, U: Tensor, at: Contexts, edge_attr: Tensor | None) -> Tensor:
        """One layer: contexts [P, C], edge_attr [E, edge_channels] → [P, C]."""
        V = self.row(U) + self.all_rows(at.mean(U)).index_select(0, at.node)
        messages = V.index_select(0, at.source)
        if self.edge is not None and edge_attr is not None:
            messages = messages * (1 + self.edge(edge_attr)).index_select(0, at.edge)
        S = torch.zeros_like(V).index_add(0, at.target, messages)
        own, times_own = self.own(U).chunk(2, dim=1)
        total, times_total = self.sum(S).chunk(2, dim=1)
        y = F.relu(self.norm(own + total + times_own * times_total))
        return U + F.dropout(y, self.dropout, self.training)


class SMP(nn.Module):
    """Contexts for L layers between features of nodes x [N, C] and better ones.

    U_i has x_i, mapped to C/6 channels, in row i at first and nothing elsewhere. At the end
    x_i ← x_i + ReLU(norm(W[mean_k ReLU(U_i[k] M), U_i[i]])).

    Args:
        channels: C; contexts have C/6 (at least 4), since there are n for every node.
        layers: L.
        edge_channels: channels of the edge features, 0 for none.
        batch_norm, dropout: of every layer.
    """

    def __init__(
        self,
        channels: int,
        layers: int,
        edge_channels: int = 0,
        *,
        batch_norm: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        inner = max(4, channels // 6)
        self.begin = nn.Linear(channels, inner)
        self.layers = nn.ModuleList(
            ContextMessages(inner, edge_channels, batch_norm=batch_norm, dropout=dropout)
            for _ in range(layers)
        )
        self.each = nn.Linear(inner, inner)
        self.end = nn.Linear(2 * inner, channels)
        self.norm = BatchNorm(channels) if batch_norm else nn.Identity()

    def forward(
        self, x: Tensor, operators: GraphOperators, edge_attr: Tensor | None = None
    ) -> Tensor:
        """All layers: x [N, C] → [N, C]."""
        at = Contexts.of(operators)
        if edge_attr is not None:
            edge_attr = edge_attr.index_select(0, operators.edge_position)
        start = self.begin(x)
        U = start.new_zeros(len(at.node), start.shape[1]).index_copy(0, at.own, start)
        for layer in self.layers:
            U = layer(U, at, edge_attr)
        seen = torch.cat([at.mean(F.relu(self.each(U))), U.index_select(0, at.own)], dim=1)
        return x + F.relu(self.norm(self.end(seen)))
