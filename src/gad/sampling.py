"""Mini-batches of one large graph for PyTorch Geometric, without compiled packages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from gad.operators.sampling import Neighbours
from gad.operators.sparse import rows_of


class NodeSampler:
    """Go through the nodes of one graph in batches, each with all that is within k steps.

    A batch is a ``Data`` of the induced, undirected subgraph: ``x``, ``y`` and every other node and
    edge attribute of it, ``batch_size`` (its first so many nodes are those asked for; a loss counts
    them only) and ``n_id``, the numbers of its nodes in the whole graph.

    Args:
        data: one graph with undirected edges, both directions.
        hops: k; as many as the model has blocks, or as far as its diffusion reaches.
        batch_size: nodes asked for in a batch.
        nodes: those to go through, as numbers or as a mask [N]; all if left out.
        most: step on to at most so many neighbours of a node, drawn anew for every batch.
        shuffle: in a new order every time.
        transform: what is done to each batch, such as ``AddGraphOperators(basis=False)``.
        seed: of order and draw; each pass through the nodes goes on from the one before.

    Example:
        >>> ring = torch.arange(6)
        >>> ends = torch.stack([ring, (ring + 1) % 6])
        >>> graph = Data(x=torch.eye(6), edge_index=torch.cat([ends, ends.flip(0)], dim=1))
        >>> first, second = NodeSampler(graph, hops=1, batch_size=3)
        >>> first.n_id.tolist(), first.batch_size, first.edge_index.shape[1]
        ([0, 1, 2, 3, 5], 3, 8)
    """

    def __init__(
        self,
        data: Data,
        *,
        hops: int = 2,
        batch_size: int = 512,
        nodes: Tensor | Sequence[int] | None = None,
        most: int | None = None,
        shuffle: bool = False,
        transform: Callable[[Any], Any] | None = None,
        seed: int = 0,
    ) -> None:
        if data.edge_index is None:
            raise ValueError("NodeSampler needs data.edge_index")
        for name, value in (
            ("batch_size", batch_size),
            ("hops", hops + 1),
            ("most", 1 if most is None else most),
        ):
            if value < 1:
                raise ValueError(f"{name} is too small for a NodeSampler")
        self.data, self.hops, self.batch_size = data, hops, batch_size
        self.most, self.shuffle, self.transform = most, shuffle, transform
        count = int(data.num_nodes or 0)
        self.nodes = _numbers(nodes, count)
        self.neighbours = Neighbours(data.edge_index, count)
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        """Batches of a pass."""
        return math.ceil(self.nodes.numel() / self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        order = self.nodes
        if self.shuffle:
            order = order[torch.randperm(order.numel(), generator=self.generator)]
        for start in range(0, order.numel(), self.batch_size):
            yield self.around(order[start : start + self.batch_size])

    def around(self, seeds: Tensor) -> Any:
        """The batch of some nodes."""
        nodes, edge_index, edges = self.neighbours.around(
            seeds, self.hops, self.most, self.generator
        )
        part = Data(edge_index=edge_index, num_nodes=nodes.numel())
        for key, value in self.data:
            if key in {"edge_index", "num_nodes"}:
                continue
            if self.data.is_node_attr(key):
                part[key] = _rows(value, nodes)
            else:
                part[key] = _rows(value, edges) if self.data.is_edge_attr(key) else value
        part.n_id, part.batch_size = nodes, seeds.numel()
        return part if self.transform is None else self.transform(part)


def _numbers(nodes: Tensor | Sequence[int] | None, count: int) -> Tensor:
    """The numbers of nodes, of a mask or of numbers."""
    if nodes is None:
        return torch.arange(count)
    given = torch.as_tensor(nodes)
    if given.dtype == torch.bool:
        if given.shape != (count,):
            raise ValueError(f"a mask of nodes is [{count}], not {list(given.shape)}")
        return given.nonzero().flatten()
    if given.numel() and not 0 <= int(given.min()) <= int(given.max()) < count:
        raise ValueError(f"nodes are numbers from 0 to {count - 1}")
    return given.flatten().long()


def _rows(value: Any, numbers: Tensor) -> Any:
    """Some rows of a tensor, dense or sparse, or of a list."""
    if isinstance(value, (list, tuple)):
        return [value[number] for number in numbers.tolist()]
    if isinstance(value, Tensor) and value.layout == torch.sparse_coo:
        return value.index_select(0, numbers)
    if isinstance(value, Tensor) and value.layout == torch.sparse_csr:
        return rows_of(value, numbers)
    return value[numbers]
