"""Parts of a graph that does not fit: nodes, all within k steps of them, and the edges between.

Plain PyTorch: the neighbours of a node are a slice of one long list.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gad.operators.eigenbasis import ragged_arange
from gad.operators.laplacian import check_edges


class Neighbourhood(NamedTuple):
    """An induced subgraph.

    Attributes:
        nodes: int64 [n], their numbers in the whole graph; the seeds come first.
        edge_index: int64 [2, e], both directions, by places in ``nodes``.
        edges: int64 [e], where each edge stands in the edge list of the whole graph.
    """

    nodes: Tensor
    edge_index: Tensor
    edges: Tensor


class Neighbours:
    """The neighbours of all nodes of an undirected graph, ready to be asked for.

    Args:
        edge_index: undirected edges, both directions, [2, E].
        num_nodes: N.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> Neighbours(path, 4).around(torch.tensor([0]), hops=2).nodes
        tensor([0, 1, 2])
    """

    def __init__(self, edge_index: Tensor, num_nodes: int) -> None:
        edges = check_edges(edge_index, num_nodes)
        self.num_nodes = num_nodes
        self.source, self.position = edges.source, edges.position
        self.degree = torch.bincount(edges.target, minlength=num_nodes)
        self.start = self.degree.cumsum(0) - self.degree

    def around(
        self,
        seeds: Tensor,
        hops: int,
        most: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Neighbourhood:
        """All nodes within ``hops`` steps of the seeds, and *all* edges between them.

        Args:
            seeds: int64 [s], no node twice.
            hops: k.
            most: step on to at most so many neighbours of a node, drawn by chance; a hub would
                bring in the whole graph otherwise.
            generator: of the draw.
        """
        place = torch.full((self.num_nodes,), -1)
        place[seeds] = torch.arange(seeds.numel())
        if int((place >= 0).sum()) != seeds.numel():
            raise ValueError("a node is among the seeds twice")
        nodes = [seeds]
        count, front = seeds.numel(), seeds
        for _ in range(hops):
            found = self.source[self._edges_into(front, most, generator)].unique()
            front = found[place[found] < 0]
            place[front] = count + torch.arange(front.numel())
            count += front.numel()
            nodes.append(front)
        everyone = torch.cat(nodes)
        into = self._edges_into(everyone)
        target = torch.arange(count).repeat_interleave(self.degree[everyone])
        source = place[self.source[into]]
        inside = source >= 0
        edge_index = torch.stack([source[inside], target[inside]])
        return Neighbourhood(everyone, edge_index, self.position[into[inside]])

    def _edges_into(
        self, nodes: Tensor, most: int | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """The edges into some nodes, or a draw of them without repetition."""
        degree = self.degree[nodes]
        edges = self.start[nodes].repeat_interleave(degree) + ragged_arange(degree)
        if most is None or not bool((degree > most).any()):
            return edges
        owner = torch.arange(nodes.numel()).repeat_interleave(degree)
        shuffled = torch.rand(edges.numel(), generator=generator).argsort()
        order = shuffled[owner[shuffled].argsort(stable=True)]
        return edges[order][ragged_arange(degree) < most]
