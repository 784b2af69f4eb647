"""PyTorch Geometric: a transform that adds the operators to a ``Data``.

The operators travel as flat tensors, since PyG's collate refuses ragged matrices;
``data.operators`` and, in a batch made by PyG's own loaders, ``batch.operators`` put them together
again.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from gad.operators import GraphOperators, build_operators

_PREFIX = "gad_"
_PLAIN = ("num_graphs", "num_given_edges")


class OperatorData(Data):  # type: ignore[misc]
    """A ``Data`` that carries graph operators and batches them."""

    @property
    def operators(self) -> GraphOperators:
        """The operators of this graph, or of all graphs of a batch."""
        stored: dict[str, Any] = {
            f.name: self[_PREFIX + f.name]
            for f in fields(GraphOperators)
            if _PREFIX + f.name in self
        }
        # In a batch PyG has made tensors [B] of the numbers of each graph.
        graphs, edges = (torch.as_tensor(self[_PREFIX + name]) for name in _PLAIN)
        stored["num_graphs"] = int(graphs.sum())
        stored["num_given_edges"] = int(edges.sum())
        return GraphOperators(**stored)

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        if not key.startswith(_PREFIX):
            return super().__inc__(key, value, *args, **kwargs)
        how = GraphOperators.arrays().get(key.removeprefix(_PREFIX))
        if how is None or how.shift is None:
            return 0
        if how.shift == "node":
            return self.num_nodes
        return (
            self[_PREFIX + "source"].numel()
            if how.shift == "edge"
            else self[f"gad_num_{how.shift}s"]
        )

    def __cat_dim__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        if key.startswith(_PREFIX):
            return 0
        return super().__cat_dim__(key, value, *args, **kwargs)


# PyG's data sets are loaded by torch.load, which wants to know whom to trust.
torch.serialization.add_safe_globals([OperatorData])


class AddGraphOperators(BaseTransform):  # type: ignore[misc]
    """Add the operators of a graph to its ``Data``; read them as ``data.operators``.

    Args:
        k, basis, directions: see :func:`gad.build_operators`.
        weight: the name of an edge attribute to use as weights, if any.
        potential: the name of a node attribute to use as potential, if any.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from torch_geometric.loader import DataLoader
        >>> graph = Data(x=torch.eye(2), edge_index=torch.tensor([[0, 1], [1, 0]]))
        >>> graphs = [AddGraphOperators()(graph) for _ in range(3)]
        >>> next(iter(DataLoader(graphs, batch_size=3))).operators
        GraphOperators(3 graphs, 6 nodes, 6 edges, 3 components, full basis, directions)
    """

    def __init__(
        self,
        k: int | None = None,
        *,
        basis: bool = True,
        directions: bool = True,
        weight: str | None = None,
        potential: str | None = None,
    ) -> None:
        self.k, self.basis, self.directions = k, basis, directions
        self.weight, self.potential = weight, potential

    def forward(self, data: Data) -> OperatorData:
        """The same data with operators."""
        if data.edge_index is None:
            raise ValueError("AddGraphOperators needs data.edge_index")
        operators = build_operators(
            data.edge_index,
            data.num_nodes,
            k=self.k,
            basis=self.basis,
            directions=self.directions,
            edge_weight=self._attribute(data, self.weight),
            potential=self._attribute(data, self.potential),
        )
        # Operators that are there already, of this graph or of one it was cut from, are replaced.
        result: OperatorData = OperatorData.from_dict(
            {k: v for k, v in data.to_dict().items() if not k.startswith(_PREFIX)}
        )
        for f in fields(operators):
            value = getattr(operators, f.name)
            if value is not None and not f.name.startswith("_"):
                result[_PREFIX + f.name] = value
        return result

    @staticmethod
    def _attribute(data: Data, name: str | None) -> Tensor | None:
        if name is None:
            return None
        if name not in data:
            raise ValueError(f"AddGraphOperators was told to use data.{name}, which is not there")
        value: Tensor = data[name]
        return value

    def __repr__(self) -> str:
        return f"AddGraphOperators(k={self.k}, basis={self.basis}, directions={self.directions})"
