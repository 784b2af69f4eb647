"""Probabilities that mean what they say, and sets of classes that hold the truth as promised.

A network is often too sure of itself. Its logits z become slope · z + shift (Platt's scaling for
two classes; for more, the slope alone, which is a temperature), fitted on rows it was not trained
on, and kept only where that makes unseen rows likelier. *Expected calibration error* is what
remains: with rows in groups of like confidence, the mean difference between confidence and the
share that is right.

A prediction set holds every class that cannot be ruled out. Class k is in it where its
probability is at least 1 − q_k, and q_k is the conformal quantile of 1 − p_k over held-out rows
whose label is k [1]_. So of the molecules of each class, rare ones too, at least ``level`` have
it in their set.

.. [1] Vovk, *Conditional validity of inductive conformal predictors*, Machine Learning 2013.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from gad.prediction.intervals import enough, quantile

Floats = npt.NDArray[np.float64]

# As close to 0 and 1 as a probability may come before its logarithm is taken.
_CLOSEST = 1e-6
# In rows: so many would have to speak against leaving probabilities as they are.
_STRENGTH = 5.0
_FOLDS, _LEAST_ROWS = 5, 30
_GROUPS = 15


@dataclass(frozen=True)
class Recalibration:
    """Logits z → slope · z + shift; as they are unless fitted.

    Example:
        >>> Recalibration(slope=0.5)(np.array([0.9])).round(3)
        array([0.75])
    """

    slope: float = 1.0
    shift: float = 0.0

    def __call__(self, probabilities: Floats) -> Floats:
        """Probabilities of 1 [n], or of K classes [n, K], calibrated."""
        if self == Recalibration():
            return probabilities
        return _likely(self.slope * _logits(probabilities) + self.shift)

    @staticmethod
    def fit(probabilities: Floats, labels: Floats, weights: Floats | None = None) -> Recalibration:
        """What makes labels likelier on rows that were not used to find it; else nothing.

        Args:
            probabilities: of 1 [n], or of K classes [n, K].
            labels: the numbers of the classes [n], complete.
            weights: of the rows [n].
        """
        count = len(labels)
        weights = np.ones(count) if weights is None else weights
        if count < _LEAST_ROWS or len(np.unique(labels)) < 2:
            return Recalibration()
        before = after = 0.0
        for part in np.array_split(np.random.default_rng(0).permutation(count), _FOLDS):
            rest = np.setdiff1d(np.arange(count), part)
            found = _fitted(probabilities[rest], labels[rest], weights[rest])
            before += _surprise(probabilities[part], labels[part], weights[part])
            after += _surprise(found(probabilities[part]), labels[part], weights[part])
        better = after < before
        return _fitted(probabilities, labels, weights) if better else Recalibration()

    def to_dict(self) -> dict[str, float]:
        """As JSON can hold it."""
        return asdict(self)


def calibration_error(probabilities: Floats, labels: Floats, groups: int = _GROUPS) -> float | None:
    """The expected calibration error, from 0 to 1; None without labels.

    Rows are sorted by confidence (the probability of 1, or that of the likeliest of K classes) and
    put into groups of equal size, equal ones together; fewer groups where there are few rows.

    Example:
        >>> calibration_error(np.full(100, 0.7), np.arange(100) % 2.0)
        0.2
    """
    there = np.isfinite(labels)
    labels, probabilities = labels[there], probabilities[there]
    if not len(labels):
        return None
    if probabilities.ndim == 1:
        said, was = probabilities, labels
    else:
        said, was = probabilities.max(1), probabilities.argmax(1) == labels
    shares = np.linspace(0, 1, max(1, min(groups, len(said) // 10)) + 1)[1:-1]
    group = np.searchsorted(np.quantile(said, shares), said, side="right")
    gaps = np.bincount(group, said) - np.bincount(group, was)
    return round(float(np.abs(gaps).sum() / len(labels)), 12)


@dataclass(frozen=True)
class Sets:
    """Prediction sets of one target: the threshold 1 − q_k of each class, 0 where it is unknown."""

    least: tuple[float, ...]

    @staticmethod
    def of(probabilities: Floats, labels: Floats, level: float, classes: int) -> Sets:
        """From held-out rows; a class with too few of them is always in the set."""
        each = _each(probabilities)
        least = []
        for k in range(classes):
            own = 1 - each[labels == k, k]
            least.append(1 - quantile(own, level) if len(own) >= enough(level) else 0.0)
        return Sets(tuple(least))

    def __call__(self, probabilities: Floats) -> npt.NDArray[np.bool_]:
        """Which classes cannot be ruled out: [n, K]."""
        # A probability that equals the threshold is in, however the last bit was rounded.
        held: npt.NDArray[np.bool_] = _each(probabilities) >= np.array(self.least) - 1e-12
        return held


class SetCoverage(TypedDict):
    """The share of sets that hold the truth, in all and of each class, and their mean size."""

    coverage: float | None
    size: float | None
    classes: list[float | None]


def coverage_of_sets(
    probabilities: Floats,
    labels: Floats,
    level: float,
    classes: int,
    partitions: int = 20,
    seed: int = 0,
) -> SetCoverage:
    """What sets really hold: calibrated on one random half of the rows, counted on the other.

    Returns:
        ``coverage`` of all, ``classes``: that of each class (None where it has no rows), and the
        mean ``size`` of a set, as means over the partitions.
    """
    there = np.isfinite(labels)
    labels, probabilities = labels[there].astype(np.int64), probabilities[there]
    rng, rows = np.random.default_rng(seed), []
    for _ in range(partitions if len(labels) > 1 else 0):
        order = rng.permutation(len(labels))
        own, test = np.split(order, [(len(order) + 1) // 2])
        held = Sets.of(probabilities[own], labels[own], level, classes)(probabilities[test])
        right = held[np.arange(len(test)), labels[test]]
        each = [right[labels[test] == k] for k in range(classes)]
        rows.append(
            [right.mean(), held.sum(1).mean(), *(e.mean() if len(e) else np.nan for e in each)]
        )
    if not rows:
        return {"coverage": None, "size": None, "classes": [None] * classes}
    table = np.array(rows)
    told = [float(c[np.isfinite(c)].mean()) if np.isfinite(c).any() else None for c in table.T]
    return {"coverage": told[0], "size": told[1], "classes": told[2:]}


def recalibration_of(values: Mapping[str, Any]) -> Recalibration:
    """Read back what a model file has of it."""
    return Recalibration(float(values["slope"]), float(values["shift"]))


def _fitted(probabilities: Floats, labels: Floats, weights: Floats) -> Recalibration:
    from scipy.optimize import minimize

    logits, two = _logits(probabilities), probabilities.ndim == 1
    total = max(float(weights.sum()), 1e-12)

    def cost(w: Floats) -> float:
        slope, shift = math.exp(w[0]), w[1] if two else 0.0
        surprise = _surprise(_likely(slope * logits + shift), labels, weights)
        return (surprise + _STRENGTH * float((w**2).sum())) / total

    found = minimize(cost, np.zeros(2 if two else 1), method="L-BFGS-B").x
    return Recalibration(math.exp(float(found[0])), float(found[1]) if two else 0.0)


def _each(probabilities: Floats) -> Floats:
    """Probabilities of every class [n, K], also where only that of 1 is given."""
    if probabilities.ndim == 2:
        return probabilities
    return np.stack([1 - probabilities, probabilities], axis=1)


def _logits(probabilities: Floats) -> Floats:
    p = np.clip(probabilities, _CLOSEST, 1 - _CLOSEST)
    found: Floats = np.log(p) if p.ndim == 2 else np.log(p) - np.log1p(-p)
    return found


def _likely(logits: Floats) -> Floats:
    from scipy.special import expit, softmax

    found: Floats = expit(logits) if logits.ndim == 1 else softmax(logits, axis=1)
    return found


def _surprise(probabilities: Floats, labels: Floats, weights: Floats) -> float:
    """The sum of −log p of what was true."""
    true = _each(probabilities)[np.arange(len(labels)), labels.astype(np.int64)]
    return float(-(weights * np.log(np.maximum(true, _CLOSEST))).sum())
