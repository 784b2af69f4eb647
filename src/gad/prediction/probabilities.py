"""What probabilities are worth, and sets of classes that hold the truth as promised.

*Expected calibration error*: with rows in groups of like confidence, the mean difference between
confidence and the share that is right.

A prediction set holds every class that cannot be ruled out. Class k is in it where its
probability is at least 1 − q_k, and q_k is the conformal quantile of 1 − p_k over held-out rows
whose label is k [1]_. So of the molecules of each class, rare ones too, at least ``level`` have
it in their set.

.. [1] Vovk, *Conditional validity of inductive conformal predictors*, Machine Learning 2013.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from gad.prediction.intervals import enough, quantile
from gad.prediction.recalibration import each_class

Floats = npt.NDArray[np.float64]

_GROUPS = 15


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
        each = each_class(probabilities)
        least = []
        for k in range(classes):
            own = 1 - each[labels == k, k]
            least.append(1 - quantile(own, level) if len(own) >= enough(level) else 0.0)
        return Sets(tuple(least))

    def __call__(self, probabilities: Floats) -> npt.NDArray[np.bool_]:
        """Which classes cannot be ruled out: [n, K]."""
        # A probability that equals the threshold is in, however the last bit was rounded.
        held: npt.NDArray[np.bool_] = each_class(probabilities) >= np.array(self.least) - 1e-12
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
