"""QM9 from the Python package ``qm9pack``, whose tables hold SMILES and properties.

The package is found, not imported (importing it would need pandas); its three CSV files are read as
they are. Every SMILES in them belongs to a small part of the language: C, N, O, F, brackets with
hydrogens and a charge, double and triple bonds, rings, branches; no aromatic letters. The graph is
the one *written*: bond orders as in the text, then hydrogens in the order of their heavy atoms.
"""

from __future__ import annotations

import csv
import importlib.util
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gad.data.known.graphset import pointers

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

# Energies of single atoms in Hartree (U0, U, H, G), from the data set's own reference file.
ATOM_ENERGIES = {
    "H": (-0.500273, -0.498857, -0.497912, -0.510927),
    "C": (-37.846772, -37.845355, -37.844411, -37.861317),
    "N": (-54.583861, -54.582445, -54.581501, -54.598897),
    "O": (-75.064579, -75.063163, -75.062219, -75.079532),
    "F": (-99.718730, -99.717314, -99.716370, -99.733544),
}
ATOMIC_NUMBERS = {"H": 1, "C": 6, "N": 7, "O": 8, "F": 9}
VALENCES = {"C": (4,), "N": (3, 5), "O": (2,), "F": (1,)}
PROPERTIES = (
    "Dipole_debye",
    "Polarizability_bohr3",
    "HOMO_au",
    "LUMO_au",
    "HOMO_LUMO_gap_au",
    "R2_bohr2",
    "ZPVE_au",
    "InternalEnergy_0K_au",
    "InternalEnergy_298K_au",
    "Enthalphy_298K_au",
    "GibbsFreeEnergy_298K_au",
    "Heatcapacity_Cv_cal_mol_K",
)
ROTATIONS = ("RotA_GHz", "RotB_GHz", "RotC_GHz")
ORDERS = {"=": 2, "#": 3}
TOKEN = re.compile(r"\[(?P<element>[CNOF])H?(?P<count>\d?)[+-]\]|(?P<atom>[CNOF])|(?P<mark>.)")


def qm9pack_folder() -> Path | None:
    """Where the package keeps its tables, or None if it is not installed."""
    found = importlib.util.find_spec("qm9pack")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(next(iter(found.submodule_search_locations))) / "data"


def read_qm9pack(folder: Path) -> Arrays:
    """Read the tables and build the graphs: the same arrays as ``qm9_graphs.npz`` and the targets.

    Takes about a minute; the caller keeps the result.
    """
    index: list[int] = []
    numbers: list[int] = []
    bonds: list[tuple[int, int, int, bool]] = []
    node_counts: list[int] = []
    edge_counts: list[int] = []
    targets: list[list[float]] = []
    for part in sorted(folder.glob("qm9_part*.csv")):
        with part.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                elements, written = read_smiles(row["SMILES"])
                aromatic = _aromatic_bonds(row["SMILES"])
                index.append(int(row["Index"]))
                numbers += (ATOMIC_NUMBERS[element] for element in elements)
                bonds += ((i, j, order, (i, j) in aromatic) for i, j, order in written)
                node_counts.append(len(elements))
                edge_counts.append(len(written))
                targets.append(_targets(row, elements))
    src, dst, order, flag = np.array(bonds, np.uint8).reshape(-1, 4).T
    return {
        "gdb9_index": np.array(index, np.int32),
        "node_ptr": pointers(node_counts),
        "atomic_num": np.array(numbers, np.uint8),
        "edge_ptr": pointers(edge_counts),
        "edge_src": src,
        "edge_dst": dst,
        "bond_order": order,
        "bond_aromatic": flag,
        "y": np.array(targets),
    }


def read_smiles(smiles: str) -> tuple[list[str], list[tuple[int, int, int]]]:
    """Elements and bonds (i, j, order) with i < j, as written, hydrogens last.

    Example:
        >>> read_smiles("C=O")
        (['C', 'O', 'H', 'H'], [(0, 1, 2), (0, 2, 1), (0, 3, 1)])
    """
    elements: list[str] = []
    hydrogens: dict[int, int] = {}  # of atoms in brackets
    bonds: list[tuple[int, int, int]] = []
    branches: list[int] = []
    rings: dict[str, tuple[int, int]] = {}
    last, order = -1, 1
    for token in TOKEN.finditer(smiles):
        mark = token["mark"]
        if mark is None:
            atom = len(elements)
            elements.append(token["element"] or token["atom"])
            if token["element"]:
                hydrogens[atom] = int(token["count"] or ("H" in token[0]))
            if last >= 0:
                bonds.append((last, atom, order))
            last, order = atom, 1
        elif mark in ORDERS:
            order = ORDERS[mark]
        elif mark == "(":
            branches.append(last)
        elif mark == ")":
            last = branches.pop()
        elif mark in rings:
            start, opened = rings.pop(mark)
            bonds.append((start, last, max(order, opened)))
            order = 1
        elif mark.isdigit():
            rings[mark] = (last, order)
            order = 1
        else:
            raise ValueError(f"{smiles!r}: {mark!r} does not occur in QM9")
    return _with_hydrogens(elements, bonds, hydrogens)


def _with_hydrogens(
    elements: list[str], bonds: list[tuple[int, int, int]], hydrogens: Mapping[int, int]
) -> tuple[list[str], list[tuple[int, int, int]]]:
    """Fill every valence, unless brackets said how many hydrogens there are."""
    elements, bonds = elements[:], bonds[:]
    used = Counter[int]()
    for i, j, order in bonds:
        used.update({i: order, j: order})
    for atom, element in enumerate(elements[:]):
        free = next((v - used[atom] for v in VALENCES[element] if v >= used[atom]), 0)
        for _ in range(hydrogens.get(atom, free)):
            bonds.append((atom, len(elements), 1))
            elements.append("H")
    return elements, bonds


def _aromatic_bonds(smiles: str) -> set[tuple[int, int]]:
    """The bonds that RDKit calls aromatic; only a ring with double bonds can have any."""
    if "1" not in smiles or "=" not in smiles:
        return set()
    from gad.chem.featurize import parse

    return {
        (min(ends), max(ends))
        for bond in parse(smiles).GetBonds()
        if bond.GetIsAromatic()
        for ends in [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())]
    }


def _targets(row: Mapping[str, str], elements: list[str]) -> list[float]:
    """Twenty properties in the order of ``qm9.NAMES``, in the source's units."""
    properties = [float(row[name]) for name in PROPERTIES]
    energies = properties[7:11]
    free = [sum(ATOM_ENERGIES[element][k] for element in elements) for k in range(4)]
    atomization = [molecule - atoms for molecule, atoms in zip(energies, free, strict=True)]
    highest = max(float(value) for value in row["Harmonic_Freq_cmi"].strip("[]").split(","))
    return [*properties, *atomization, *(float(row[name]) for name in ROTATIONS), highest]
