"""What a model's predictions say of each atom: group additivity, exact for every molecule.

The predictions f of a model on its training molecules are written as

    f(molecule) ≈ b + Σ_atoms g(atom) + z·β,    g(atom) = u[type] + v[group],

with z the whole-molecule values that the model reads, if any, and normal priors on u (wide), v
(narrower) and β (narrow): an atom is worth what its type is worth, unless its surroundings say
otherwise, and z has what the atoms cannot say. The posterior of w = (u, v, β) is kept with the
model: its mean [F, T] and its covariance C [F, F].

A molecule is then explained by the contributions that are likeliest *given its own prediction too*.
With x_i [F] the features of atom i, s = Σ x_i + z and the rest ρ = f − b − s·w, these are

    atoms_i = x_i·w + (x_iᵀ C s / sᵀ C s) ρ,    whole = z·w + (zᵀ C s / sᵀ C s) ρ,

which add up to f − b exactly: what is particular to the molecule goes to those of which the model's
predictions said least.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from gad.prediction.explanation.groups import FIRST_GROUP, Integers
from gad.prediction.model_file import Part

Floats = npt.NDArray[np.float64]

NAME = "contributions"
"""Of the part of a model file."""

# Precisions of u, v and β, in units of the noise's: a type is believed after one molecule or so, a
# group after ten, a whole-molecule value after a hundred.
TYPE, GROUP, VALUE = 1.0, 10.0, 100.0
# A group of one molecule says nothing that the molecule's own prediction would not; and a model
# file should stay small.
_LEAST_MOLECULES, _MOST_FEATURES = 2, 400


@dataclass(frozen=True, eq=False)
class Atoms:
    """N atoms of G molecules, and D values of the whole molecules.

    Attributes:
        types, groups: [N], of :func:`~gad.prediction.explanation.groups.types_and_groups`.
        molecule: [N], to which molecule an atom belongs.
        values: [G, D], of order 1.
    """

    types: Integers
    groups: Integers
    molecule: Integers
    values: Floats


@dataclass(frozen=True, eq=False)
class Contributions:
    """The posterior of what K types and groups and D values contribute to T outputs; F = K + D.

    Attributes:
        keys: int64 [K] ascending, types and groups.
        weights: [F, T], the mean.
        covariance: [F, F] in units of the noise's variance.
        baseline: b [T].
        fidelity: [T], the share R² of the variance of predictions that the mean alone accounts for,
            on molecules that were not used to find it.
    """

    keys: Integers
    weights: Floats
    covariance: Floats
    baseline: Floats
    fidelity: Floats

    @staticmethod
    def of(atoms: Atoms, predicted: Floats, held: Integers) -> Contributions:
        """From the model's predictions [G, T]; molecules ``held`` out measure the fidelity."""
        used = np.ones(len(predicted), dtype=bool)
        used[held] = False
        own = used[atoms.molecule]
        keys = _chosen(atoms.types[own], atoms.groups[own], atoms.molecule[own])
        design = np.concatenate([_sums(keys, atoms), np.ones((len(predicted), 1))], axis=1)
        precision = np.concatenate(
            [
                np.where(keys < FIRST_GROUP, TYPE, GROUP),
                np.full(atoms.values.shape[1], VALUE),
                [1e-6],
            ]
        )
        covariance = np.linalg.inv(design[used].T @ design[used] + np.diag(precision))
        weights = covariance @ (design[used].T @ predicted[used])
        judged = ~used if len(held) > 1 else used
        rest = (predicted - design @ weights)[judged]
        spread = predicted[judged].var(0)
        share = np.divide(rest.var(0), spread, out=np.ones_like(spread), where=spread > 0)
        return Contributions(keys, weights[:-1], covariance[:-1, :-1], weights[-1], 1 - share)

    def explain(self, atoms: Atoms, predicted: Floats) -> tuple[Floats, Floats, Floats]:
        """What atoms and values contribute to the predictions [G, T] of their molecules.

        Returns:
            of the atoms [N, T]; of the values [G, T]; and ρ [G, T], the part of either that is
            particular to the molecule.
        """
        count, molecule = len(self.keys), atoms.molecule
        sums = _sums(self.keys, atoms)
        rest = predicted - self.baseline - sums @ self.weights
        moved = sums @ self.covariance
        found, share = np.zeros((len(molecule), self.weights.shape[1])), np.zeros(len(molecule))
        for keys, precision in ((atoms.types, TYPE), (atoms.groups, GROUP)):
            place, known = _find(self.keys, keys)
            found[known] += self.weights[place[known]]
            share[known] += moved[molecule[known], place[known]]
            # What was never seen has its prior still: the same for all such atoms of a molecule.
            share[~known] += _repeats(molecule[~known], keys[~known]) / precision
        of_values = (atoms.values * moved[:, count:]).sum(1)
        total = np.bincount(molecule, share, minlength=len(predicted)) + of_values
        found += (share / total[molecule])[:, None] * rest[molecule]
        whole = atoms.values @ self.weights[count:] + (of_values / total)[:, None] * rest
        return found, whole, rest

    def to_part(self) -> Part:
        """As a model file keeps it."""
        return Part(
            {"fidelity": [round(float(share), 4) for share in self.fidelity]},
            {
                "keys": torch.from_numpy(self.keys),
                "weights": torch.from_numpy(self.weights),
                "covariance": torch.from_numpy(self.covariance).float(),
                "baseline": torch.from_numpy(self.baseline),
            },
        )

    @staticmethod
    def from_part(part: Part) -> Contributions:
        """Read back :meth:`to_part`."""
        tensors = {name: part.tensors[name].numpy() for name in part.tensors}
        return Contributions(
            keys=tensors["keys"],
            weights=tensors["weights"],
            covariance=tensors["covariance"].astype(np.float64),
            baseline=tensors["baseline"],
            fidelity=np.array(part.settings["fidelity"], dtype=np.float64),
        )


def _sums(keys: Integers, atoms: Atoms) -> Floats:
    """The features of every molecule [G, F]: how often each key occurs, and its values."""
    found = np.zeros((len(atoms.values), len(keys)))
    for own in (atoms.types, atoms.groups):
        place, known = _find(keys, own)
        np.add.at(found, (atoms.molecule[known], place[known]), 1.0)
    return np.concatenate([found, atoms.values], axis=1)


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


def _repeats(molecule: Integers, keys: Integers) -> Floats:
    """Of each atom, how many of its molecule have its key."""
    pairs = np.stack([molecule, keys], axis=1)
    _, inverse, counts = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    return counts[inverse.reshape(-1)].astype(np.float64)
