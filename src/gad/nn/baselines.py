"""The networks GAD is compared with: other layers in the same frame, at the same budget.

GCN, GIN, GraphSAGE, GAT, MoNet and GatedGCN are PyTorch Geometric's layers with the settings of the
ZINC benchmark (Dwivedi et al., "Benchmarking Graph Neural Networks"): batch norm, ReLU and residual
around every layer. GSN (Bouritsas et al.) sends messages that know which cycles a bond lies on,
HIMP (:mod:`gad.nn.himp`) sends them along rings as well, and in SMP (:mod:`gad.nn.smp`) every atom
keeps account of every other.

A block of them is called like a block of GAD, so encoder, readout, head, training and model files
are the same code::

    model = GAD(width, encoder=..., blocks=baseline_blocks("gin", width, layers=4))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gad.nn.himp import HIMP
from gad.nn.norm import BatchNorm
from gad.nn.smp import SMP
from gad.operators import GraphOperators

NETWORKS = ("gcn", "gin", "sage", "gat", "monet", "gatedgcn", "gsn", "himp", "smp")
# Their messages have no place for what is known of an edge.
WITHOUT_EDGES = ("gcn", "sage", "monet")


class BaselineBlock(nn.Module):
    """x + ReLU(norm(layer(x))): a message-passing layer where GAD has its block.

    Args:
        layer: called as layer(x, edge_index), with edge_attr behind if the network uses edges.
        channels: C.
        batch_norm, graph_norm, residual, dropout: as in :class:`gad.nn.GADBlock`.

    Shapes: x [N, C], edge_attr [E, edge_channels] → [N, C].
    """

    def __init__(
        self,
        layer: nn.Module,
        channels: int,
        *,
        batch_norm: bool = True,
        graph_norm: bool = False,
        residual: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.layer = layer
        self.norm = BatchNorm(channels) if batch_norm else None
        self.graph_norm, self.residual, self.dropout = graph_norm, residual, dropout

    def forward(
        self, x: Tensor, operators: GraphOperators, edge_attr: Tensor | None = None
    ) -> Tensor:
        """One block: x [N, C] → [N, C]."""
        edge_index = torch.stack([operators.source, operators.target])
        # The operators have sorted the edges; features come in the order they were given in.
        edges = () if edge_attr is None else (edge_attr.index_select(0, operators.edge_position),)
        y: Tensor = self.layer(x, edge_index, *edges)
        if self.graph_norm:
            y = y * operators.inverse_root_size.to(y.dtype)[:, None]
        if self.norm is not None:
            y = self.norm(y)
        y = F.dropout(F.relu(y), self.dropout, self.training)
        return y + x if self.residual else y


class CycleMessages(nn.Module):
    """GSN's layer: h_i ← U[h_i, Σ_j M[h_i, h_j, e_ij]], with the cycles through the bond in e_ij.

    M and U have two layers with ReLU between. The structural identifiers are those of the edge
    (GSN-e): ``edge_attr`` encodes how many cycles of each length run through it, beside its type.

    Args:
        channels: C.
        edge_channels: channels of e_ij.
    """

    def __init__(self, channels: int, edge_channels: int) -> None:
        super().__init__()
        self.message = _mlp(2 * channels + edge_channels, channels)
        self.update = _mlp(2 * channels, channels)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        """One layer: x [N, C], edges j → i [2, E], edge_attr [E, edge_channels] → [N, C]."""
        j, i = edge_index
        message = self.message(torch.cat([x[i], x[j], edge_attr], dim=1))
        total = torch.zeros_like(x).index_add(0, i, message)
        result: Tensor = self.update(torch.cat([x, total], dim=1))
        return result


class DegreeKernels(nn.Module):
    """MoNet's layer: Σ_j Σ_k w_k(u_ij) W_k h_j with Gaussian kernels w_k of pseudo-coordinates.

    u_ij = tanh(P [1/√(d_j + 1), 1/√(d_i + 1)] + p), as the benchmark has it, with three kernels.
    """

    def __init__(self, channels: int, dim: int = 2, kernels: int = 3) -> None:
        super().__init__()
        from torch_geometric.nn import GMMConv

        self.project = nn.Linear(2, dim)
        # Without a place for h_i: the residual has it.
        self.kernels = GMMConv(
            (channels, channels), channels, dim, kernels, aggr="sum", root_weight=False
        )
        nn.init.normal_(self.kernels.mu, std=0.1)
        nn.init.ones_(self.kernels.sigma)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """One layer: x [N, C], edges j → i [2, E] → [N, C]."""
        n = x.shape[0]
        inverse = (torch.bincount(edge_index[1], minlength=n) + 1).to(x.dtype).rsqrt()
        u = torch.tanh(self.project(inverse[edge_index].t()))
        result: Tensor = self.kernels((x, None), edge_index, u, size=(n, n))
        return result


def _mlp(inputs: int, channels: int, norm: bool = False) -> nn.Sequential:
    between = (BatchNorm(channels), nn.ReLU()) if norm else (nn.ReLU(),)
    return nn.Sequential(nn.Linear(inputs, channels), *between, nn.Linear(channels, channels))


def _layers(channels: int, edges: int, heads: int) -> dict[str, Callable[[], nn.Module]]:
    """Name → what makes its layer; PyTorch Geometric is slow to import, so only when needed."""
    from torch_geometric import nn as pyg

    def gin() -> nn.Module:
        mlp = _mlp(channels, channels, norm=True)
        one: nn.Module = (
            pyg.GINEConv(mlp, train_eps=True, edge_dim=edges)
            if edges
            else pyg.GINConv(mlp, train_eps=True)
        )
        return one

    edge_dim = edges or None
    return {
        "gcn": lambda: pyg.GCNConv(channels, channels),
        "gin": gin,
        "sage": lambda: pyg.SAGEConv(channels, channels, aggr="max", project=True, normalize=True),
        "gat": lambda: pyg.GATConv(channels, channels // heads, heads, edge_dim=edge_dim),
        "monet": lambda: DegreeKernels(channels),
        "gatedgcn": lambda: pyg.ResGatedGraphConv(channels, channels, edge_dim=edge_dim),
        "gsn": lambda: CycleMessages(channels, edges),
    }


def baseline_blocks(
    network: str,
    channels: int,
    *,
    layers: int = 4,
    edge_channels: int = 0,
    heads: int = 8,
    **options: Any,
) -> list[nn.Module]:
    """L blocks of a baseline, for :class:`gad.nn.GAD`; HIMP and SMP are one block of L layers.

    Args:
        network: "gcn", "gin" (with edges: GINE), "sage" (max pooling, unit length), "gat",
            "monet", "gatedgcn", "gsn", "himp" or "smp".
        channels: C; a multiple of ``heads`` for GAT.
        layers: L.
        edge_channels: channels of the edge features, 0 for none. GCN, GraphSAGE and MoNet have no
            place for any; GSN needs some.
        heads: of GAT.
        **options: batch_norm, graph_norm, residual, dropout of :class:`BaselineBlock`.

    Example:
        >>> import gad
        >>> model = gad.nn.GAD(8, blocks=baseline_blocks("gcn", 8, layers=2))
        >>> pair = gad.build_operators(torch.tensor([[0, 1], [1, 0]]), 2)
        >>> model(torch.randn(2, 8), pair).shape
        torch.Size([1, 1])
    """
    if network not in NETWORKS:
        raise ValueError(f"unknown network {network!r}: choose from {', '.join(NETWORKS)}")
    if edge_channels and network in WITHOUT_EDGES:
        raise ValueError(f"{network} cannot use features of edges")
    if network == "gsn" and not edge_channels:
        raise ValueError("gsn needs features of edges: counts of cycles")
    if network == "gat" and channels % heads:
        raise ValueError(f"{channels} channels cannot be cut into {heads} equal heads")
    inner = {key: options[key] for key in ("batch_norm", "dropout") if key in options}
    if network == "smp":
        return [SMP(channels, layers, edge_channels, **inner)]
    make = _layers(channels, edge_channels, heads)["gin" if network == "himp" else network]
    blocks = [BaselineBlock(make(), channels, **options) for _ in range(layers)]
    return [HIMP(blocks, channels, **inner)] if network == "himp" else [*blocks]
