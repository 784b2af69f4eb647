"""What each atom adds to the properties of its molecule, by the published group contributions."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
from rdkit.Chem import Atom, rdMolDescriptors
from rdkit.Chem.rdPartialCharges import ComputeGasteigerCharges

from gad.chem.molecule import quiet

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rdkit import Chem

CONTRIBUTION_NAMES = ("logp", "refractivity", "polar_area", "area", "charge")
"""Names of the columns of :func:`contributions`."""

# Typical sizes: logP units, cm³/mol, Å², Å², elementary charges.
_SCALE = np.array([0.5, 4.0, 15.0, 5.0, 0.25], dtype=np.float32)


def contributions(mol: Chem.Mol) -> NDArray[np.float32]:
    """Per-atom shares of five properties of a molecule, in units that make them of order 1.

    Crippen's logP (÷ 0.5) and molar refractivity (÷ 4), Ertl's polar surface area (÷ 15 Å²),
    Labute's surface area (÷ 5 Å²) and Gasteiger's partial charge (÷ 0.25). Charges that RDKit has
    no parameters for (many metals) are 0. They cost as much again as parsing and all other features
    together, most of it Crippen's.

    Returns:
        ``[n, 5]``, the same for any numbering of the atoms.

    >>> from gad.chem import parse
    >>> contributions(parse("CO")).shape
    (2, 5)
    """
    with quiet:
        ComputeGasteigerCharges(mol)
    atoms = map(mol.GetAtomWithIdx, range(mol.GetNumAtoms()))
    logp, refractivity = zip(*rdMolDescriptors._CalcCrippenContribs(mol), strict=True)
    table = np.array(
        [
            logp,
            refractivity,
            rdMolDescriptors._CalcTPSAContribs(mol),
            rdMolDescriptors._CalcLabuteASAContribs(mol)[0],
            list(map(Atom.GetDoubleProp, atoms, repeat("_GasteigerCharge"))),
        ],
        dtype=np.float32,
    )
    np.nan_to_num(table, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    return np.ascontiguousarray(np.divide(table.T, _SCALE, dtype=np.float32))
