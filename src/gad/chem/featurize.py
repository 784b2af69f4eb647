"""Molecule to graph: categories and values of atoms and bonds, the same however it is written.

Every feature is a property of the molecule and not of its numbering: CIP labels rather than chiral
tags, aromatic bonds as aromatic, the size of the smallest ring rather than a choice among rings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from rdkit import Chem

from gad.chem.elements import CATEGORY, OTHER, VALUE_NAMES, VALUES, VOCABULARY
from gad.chem.fast.arrays import MoleculeArrays, read
from gad.chem.fast.descriptors import quick_descriptors_of
from gad.chem.fingerprints import morgan_counts
from gad.chem.identity import canonical
from gad.chem.molecule import (
    MoleculeError,
    labelled,
    parse,
    parse_all,
    parse_block,
    usable,
    without_hydrogens,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["Featurizer", "MoleculeError", "MoleculeGraph", "MoleculeGraphs", "parse", "parse_block"]

VERSION = 2
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


_CATEGORY = np.frombuffer(CATEGORY, dtype=np.uint8)
# A hydrogen with one neighbour, without charge, with one single bond.
_HYDROGEN = np.array([CATEGORY[1], 1, 3, 0, 1, 0, 0, 0], dtype=np.uint8)


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


@dataclass(frozen=True, eq=False)
class MoleculeGraphs:
    """Many molecules as flat arrays: G molecules, N atoms, b bonds.

    Attributes:
        sizes: int64 ``[G]``, atoms of each molecule.
        atom_categories, atom_values: of all atoms ``[N, ...]``, as in :class:`MoleculeGraph`.
        bonds: int64 ``[b, 2]``, atoms numbered through all molecules.
        bond_categories: of all bonds.
        descriptors: float64 ``[G, 16]``, :func:`~gad.chem.descriptors.quick_descriptors`, or
            ``[G, 0]``.
        rows: int64 ``[G]``, where each stood in what was read.
        rejects: row → why it could not be used.
        unseen: row → symbols of the elements that had to be called "other".
        keys: the :func:`~gad.chem.identity.canonical` name of each [G], or none at all.
        counts: uint8 ``[G, 1024]``, :func:`~gad.chem.fingerprints.morgan_counts`, or None.
    """

    sizes: NDArray[np.int64]
    atom_categories: NDArray[np.uint8]
    atom_values: NDArray[np.float32]
    bonds: NDArray[np.int64]
    bond_categories: NDArray[np.uint8]
    descriptors: NDArray[np.float64]
    rows: NDArray[np.int64]
    rejects: dict[int, str] = field(default_factory=dict)
    unseen: dict[int, tuple[str, ...]] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    counts: NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return self.sizes.size

    def without(self, number: int, reason: str) -> MoleculeGraphs:
        """All but one molecule, which goes to the rejects."""
        row = int(self.rows[number])
        start, size = int(self.sizes[:number].sum()), int(self.sizes[number])
        atoms = np.r_[:start, start + size : len(self.atom_categories)]
        bonds = (self.bonds[:, 0] < start) | (self.bonds[:, 0] >= start + size)
        ends = self.bonds[bonds]
        return MoleculeGraphs(
            sizes=np.delete(self.sizes, number),
            atom_categories=self.atom_categories[atoms],
            atom_values=self.atom_values[atoms],
            bonds=ends - size * (ends >= start),
            bond_categories=self.bond_categories[bonds],
            descriptors=np.delete(self.descriptors, number, axis=0),
            rows=np.delete(self.rows, number),
            rejects={**self.rejects, row: reason},
            unseen={k: names for k, names in self.unseen.items() if k != row},
            keys=self.keys[:number] + self.keys[number + 1 :],
            counts=None if self.counts is None else np.delete(self.counts, number, axis=0),
        )


@dataclass(frozen=True)
class Featurizer:
    """Turns molecules into graphs; equal settings give equal graphs.

    Args:
        explicit_hydrogens: make every hydrogen an atom of its own.
        version: of the scheme.

    >>> graph = Featurizer()("c1ccccc1O")
    >>> graph.atom_categories.shape, graph.bonds.shape
    ((7, 8), (7, 2))
    >>> len(Featurizer(explicit_hydrogens=True)("c1ccccc1O").atom_values)
    13
    """

    explicit_hydrogens: bool = False
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
        return len(VALUE_NAMES)

    def to_dict(self) -> dict[str, object]:
        """The settings, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Featurizer:
        """The featuriser with these settings; refuses what it would not reproduce exactly."""
        # Models of before name a setting that is gone; none of them has it on.
        settings = {k: v for k, v in settings.items() if (k, v) != ("contributions", False)}
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
            mol = labelled(without_hydrogens(usable(molecule)))
        else:
            mol = parse(molecule)
        graph = self.graphs([mol])
        return MoleculeGraph(
            atom_categories=graph.atom_categories,
            atom_values=graph.atom_values,
            bonds=graph.bonds.astype(np.int32),
            bond_categories=graph.bond_categories,
            unseen=graph.unseen.get(0, ()),
        )

    def read(
        self,
        texts: Sequence[str],
        *,
        blocks: bool = False,
        descriptors: bool = False,
        keys: bool = False,
        counts: bool = False,
        first_row: int = 0,
    ) -> MoleculeGraphs:
        """Featurise many SMILES, or mol blocks, together: five times as quick as one by one.

        What cannot be used is among the ``rejects``.

        Args:
            texts: the molecules.
            blocks: whether they are mol blocks.
            descriptors: work out :func:`~gad.chem.descriptors.quick_descriptors` too.
            keys: name every molecule, see :func:`~gad.chem.identity.canonical`.
            counts: work out :func:`~gad.chem.fingerprints.morgan_counts` too.
            first_row: the row of the first.

        >>> graphs = Featurizer().read(["CCO", "CC(", "C=O"])
        >>> graphs.sizes.tolist(), graphs.bonds.tolist(), graphs.rows.tolist()
        ([3, 2], [[0, 1], [1, 2], [3, 4]], [0, 2])
        >>> list(graphs.rejects)
        [1]
        """
        found, rejects = parse_all(texts, blocks=blocks, first_row=first_row)
        graphs = self.graphs(list(found.values()), descriptors)
        rows = list(found)
        return replace(
            graphs,
            rows=np.array(rows, dtype=np.int64),
            rejects=rejects,
            unseen={rows[k]: names for k, names in graphs.unseen.items()},
            keys=tuple(map(canonical, found.values())) if keys else (),
            counts=morgan_counts(list(found.values())) if counts else None,
        )

    def graphs(self, molecules: Sequence[Chem.Mol], descriptors: bool = False) -> MoleculeGraphs:
        """Featurise molecules as :func:`~gad.chem.molecule.parse` gives them."""
        arrays = read(molecules)
        atom_ring, bond_ring = arrays.smallest_ring
        elements = _CATEGORY[arrays.number]
        graphs = MoleculeGraphs(
            sizes=arrays.sizes,
            atom_categories=_side_by_side(
                elements,
                arrays.degree.clip(max=6),
                arrays.charge.clip(-3, 3) + 3,
                arrays.hydrogens.clip(max=4),
                arrays.valence.clip(max=7),
                arrays.aromatic,
                (atom_ring - 2).clip(0, 6),
                arrays.label,
            ),
            atom_values=VALUES.take(arrays.number, axis=0),
            bonds=np.ascontiguousarray(arrays.ends.T),
            bond_categories=_side_by_side(
                arrays.kind, arrays.conjugated, (bond_ring - 2).clip(0, 6), arrays.bond_label
            ),
            descriptors=quick_descriptors_of(arrays)
            if descriptors
            else np.zeros((len(molecules), 0)),
            rows=np.arange(len(molecules)),
            unseen=_unseen(arrays, elements),
        )
        return _with_hydrogens(graphs, arrays) if self.explicit_hydrogens else graphs


