"""Sixteen descriptors of many molecules at once, the numbers RDKit gives one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdMolDescriptors

from gad.chem.fast.arrays import MoleculeArrays
from gad.chem.fast.environments import contributed
from gad.chem.fast.raw import AROMATIC, SINGLE, TRIPLE

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


def quick_descriptors_of(arrays: MoleculeArrays) -> NDArray[np.float64]:
    """:func:`~gad.chem.quick_descriptors` of many molecules at once: [G, 16]."""
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
    return finite(np.stack(columns, axis=1))


def finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is not a number is 0, what is huge is cut at 10⁶."""
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
