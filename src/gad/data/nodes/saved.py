"""A PyTorch Geometric ``Data`` saved by ``torch.save``: tensors are read, nothing is executed."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gad.data.nodes.graph import NodeGraph, thin, undirected
from gad.data.splits import Split

_MASKS = ("train_mask", "val_mask", "test_mask")


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
    """A graph from PyTorch Geometric's ``Data``: x, edge_index, y, and masks if there are any.

    Masks are ``train_mask``, ``val_mask`` and ``test_mask``, [N], or [N, S] for S splits. Edges
    may be given one way; ``edge_weight`` [E] is used where there is one; y below 0 is unknown.
    """
    x, y = _tensor(data, "x", name), _tensor(data, "y", name)
    edge_index = _tensor(data, "edge_index", name)
    n = x.shape[0]
    if x.dim() != 2 or not x.shape[1]:
        raise ValueError(f"{name}: x must be features [N, D], not {list(x.shape)}")
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
    if x.layout == torch.strided and not bool(torch.isfinite(x).all()):
        row = int((~torch.isfinite(x)).any(1).nonzero()[0])
        raise ValueError(f"{name}: the features of node {row} are not all finite numbers")
    weight = getattr(data, "edge_weight", None)
    source, target = edge_index.long()
    edges, weight, said = undirected(source, target, n, weight)
    y = y.reshape(-1).long().clamp_min(-1)
    return NodeGraph(
        name=name,
        edge_index=edges,
        x=thin(x.float()),
        y=y,
        classes=tuple(str(number) for number in range(int(y.max()) + 1)),
        edge_weight=weight,
        splits=_splits(data, n, name),
        metric=metric,
        messages=tuple(said),
    )


def _tensor(data: Any, key: str, name: str) -> Tensor:
    value = getattr(data, key, None)
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} has no tensor {key!r}: wanted are x, edge_index and y")
    return value


def _splits(data: Any, n: int, name: str) -> tuple[Split, ...]:
    found = (getattr(data, key, None) for key in _MASKS)
    masks = [mask for mask in found if isinstance(mask, Tensor)]
    if len(masks) < len(_MASKS):
        return ()
    columns = [mask.reshape(mask.shape[0], -1).bool() for mask in masks]
    if any(mask.shape != columns[0].shape or mask.shape[0] != n for mask in columns):
        raise ValueError(f"{name}: the masks must be [N] or [N, splits], all of one shape")
    return tuple(
        Split(*(mask[:, number].nonzero().flatten().numpy() for mask in columns))
        for number in range(columns[0].shape[1])
    )
