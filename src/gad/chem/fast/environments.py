"""What an atom adds to logP, refractivity and polar surface: asked once for each environment.

Wildman and Crippen's scheme gives an atom the values of the first of a hundred patterns that fits
it, and Ertl's polar surface looks at the bonds of an atom; no pattern reaches beyond the neighbours
of an atom, or of an oxygen's neighbours. So atoms with equal surroundings share their values, and
the patterns are tried once for each kind of surroundings: some hundreds among millions of atoms.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rdkit import Chem, RDConfig
from rdkit.Chem import rdMolDescriptors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gad.chem.fast.arrays import MoleculeArrays

    Keys = NDArray[np.uint64]
    Floats = NDArray[np.float64]

_OXYGEN = 8
# Hydrogens of other elements: aromatic atoms of these are not other, so in RDKit's library, though
# not in its list of the patterns.
_MEANT = {
    "[#1][!C;!N;!O]": "[#1][!#6;!#7;!#8]",
    "[#1]O[!C;!N;!O;!S]": "[#1]O[!#6;!#7;!#8;!#16]",
}


def contributed(arrays: MoleculeArrays) -> Floats:
    """LogP, refractivity and polar area that each atom adds, its hydrogens counted with it: [N, 3].

    >>> from gad.chem import parse
    >>> from gad.chem.fast.arrays import read
    >>> contributed(read([parse("CO")])).sum(axis=0).round(2).tolist()  # methanol
    [-0.39, 8.14, 20.23]
    """
    keys = _keys(arrays)
    with _known.lock:
        place = _known.find(keys)
        new = np.flatnonzero(_known.keys[place] != keys)
        if new.size:
            unknown, first = np.unique(keys[new], return_index=True)
            _known.learn(unknown, _asked(arrays, new[first]))
            place = _known.find(keys)
        values: Floats = _known.values[place]
        return values


class _Known:
    """A growing table: sorted keys [K] and their values [K, 3]."""

    def __init__(self) -> None:
        self.lock = Lock()
        # The largest key stands at the end from the start: every search finds a place.
        self.keys: Keys = np.array([np.iinfo(np.uint64).max], dtype=np.uint64)
        self.values: Floats = np.zeros((1, 3))

    def find(self, keys: Keys) -> NDArray[np.int64]:
        return np.searchsorted(self.keys, keys)

    def learn(self, keys: Keys, values: Floats) -> None:
        place = self.find(keys)
        self.keys = np.insert(self.keys, place, keys)
        self.values = np.insert(self.values, place, values, axis=0)


_known = _Known()


def _keys(arrays: MoleculeArrays) -> Keys:
    """One number for each atom's surroundings, whatever the order of its neighbours [N].

    Sixty-four bits: in a table of a million two would meet by chance once in forty million tables.
    """
    ring, _ = arrays.smallest_ring
    seen = _code(arrays.number, arrays.aromatic, arrays.charge)
    own = _code(seen, arrays.connections, arrays.hydrogens, ring == 3)
    key = _gathered(arrays, own, seen)
    oxygen = arrays.number == _OXYGEN
    key[oxygen] = _gathered(arrays, key, key)[oxygen]
    return key


def _code(*columns: NDArray[np.generic]) -> Keys:
    code: Keys = np.zeros(1, dtype=np.uint64)
    for column in columns:
        code = _mixed(code + column.astype(np.uint64))
    return code


def _gathered(arrays: MoleculeArrays, own: Keys, seen: Keys) -> Keys:
    """An atom's own code, with what is seen of its neighbours across each kind of bond."""
    across = arrays.ends[::-1]
    each = _mixed(seen[across] + arrays.kind + np.uint64(8) * arrays.idle)
    key = own.copy()
    np.add.at(key, arrays.ends, each)
    return _mixed(key)


def _mixed(code: Keys) -> Keys:
    """Scatter the bits of each number, one to one (the finaliser of SplitMix64)."""
    code = code + np.uint64(0x9E3779B97F4A7C15)
    code = (code ^ (code >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    code = (code ^ (code >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Keys = code ^ (code >> np.uint64(31))
    return mixed


def _asked(arrays: MoleculeArrays, atoms: NDArray[np.int64]) -> Floats:
    """The values of the atoms chosen, their hydrogens included, from RDKit [a, 3]."""
    found = np.zeros((atoms.size, 3))
    graphs = arrays.molecule[atoms]
    for graph in np.unique(graphs).tolist():
        mol = arrays.molecules[graph]
        areas = rdMolDescriptors._CalcTPSAContribs(mol)
        full = Chem.AddHs(mol)
        for k in np.flatnonzero(graphs == graph).tolist():
            atom = full.GetAtomWithIdx(int(atoms[k] - arrays.starts[graph]))
            found[k] = *_typed(atom), areas[atom.GetIdx()]
            if hidden := int(arrays.hidden[atoms[k]]):
                own = next(a for a in atom.GetNeighbors() if a.GetIdx() >= mol.GetNumAtoms())
                found[k, :2] += np.multiply(hidden, _typed(own))
    return found


def _typed(atom: Chem.Atom) -> tuple[float, float]:
    """LogP and refractivity of one atom: those of the first pattern that fits it."""
    for root, steps, logp, refractivity in _patterns():
        if root.Match(atom) and _fits(steps, [atom]):
            return logp, refractivity
    return 0.0, 0.0


class _Step(NamedTuple):
    """An atom of a pattern, and the bond by which it hangs on an earlier one."""

    atom: Chem.Atom
    bond: Chem.Bond
    anchor: int


@cache
def _patterns() -> list[tuple[Chem.Atom, list[_Step], float, float]]:
    """Wildman and Crippen's patterns: first atom, the others, logP and refractivity."""
    lines = Path(RDConfig.RDDataDir, "Crippen.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line.strip() and not line.startswith("#")]
    patterns = []
    for _, smarts, logp, refractivity, *_ in rows:
        if smarts:
            root, *others = Chem.MolFromSmarts(_MEANT.get(smarts, smarts)).GetAtoms()
            steps = list(map(_step, others))
            patterns.append((root, steps, float(logp or 0), float(refractivity or 0)))
    return patterns


def _step(atom: Chem.Atom) -> _Step:
    """The patterns are trees, each atom written after the one that it hangs on."""
    k = atom.GetIdx()
    bond = next(bond for bond in atom.GetBonds() if bond.GetOtherAtomIdx(k) < k)
    return _Step(atom, bond, bond.GetOtherAtomIdx(k))


def _fits(steps: list[_Step], found: list[Chem.Atom]) -> bool:
    """Whether the rest of a pattern fits when its first atoms lie on those found."""
    if len(found) > len(steps):
        return True
    step = steps[len(found) - 1]
    anchor = found[step.anchor]
    taken = [atom.GetIdx() for atom in found]
    for bond in anchor.GetBonds():
        atom = bond.GetOtherAtom(anchor)
        fits = atom.GetIdx() not in taken and step.bond.Match(bond) and step.atom.Match(atom)
        if fits and _fits(steps, [*found, atom]):
            return True
    return False
