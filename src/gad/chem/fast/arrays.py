"""Many molecules as flat arrays: what RDKit told of them, and all that follows.

A call into RDKit costs as much as a hundred additions. So each molecule is asked only for what
nothing else tells (:mod:`gad.chem.fast.raw`), and for its labels where it can have any. What
follows from these is worked out for the whole set at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdCIPLabeler

from gad.chem.fast.raw import AROMATIC, DATIVE, UNUSUAL, Raw, raw
from gad.chem.molecule import LABELLED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Bytes = NDArray[np.uint8]
    Booleans = NDArray[np.bool_]

# Labels not listed (of axes, of metals) are none.
_LABEL = defaultdict(int, {"R": 1, "S": 2, "r": 1, "s": 2, "E": 1, "Z": 2}).__getitem__
_STEREO = defaultdict(int, {Chem.BondStereo.STEREOE: 1, Chem.BondStereo.STEREOZ: 2}).__getitem__
_CODE = "_CIPCode"

_TABLE = Chem.GetPeriodicTable()
_OUTER = np.array([0, *map(_TABLE.GetNOuterElecs, range(1, 119))])
_VALENCE = np.array([0, *map(_TABLE.GetDefaultValence, range(1, 119))])


@dataclass(frozen=True, eq=False)
class MoleculeArrays(Raw):
    """G molecules with N atoms, b bonds and R rings.

    Attributes:
        molecules: the molecules.
        label: 1 for R, 2 for S [N].
    """

    molecules: Sequence[Chem.Mol]
    label: Bytes

    @cached_property
    def starts(self) -> Integers:
        """The first atom of each molecule [G]."""
        return self.sizes.cumsum() - self.sizes

    @cached_property
    def molecule(self) -> Integers:
        """The molecule of each atom [N]."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    @cached_property
    def ring(self) -> Integers:
        """The ring of each entry of ``ring_atoms``."""
        return np.repeat(np.arange(self.ring_sizes.size), self.ring_sizes)

    def count(self, chosen: Booleans) -> Integers:
        """How many of its bonds are among the ends chosen [2, b], for each atom [N]."""
        return np.bincount(self.ends[chosen], minlength=self.number.size)

    @cached_property
    def degree(self) -> Integers:
        """How many neighbours an atom has [N]; its hydrogens count where they are atoms here."""
        return np.bincount(self.ends.ravel(), minlength=self.number.size)

    @cached_property
    def hidden(self) -> Integers:
        """How many hydrogens of an atom are not atoms here [N]."""
        return self.connections - self.degree

    @cached_property
    def hydrogens(self) -> Integers:
        """How many hydrogens an atom has, here or not [N]."""
        drawn = self.number == 1
        return self.hidden + self.count(drawn[self.ends[::-1]]) if drawn.any() else self.hidden

    @cached_property
    def aromatic(self) -> Booleans:
        """Whether an atom has an aromatic bond [N]."""
        found = np.zeros(self.number.size, dtype=np.bool_)
        found[self.ends[:, self.kind == AROMATIC]] = True
        return found

    @cached_property
    def ring_bonds(self) -> Integers:
        """The bond from each entry of ``ring_atoms`` to the next around its ring."""
        last = self.ring_sizes.cumsum() - 1
        following = np.arange(1, self.ring_atoms.size + 1)
        following[last] = last - self.ring_sizes + 1
        one, other = self.ring_atoms, self.ring_atoms[following]
        low, high = np.minimum(one, other), np.maximum(one, other)
        n = self.number.size
        found: Integers = np.searchsorted(self.ends[0] * n + self.ends[1], low * n + high)
        return found

    @cached_property
    def smallest_ring(self) -> tuple[Integers, Integers]:
        """The size of the smallest ring of each atom [N] and bond [b], 0 for none.

        >>> from gad.chem import parse
        >>> read([parse("CC1CC1")]).smallest_ring[0]
        array([0, 3, 3, 3])
        """
        sizes = self.ring_sizes[self.ring]
        none = self.number.size + 1
        atoms, bonds = np.full(self.number.size, none), np.full(self.kind.size, none)
        np.minimum.at(atoms, self.ring_atoms, sizes)
        np.minimum.at(bonds, self.ring_bonds, sizes)
        return atoms % none, bonds % none

    @cached_property
    def conjugated(self) -> Booleans:
        """Whether a bond is conjugated [b]: aromatic, or side by side with a multiple bond.

        RDKit's rule: of two bonds of an atom one is multiple, all three atoms have an electron to
        share, and this atom and the one at the end of the other bond have three connections at the
        most. Below the second row, pnictogens, bridging chalcogens and metals of high valence have
        none to share.
        """
        outer, wanted = _OUTER[self.number], _VALENCE[self.number]
        lone = np.maximum(outer - wanted - self.charge, 0)
        # Unpaired is what is missing to an octet, or left over when all electrons are bound.
        octet = 8 - outer - self.valence + self.charge
        unpaired = np.minimum(octet, outer - self.valence - self.charge).clip(min=0)
        bound = self.connections - self.count(self.idle) if self.idle.any() else self.connections
        able = (wanted > 1) & (bound <= 3) & (wanted - bound + lone > unpaired)
        heavy = (outer == 5) | ((outer == 6) & (self.connections > 1)) | (self.valence > wanted)
        able &= (self.number <= 10) | ~heavy
        slim = able & (self.connections <= 3)

        across = self.ends[::-1]
        middle = (slim & (self.connections >= 2))[self.ends]
        any_bond = middle & slim[across]
        multiple = middle & able[across] & (self.kind % DATIVE > 0) & (self.kind < UNUSUAL)
        beside_multiple = self.count(multiple)[self.ends] > multiple
        beside_any = self.count(any_bond)[self.ends] > any_bond
        found = (any_bond & beside_multiple) | (multiple & beside_any)
        conjugated: Booleans = found.any(axis=0) | (self.kind == AROMATIC)
        return conjugated

    @cached_property
    def bond_label(self) -> Bytes:
        """1 for E, 2 for Z [b]."""
        labels = np.zeros(self.kind.size, dtype=np.uint8)
        labelled = _worked_out(self.molecules)
        bonds = np.flatnonzero(self.marked_bond)
        graphs = self.molecule[self.ends[0, bonds]]
        bonds, graphs = bonds[labelled[graphs]], graphs[labelled[graphs]]
        ends = (self.ends[:, bonds] - self.starts[graphs]).tolist()
        for k, graph, i, j in zip(bonds.tolist(), graphs.tolist(), *ends, strict=True):
            bond = self.molecules[graph].GetBondBetweenAtoms(i, j)
            code = bond.GetProp(_CODE) if bond.HasProp(_CODE) else None
            labels[k] = _STEREO(bond.GetStereo()) if code is None else _LABEL(code)
        return labels


