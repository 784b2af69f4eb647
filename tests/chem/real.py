"""Molecules as they occur in tables of measurements.

``molecules.smi`` has 599 structures out of AqSol, Tox21, BBBP, FreeSolv and ZINC-12k. They are
chosen so that rare elements (57 in all), charges, radicals, isotopes, stereo marks and kinds of
bonds occur. ``impossible.smi`` has the ten of AqSol and Tox21 that no chemistry allows.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rdkit import Chem

from gad.chem import quiet

_HERE = Path(__file__).parent
REAL = (_HERE / "molecules.smi").read_text(encoding="utf-8").split()
IMPOSSIBLE = (_HERE / "impossible.smi").read_text(encoding="utf-8").split()


def real(count: int = len(REAL)) -> list[tuple[str, Chem.Mol]]:
    """Some of the real molecules, as they are written and as RDKit reads them."""
    chosen = np.random.default_rng(0).permutation(len(REAL))[:count]
    with quiet:
        return [(REAL[k], Chem.MolFromSmiles(REAL[k])) for k in chosen]
