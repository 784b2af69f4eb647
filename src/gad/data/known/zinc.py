"""ZINC-12k, the benchmark's own graphs (Dwivedi et al., "Benchmarking Graph Neural Networks")."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from gad.data.known.graphset import GraphSet, Longs, pointers, sort_bonds
from gad.data.known.places import cache_folder, data_folder
from gad.data.splits import Split

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ZINC_FINGERPRINT = "b09c42be638ff19f9d219e0d3da1b8b9a67044f00066100863ea5457540f950c"
PARTS = ("train", "val", "test")


def load_zinc() -> GraphSet:
    """12,000 molecules without hydrogens: 10,000 to train on, 1,000 to validate, 1,000 to test.

    One category per atom (28 kinds of atom with their charge and hydrogens), one per bond (0
    single, 1 double, 2 triple; aromatic rings are written with alternating bonds). The target is
    logP − SA − cycles, each normalised: penalised logP, a number without unit.

    The graphs come from ``$GAD_DATA/zinc12k/zinc12k.npz`` if that file exists, else from PyTorch
    Geometric's download, kept in the cache folder. Both give the same graphs in the same order; the
    checksum sees to that.
    """
    folder = data_folder()
    file = folder / "zinc12k" / "zinc12k.npz" if folder else None
    if file is not None and file.is_file():
        graphs, source, remedy = _from_npz(file), str(file), "Replace the file."
    else:
        root = cache_folder() / "zinc"
        graphs, source = _download(root), str(root)
        remedy = "Delete that folder and load the data set again."
    return graphs.require(ZINC_FINGERPRINT, source, remedy)


def zinc_from_pyg(train: Iterable[Any], val: Iterable[Any], test: Iterable[Any]) -> GraphSet:
    """Pack PyTorch Geometric's ``Data`` objects of ZINC.

    Args:
        train: ``Data`` with ``x`` [n, 1] (kind of atom), ``edge_index`` [2, 2·bonds], ``edge_attr``
            (1 single, 2 double, 3 triple) and ``y``.
        val: likewise.
        test: likewise.
    """
    atoms, bonds, kinds = [], [], []
    targets: list[float] = []
    starts = [0]
    for part in (train, val, test):
        for data in part:
            edge_index = data.edge_index.numpy()
            once = edge_index[0] < edge_index[1]
            if 2 * once.sum() != edge_index.shape[1]:
                raise ValueError(f"zinc, graph {len(targets)}: a bond lacks its other direction")
            atoms.append(data.x.reshape(-1).numpy())
            bonds.append(edge_index[:, once].T)
            kinds.append(data.edge_attr.reshape(-1).numpy()[once])
            targets.append(float(data.y))
        starts.append(len(targets))
    return _pack(
        pointers([len(a) for a in atoms]),
        np.concatenate(atoms),
        pointers([len(k) for k in kinds]),
        np.concatenate(bonds),
        np.concatenate(kinds),
        np.array(targets),
        starts,
    )


def _from_npz(path: Path) -> GraphSet:
    """Pack the arrays ``train_node_ptr``, ``train_atom_type``, … of the npz file."""
    with np.load(path, allow_pickle=False) as file:
        missing = {f"{part}_node_ptr" for part in PARTS} - set(file.files)
        if missing:
            raise ValueError(f"{path} has no array {min(missing)}: it is not ZINC-12k. Replace it.")
        part = [{name: file[f"{p}_{name}"] for name in _ARRAYS} for p in PARTS]
    together = {name: np.concatenate([p[name] for p in part]) for name in _ARRAYS[2:]}
    return _pack(
        pointers(np.concatenate([np.diff(p["node_ptr"]) for p in part])),
        together["atom_type"],
        pointers(np.concatenate([np.diff(p["edge_ptr"]) for p in part])),
        np.stack([together["edge_src"], together["edge_dst"]], axis=1),
        together["bond_type"],
        together["y"],
        np.cumsum([0, *(len(p["y"]) for p in part)]).tolist(),
    )


_ARRAYS = ("node_ptr", "edge_ptr", "atom_type", "edge_src", "edge_dst", "bond_type", "y")


def _pack(
    node_ptr: Longs,
    atoms: Any,
    edge_ptr: Longs,
    bonds: Any,
    kinds: Any,
    targets: Any,
    starts: list[int],
) -> GraphSet:
    """The common end of both ways."""
    pairs, (kind,) = sort_bonds(edge_ptr, np.asarray(bonds, np.int32), np.asarray(kinds, np.int64))
    return GraphSet(
        name="zinc",
        node_ptr=node_ptr,
        atom_categories=np.asarray(atoms, np.uint8)[:, None],
        edge_ptr=edge_ptr,
        bonds=pairs,
        bond_categories=(kind - 1).astype(np.uint8)[:, None],  # no bond would be −1: 255, refused
        targets=np.asarray(targets, np.float64)[:, None],
        target_names=("logP_SA_cycle_normalized",),
        units=("",),
        split=Split(*(np.arange(a, b) for a, b in itertools.pairwise(starts))),
        atom_cardinalities=(28,),
        bond_cardinalities=(3,),
    )


def _download(root: Path) -> GraphSet:
    from torch_geometric.datasets import ZINC

    try:
        return zinc_from_pyg(*(ZINC(str(root), subset=True, split=part) for part in PARTS))
    except (OSError, BadZipFile) as error:
        raise ConnectionError(
            f"ZINC-12k could not be downloaded by PyTorch Geometric ({error}). Check the "
            "connection, or set GAD_DATA to a folder with zinc12k/zinc12k.npz."
        ) from error
