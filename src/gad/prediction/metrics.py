"""How good predictions are, target by target.

Every number is a sum over labels divided by a sum over labels, so neither the size of a batch nor a
missing label (NaN) changes it. A row may carry a weight; 2 is the same as listing the row twice.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[np.float64]
Task: TypeAlias = Literal["regression", "classification"]
Scores: TypeAlias = dict[str, Any]

METRICS: dict[str, tuple[str, ...]] = {
    "regression": ("mae", "rmse", "r2", "spearman"),
    "classification": ("roc_auc", "average_precision", "accuracy", "log_loss", "brier"),
}
MAIN_METRIC = {"regression": "mae", "classification": "roc_auc"}
HIGHER_IS_BETTER = frozenset({"r2", "spearman", "roc_auc", "average_precision", "accuracy"})

# A sigmoid in float32 comes no closer to 1 than this, so no logarithm is taken closer to 0.
_CLOSEST = float(np.finfo(np.float32).eps)


def score(
    task: str,
    targets: ArrayLike,
    predictions: ArrayLike,
    names: list[str] | tuple[str, ...],
    weights: ArrayLike | None = None,
) -> Scores:
    """Compare predictions with labels.

    Args:
        task: ``"regression"``, or ``"classification"`` into 0 and 1.
        targets: [n, T] labels; what is not finite is missing.
        predictions: [n, T] values, or probabilities of 1. One that is not finite is left out and
            counted as rejected.
        names: of the T targets.
        weights: [n], 1 for every row if not given.

    Returns:
        What JSON can hold: ``{"targets": {name: {...}}, "mean": {...}, "rows": n}``. Under a name
        are ``METRICS[task]``, the number of labels ``n`` and of ``rejected`` predictions; under
        ``"mean"`` each metric's mean over the targets that have one. A metric that does not exist
        (no labels, one class only, constant labels) is None.

    Example:
        >>> s = score("regression", [[1.0], [2.0], [np.nan]], [[1.5], [2.0], [9.0]], ["logS"])
        >>> s["targets"]["logS"]["mae"], s["targets"]["logS"]["n"], s["rows"]
        (0.25, 2, 3)
    """
    if task not in METRICS:
        raise ValueError(f"the task must be one of {', '.join(METRICS)}, not {task!r}")
    truth, guess = _table(targets), _table(predictions)
    if truth.shape != guess.shape or truth.shape[1] != len(names):
        raise ValueError(
            f"targets {truth.shape}, predictions {guess.shape} and {len(names)} names do not fit"
        )
    weight = _weights(weights, len(truth))
    measure = _regression if task == "regression" else _classification
    by_target: dict[str, Scores] = {}
    for column, name in enumerate(names):
        labelled = np.isfinite(truth[:, column]) & (weight > 0)
        used = labelled & np.isfinite(guess[:, column])
        values: dict[str, float] = {}
        if used.any():
            with np.errstate(over="ignore", invalid="ignore"):
                values = measure(truth[used, column], guess[used, column], weight[used])
        by_target[name] = {
            **{metric: _number(values.get(metric)) for metric in METRICS[task]},
            "n": int(used.sum()),
            "rejected": int(labelled.sum() - used.sum()),
        }
    return {
        "targets": by_target,
        "mean": {metric: _mean(by_target, metric) for metric in METRICS[task]},
        "rows": len(truth),
    }


def roc_curve(labels: ArrayLike, probabilities: ArrayLike) -> tuple[Array, Array]:
    """False and true positive rates, from (0, 0) to (1, 1), as the threshold falls.

    Rows with a missing label or probability are left out; with one class only there is no curve and
    both are empty.

    Example:
        >>> [rate.tolist() for rate in roc_curve([0, 1, 0, 1], [0.1, 0.4, 0.4, 0.9])]
        [[0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0]]
    """
    y = np.asarray(labels, dtype=np.float64).ravel()
    p = np.asarray(probabilities, dtype=np.float64).ravel()
    used = np.isfinite(y) & np.isfinite(p)
    positive, negative = _by_threshold(y[used], p[used], np.ones(int(used.sum())))
    if not (positive.any() and negative.any()):
        return np.empty(0), np.empty(0)
    rates = [np.concatenate([[0.0], np.cumsum(c)]) / c.sum() for c in (negative, positive)]
    return rates[0], rates[1]


def _regression(y: Array, p: Array, w: Array) -> dict[str, float]:
    total = w.sum()
    error = p - y
    squares = w @ error**2
    found = {"mae": (w @ np.abs(error)) / total, "rmse": np.sqrt(squares / total)}
    if y.min() < y.max():
        found["r2"] = 1 - squares / (w @ (y - (w @ y) / total) ** 2)
        if p.min() < p.max():
            found["spearman"] = _correlation(_ranks(y, w), _ranks(p, w), w)
    return found


def _classification(y: Array, p: Array, w: Array) -> dict[str, float]:
    if not np.isin(y, (0, 1)).all():
        raise ValueError("labels of a classification must be 0 or 1 (NaN where missing)")
    if p.min() < 0 or p.max() > 1:
        raise ValueError("predictions of a classification must be probabilities, between 0 and 1")
    total = w.sum()
    close = np.clip(p, _CLOSEST, 1 - _CLOSEST)
    found = {
        "accuracy": (w @ ((p >= 0.5) == (y == 1))) / total,
        "log_loss": -(w @ np.log(np.where(y == 1, close, 1 - close))) / total,
        "brier": (w @ (p - y) ** 2) / total,
    }
    positive, negative = _by_threshold(y, p, w)
    if positive.any() and negative.any():
        # A positive beats the negatives below its probability, and half of those that equal it.
        above = np.cumsum(negative)
        beaten = negative.sum() - above + negative / 2
        found["roc_auc"] = (positive @ beaten) / (positive.sum() * negative.sum())
        precision = np.cumsum(positive) / np.cumsum(positive + negative)
        found["average_precision"] = (positive @ precision) / positive.sum()
    return found


def _by_threshold(y: Array, p: Array, w: Array) -> tuple[Array, Array]:
    """Weight of the positives and of the negatives at each distinct probability, highest first."""
    distinct, where = np.unique(-p, return_inverse=True)
    count = len(distinct)
    positive: Array = np.bincount(where, w * y, count).astype(np.float64)
    return positive, np.bincount(where, w, count) - positive


def _ranks(values: Array, w: Array) -> Array:
    """Ranks, equal values sharing the middle one: the weight below and half the weight here."""
    _, where = np.unique(values, return_inverse=True)
    here = np.bincount(where, w)
    ranks: Array = (np.cumsum(here) - here / 2)[where]
    return ranks


def _correlation(a: Array, b: Array, w: Array) -> float:
    a, b = a - (w @ a) / w.sum(), b - (w @ b) / w.sum()
    return float((w @ (a * b)) / np.sqrt((w @ a**2) * (w @ b**2)))


def _table(values: ArrayLike) -> Array:
    table = np.asarray(values, dtype=np.float64)
    if table.ndim not in (1, 2):
        raise ValueError(f"expected a table [rows, targets], got the shape {table.shape}")
    return table if table.ndim == 2 else table[:, None]


def _weights(weights: ArrayLike | None, rows: int) -> Array:
    if weights is None:
        return np.ones(rows)
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != (rows,) or not (np.isfinite(given).all() and (given >= 0).all()):
        raise ValueError(f"weights must be {rows} numbers that are not negative")
    return given


def _number(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def _mean(by_target: dict[str, Scores], metric: str) -> float | None:
    values = [t[metric] for t in by_target.values() if t[metric] is not None]
    return float(np.mean(values)) if values else None
