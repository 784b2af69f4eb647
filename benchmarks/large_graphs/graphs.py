"""Graphs of any size: slow and quick ones, regular ones and ones with hubs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

HUB = 100_000
"""Neighbours of the one hub, where the graph has twice as many nodes."""
CORA = 2_708
"""Nodes of Cora."""


def grid(nodes: int) -> Tensor:
    """A square grid of about so many nodes: edges [2, E]."""
    side = round(nodes**0.5)
    index = torch.arange(side * side).view(side, side)
    right = torch.stack([index[:, :-1].reshape(-1), index[:, 1:].reshape(-1)])
    down = torch.stack([index[:-1].reshape(-1), index[1:].reshape(-1)])
    return both_ways(torch.cat([right, down], dim=1), side * side)


def neighbours(nodes: int, each: int = 7) -> Tensor:
    """Points in the unit square, joined to their nearest neighbours: edges [2, E]."""
    points = np.random.default_rng(0).random((nodes, 2))
    _, nearest = cKDTree(points).query(points, each + 1)
    target = torch.from_numpy(nearest[:, 1:].astype(np.int64))
    source = torch.arange(nodes)[:, None].expand_as(target)
    return both_ways(torch.stack([source.reshape(-1), target.reshape(-1)]), nodes)


def random(nodes: int, rings: int = 5) -> Tensor:
    """Rings through all nodes in random orders, of degree 2 · rings: edges [2, E]."""
    generator = torch.Generator().manual_seed(0)
    orders = [torch.randperm(nodes, generator=generator) for _ in range(rings)]
    return both_ways(torch.cat([torch.stack([o, o.roll(1)]) for o in orders], dim=1), nodes)


def hub(nodes: int) -> Tensor:
    """As :func:`random`, with as many edges, but one node has 100,000 neighbours (or half)."""
    spokes = min(HUB, nodes // 2)
    rings = random(nodes)
    pairs = rings[:, rings[0] < rings[1]][:, spokes:]
    star = torch.stack([torch.zeros(spokes, dtype=torch.int64), torch.arange(1, spokes + 1)])
    return both_ways(torch.cat([pairs, star], dim=1), nodes)


def social(nodes: int, each: int = 5) -> Tensor:
    """Preferential attachment: a new node joins the ends of edges drawn at random: edges [2, E].

    The end of an edge is a node, or that of an earlier edge, whose end may be that of an earlier
    one again (Batagelj and Brandes): all are followed at once.
    """
    edges = np.arange(nodes * each)
    drawn = np.random.default_rng(0).integers(0, 2 * edges + 1)
    end = drawn.copy()
    while (later := np.flatnonzero(end % 2)).size:
        end[later] = drawn[end[later] // 2]
    return both_ways(torch.from_numpy(np.stack([edges, end // 2]) // each), nodes)


def cora(_: int) -> Tensor:
    """The citations of Cora, a real graph of one size: edges [2, E]."""
    from gad.data.known.nodes import load_known_nodes

    return load_known_nodes("cora").edge_index


def both_ways(pairs: Tensor, nodes: int) -> Tensor:
    """Every pair once in both directions; loops and copies are left out."""
    low, high = pairs.amin(0), pairs.amax(0)
    key = (low * nodes + high)[low < high].unique()
    once = torch.stack([key // nodes, key % nodes])
    return torch.cat([once, once.flip(0)], dim=1)


GRAPHS: dict[str, Callable[[int], Tensor]] = {
    "grid": grid, "neighbours": neighbours, "random": random, "hub": hub, "social": social,
    "cora": cora,
}  # fmt: skip
