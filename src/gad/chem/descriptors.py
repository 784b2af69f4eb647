"""Numbers of a whole molecule: RDKit's 2-D descriptors, and a cheap few."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rdkit import Chem
from rdkit.Chem import Descriptors, rdMolDescriptors

from gad.chem.molecule import quiet, usable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

DESCRIPTOR_NAMES = tuple(name for name, _ in Descriptors._descList)
"""Names of :func:`descriptors`, in order: those of the installed RDKit."""

QUICK_DESCRIPTOR_NAMES = (
    "logp",
    "refractivity",
    "polar_area",
    "area",
    "weight",
    "heavy_atoms",
    "heteroatoms",
    "donors",
    "acceptors",
    "rotatable_bonds",
    "rings",
    "aromatic_rings",
    "heterocycles",
    "saturated_rings",
    "fraction_sp3",
    "charge",
)
"""Names of :func:`quick_descriptors`, in order."""

# Ipc grows exponentially with the number of atoms; the largest of the others are thousands.
_LARGEST = 1e6


def descriptors(mol: Chem.Mol) -> NDArray[np.float64]:
    """All of RDKit's 2-D descriptors; what cannot be computed is 0, what is huge is cut at 10⁶.

    Takes some milliseconds; for baselines.

    >>> from gad.chem import parse
    >>> dict(zip(DESCRIPTOR_NAMES, descriptors(parse("CCO"))))["HeavyAtomCount"]
    np.float64(3.0)
    """
    with quiet:
        calculate: Callable[..., dict[str, float]] = Descriptors.CalcMolDescriptors
        values = calculate(usable(mol), missingVal=0.0)
    return _finite([values[name] for name in DESCRIPTOR_NAMES])


def quick_descriptors(mol: Chem.Mol) -> NDArray[np.float64]:
    """The sixteen descriptors a chemist would look at first, for a model to read beside the graph.

    Crippen's logP and molar refractivity take three quarters of the time.

    >>> from gad.chem import parse
    >>> dict(zip(QUICK_DESCRIPTOR_NAMES, quick_descriptors(parse("c1ccccc1O"))))["aromatic_rings"]
    np.float64(1.0)
    """
    mol = usable(mol)
    return _finite(
        [
            *rdMolDescriptors.CalcCrippenDescriptors(mol),
            rdMolDescriptors.CalcTPSA(mol),
            rdMolDescriptors.CalcLabuteASA(mol),
            rdMolDescriptors._CalcMolWt(mol),
            mol.GetNumHeavyAtoms(),
            rdMolDescriptors.CalcNumHeteroatoms(mol),
            rdMolDescriptors.CalcNumLipinskiHBD(mol),
            rdMolDescriptors.CalcNumLipinskiHBA(mol),
            rdMolDescriptors.CalcNumRotatableBonds(mol, False),
            rdMolDescriptors.CalcNumRings(mol),
            rdMolDescriptors.CalcNumAromaticRings(mol),
            rdMolDescriptors.CalcNumHeterocycles(mol),
            rdMolDescriptors.CalcNumSaturatedRings(mol),
            rdMolDescriptors.CalcFractionCSP3(mol),
            Chem.GetFormalCharge(mol),
        ]
    )


def _finite(values: list[float]) -> NDArray[np.float64]:
    array = np.array(values, dtype=np.float64)
    return np.clip(np.nan_to_num(array, nan=0.0, posinf=_LARGEST), -_LARGEST, _LARGEST)
