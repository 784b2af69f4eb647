"""Measured solubilities in water; the table is part of the package (see ``ESOL.md`` beside it)."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

ESOL_PATH = Path(__file__).parent / "esol.csv.gz"
"""The table as a file: ``name,smiles,logS``."""
ESOL_SHA256 = "a48c8a81c2767440b4032df37e4ecbe3aaefd08c5349c520b563bd7e768a1b06"


@dataclass(frozen=True, eq=False)
class MoleculeSet:
    """Molecules as SMILES with their targets.

    Attributes:
        name: of the data set.
        names: of the molecules.
        smiles: one per molecule.
        targets: [G, T], in ``units``.
        target_names: T names.
        units: T units.
        fingerprint: SHA-256 of the table.
    """

    name: str
    names: tuple[str, ...]
    smiles: tuple[str, ...]
    targets: npt.NDArray[np.float64]
    target_names: tuple[str, ...]
    units: tuple[str, ...]
    fingerprint: str

    def __len__(self) -> int:
        return len(self.smiles)


def load_esol(path: str | Path = ESOL_PATH) -> MoleculeSet:
    """1,281 molecules with the decimal logarithm of their solubility in water, in mol/L.

    Seven molecules are listed twice with different values (stereoisomers, mostly, whose structures
    are the same here). There is no customary split, and scores cannot be compared with those on
    Delaney's file of the same kind.
    """
    content = gzip.decompress(Path(path).read_bytes())
    fingerprint = hashlib.sha256(content).hexdigest()
    if fingerprint != ESOL_SHA256:
        raise ValueError(f"{path} is not the table it should be; reinstall the package")
    rows = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    return MoleculeSet(
        name="esol",
        names=tuple(row["name"] for row in rows),
        smiles=tuple(row["smiles"] for row in rows),
        targets=np.array([[float(row["logS"])] for row in rows]),
        target_names=("logS",),
        units=("log mol/L",),
        fingerprint=fingerprint,
    )
