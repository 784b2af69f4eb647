"""Graphs with classes of nodes to test on."""

from __future__ import annotations

import torch

from gad.data.nodes import NodeGraph
from gad.data.nodes.graph import undirected


def two_groups(n: int = 120, seed: int = 0) -> NodeGraph:
    """Two groups; neighbours are mostly of one group, and features hint at it."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 2
    a = torch.randint(n, (6 * n,), generator=generator)
    b = torch.randint(n, (6 * n,), generator=generator)
    keep = (y[a] == y[b]) | (torch.rand(6 * n, generator=generator) < 0.1)
    edge_index, _, _ = undirected(a[keep], b[keep], n)
    x = torch.randn(n, 5, generator=generator)
    x[:, 0] += y
    return NodeGraph("two groups", edge_index, x, y, ("even", "odd"))
