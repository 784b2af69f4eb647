"""PyTorch Geometric's own layers in the same network, for comparison on node tasks."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gad.nn.nodes import NORMS, drop_features
from gad.operators import GraphOperators
from gad.operators.sparse import compressed

NODE_BASELINES = ("gcn", "sage", "gat")
_HEADS = 4


class ConvBlock(nn.Module):
    """``dropout(ReLU(norm(conv(x) (+ W x))))``: a layer of the tuned classics (Luo et al. 2024)."""

    def __init__(
        self, kind: str, channels: int, *, norm: str, dropout: float, residual: bool
    ) -> None:
        super().__init__()
        self.conv = convolution(kind, channels, channels)
        self.own = nn.Linear(channels, channels) if residual else None
        self.norm = NORMS[norm](channels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, operators: GraphOperators) -> Tensor:
        """X [N, C] → [N, C]."""
        y = self.conv(x, graph_for(self.conv, operators))
        y = y if self.own is None else y + self.own(x)
        result: Tensor = self.dropout(F.relu(self.norm(y)))
        return result


class ConvNetwork(nn.Module):
    """Two convolutions and nothing else, as in the examples of PyTorch Geometric."""

    def __init__(
        self,
        kind: str,
        in_channels: int,
        out_channels: int,
        channels: int,
        *,
        dropout: float,
        input_dropout: float,
    ) -> None:
        super().__init__()
        self.first = convolution(kind, in_channels, channels)
        self.second = convolution(kind, channels, out_channels, heads=1)
        self.dropout, self.input_dropout = nn.Dropout(dropout), input_dropout

    def forward(self, x: Tensor, operators: GraphOperators) -> Tensor:
        """X [N, in_channels], dense or sparse CSR → [N, out_channels]."""
        from torch_geometric.nn import SAGEConv

        x = drop_features(x, self.input_dropout if self.training else 0.0)
        if isinstance(self.first, SAGEConv) and x.layout == torch.sparse_csr:
            x = x.to_dense()
        h = F.relu(self.first(x, graph_for(self.first, operators)))
        result: Tensor = self.second(self.dropout(h), graph_for(self.second, operators))
        return result


def convolution(kind: str, in_channels: int, out_channels: int, heads: int = _HEADS) -> Any:
    """One layer of PyTorch Geometric."""
    from torch_geometric.nn import GATConv, GCNConv, SAGEConv

    if kind == "gcn":
        # Its normalised matrix is worked out once, by graph_for, not in every layer and step.
        return GCNConv(in_channels, out_channels, normalize=False)
    if kind == "sage":
        return SAGEConv(in_channels, out_channels)
    if kind == "gat":
        if out_channels % heads:
            raise ValueError(f"GAT has {heads} heads: {out_channels} is not a multiple of that")
        return GATConv(in_channels, out_channels // heads, heads=heads)
    raise ValueError(f"no baseline is called {kind!r}; there are {', '.join(NODE_BASELINES)}")


def graph_for(conv: Any, operators: GraphOperators) -> Tensor:
    """The graph as a layer multiplies fastest: edges for attention, a sparse matrix otherwise."""
    from torch_geometric.nn import GATConv, GCNConv

    if isinstance(conv, GATConv):
        return operators.once(
            "edge_index", lambda: torch.stack([operators.source, operators.target])
        )
    if isinstance(conv, GCNConv):
        return operators.once("gcn_matrix", lambda: _gcn_matrix(operators))
    return operators.once("adjacency", lambda: _adjacency(operators))


def _adjacency(operators: GraphOperators) -> Tensor:
    n = operators.num_nodes
    return compressed(operators.target, operators.source, operators.weight, (n, n))


def _gcn_matrix(operators: GraphOperators) -> Tensor:
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    edges = torch.stack([operators.source, operators.target])
    edges, weight = gcn_norm(edges, operators.weight, operators.num_nodes)
    return compressed(edges[1], edges[0], weight, (operators.num_nodes,) * 2)
