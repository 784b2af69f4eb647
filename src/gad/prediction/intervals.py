"""Intervals that keep their promise: split conformal prediction.

Take rows the model was not fitted to, sort the sizes of its errors there, and let q be the one at
rank ⌈(n + 1) · level⌉. For a new row exchangeable with those, the truth lies within prediction ±
q with probability at least ``level``, whatever the model and however its errors are distributed
[1]_. The promise is about the average row: where errors grow with the molecule, a constant q is
too wide for small molecules and too narrow for large ones. With a difficulty σ(x) that was chosen
on other rows the sizes |error| / σ(x) are sorted instead, and the interval is prediction ± q
σ(x), which keeps the same promise (:mod:`gad.prediction.difficulty`).

.. [1] Lei, G'Sell, Rinaldo, Tibshirani, Wasserman, *Distribution-free predictive inference for
   regression*, JASA 2018.
"""

from __future__ import annotations

import math
from typing import TypeAlias, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[np.float64]


def quantile(residuals: ArrayLike, level: float = 0.9) -> float:
    """The half-width q of an interval: the ⌈(n + 1) · level⌉-th smallest error.

    Args:
        residuals: prediction − truth on held-out rows, of either sign; NaN is missing.
        level: the share of truths that intervals shall cover, between 0 and 1.

    Returns:
        q ≥ 0. With fewer than level / (1 − level) rows (9 for 90 %) the rank exceeds n, and only an
        infinite interval would keep the promise: the largest error is returned instead. NaN
        without any residual.

    Example:
        >>> quantile([0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.7, -0.8, 0.9, -1.0], level=0.8)
        0.9
    """
    level = _checked(level)
    sizes = np.sort(np.abs(np.asarray(residuals, dtype=np.float64).ravel()))  # NaN goes last
    n = int(np.count_nonzero(~np.isnan(sizes)))
    if n == 0:
        return math.nan
    # Rounding may not push an exact rank, such as 10 · 0.9, up by one.
    rank = math.ceil((n + 1) * level - 1e-9)
    return float(sizes[min(rank, n) - 1])


def enough(level: float = 0.9) -> int:
    """How many held-out rows it takes to promise anything: level / (1 − level).

    >>> enough(0.9), enough(0.95)
    (9, 19)
    """
    return math.ceil(_checked(level) / (1 - level) - 1e-9)


def quantiles(residuals: ArrayLike, level: float = 0.9) -> Array:
    """The half-width of each target: residuals [n, T] with NaN where a label is missing → [T].

    Example:
        >>> quantiles([[0.1, 2.0], [-0.2, np.nan]])
        array([0.2, 2. ])
    """
    table = _table(residuals)
    return np.array([quantile(column, level) for column in table.T])


def interval(predictions: ArrayLike, q: ArrayLike) -> tuple[Array, Array]:
    """Lower and upper ends, prediction ∓ q, of predictions [n] with one q or [n, T] with q [T].

    Example:
        >>> lower, upper = interval([1.0, 2.0], 0.5)
        >>> lower.tolist(), upper.tolist()
        ([0.5, 1.5], [1.5, 2.5])
    """
    centre = np.asarray(predictions, dtype=np.float64)
    width = np.asarray(q, dtype=np.float64)
    return centre - width, centre + width


class Coverage(TypedDict):
    """Shares of labels that intervals held, over several halvings of the rows."""

    level: float
    partitions: int
    coverage: float | None
    coverage_min: float | None
    coverage_max: float | None
    targets: list[float | None]


def coverage_of_partitions(
    residuals: ArrayLike, level: float = 0.9, partitions: int = 20, seed: int = 0
) -> Coverage:
    """What intervals really cover: calibrate on one random half of the rows, count on the other.

    Args:
        residuals: prediction − truth on held-out rows, [n] or [n, T]; NaN is missing.
        level: the share that shall be covered.
        partitions: how often the rows are halved.
        seed: of the halving.

    Returns:
        What JSON can hold: mean, smallest and largest share of labels covered over the partitions
        (``coverage``, ``coverage_min``, ``coverage_max``; labels of all targets counted together),
        the mean of each target (``targets``), ``level`` and ``partitions``. None where there are
        not two labels.

    Example:
        >>> told = coverage_of_partitions(np.random.default_rng(0).normal(size=2000))
        >>> abs(told["coverage"] - 0.9) < 0.02
        True
    """
    sizes = np.abs(_table(residuals))
    rng = np.random.default_rng(seed)
    rows, targets = sizes.shape
    covered = np.zeros((partitions, targets))
    labels = np.zeros((partitions, targets))
    for k in range(partitions):
        order = rng.permutation(rows)
        calibration, test = np.split(sizes[order], [(rows + 1) // 2])
        q = quantiles(calibration, level)
        usable = ~np.isnan(test) & ~np.isnan(q)
        covered[k] = ((test <= q) & usable).sum(axis=0)
        labels[k] = usable.sum(axis=0)
    each = [float(c / n) for c, n in zip(covered.sum(axis=1), labels.sum(axis=1), strict=True) if n]
    per_target = [
        float(c / n) if n else None
        for c, n in zip(covered.sum(axis=0), labels.sum(axis=0), strict=True)
    ]
    return {
        "level": _checked(level),
        "partitions": partitions,
        "coverage": float(np.mean(each)) if each else None,
        "coverage_min": min(each, default=None),
        "coverage_max": max(each, default=None),
        "targets": per_target,
    }


def _checked(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"the level must lie between 0 and 1, not be {level}")
    return float(level)


def _table(residuals: ArrayLike) -> Array:
    table = np.asarray(residuals, dtype=np.float64)
    return table[:, None] if table.ndim == 1 else table
