"""Molecule to graph: categories and values of atoms and bonds, the same however it is written.

Every feature is a property of the molecule and not of its numbering: CIP labels rather than chiral
tags, aromatic bonds as aromatic, the size of the smallest ring rather than a choice among rings.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import asdict, dataclass, fields
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import Atom, Bond, rdCIPLabeler

from gad.chem.contributions import CONTRIBUTION_NAMES, contributions
from gad.chem.elements import CATEGORY, OTHER, VALUE_NAMES, VALUES, VOCABULARY
from gad.chem.molecule import MoleculeError, parse, parse_block, usable, without_hydrogens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

__all__ = ["Featurizer", "MoleculeError", "MoleculeGraph", "parse", "parse_block"]

VERSION = 1
"""Of the scheme: it grows whenever the numbers of one molecule change."""

ATOM_FEATURES = {
    "element": len(VOCABULARY),
    "neighbours": 7,  # 0 … 5, 6 or more
    "charge": 7,  # −3 or less … 3 or more
    "hydrogens": 5,  # 0 … 3, 4 or more, drawn or not
    "valence": 8,  # 0 … 6, 7 or more, all bonds counted by their order
    "aromatic": 2,
    "ring": 7,  # none; smallest ring of 3 … 7, 8 or more
    "cip": 3,  # none, R, S
}
"""Categorical features of an atom, and how many values each can take.

Hybridisation and unpaired electrons follow from these and the bonds' conjugation; isotopes hardly
change a property: none is worth its time.
"""

BOND_FEATURES = {
    "type": 6,  # single, double, triple, aromatic, dative, other
    "conjugated": 2,
    "ring": 7,  # as for atoms
    "cip": 3,  # none, E, Z
}
"""Categorical features of a bond, and how many values each can take."""


class _Clipped(dict[int, int]):
    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def __missing__(self, value: int) -> int:
        self[value] = category = max(self.low, min(value, self.high)) - self.low
        return category


def _clipped(low: int, high: int) -> Callable[[int], int]:
    """Number → category: ``low`` or less, …, ``high`` or more; a table, for it is asked often."""
    return _Clipped(low, high).__getitem__


_NEIGHBOURS, _CHARGE, _HYDROGENS = _clipped(0, 6), _clipped(-3, 3), _clipped(0, 4)
_VALENCE, _RING = _clipped(0, 7), _clipped(2, 8)
# Marks not listed are of the last type; labels not listed (of axes, of metals) are none.
_TYPE = defaultdict(
    lambda: 5, {"-": 0, "/": 0, "\\": 0, "=": 1, "#": 2, ":": 3, "->": 4, "<-": 4}
).__getitem__
_DOUBLE = _TYPE("=")
_CIP = defaultdict(int, {"R": 1, "S": 2, "r": 1, "s": 2, "E": 1, "Z": 2}).__getitem__
_STEREO = defaultdict(int, {Chem.BondStereo.STEREOE: 1, Chem.BondStereo.STEREOZ: 2}).__getitem__
_CODE = "_CIPCode"


@dataclass
class MoleculeGraph:
    """A molecule as arrays: n atoms, b bonds.

    Attributes:
        atom_categories: uint8 ``[n, len(ATOM_FEATURES)]``.
        atom_values: float32 ``[n, Featurizer.atom_values]``, of order 1.
        bonds: int32 ``[b, 2]``, each bond once, smaller index first.
        bond_categories: uint8 ``[b, len(BOND_FEATURES)]``.
        unseen: symbols of the elements that had to be called "other".
    """

    atom_categories: NDArray[np.uint8]
    atom_values: NDArray[np.float32]
    bonds: NDArray[np.int32]
    bond_categories: NDArray[np.uint8]
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True)
class Featurizer:
    """Turns molecules into graphs; equal settings give equal graphs.

    Args:
        explicit_hydrogens: make every hydrogen an atom of its own.
        contributions: give every atom its :func:`~gad.chem.contributions.contributions` to the
            molecule's logP, surface and charge as well: half as quick, and a little more accurate
            where there are only hundreds of molecules to learn from.
        version: of the scheme.

    >>> graph = Featurizer()("c1ccccc1O")
    >>> graph.atom_categories.shape, graph.bonds.shape
    ((7, 8), (7, 2))
    >>> len(Featurizer(explicit_hydrogens=True)("c1ccccc1O").atom_values)
    13
    """

    explicit_hydrogens: bool = False
    contributions: bool = False
    version: int = VERSION

    @property
    def atom_cardinalities(self) -> tuple[int, ...]:
        """How many values each column of ``atom_categories`` can take."""
        return tuple(ATOM_FEATURES.values())

    @property
    def bond_cardinalities(self) -> tuple[int, ...]:
        """How many values each column of ``bond_categories`` can take."""
        return tuple(BOND_FEATURES.values())

    @property
    def atom_values(self) -> int:
        """Number of columns of ``atom_values``."""
        return len(VALUE_NAMES) + self.contributions * len(CONTRIBUTION_NAMES)

    def to_dict(self) -> dict[str, Any]:
        """The settings, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Featurizer:
        """The featuriser with these settings; refuses what it would not reproduce exactly."""
        unknown = sorted(set(settings) - {field.name for field in fields(cls)})
        if unknown:
            raise ValueError(
                f"unknown featuriser settings {', '.join(unknown)}: made by a newer gad?"
            )
        made = cls(**settings)
        for name, value in made.to_dict().items():
            if name != "version" and not isinstance(value, bool):
                raise ValueError(f"the featuriser setting {name} is true or false, not {value!r}")
        if made.version != VERSION:
            raise ValueError(
                f"these features are version {made.version}, this gad makes version {VERSION}: "
                "train the model again, or use the gad it was trained with"
            )
        return made

    def __call__(self, molecule: str | Chem.Mol) -> MoleculeGraph:
        """Featurise a SMILES or a molecule, or raise :class:`MoleculeError`."""
        if isinstance(molecule, Chem.Mol):
            mol = without_hydrogens(usable(molecule))
        else:
            mol = parse(molecule)
        if self.explicit_hydrogens:
            mol = Chem.AddHs(mol)
        graph = _graph(mol)
        if self.contributions:
            graph.atom_values = np.hstack([graph.atom_values, contributions(mol)])
        return graph