def read(molecules: Sequence[Chem.Mol]) -> MoleculeArrays:
    """The arrays of molecules whose rings and valences are known.

    >>> from gad.chem import parse
    >>> arrays = read([parse("CO"), parse("C#N")])
    >>> arrays.sizes.tolist(), arrays.hydrogens.tolist(), arrays.kind.tolist()
    ([2, 2], [3, 1, 1, 0], [0, 2])
    """
    if not Chem.GetUseLegacyStereoPerception():
        # RDKit's newer perception leaves the labels to a function of their own.
        molecules = [Chem.Mol(mol) for mol in molecules]
        for mol in molecules:
            rdCIPLabeler.AssignCIPLabels(mol)
    found = raw(molecules)
    return MoleculeArrays(**vars(found), molecules=molecules, label=_labels(molecules, found))


def _labels(molecules: Sequence[Chem.Mol], found: Raw) -> Bytes:
    """1 for R, 2 for S [N]."""
    labels = np.zeros(found.number.size, dtype=np.uint8)
    atoms = np.flatnonzero(found.marked & np.repeat(_worked_out(molecules), found.sizes))
    ends = found.sizes.cumsum()
    graphs = np.searchsorted(ends, atoms, side="right")
    places = atoms - (ends - found.sizes)[graphs]
    for k, graph, place in zip(atoms.tolist(), graphs.tolist(), places.tolist(), strict=True):
        atom = molecules[graph].GetAtomWithIdx(place)
        if atom.HasProp(_CODE):
            labels[k] = _LABEL(atom.GetProp(_CODE))
    return labels


def _worked_out(molecules: Sequence[Chem.Mol]) -> Booleans:
    """Whether a molecule's stereochemistry has been worked out [G]."""
    return np.array([mol.HasProp(LABELLED) for mol in molecules], dtype=np.bool_)
