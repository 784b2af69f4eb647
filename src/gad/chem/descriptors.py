"""Numbers of a whole molecule: RDKit's 2-D descriptors, and a cheap few."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import Descriptors, rdMolDescriptors

from gad.chem.arrays import AROMATIC, SINGLE, TRIPLE, MoleculeArrays, read
from gad.chem.environments import contributed
from gad.chem.molecule import quiet, usable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_FUNCTIONS: dict[str, Callable[[Chem.Mol], float]] = dict(Descriptors._descList)
# The information content of the distance matrix takes 20 seconds for 265 atoms, and overflows.
_FUNCTIONS = {name: f for name, f in _FUNCTIONS.items() if name not in ("Ipc", "AvgIpc")}

DESCRIPTOR_NAMES = tuple(_FUNCTIONS)
"""Names of :func:`descriptors`, in order: those of the installed RDKit."""

# These read all pairs of atoms, or all paths.
_OF_PAIRS = (
    *("BCUT2D", "Balaban", "Bertz", "Chi", "Kappa", "Phi", "EState", "VSA_EState"),
    *("MaxEState", "MinEState", "MaxAbsEState", "MinAbsEState"),
)
_MANY_ATOMS = 500

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

_LARGEST = 1e6

_RADIUS = np.array([*map(Chem.GetPeriodicTable().GetRb0, range(119))])
# How much shorter than a single bond each kind of bond is, in ångström.
_SHORTER = np.array([0.0, 0.2, 0.3, 0.1, 0.0, 0.1])


def descriptors(mol: Chem.Mol) -> NDArray[np.float64]:
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
            0.0 if many and name.startswith(_OF_PAIRS) else _number(function, mol)
            for name, function in _FUNCTIONS.items()
        ]
    return _finite(np.array(values, dtype=np.float64))


def quick_descriptors(mol: Chem.Mol) -> NDArray[np.float64]:
    """The sixteen descriptors a chemist would look at first, for a model to read beside the graph.

    >>> from gad.chem import parse
    >>> dict(zip(QUICK_DESCRIPTOR_NAMES, quick_descriptors(parse("c1ccccc1O"))))["aromatic_rings"]
    np.float64(1.0)
    """
    values: NDArray[np.float64] = quick_descriptors_of(read([usable(mol)]))[0]
    return values


def quick_descriptors_of(arrays: MoleculeArrays) -> NDArray[np.float64]:
    """:func:`quick_descriptors` of many molecules at once: [G, 16]."""
    number, kind = arrays.number, arrays.kind
    carbon, polar = number == 6, (number == 7) | (number == 8)
    logp, refractivity, polar_area = contributed(arrays).T
    masses = [rdMolDescriptors._CalcMolWt(mol) for mol in arrays.molecules]

    # Bonds that turn: single, in no ring, between atoms that have others and no triple bond.
    still = arrays.degree == 1
    still[arrays.ends[:, kind == TRIPLE]] = True
    _, in_ring = arrays.smallest_ring
    turning = (kind == SINGLE) & (in_ring == 0) & ~still[arrays.ends].any(axis=0)

    def per_ring(unlike: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Rings none of whose entries are ``unlike``."""
        found = np.zeros(arrays.ring_sizes.size, dtype=np.bool_)
        found[arrays.ring[unlike]] = True
        return ~found

    around = kind[arrays.ring_bonds]
    of_atom = arrays.molecule
    of_bond = of_atom[arrays.ends[0]]
    first = arrays.ring_sizes.cumsum() - arrays.ring_sizes
    of_ring = of_atom[arrays.ring_atoms[first]]

    def total(graph: NDArray[np.int64], values: NDArray[Any]) -> NDArray[np.float64]:
        return np.bincount(graph, values, arrays.sizes.size).astype(np.float64, copy=False)

    carbons = total(of_atom, carbon)
    columns = (
        total(of_atom, logp),
        total(of_atom, refractivity),
        total(of_atom, polar_area),
        _surface(arrays),
        np.array(masses),
        total(of_atom, number > 1),
        total(of_atom, ~carbon & (number != 1)),
        total(of_atom, arrays.hydrogens * polar),
        total(of_atom, polar),
        total(of_bond, turning),
        total(of_ring, np.ones_like(of_ring)),
        total(of_ring, per_ring(around != AROMATIC)),
        total(of_ring, ~per_ring(~carbon[arrays.ring_atoms])),
        total(of_ring, per_ring(around != SINGLE)),
        total(of_atom, carbon & (arrays.connections == 4)) / np.maximum(carbons, 1),
        total(of_atom, arrays.charge),
    )
    return _finite(np.stack(columns, axis=1))


def _number(function: Callable[[Chem.Mol], float], mol: Chem.Mol) -> float:
    try:
        return function(mol)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        return 0.0


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.clip(np.nan_to_num(values, nan=0.0, posinf=_LARGEST), -_LARGEST, _LARGEST)


def _surface(arrays: MoleculeArrays) -> NDArray[np.float64]:
    """Labute's approximate surface area [G]: spheres less what their neighbours cover.

    A sphere of radius R shows πR(4R − Σ(r² − (R − d)²/d)), summed over neighbours of radius r at
    distance d. As RDKit has it, one more sphere, a hydrogen, touches all atoms of the molecule.
    """
    radius, hydrogen = _RADIUS[arrays.number], _RADIUS[1]
    here = radius[arrays.ends]
    there = here[::-1]
    apart = np.maximum(here + there - _SHORTER[arrays.kind], np.abs(here - there))
    with np.errstate(divide="ignore", invalid="ignore"):
        cover = there**2 - (here - apart) ** 2 / apart
    covered = hydrogen**2 - hydrogen**2 / (radius + hydrogen)
    covered += np.bincount(arrays.ends.ravel(), cover.ravel(), minlength=radius.size)
    shown = np.pi * radius * (4 * radius - covered)
    shown -= np.pi * hydrogen * (radius**2 - radius**2 / (radius + hydrogen))
    area: NDArray[np.float64] = np.bincount(arrays.molecule, shown) + 4 * np.pi * hydrogen**2
    return area
