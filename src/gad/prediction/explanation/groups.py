"""Atoms by what they are and by what they are bound to, as numbers that can be compared.

An atom's *type* is its element, whether it is aromatic, its charge and its hydrogens; its *group*,
after Benson, is the type together with the atoms it is bound to and the kinds of these bonds. Both
are read from what a model is fed, so they do not depend on how a molecule is written.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gad.chem import ATOM_FEATURES, BOND_FEATURES
from gad.data.store.molecules import PackedMolecules

Integers = npt.NDArray[np.int64]

FIRST_GROUP = np.uint64(1 << 62)
"""Groups are numbered from here on, types below."""


def types_and_groups(packed: PackedMolecules) -> tuple[Integers, Integers]:
    """The type and the group of every atom, int64 [N] both.

    >>> from gad.chem import Featurizer
    >>> from gad.data.store.molecules import Preparation, read_molecules
    >>> types, groups = types_and_groups(read_molecules(["CCO", "OCC"], Preparation(Featurizer())))
    >>> sorted(groups[:3]) == sorted(groups[3:]), len(set(types)), len(set(groups))
    (True, 3, 3)
    """
    atoms = packed.atoms.numpy().astype(np.int64)
    feature: dict[str, Integers] = dict(zip(ATOM_FEATURES, atoms.T, strict=True))
    element = feature["element"] * ATOM_FEATURES["aromatic"] + feature["aromatic"]
    types = element * ATOM_FEATURES["charge"] + feature["charge"]
    types = types * ATOM_FEATURES["hydrogens"] + feature["hydrogens"]

    operators = packed.operators
    kind = packed.bonds[:, list(BOND_FEATURES).index("type")].numpy().astype(np.int64)
    neighbour = element[operators.source.numpy()] * BOND_FEATURES["type"] + kind
    # A sum does not depend on the order of the neighbours; mixed first, no two sets share it.
    around = np.zeros(len(types), dtype=np.uint64)
    np.add.at(around, operators.target.numpy(), _mixed(neighbour.astype(np.uint64)))
    groups = _mixed(around ^ _mixed(types.astype(np.uint64) + np.uint64(1)))
    # Types are small numbers: groups are larger than any.
    return types, (groups >> np.uint64(2) | FIRST_GROUP).astype(np.int64)


def _mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread numbers over 64 bits (splitmix64)."""
    x = numbers + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: npt.NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return mixed