def _unseen(arrays: MoleculeArrays, elements: NDArray[np.uint8]) -> dict[int, tuple[str, ...]]:
    names: dict[int, set[str]] = {}
    for atom in np.flatnonzero(elements == OTHER).tolist():
        graph = int(arrays.molecule[atom])
        symbol = (
            arrays.molecules[graph].GetAtomWithIdx(atom - int(arrays.starts[graph])).GetSymbol()
        )
        names.setdefault(graph, set()).add(symbol)
    return {graph: tuple(sorted(symbols)) for graph, symbols in names.items()}


def _with_hydrogens(graphs: MoleculeGraphs, arrays: MoleculeArrays) -> MoleculeGraphs:
    """Every hydrogen as an atom of its own, behind the other atoms of its molecule."""
    parent = np.repeat(np.arange(arrays.number.size), arrays.hidden)
    added = np.bincount(arrays.molecule[parent], minlength=arrays.sizes.size)
    place = np.arange(arrays.number.size) + (added.cumsum() - added)[arrays.molecule]
    hydrogen = np.arange(parent.size) + arrays.sizes.cumsum()[arrays.molecule[parent]]

    total = place.size + hydrogen.size
    categories = np.empty((total, len(ATOM_FEATURES)), dtype=np.uint8)
    categories[place] = graphs.atom_categories
    categories[place, 1] = arrays.connections.clip(max=6)
    categories[hydrogen] = _HYDROGEN
    values = np.empty((total, len(VALUE_NAMES)), dtype=np.float32)
    values[place], values[hydrogen] = graphs.atom_values, VALUES[1]
    single = np.zeros((parent.size, len(BOND_FEATURES)), dtype=np.uint8)
    return replace(
        graphs,
        sizes=arrays.sizes + added,
        atom_categories=categories,
        atom_values=values,
        bonds=np.concatenate([place[graphs.bonds], np.stack([place[parent], hydrogen], axis=1)]),
        bond_categories=np.concatenate([graphs.bond_categories, single]),
    )


def _side_by_side(*columns: NDArray[Any]) -> NDArray[np.uint8]:
    table = np.empty((columns[0].size, len(columns)), dtype=np.uint8)
    for k, column in enumerate(columns):
        table[:, k] = column
    return table
