"""What molecules look like from outside: fingerprint bits, sixteen descriptors, elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gad.chem.fast.arrays import read
from gad.chem.fast.descriptors import QUICK_DESCRIPTOR_NAMES, quick_descriptors_of
from gad.chem.fingerprints import SIZE, morgan_counts
from gad.chem.molecule import MoleculeError, parse, quiet

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rdkit import Chem

ELEMENTS = 119
"""Atomic numbers from 0, which is the wildcard."""

# Molecules that are looked at together: counts before they are packed take a kilobyte each.
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Looks:
    """G molecules from outside.

    Attributes:
        bits: uint8 [G, 128], the Morgan surroundings that occur, eight to a byte.
        values: float64 [G, 16], :data:`~gad.chem.QUICK_DESCRIPTOR_NAMES`.
        elements: bool [G, 119], which atomic numbers occur.
    """

    bits: NDArray[np.uint8]
    values: NDArray[np.float64]
    elements: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.bits)


def look(smiles: Sequence[str]) -> Looks:
    """Look at molecules by their SMILES; one that cannot be read looks like nothing else.

    >>> looks = look(["CCO", "OCC", "[Na+].[Cl-]"])
    >>> bool((looks.bits[0] == looks.bits[1]).all()), np.flatnonzero(looks.elements[2]).tolist()
    (True, [11, 17])
    """
    parts = [_look(smiles[at : at + _BLOCK]) for at in range(0, len(smiles), _BLOCK)]
    if len(parts) == 1:
        return parts[0]
    columns = ("bits", "values", "elements")
    empty = _look([])
    return Looks(*(np.concatenate([getattr(p, c) for p in (empty, *parts)]) for c in columns))


def _look(smiles: Sequence[str]) -> Looks:
    count = len(smiles)
    bits = np.zeros((count, SIZE // 8), dtype=np.uint8)
    values = np.zeros((count, len(QUICK_DESCRIPTOR_NAMES)))
    elements = np.zeros((count, ELEMENTS), dtype=np.bool_)
    molecules, rows = _read(smiles)
    elements[np.setdiff1d(np.arange(count), rows), 0] = True
    if rows:
        arrays = read(molecules)
        bits[rows] = np.packbits(morgan_counts(molecules) > 0, axis=1)
        values[rows] = quick_descriptors_of(arrays)
        elements[np.array(rows)[arrays.molecule], arrays.number] = True
    return Looks(bits, values, elements)


def _read(smiles: Sequence[str]) -> tuple[list[Chem.Mol], list[int]]:
    """The molecules that can be read, and where they stood."""
    molecules, rows = [], []
    with quiet:
        for row, text in enumerate(smiles):
            try:
                molecules.append(parse(text))
            except MoleculeError:
                continue
            rows.append(row)
    return molecules, rows
