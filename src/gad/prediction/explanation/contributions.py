"""What a model's predictions say of each atom: group additivity, exact for every molecule.

The predictions f of a model on its training molecules are written as

    f(molecule) ≈ b + Σ_atoms g(atom),    g(atom) = u[type] + v[group],

with normal priors on u (wide) and v (narrow): an atom is worth what its type is worth, unless its
surroundings say otherwise. The posterior of (u, v) is kept with the model: its mean w [F, T] and
its covariance C [F, F].

A molecule is then explained by the contributions that are likeliest *given its own prediction too*.
With x_i [F] the features of atom i, s = Σ x_i and the rest ρ = f − b − s·w, these are

    atoms_i = x_i·w + (x_iᵀ C s / sᵀ C s) ρ,    so that Σ_i atoms_i = f − b exactly:

what is particular to the molecule goes to the atoms of which the model's predictions said least.
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

# Precisions of u and v, in units of the noise's: a type needs one molecule to be believed, a group
# ten. Where they were chosen: benchmarks/explain.py.
TYPE, GROUP = 1.0, 10.0
# A group of one molecule says nothing that the molecule's own prediction would not; and a model
# file should stay small.
_LEAST_MOLECULES, _MOST_FEATURES = 2, 400


@dataclass(frozen=True, eq=False)
class Contributions:
    """The posterior of what types and groups contribute to T outputs.

    Attributes:
        keys: int64 [F] ascending, of :func:`~gad.prediction.explanation.groups.types_and_groups`.
        weights: [F, T], the mean.
        covariance: [F, F] in units of the noise's variance.
        baseline: b [T].
        fidelity: [T], the share R² of the variance of predictions that b + Σ g alone accounts for,
            on molecules that were not used to find it.
    """

    keys: Integers
    weights: Floats
    covariance: Floats
    baseline: Floats
    fidelity: Floats

    @staticmethod
    def of(
        types: Integers, groups: Integers, molecule: Integers, values: Floats, held: Integers
    ) -> Contributions:
        """From the model's predictions.

        Args:
            types, groups: of N atoms.
            molecule: [N], to which of the G molecules an atom belongs.
            values: [G, T] predictions.
            held: numbers of molecules that are left out, to measure the fidelity on.
        """
        used = np.ones(len(values), dtype=bool)
        used[held] = False
        own = used[molecule]
        keys = _chosen(types[own], groups[own], molecule[own])
        nothing = np.zeros((len(keys), 0))
        empty = Contributions(keys, nothing, nothing, np.zeros(0), np.zeros(0))
        sums = empty.sums(types, groups, molecule, len(values))
        design = np.concatenate([sums, np.ones((len(sums), 1))], axis=1)
        precision = np.append(np.where(keys < FIRST_GROUP, TYPE, GROUP), 1e-6)
        covariance = np.linalg.inv(design[used].T @ design[used] + np.diag(precision))
        weights = covariance @ (design[used].T @ values[used])
        judged = ~used if len(held) > 1 else used
        rest = (values - design @ weights)[judged]
        spread = values[judged].var(0)
        share = np.divide(rest.var(0), spread, out=np.ones_like(spread), where=spread > 0)
        return Contributions(keys, weights[:-1], covariance[:-1, :-1], weights[-1], 1 - share)

    def sums(self, types: Integers, groups: Integers, molecule: Integers, count: int) -> Floats:
        """How often each feature occurs in each of so many molecules [G, F]."""
        found = np.zeros((count, len(self.keys)))
        for keys in (types, groups):
            place, known = self._find(keys)
            np.add.at(found, (molecule[known], place[known]), 1.0)
        return found

    def explain(
        self, types: Integers, groups: Integers, molecule: Integers, values: Floats
    ) -> tuple[Floats, Floats]:
        """Contributions of N atoms [N, T] to the predictions [G, T] of their molecules.

        Those of a molecule add up to its prediction less the baseline. Also returned is ρ [G, T],
        the part of it that is particular to the molecule.
        """
        sums = self.sums(types, groups, molecule, len(values))
        rest = values - self.baseline - sums @ self.weights
        moved = sums @ self.covariance
        share, atoms = np.zeros(len(types)), np.zeros((len(types), self.weights.shape[1]))
        for keys, precision in ((types, TYPE), (groups, GROUP)):
            place, known = self._find(keys)
            atoms[known] += self.weights[place[known]]
            share[known] += moved[molecule[known], place[known]]
            # What was never seen has its prior still: the same for all such atoms of a molecule.
            new = ~known
            share[new] += _repeats(molecule[new], keys[new]) / precision
        total = np.bincount(molecule, share, minlength=len(values))
        atoms += (share / total[molecule])[:, None] * rest[molecule]
        return atoms, rest

    def _find(self, keys: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:
        place = np.searchsorted(self.keys, keys).clip(max=max(len(self.keys) - 1, 0))
        return place, self.keys[place] == keys

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
