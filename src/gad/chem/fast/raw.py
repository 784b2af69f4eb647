"""What RDKit knows of many molecules, taken out in as few calls as possible.

A call into RDKit costs as much as a hundred additions. So each molecule is asked only for what
nothing else tells: four numbers of every atom, its bond matrix, its rings. Where there is a C
compiler it is asked once, for its binary form (``Mol.ToBinary``), and that is read in C: the same
numbers in less than half of the time. That form is RDKit's own business, so it is compared with the
answers for some molecules that have everything in them before it is believed.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import Atom, Bond

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

# A bond matrix grows with the square of the atoms: the bonds of larger molecules are listed.
_LARGE = 150
# So many bond matrices are looked at together: few enough to stay near the processor.
_BLOCK = 256
# Charges, isotopes, labels, maps, rings, fused and bridged, stereochemistry, salts, dative bonds.
_EVERYTHING = (
    "C", "[H][H]", "[2H]C([2H])[2H]", "CC(=O)Oc1ccccc1C(=O)O", "C[N+](C)(C)CC([O-])=O", "[CH3]",
    "C/C=C/C=C\\C", "C[C@H](N)C(=O)O.[Na+].[Cl-]", "*C1CC1", "[CH3:1][OH:200]", "N->[Pt]<-N",
    "c1ccc2[nH]ccc2c1", "C1CC2CCC1C2", "F/C(Cl)=C(/F)Cl", "[Fe+2]", "CS(=O)(=O)N", "C#[N+][O-]",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Raw:
    """G molecules with N atoms, b bonds and R rings; atoms are numbered through all of them.

    Attributes:
        sizes: how many atoms each has [G].
        number: the atomic number [N].
        charge: the formal charge [N].
        connections: how many neighbours and hydrogens an atom has [N].
        valence: its bonds, counted by their order [N].
        marked: whether an atom may be labelled R or S [N].
        ends: the atoms of each bond [2, b], the smaller first; bonds are sorted by them.
        kind: of each bond [b].
        idle: whether a bond adds nothing to the valence of that end [2, b]: a dative bond does not
            to the end that gives, a bond without an order to neither.
        marked_bond: whether a bond may be labelled E or Z [b].
        ring_atoms: the atoms of the rings, ring after ring, in order around each.
        ring_sizes: how many atoms each ring has [R].
    """

    sizes: Integers
    number: Integers
    charge: Integers
    connections: Integers
    valence: Integers
    marked: Booleans
    ends: Integers
    kind: Bytes
    idle: Booleans
    marked_bond: Booleans
    ring_atoms: Integers
    ring_sizes: Integers


def raw(molecules: Sequence[Chem.Mol]) -> Raw:
    """The arrays of molecules whose rings and valences are known.

    >>> raw([Chem.MolFromSmiles("CO"), Chem.MolFromSmiles("C#N")]).ends.tolist()
    [[0, 2], [1, 3]]
    """
    from gad import native

    compiled = molecules and native.accepts() and _is_understood()
    return _unpacked(molecules) if compiled else asked(molecules)


# ---------------------------------------------------------------- by asking: the definition


def asked(molecules: Sequence[Chem.Mol]) -> Raw:
    """The arrays, atom by atom."""
    numbers: list[int] = []
    charges: list[int] = []
    connections: list[int] = []
    valences: list[int] = []
    rings: list[tuple[int, ...]] = []
    ring_counts = []
    for mol in molecules:
        # A method mapped over a list of atoms beats a loop over them.
        atoms = list(map(mol.GetAtomWithIdx, range(mol.GetNumAtoms())))
        numbers += map(Atom.GetAtomicNum, atoms)
        charges += map(Atom.GetFormalCharge, atoms)
        connections += map(Atom.GetTotalDegree, atoms)
        valences += map(Atom.GetTotalValence, atoms)
        own = mol.GetRingInfo().AtomRings()
        rings += own
        ring_counts.append(len(own))
    sizes = np.array([mol.GetNumAtoms() for mol in molecules], dtype=np.int64)
    starts = sizes.cumsum() - sizes
    ring_sizes = np.array(list(map(len, rings)), dtype=np.int64)
    ring_starts = np.repeat(np.repeat(starts, ring_counts), ring_sizes)
    ring_atoms = np.fromiter(chain.from_iterable(rings), np.int64, ring_starts.size)
    ends, kind, idle = _bonds(molecules, sizes, starts)
    return Raw(
        sizes=sizes,
        number=np.array(numbers, dtype=np.int64),
        charge=np.array(charges, dtype=np.int64),
        connections=np.array(connections, dtype=np.int64),
        valence=np.array(valences, dtype=np.int64),
        marked=np.ones(len(numbers), dtype=np.bool_),
        ends=ends,
        kind=kind,
        idle=idle,
        marked_bond=kind == DOUBLE,
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


# ---------------------------------------------------------------- by the binary form


def _unpacked(molecules: Sequence[Chem.Mol]) -> Raw:
    """The arrays out of binary forms; the few molecules that are not understood are asked."""
    texts = [mol.ToBinary(0) for mol in molecules]
    parts: list[Raw] = []
    done = 0
    while done < len(texts):
        part = _in_c(texts[done:])
        done += part.sizes.size
        parts.append(part)
        if done < len(texts):
            parts.append(asked(molecules[done : done + 1]))
            done += 1
    return parts[0] if len(parts) == 1 else _joined(parts)


def _in_c(texts: Sequence[bytes]) -> Raw:
    """The first molecules, up to one that is not understood."""
    from gad import native

    everything = np.frombuffer(b"".join(texts), dtype=np.uint8)
    end = np.cumsum([len(text) for text in texts], dtype=np.int64)
    totals = (ctypes.c_int64 * 5)()

    def call(count: int, arrays: ctypes.Array[ctypes.c_void_p] | None) -> None:
        native.call("unpack", count, everything.ctypes.data, end.ctypes.data, totals, arrays)

    call(end.size, None)
    molecules, atoms, bonds, rings, entries = totals
    sizes = np.empty(molecules, dtype=np.int64)
    of_atoms = np.empty((4, atoms), dtype=np.int64)
    marked = np.empty(atoms, dtype=np.bool_)
    ends = np.empty((2, bonds), dtype=np.int64)
    of_bonds = np.empty((4, bonds), dtype=np.uint8)
    ring_sizes, ring_atoms = (np.empty(n, dtype=np.int64) for n in (rings, entries))
    rows = (sizes, *of_atoms, marked, *ends, *of_bonds, ring_sizes, ring_atoms)
    if molecules:
        call(molecules, (ctypes.c_void_p * len(rows))(*(row.ctypes.data for row in rows)))
    kind, *rest = of_bonds
    first, second, marked_bond = (row.view(np.bool_) for row in rest)
    number, charge, connections, valence = of_atoms
    return Raw(
        sizes=sizes,
        number=number,
        charge=charge,
        connections=connections,
        valence=valence,
        marked=marked,
        ends=ends,
        kind=kind,
        idle=np.stack([first, second]),
        marked_bond=marked_bond & (kind == DOUBLE),
        ring_atoms=ring_atoms,
        ring_sizes=ring_sizes,
    )


def _joined(parts: Sequence[Raw]) -> Raw:
    """Molecules of several parts, as one."""
    atoms = np.array([part.number.size for part in parts])
    starts = (atoms.cumsum() - atoms).tolist()

    def of(name: str) -> NDArray[Any]:
        own = [getattr(part, name) for part in parts]
        if name in ("ends", "ring_atoms"):
            own = [values + start for values, start in zip(own, starts, strict=True)]
        return np.concatenate(own, axis=-1)

    return Raw(**{field.name: of(field.name) for field in fields(Raw)})


@cache
def _is_understood() -> bool:
    """Whether the binary forms of this RDKit say what it answers when it is asked."""
    molecules = [Chem.MolFromSmiles(text) for text in _EVERYTHING]
    expected, found = asked(molecules), _in_c([mol.ToBinary(0) for mol in molecules])
    return all(
        np.array_equal(getattr(found, field.name), getattr(expected, field.name))
        for field in fields(Raw)
        if not field.name.startswith("marked")
    )
