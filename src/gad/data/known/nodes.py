"""Five graphs on which node classifiers are compared.

===============  ========================================================  =======================
name             what                                                      splits
===============  ========================================================  =======================
``cora``         2,708 papers and their citations, 7 subjects              public (140 to train on)
``citeseer``     3,327 papers and their citations, 6 subjects              public (120 to train on)
``photo``        7,650 goods bought together, 8 kinds                      60/20/20, see below
``cs``           18,333 authors of common papers, 15 fields                60/20/20, see below
``minesweeper``  10,000 fields of a board, mine or not; by ROC-AUC         ten official ones
===============  ========================================================  =======================

They are read from ``$GAD_DATA/node_graphs`` if the files are there, else come from PyTorch
Geometric's downloads, kept in the cache folder; both give the same graphs, and the checksum sees to
that. The splits of Photo and CS (of "Classic GNNs are strong baselines", Luo et al. 2024) are in
``GAD_DATA`` only: elsewhere one is drawn, and that is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
import torch

from gad.data.known.places import cache_folder, data_folder
from gad.data.nodes.graph import NodeGraph, thin, undirected
from gad.data.nodes.saved import from_pyg
from gad.data.splits import Split
from gad.operators.sparse import compressed, to_csr

if TYPE_CHECKING:
    from pathlib import Path


class _Known(NamedTuple):
    """Where a set is kept, who downloads it, and how it is known again."""

    file: str
    home: tuple[str, str]
    fingerprint: str
    metric: str = "accuracy"


KNOWN_NODES = {
    "cora": _Known(
        "planetoid_cora",
        ("Planetoid", "Cora"),
        "17ffd798a263a76f0a56f23b6f3053ceebc442471875a083bf0d19620bb5909b",
    ),
    "citeseer": _Known(
        "planetoid_citeseer",
        ("Planetoid", "CiteSeer"),
        "6386e3ad2c2a2ac63a2f97d29fe1f3aab20d009f62e4899f0983f10f33572940",
    ),
    "photo": _Known(
        "amazon_photo",
        ("Amazon", "Photo"),
        "c6dd9fe102e721338e28400ab2f57db27d8de9056015b7bbcd2e1f068be0c76c",
    ),
    "cs": _Known(
        "coauthor_cs",
        ("Coauthor", "CS"),
        "96402b2551751515c279c7095faa8375bd1a46a31dab842f2a686eb079204941",
    ),
    "minesweeper": _Known(
        "minesweeper",
        ("HeterophilousGraphDataset", "Minesweeper"),
        "8b73ab6cd0ba73610df97e77806783cd88f5f11c6234246e804cd8260603e133",
        "roc_auc",
    ),
}


def load_known_nodes(name: str) -> NodeGraph:
    """One of the five by its name, in any case."""
    known = KNOWN_NODES.get(name.lower())
    if known is None:
        raise ValueError(f"no known graph is called {name!r}; there are {', '.join(KNOWN_NODES)}")
    folder = data_folder()
    file = folder / "node_graphs" / f"{known.file}.npz" if folder else None
    if file is not None and file.is_file():
        graph, source = _from_npz(file, name.lower(), known.metric), str(file)
    else:
        root = cache_folder() / "node_graphs"
        graph, source = _download(root, name.lower(), known), str(root)
    if graph.fingerprint() != known.fingerprint:
        raise ValueError(
            f"{source}: this is not {name} as it was published (its checksum differs). Replace it."
        )
    return graph


def known_from_pyg(data: Any, name: str) -> NodeGraph:
    """The graph from PyTorch Geometric's ``Data`` of that set."""
    graph = from_pyg(data, name, KNOWN_NODES[name].metric)
    if name != "citeseer":
        return graph
    # Fifteen papers of Citeseer are known by their number only; PyG calls them class 0.
    bare = to_csr(graph.x).crow_indices().diff() == 0
    return replace(graph, y=torch.where(bare, torch.full_like(graph.y, -1), graph.y))


def _from_npz(path: Path, name: str, metric: str) -> NodeGraph:
    with np.load(path, allow_pickle=False) as file:
        found = {key: file[key] for key in file.files}
    missing = {"edges", "y", "x_indptr", "x_indices", "x_shape"} - set(found)
    if missing:
        raise ValueError(f"{path} has no array {min(missing)}: it is not {name}. Replace it.")
    pairs = torch.from_numpy(found["edges"].astype(np.int64))
    y = torch.from_numpy(found["y"].astype(np.int64))
    column = torch.from_numpy(found["x_indices"].astype(np.int64))
    each = torch.from_numpy(np.diff(found["x_indptr"]).astype(np.int64))
    row = torch.arange(len(y)).repeat_interleave(each)
    # Words are there or not, as in PyTorch Geometric, which forgets how often.
    x = compressed(row, column, torch.ones(len(column)), tuple(found["x_shape"].tolist()))
    edge_index, _, _ = undirected(pairs[:, 0], pairs[:, 1], len(y))
    return NodeGraph(
        name=name,
        edge_index=edge_index,
        x=thin(x),
        y=y,
        classes=tuple(str(number) for number in range(int(y.max()) + 1)),
        splits=_splits(found),
        metric=metric,
    )


def _splits(found: Mapping[str, Any]) -> tuple[Split, ...]:
    if "train_masks" in found:
        masks = [found[f"{part}_masks"] for part in ("train", "val", "test")]
        return tuple(
            Split(*(np.flatnonzero(mask[number]) for mask in masks))
            for number in range(len(masks[0]))
        )
    parts = [np.sort(found[f"{part}_idx"].astype(np.int64)) for part in ("train", "val", "test")]
    return (Split(*parts),)


def _download(root: Path, name: str, known: _Known) -> NodeGraph:
    import torch_geometric.datasets as homes

    kind, title = known.home
    try:
        return known_from_pyg(getattr(homes, kind)(str(root / name), title)[0], name)
    except (OSError, BadZipFile) as error:
        raise ConnectionError(
            f"{title} could not be downloaded by PyTorch Geometric ({error}). Check the "
            f"connection, or set GAD_DATA to a folder with node_graphs/{known.file}.npz."
        ) from error
