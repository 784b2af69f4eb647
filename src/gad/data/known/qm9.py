"""QM9: 130,831 small molecules with computed properties, and the split that the paper uses."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from gad.data.atomic import AtomicFile
from gad.data.known.graphset import Bytes, Floats, GraphSet, Longs, sort_bonds
from gad.data.known.places import cache_folder, data_folder
from gad.data.known.qm9pack import qm9pack_folder, read_qm9pack
from gad.data.splits import Split

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from gad.data.known.qm9pack import Arrays

QM9_FINGERPRINT = "a3a3ee4669256fb15c87495e174d414969ec0f5a9190103a4f0b93644211208a"
FILM_SHA256 = "2f88fa570dbbf0d578c76c215e13402514d40c52754fc0e817c27161e8d2b496"
FILM_HOME = "https://raw.githubusercontent.com/microsoft/tf-gnn-samples/master/data/qm9"

HARTREE_IN_MEV = 27.211386246 * 1000
# Name and unit; energies are given in Hartree and converted.
TARGETS = {
    "mu": "D",
    "alpha": "a0^3",
    "homo": "meV",
    "lumo": "meV",
    "gap": "meV",
    "r2": "a0^2",
    "zpve": "meV",
    "u0": "meV",
    "u": "meV",
    "h": "meV",
    "g": "meV",
    "cv": "cal/(mol K)",
    "u0_atom": "meV",
    "u_atom": "meV",
    "h_atom": "meV",
    "g_atom": "meV",
    "a": "GHz",
    "b": "GHz",
    "c": "GHz",
    "omega1": "cm^-1",
}
ELEMENTS = (1, 6, 7, 8, 9)
ATOM_VALUES = (
    "H",
    "C",
    "N",
    "O",
    "F",
    "atomic_number",
    "aromatic",
    "sp",
    "sp2",
    "sp3",
    "hydrogens",
)


def load_qm9(split: Split | None = None) -> GraphSet:
    """All molecules with explicit hydrogens, all twenty properties, in the paper's units.

    Use ``load_qm9().select("homo")`` for one property. Energies are in meV (1 Hartree =
    27.211386246 eV), the others in their usual units; see ``units``.

    Atoms have one category (H, C, N, O, F → 0 … 4) and eleven values, those PyTorch Geometric
    describes: one-hot element, atomic number, aromatic, sp, sp2, sp3, hydrogens. (Its own file has
    zeros for aromatic and the hybridisation, since molecules are not sanitised there; here they are
    filled in, see :func:`hybridisation`.) Bonds have two categories: order (0 single, 1 double, 2
    triple, as one way of writing the aromatic rings has it) and aromatic (0, 1).

    The molecules come from ``$GAD_DATA/qm9`` or from the installed package ``qm9pack`` (converted
    once and kept in the cache folder); both give the same graphs and numbers.

    Args:
        split: rows to use instead of Brockschmidt's (10,000 validation and 10,000 test molecules,
            110,831 to train on), whose lists are in ``$GAD_DATA/qm9`` or else fetched.
    """
    arrays, source = _find()
    if split is None:
        split = film_split(np.asarray(arrays["gdb9_index"], np.int64))
    remedy = f"Replace or delete {source}."
    return qm9_from_arrays(arrays, split).require(QM9_FINGERPRINT, source, remedy)


def qm9_from_arrays(arrays: Arrays, split: Split) -> GraphSet:
    """Pack the arrays of ``qm9_graphs.npz`` and the ``y`` [G, 20] of ``qm9_targets.npz``."""
    node_ptr = np.asarray(arrays["node_ptr"], np.int64)
    edge_ptr = np.asarray(arrays["edge_ptr"], np.int64)
    bonds, (order, aromatic) = sort_bonds(
        edge_ptr,
        np.stack([arrays["edge_src"], arrays["edge_dst"]], axis=1).astype(np.int32),
        np.asarray(arrays["bond_order"], np.uint8),
        np.asarray(arrays["bond_aromatic"], np.uint8),
    )
    numbers = np.asarray(arrays["atomic_num"], np.int64)
    ends = bonds + np.repeat(node_ptr[:-1], np.diff(edge_ptr))[:, None]
    targets = np.array(arrays["y"], np.float64)
    energies = np.array([unit == "meV" for unit in TARGETS.values()])
    # Energies are published with six decimals; rounding removes what a subtraction left behind.
    targets[:, energies] = np.round(targets[:, energies], 6) * HARTREE_IN_MEV
    return GraphSet(
        name="qm9",
        node_ptr=node_ptr,
        atom_categories=np.searchsorted(ELEMENTS, numbers).astype(np.uint8)[:, None],
        edge_ptr=edge_ptr,
        bonds=bonds,
        bond_categories=np.stack([order - 1, aromatic], axis=1),
        targets=targets,
        target_names=tuple(TARGETS),
        units=tuple(TARGETS.values()),
        split=split,
        atom_cardinalities=(len(ELEMENTS),),
        bond_cardinalities=(3, 2),
        atom_values=_atom_values(numbers, ends, order, aromatic),
        atom_value_names=ATOM_VALUES,
    )


def hybridisation(numbers: Longs, ends: Longs, order: Bytes, aromatic: Bytes) -> Longs:
    """1, 2, 3 for sp, sp², sp³ and 0 for hydrogen, from the bonds alone.

    By the octet rule an atom of valence v has max(0, 4 − v) lone pairs, and so as many orbitals as
    neighbours and lone pairs: two are sp, three sp², four sp³. A lone pair beside a multiple bond
    joins it (the nitrogen of an amide, the oxygen of furan): sp² as well, except on a halogen. On
    every atom of QM9 this is what RDKit finds after sanitising the molecule.

    Args:
        numbers: [N] atomic numbers.
        ends: [Eb, 2] atoms of each bond.
        order: [Eb] bond orders.
        aromatic: [Eb] flags.

    Example:
        Formamide, O=C–N with three hydrogens:

        >>> ends = np.array([[0, 1], [1, 2], [1, 3], [2, 4], [2, 5]])
        >>> order = np.array([2, 1, 1, 1, 1], np.uint8)
        >>> hybridisation(np.array([8, 6, 7, 1, 1, 1]), ends, order, 0 * order).tolist()
        [2, 2, 2, 0, 0, 0]
    """
    atoms, neighbours = np.concatenate([ends, ends[:, ::-1]]).T
    twice = np.concatenate([order, order])
    multiple = twice > 1
    multiple |= np.concatenate([aromatic, aromatic]) > 0

    def count(where: npt.NDArray[np.generic]) -> Longs:
        return np.bincount(atoms, where, len(numbers)).astype(np.int64)

    degree = np.bincount(atoms, minlength=len(numbers))
    orbitals = degree + np.maximum(0, 4 - count(twice))
    unsaturated = count(multiple) > 0
    conjugated = (orbitals == 4) & (degree <= 3) & (count(unsaturated[neighbours]) > 0)
    found = np.where(conjugated & (numbers != 9), 2, np.clip(orbitals - 1, 1, 3))
    return np.where(numbers == 1, 0, found)


def _atom_values(numbers: Longs, ends: Longs, order: Bytes, aromatic: Bytes) -> Floats:
    """[N, 11], see ``ATOM_VALUES``."""
    values = np.zeros((len(numbers), len(ATOM_VALUES)), np.float32)
    values[:, :5] = numbers[:, None] == ELEMENTS
    values[:, 5] = numbers
    values[ends[aromatic > 0].ravel(), 6] = 1
    values[:, 7:10] = hybridisation(numbers, ends, order, aromatic)[:, None] == (1, 2, 3)
    for here, there in ((0, 1), (1, 0)):
        beside = ends[numbers[ends[:, there]] == 1, here]
        values[:, 10] += np.bincount(beside, minlength=len(numbers))
    return values


# ------------------------------------------------------------------ where it is


def _find() -> tuple[Arrays, str]:
    """The arrays, and where they come from."""
    folder = data_folder()
    if folder is not None and (folder / "qm9" / "qm9_graphs.npz").is_file():
        graphs = _load(folder / "qm9" / "qm9_graphs.npz")
        return {**graphs, **_load(folder / "qm9" / "qm9_targets.npz")}, str(folder / "qm9")
    kept = cache_folder() / "qm9" / "qm9pack.npz"
    if kept.is_file():
        return _load(kept), str(kept)
    package = qm9pack_folder()
    if package is None:
        raise FileNotFoundError(
            "QM9 is not on this computer. Install the package that carries it (100 MB): "
            "`pip install qm9pack`; or set GAD_DATA to a folder with qm9/qm9_graphs.npz and "
            "qm9/qm9_targets.npz."
        )
    arrays: dict[str, Any] = read_qm9pack(package)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with AtomicFile(kept) as out:
        np.savez_compressed(out.file, **arrays)
        out.commit()
    return arrays, str(kept)


def _load(path: Path) -> dict[str, npt.NDArray[Any]]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def film_split(index: Longs) -> Split:
    """Brockschmidt's split (GNN-FiLM): ids of validation and test molecules → rows."""
    folder = data_folder()
    file = folder / "qm9" / "qm9_film_split.npz" if folder else None
    if file is not None and file.is_file():
        lists, source = _load(file), str(file)
        ids = [lists["valid_gdb9_index"], lists["test_gdb9_index"]]
    else:
        cache = cache_folder() / "qm9"
        ids, source = [read_film_ids(_fetch(cache, part)) for part in ("valid", "test")], str(cache)
    val, test = (np.sort(np.asarray(i, np.int64)) for i in ids)
    found = hashlib.sha256(val.astype("<i8").tobytes() + test.astype("<i8").tobytes()).hexdigest()
    if found != FILM_SHA256:
        raise ValueError(f"the lists of molecules in {source} are not Brockschmidt's; replace them")
    chosen = [np.flatnonzero(np.isin(index, i)) for i in (val, test)]
    if [rows.size for rows in chosen] != [val.size, test.size]:
        raise ValueError(f"molecules named in {source} are missing from the data")
    rest = np.setdiff1d(np.arange(len(index)), np.concatenate(chosen))
    return Split(rest, *chosen)


def read_film_ids(path: Path) -> Longs:
    """Molecules named in one of the split's files: JSON lines with ``"id": "qm9:000001"``."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            names = [str(json.loads(line)["id"]) for line in file]
        return np.array([int(name.removeprefix("qm9:")) for name in names], np.int64)
    except (OSError, EOFError, KeyError, ValueError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read ({error!r}); delete it and try again") from error


def _fetch(cache: Path, part: str) -> Path:
    """The file of one part, downloaded unless it is there."""
    path = cache / f"{part}.jsonl.gz"
    if not path.is_file():
        from torch_geometric.data import download_url

        try:
            download_url(f"{FILM_HOME}/{path.name}", str(cache), log=False)
        except OSError as error:
            raise ConnectionError(
                f"the list of QM9's {part} molecules could not be fetched ({error}). Download "
                f"{FILM_HOME}/{path.name} to {path}, or give load_qm9 a split of your own."
            ) from error
    return path
