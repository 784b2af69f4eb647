"""Many molecules as flat arrays, read from RDKit in as few calls as possible.

A call into RDKit costs as much as a hundred additions. So each molecule is asked only for what
nothing else tells: four numbers of every atom, its bond matrix, its rings, and its labels where it
can have any. What follows from these is worked out for the whole set at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, repeat
from typing import TYPE_CHECKING

import numpy as np
from rdkit import Chem
from rdkit.Chem import Atom, Bond, rdCIPLabeler

from gad.chem.molecule import LABELLED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Bytes = NDArray[np.uint8]
    Booleans = NDArray[np.bool_]

SINGLE, DOUBLE, TRIPLE, AROMATIC, DATIVE, UNUSUAL = range(6)
"""Kinds of bonds."""

# Twice the order of a bond, as the bond matrix has it → its kind.
_OF_ORDER = np.full(256, UNUSUAL, dtype=np.uint8)
_OF_ORDER[[2, 4, 6, 3]] = SINGLE, DOUBLE, TRIPLE, AROMATIC
_Type = Chem.BondType
_TYPES = (_Type.SINGLE, _Type.DOUBLE, _Type.TRIPLE, _Type.AROMATIC, _Type.DATIVE)
_OF_TYPE = defaultdict(lambda: UNUSUAL, {kind: k for k, kind in enumerate(_TYPES)}).__getitem__
# Labels not listed (of axes, of metals) are none.
_LABEL = defaultdict(int, {"R": 1, "S": 2, "r": 1, "s": 2, "E": 1, "Z": 2}).__getitem__
_STEREO = defaultdict(int, {Chem.BondStereo.STEREOE: 1, Chem.BondStereo.STEREOZ: 2}).__getitem__
_CODE = "_CIPCode"

# A bond matrix grows with the square of the atoms: the bonds of larger molecules are listed.
_LARGE = 150
# So many bond matrices are looked at together: few enough to stay near the processor.
_BLOCK = 256

_TABLE = Chem.GetPeriodicTable()
_OUTER = np.array([0, *map(_TABLE.GetNOuterElecs, range(1, 119))])
_VALENCE = np.array([0, *map(_TABLE.GetDefaultValence, range(1, 119))])


@dataclass(frozen=True, eq=False)
class MoleculeArrays:
    """G molecules with N atoms, b bonds and R rings.

    Attributes:
        molecules: the molecules.
        sizes: how many atoms each has [G].
        number: the atomic number [N].
        charge: the formal charge [N].
        connections: how many neighbours and hydrogens an atom has [N].
        valence: its bonds, counted by their order [N].
        label: 1 for R, 2 for S [N].
        ends: the atoms of each bond [2, b], the smaller first; bonds are sorted by them.
        kind: of each bond [b].
        idle: whether a bond adds nothing to the valence of that end [2, b]: a dative bond does not
            to the end that gives, a bond without an order to neither.
        ring_atoms: the atoms of the rings, ring after ring, in order around each.
        ring_sizes: how many atoms each ring has [R].
    """

    molecules: Sequence[Chem.Mol]
    sizes: Integers
    number: Integers
    charge: Integers
    connections: Integers
    valence: Integers
    label: Bytes
    ends: Integers
    kind: Bytes
    idle: Booleans
    ring_atoms: Integers
    ring_sizes: Integers

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
        return np.searchsorted(self.ends[0] * n + self.ends[1], low * n + high)

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
        labelled = np.array([mol.HasProp(LABELLED) for mol in self.molecules], dtype=np.bool_)
        bonds = np.flatnonzero(self.kind == DOUBLE)
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
    numbers: list[int] = []
    charges: list[int] = []
    connections: list[int] = []
    valences: list[int] = []
    labels: dict[int, int] = {}
    rings: list[tuple[int, ...]] = []
    ring_counts = []
    for mol in molecules:
        # A method mapped over a list of atoms beats a loop over them.
        atoms = list(map(mol.GetAtomWithIdx, range(mol.GetNumAtoms())))
        if mol.HasProp(LABELLED):
            for k, labelled in enumerate(map(Atom.HasProp, atoms, repeat(_CODE))):
                if labelled:
                    labels[len(numbers) + k] = _LABEL(atoms[k].GetProp(_CODE))
        numbers += map(Atom.GetAtomicNum, atoms)
        charges += map(Atom.GetFormalCharge, atoms)
        connections += map(Atom.GetTotalDegree, atoms)
        valences += map(Atom.GetTotalValence, atoms)
        own = mol.GetRingInfo().AtomRings()
        rings += own
        ring_counts.append(len(own))
    sizes = np.array([mol.GetNumAtoms() for mol in molecules], dtype=np.int64)
    starts = sizes.cumsum() - sizes
    label = np.zeros(len(numbers), dtype=np.uint8)
    label[list(labels)] = list(labels.values())
    ring_sizes = np.array(list(map(len, rings)), dtype=np.int64)
    ring_starts = np.repeat(np.repeat(starts, ring_counts), ring_sizes)
    ring_atoms = np.fromiter(chain.from_iterable(rings), np.int64, ring_starts.size)
    ends, kind, idle = _bonds(molecules, sizes, starts)
    return MoleculeArrays(
        molecules=molecules,
        sizes=sizes,
        number=np.array(numbers, dtype=np.int64),
        charge=np.array(charges, dtype=np.int64),
        connections=np.array(connections, dtype=np.int64),
        valence=np.array(valences, dtype=np.int64),
        label=label,
        ends=ends,
        kind=kind,
        idle=idle,
        ring_atoms=ring_atoms + ring_starts,
        ring_sizes=ring_sizes,
    )


def _bonds(
    molecules: Sequence[Chem.Mol], sizes: Integers, starts: Integers
) -> tuple[Integers, Bytes, Booleans]:
    """Ends [2, b], kinds [b] and idle ends [2, b] of all bonds, sorted by their ends."""
    listed = sizes > _LARGE
    small = np.flatnonzero(~listed)
    parts = [
        _from_matrices(molecules, chosen, sizes, starts, listed)
        for chosen in np.split(small, range(_BLOCK, small.size, _BLOCK))
    ]
    odd = np.flatnonzero(listed).tolist()
    parts += [_from_list(molecules[k], int(starts[k])) for k in odd]
    ends, kind, idle = (np.concatenate(each, axis=-1) for each in zip(*parts, strict=True))
    if odd:
        order = np.lexsort(ends[::-1])
        ends, kind, idle = ends[:, order], kind[order], idle[:, order]
    return ends, kind, idle


def _from_matrices(
    molecules: Sequence[Chem.Mol],
    chosen: Integers,
    sizes: Integers,
    starts: Integers,
    listed: Booleans,
) -> tuple[Integers, Bytes, Booleans]:
    """The bonds of the molecules chosen, from their bond matrices.

    A molecule with a dative bond (present one way only) or one without an order (absent) is not
    done but marked to be ``listed``.
    """
    own = [molecules[k] for k in chosen.tolist()]
    matrices = [Chem.GetAdjacencyMatrix(mol, True) for mol in own]
    entries = np.concatenate(matrices, axis=None) if own else np.zeros(0)
    squares = sizes[chosen] ** 2
    place = np.flatnonzero(entries)
    graph = np.searchsorted(squares.cumsum(), place, side="right")
    expected = 2 * np.array([mol.GetNumBonds() for mol in own], dtype=np.int64)
    odd = np.bincount(graph, minlength=chosen.size) != expected
    listed[chosen[odd]] = True
    i, j = np.divmod(place - (squares.cumsum() - squares)[graph], sizes[chosen][graph])
    once = (i < j) & ~odd[graph]
    ends = np.stack([i[once], j[once]]) + starts[chosen][graph[once]]
    kind = _OF_ORDER[(2 * entries[place[once]]).astype(np.uint8)]
    return ends, kind, np.zeros(ends.shape, dtype=np.bool_)


def _from_list(mol: Chem.Mol, start: int) -> tuple[Integers, Bytes, Booleans]:
    """The bonds of one molecule, bond by bond."""
    bonds = list(map(mol.GetBondWithIdx, range(mol.GetNumBonds())))
    ends = np.array(
        [list(map(Bond.GetBeginAtomIdx, bonds)), list(map(Bond.GetEndAtomIdx, bonds))],
        dtype=np.int64,
    )
    kind = np.array(list(map(_OF_TYPE, map(Bond.GetBondType, bonds))), dtype=np.uint8)
    # A dative bond points from the atom that gives.
    idle = np.stack([kind >= DATIVE, kind == UNUSUAL])
    turned = ends[0] > ends[1]
    ends[:, turned], idle[:, turned] = ends[::-1, turned], idle[::-1, turned]
    return ends + start, kind, idle
