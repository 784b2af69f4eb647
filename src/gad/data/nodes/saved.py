"""A PyTorch Geometric ``Data`` saved by ``torch.save``: tensors are read, nothing is executed."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gad.data.nodes.graph import (
    BY_DEGREE,
    DEGREE_FEATURES,
    MASKS,
    NodeGraph,
    degree_features,
    thin,
    undirected,
)
from gad.data.splits import Split
from gad.operators.sparse import to_csr


def load_saved(path: str | Path) -> NodeGraph:
    """Read a ``Data`` (or a dictionary of its tensors) saved by ``torch.save``.

    The file is opened with ``weights_only=True``, so a file that wants to run something is refused.
    """
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    # What a Data is made of besides tensors: classes that hold names and nothing else.
    parts = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    try:
        with torch.serialization.safe_globals(parts):
            found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path} holds more than the tensors of one graph, and is not opened, since opening it "
            "would run code: save a torch_geometric Data with nothing but tensors"
        ) from error
    except (RuntimeError, EOFError, zipfile.BadZipFile, OSError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is not a file of torch.save, or is damaged") from error
    if isinstance(found, Mapping):
        found = Data(**{str(key): value for key, value in found.items()})
    if not isinstance(found, Data):
        raise ValueError(
            f"{path} holds a {type(found).__name__}: wanted is a torch_geometric Data with x, "
            "edge_index and y"
        )
    return from_pyg(found, path.name)


def from_pyg(data: Any, name: str = "graph", metric: str = "accuracy") -> NodeGraph:
    """A graph from PyTorch Geometric's ``Data``: edge_index, and x, y and masks if there are any.

    Masks are ``train_mask``, ``val_mask`` and ``test_mask``, [N], or [N, S] for S splits; one [N]
    beside them belongs to every split. Edges may be given one way; ``edge_weight`` [E] is used
    where there is one; y below 0 or NaN is unknown. Without x nodes are told apart by their degree.
    """
    edge_index = _tensor(data, "edge_index", name)
    x, y = data.x, data.y
    given = [values for values in (x, y) if isinstance(values, Tensor)]
    n = given[0].shape[0] if given else int(data.num_nodes or 0)
    if isinstance(x, Tensor) and (x.dim() != 2 or not x.shape[1]):
        raise ValueError(f"{name}: x must be features [N, D], not {list(x.shape)}")
    y = torch.full((n,), -1) if not isinstance(y, Tensor) else torch.where(y.isnan(), -1, y)
    if y.numel() != n or (y.is_floating_point() and not torch.equal(y, y.round())):
        raise ValueError(
            f"{name}: y must be one class for each of the {n} nodes, whole numbers from 0, not "
            f"{list(y.shape)} of {y.dtype}"
        )
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.is_floating_point():
        raise ValueError(f"{name}: edge_index must be integers [2, E]")
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < n:
        bad = (edge_index < 0) | (edge_index >= n)
        raise ValueError(
            f"{name}: edge_index names node {int(edge_index[bad][0])}, "
            f"but the graph has nodes 0 to {n - 1}"
        )
    weight = getattr(data, "edge_weight", None)
    if isinstance(weight, Tensor):
        if weight.numel() != edge_index.shape[1] or not bool((weight > 0).all()):
            raise ValueError(
                f"{name}: edge_weight must be a positive number for each of the "
                f"{edge_index.shape[1]} edges"
            )
        weight = weight.reshape(-1)
    source, target = edge_index.long()
    edges, weight, said = undirected(source, target, n, weight)
    if isinstance(x, Tensor):
        x = x.float() if x.layout == torch.strided else to_csr(x.float())
        known = torch.isfinite(x if x.layout == torch.strided else x.values())
        if not bool(known.all()):
            row = f" of node {int((~known).any(1).nonzero()[0])}" if known.dim() == 2 else ""
            raise ValueError(f"{name}: the features{row} are not all finite numbers")
    else:
        x = degree_features(edges, n)
        said.append(f"{name} has no x: {BY_DEGREE}")
    y = y.reshape(-1).long().clamp_min(-1)
    return NodeGraph(
        name=name,
        edge_index=edges,
        x=thin(x),
        y=y,
        classes=tuple(str(number) for number in range(int(y.max()) + 1 if n else 0)),
        features=() if isinstance(data.x, Tensor) else DEGREE_FEATURES,
        edge_weight=weight,
        splits=_splits(data, n, name),
        metric=metric,
        messages=tuple(said),
    )


def _tensor(data: Any, key: str, name: str) -> Tensor:
    value = getattr(data, key, None)
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} has no tensor {key!r}: wanted are edge_index, x and y")
    return value


def _splits(data: Any, n: int, name: str) -> tuple[Split, ...]:
    found = [getattr(data, key, None) for key in MASKS]
    given = [mask for mask in found if isinstance(mask, Tensor)]
    if not given:
        return ()
    # A part without a mask is empty, and said to be so when a training asks for it.
    masks = [mask if isinstance(mask, Tensor) else torch.zeros(n) for mask in found]
    columns = [mask.reshape(mask.shape[0], -1).bool() for mask in masks]
    count = max(mask.shape[1] for mask in columns)
    if any(mask.shape[0] != n or mask.shape[1] not in {1, count} for mask in columns):
        raise ValueError(
            f"{name}: the masks must be [N] or [N, splits], true where a node belongs to the part"
        )
    return tuple(
        Split(*(mask.expand(n, count)[:, number].nonzero().flatten().numpy() for mask in columns))
        for number in range(count)
    )