def _graph(mol: Chem.Mol) -> MoleculeGraph:
    # Quick on purpose: a method mapped over a list of atoms beats a loop over them, and small
    # numbers as `bytes` beat an array until all columns are there.
    if not Chem.GetUseLegacyStereoPerception():
        # RDKit's newer perception leaves the labels to a function of their own.
        mol = Chem.Mol(mol)
        rdCIPLabeler.AssignCIPLabels(mol)
    atoms = list(map(mol.GetAtomWithIdx, range(mol.GetNumAtoms())))
    bonds = list(map(mol.GetBondWithIdx, range(mol.GetNumBonds())))
    begin, end = map(Bond.GetBeginAtomIdx, bonds), map(Bond.GetEndAtomIdx, bonds)
    ends = [k for i, j in zip(begin, end, strict=True) for k in ((i, j) if i < j else (j, i))]
    neighbours = [0] * len(atoms)
    for k in ends:
        neighbours[k] += 1

    rings = mol.GetRingInfo()
    numbers = bytes(map(Atom.GetAtomicNum, atoms))
    elements = numbers.translate(CATEGORY)
    atom_columns = (
        elements,
        bytes(map(_NEIGHBOURS, neighbours)),
        bytes(map(_CHARGE, map(Atom.GetFormalCharge, atoms))),
        bytes(map(_HYDROGENS, map(Atom.GetTotalNumHs, atoms, repeat(True)))),
        bytes(map(_VALENCE, map(Atom.GetTotalValence, atoms))),
        bytes(map(Atom.GetIsAromatic, atoms)),
        bytes(map(_RING, map(rings.MinAtomRingSize, range(len(atoms))))),
        _labels(atoms),
    )
    types = bytes(map(_TYPE, map(Bond.GetSmarts, bonds, repeat(True))))
    bond_columns = (
        types,
        bytes(map(Bond.GetIsConjugated, bonds)),
        bytes(map(_RING, map(rings.MinBondRingSize, range(len(bonds))))),
        bytes([_label(bond) if types[k] == _DOUBLE else 0 for k, bond in enumerate(bonds)]),
    )
    unseen: tuple[str, ...] = ()
    if OTHER in elements:
        unseen = tuple(sorted({atoms[i].GetSymbol() for i, e in enumerate(elements) if e == OTHER}))
    return MoleculeGraph(
        atom_categories=_side_by_side(atom_columns),
        atom_values=VALUES.take(np.frombuffer(numbers, dtype=np.uint8), axis=0),
        bonds=np.frombuffer(array("i", ends), dtype=np.int32).reshape(-1, 2),
        bond_categories=_side_by_side(bond_columns),
        unseen=unseen,
    )


def _labels(atoms: list[Atom]) -> bytes:
    labelled = bytes(map(Atom.HasProp, atoms, repeat(_CODE)))
    if not any(labelled):
        return labelled
    return bytes(
        [has and _CIP(atom.GetProp(_CODE)) for has, atom in zip(labelled, atoms, strict=True)]
    )


def _side_by_side(columns: tuple[bytes | bytearray, ...]) -> NDArray[np.uint8]:
    flat = np.frombuffer(b"".join(columns), dtype=np.uint8)
    table: NDArray[np.uint8] = flat.reshape(len(columns), -1).T.copy()
    return table


def _label(bond: Bond) -> int:
    """0 without a label, 1 for E, 2 for Z."""
    return _CIP(bond.GetProp(_CODE)) if bond.HasProp(_CODE) else _STEREO(bond.GetStereo())
