"""Group additivity of what a model says: the part of it that a sum over atoms can tell.

What a model adds to its mean prediction on the way to each training molecule, by the states of its
atoms (A) and by whole-molecule values (B, see :mod:`gad.prediction.explanation.paths`), is written
as

    A ≈ a + Σ_atoms g(atom),    B ≈ b + Σ_atoms g'(atom),    g(atom) = u[type] + v[group],

by least squares with normal priors on u (wide) and v (narrower): an atom is worth what its type is
worth, unless its surroundings say otherwise. A molecule with states that add A_i at atom i is then
explained by

    atoms_i = g(i) + g'(i) + Σ_j K_ji (A_j − g(j) − a/n),    whole = B − b − Σ_i g'(i),

which add up to prediction − baseline, whatever g is: a group is worth what it is worth to the model
over all its predictions, and where the network differs from that sum, its own states say where. K
brings states back to the atoms that they came from; its rows add up to 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from gad.prediction.explanation.groups import FIRST_GROUP, Integers
from gad.prediction.explanation.paths import Middle
from gad.prediction.model_file import Part

Floats = npt.NDArray[np.float64]

NAME = "contributions"
"""Of the part of a model file."""

# Precisions of u and v, in units of the noise's: a type is believed after one molecule or so, a
# group after ten.
TYPE, GROUP = 1.0, 10.0
# A group of one molecule says nothing that the molecule's own prediction would not; and a model
# file should stay small.
_LEAST_MOLECULES, _MOST_FEATURES = 2, 400


@dataclass(frozen=True, eq=False)
class Atoms:
    """N atoms of so many molecules.

    Attributes:
        types, groups: [N], of :func:`~gad.prediction.explanation.groups.types_and_groups`.
        molecule: [N], to which molecule an atom belongs.
        molecules: how many there are.
    """

    types: Integers
    groups: Integers
    molecule: Integers
    molecules: int


@dataclass(frozen=True, eq=False)
class Additive:
    """What K types and groups are worth for each of Q columns, and what is left without atoms.

    Attributes:
        keys: int64 [K] ascending, types and groups.
        weights: [K, Q].
        offset: [Q].
    """

    keys: Integers
    weights: Floats
    offset: Floats

    @staticmethod
    def of(atoms: Atoms, sums: Floats, used: npt.NDArray[np.bool_]) -> Additive:
        """From sums [G, Q] over the atoms of those molecules that are ``used`` [G]."""
        own = used[atoms.molecule]
        keys = _chosen(atoms.types[own], atoms.groups[own], atoms.molecule[own])
        design = np.concatenate([_sums(keys, atoms), np.ones((atoms.molecules, 1))], axis=1)[used]
        precision = np.append(np.where(keys < FIRST_GROUP, TYPE, GROUP), 1e-6)
        found = np.linalg.solve(design.T @ design + np.diag(precision), design.T @ sums[used])
        return Additive(keys, found[:-1], found[-1])

    def __call__(self, atoms: Atoms) -> Floats:
        """What each atom is worth [N, Q]; what was never seen, nothing."""
        found = np.zeros((len(atoms.molecule), self.weights.shape[1]))
        for keys in (atoms.types, atoms.groups):
            place, known = _find(self.keys, keys)
            found[known] += self.weights[place[known]]
        return found


@dataclass(frozen=True, eq=False)
class Contributions:
    """What a model keeps to explain itself.

    Attributes:
        groups: of 2T columns: those of A, then those of B.
        middle: the mean molecule.
        baseline: [T]: what is predicted for the mean molecule, less the offsets of A and B.
        fidelity: [T], the share R² of the variance of predictions that the groups alone account
            for, on molecules that were not used to find it.
    """

    groups: Additive
    middle: Middle
    baseline: Floats
    fidelity: Floats

    def to_part(self) -> Part:
        """As a model file keeps it."""
        return Part(
            {"fidelity": [round(float(share), 4) for share in self.fidelity]},
            {
                "keys": torch.from_numpy(self.groups.keys),
                "weights": torch.from_numpy(self.groups.weights),
                "offset": torch.from_numpy(self.groups.offset),
                "baseline": torch.from_numpy(self.baseline),
                "read": self.middle.read,
                "beside": self.middle.beside,
            },
        )

    @staticmethod
    def from_part(part: Part) -> Contributions | None:
        """Read back :meth:`to_part`; None for what an older version wrote."""
        tensors = part.tensors
        if "read" not in tensors:
            return None
        return Contributions(
            Additive(*(tensors[name].numpy() for name in ("keys", "weights", "offset"))),
            Middle(tensors["read"], tensors["beside"]),
            tensors["baseline"].numpy(),
            np.array(part.settings["fidelity"], dtype=np.float64),
        )


def _sums(keys: Integers, atoms: Atoms) -> Floats:
    """How often each key occurs in every molecule [G, K]."""
    found = np.zeros((atoms.molecules, len(keys)))
    for own in (atoms.types, atoms.groups):
        place, known = _find(keys, own)
        np.add.at(found, (atoms.molecule[known], place[known]), 1.0)
    return found


def _find(keys: Integers, wanted: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Where each of the wanted is among the keys, and whether it is there at all."""
    place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return place, keys[place] == wanted


def _chosen(types: Integers, groups: Integers, molecule: Integers) -> Integers:
    """All types, and the most frequent groups of several molecules, ascending."""
    kinds = np.unique(types)
    pairs = np.unique(np.stack([groups, molecule], axis=1), axis=0)
    found, counts = np.unique(pairs[:, 0], return_counts=True)
    often = np.lexsort((found, -counts))[: max(0, _MOST_FEATURES - len(kinds))]
    return np.concatenate([kinds, np.sort(found[often][counts[often] >= _LEAST_MOLECULES])])
