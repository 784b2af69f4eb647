"""Numbers of a whole molecule: RDKit's 2-D descriptors, and a cheap few."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rdkit import Chem
from rdkit.Chem import Descriptors

from gad.chem.fast.arrays import read
from gad.chem.fast.descriptors import finite, quick_descriptors_of
from gad.chem.molecule import quiet, usable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_FUNCTIONS: dict[str, Callable[[Chem.Mol], float]] = dict(Descriptors._descList)
# The information content of the distance matrix takes 20 seconds for 265 atoms, and overflows.
_FUNCTIONS = {name: f for name, f in _FUNCTIONS.items() if name not in ("Ipc", "AvgIpc")}

DESCRIPTOR_NAMES = tuple(_FUNCTIONS)
"""Names of :func:`descriptors`, in order: those of the installed RDKit."""

# Half of the time for little that the others do not say.
_DEAR = ("qed", "SPS", "BertzCT", "MaxAbsEStateIndex", "MinAbsEStateIndex", "FpDensity")
CHEAPER_NAMES = tuple(name for name in DESCRIPTOR_NAMES if not name.startswith(_DEAR))
"""Names of the descriptors that together take half of the time of all."""

# These read all pairs of atoms, or all paths.
_OF_PAIRS = (
    *("BCUT2D", "Balaban", "Bertz", "Chi", "Kappa", "Phi", "EState", "VSA_EState"),
    *("MaxEState", "MinEState", "MaxAbsEState", "MinAbsEState"),
)
_MANY_ATOMS = 500


def descriptors(mol: Chem.Mol, names: tuple[str, ...] = DESCRIPTOR_NAMES) -> NDArray[np.float64]:
    """RDKit's 2-D descriptors, about 200; what cannot be computed is 0, what is huge is cut at 10⁶.

    Takes ten milliseconds or so; for baselines. With more than 500 atoms those that read all pairs
    of atoms are 0 too: their time grows with the cube of the number.

    >>> from gad.chem import parse
    >>> dict(zip(DESCRIPTOR_NAMES, descriptors(parse("CCO"))))["HeavyAtomCount"]
    np.float64(3.0)
    """
    mol = usable(mol)
    many = mol.GetNumAtoms() > _MANY_ATOMS
    with quiet:
        values = [
            0.0 if many and name.startswith(_OF_PAIRS) else _number(_FUNCTIONS[name], mol)
            for name in names
        ]
    return finite(np.array(values, dtype=np.float64))


def quick_descriptors(mol: Chem.Mol) -> NDArray[np.float64]:
    """The sixteen descriptors a chemist would look at first, for a model to read beside the graph.

    >>> from gad.chem import QUICK_DESCRIPTOR_NAMES, parse
    >>> dict(zip(QUICK_DESCRIPTOR_NAMES, quick_descriptors(parse("c1ccccc1O"))))["aromatic_rings"]
    np.float64(1.0)
    """
    values: NDArray[np.float64] = quick_descriptors_of(read([usable(mol)]))[0]
    return values


def _number(function: Callable[[Chem.Mol], float], mol: Chem.Mol) -> float:
    try:
        return function(mol)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        return 0.0
