"""Morgan counts: how often each circular surrounding of an atom occurs, folded into columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from rdkit.Chem import rdFingerprintGenerator

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rdkit import Chem

SIZE, RADIUS = 1024, 2
"""Columns, and the bonds that a surrounding reaches (as ECFP4)."""


def morgan_counts(molecules: Sequence[Chem.Mol], size: int = SIZE) -> NDArray[np.uint8]:
    """Counts of the surroundings of radius 0, 1 and 2, by columns; at most 255: [G, size].

    >>> from gad.chem import parse
    >>> counts = morgan_counts([parse("CCO"), parse("OCC")])
    >>> int(counts[0].sum()), bool((counts[0] == counts[1]).all())
    (6, True)
    """
    make = _generator(size)
    counts = np.empty((len(molecules), size), dtype=np.uint8)
    for row, mol in zip(counts, molecules, strict=True):
        np.minimum(make.GetCountFingerprintAsNumPy(mol), 255, out=row, casting="unsafe")
    return counts


def tanimoto(counts: NDArray[np.uint8], others: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Similarity by which columns are there at all: shared / (shared + unshared), [G, H].

    >>> a, b = np.array([[1, 2, 0]], dtype=np.uint8), np.array([[1, 0, 1]], dtype=np.uint8)
    >>> tanimoto(a, b).round(2)
    array([[0.33]], dtype=float32)
    """
    a, b = (np.minimum(c, 1).astype(np.float32) for c in (counts, others))
    shared = a @ b.T
    either = a.sum(1)[:, None] + b.sum(1)[None, :] - shared
    similarity: NDArray[np.float32] = shared / np.maximum(either, 1)
    return similarity


@cache
def _generator(size: int) -> Any:
    return rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=size)
