"""How good predictions are, target by target.

A metric is a function of truth, prediction and weight, with the tasks it is for and the direction
in which it improves; :data:`REGISTRY` has all of them. Missing labels (NaN) are left out, and a
weight of 2 is the same as listing the row twice, so batches and gaps change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gad.settings.task import Target, Task

Array: TypeAlias = NDArray[np.float64]
Measure: TypeAlias = Callable[[Array, Array, Array], float]

TASKS = ("regression", "classification")
# A sigmoid in float32 comes no closer to 1 than this, so no logarithm is taken closer to 0.
_CLOSEST = float(np.finfo(np.float32).eps)


class Scores(TypedDict):
    """What :func:`score` finds, as JSON can hold it: metric → value, None where there is none."""

    targets: dict[str, dict[str, float | None]]
    mean: dict[str, float | None]
    rows: float


@dataclass(frozen=True)
class Metric:
    """One way to compare predictions with labels.

    Attributes:
        name: the key in every JSON.
        title: the heading in tables.
        kinds: the tasks it is for.
        measure: of truth, prediction and weight, [n] each, complete.
        higher_is_better: the direction in which it improves.
        needs_spread: whether it only exists where the labels differ.
        has_unit: whether it is in the target's unit; such values have no mean over targets.

    Example:
        >>> REGISTRY["mae"]([1.0, 2.0, np.nan], [1.5, 2.0, 9.0])
        0.25
        >>> print(REGISTRY["roc_auc"]([1, 1], [0.3, 0.9]))
        None
    """

    name: str
    title: str
    kinds: frozenset[str]
    measure: Measure
    higher_is_better: bool = False
    needs_spread: bool = False
    has_unit: bool = False

    def __call__(
        self, truth: ArrayLike, prediction: ArrayLike, weight: ArrayLike | None = None
    ) -> float | None:
        """The value for one target [n]; None where it is not defined."""
        y, p = (np.asarray(values, dtype=np.float64) for values in (truth, prediction))
        w = as_weights(weight, len(y))
        used = np.isfinite(y) & np.isfinite(p) & (w > 0)
        y, p, w = y[used], p[used], w[used]
        if not len(y) or (self.needs_spread and y.min() == y.max()):
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            value = self.measure(y, p, w)
        return float(value) if math.isfinite(value) else None

    def best(self, values: Iterable[float]) -> float | None:
        """The best of some values of this metric."""
        return (max if self.higher_is_better else min)(values, default=None)

    def interval(
        self,
        truth: ArrayLike,
        prediction: ArrayLike,
        weight: ArrayLike | None = None,
        *,
        level: float = 0.95,
        resamples: int = 500,
        seed: int = 0,
    ) -> tuple[float, float] | None:
        """Where the value would lie on other rows of the same kind: the bootstrap's percentiles.

        Rows are drawn with replacement, so what counts is how often each was drawn: a weight.

        Example:
            >>> low, high = REGISTRY["mae"].interval(np.zeros(100), np.arange(100) / 50)
            >>> 0.8 < low < 0.99 < high < 1.2
            True
        """
        w = as_weights(weight, len(np.asarray(truth)))
        return bootstrap(partial(self, truth, prediction), w, level, resamples, seed)


def bootstrap(
    measure: Callable[[Array], float | None],
    weights: Array,
    level: float = 0.95,
    resamples: int = 500,
    seed: int = 0,
) -> tuple[float, float] | None:
    """Where a value would lie on other rows of the same kind; None where it mostly is not defined.

    Args:
        measure: of how much each row counts, [n].
        weights: how much it counts if it is drawn once, [n].
        level: the share of the values between both ends.
        resamples: how often rows are drawn.
        seed: of the drawing.
    """
    if measure(weights) is None:
        return None
    rng, rows = np.random.default_rng(seed), len(weights)
    draws = (np.bincount(rng.integers(rows, size=rows), minlength=rows) for _ in range(resamples))
    known = [v for n in draws if (v := measure(n * weights)) is not None]
    if len(known) < resamples / 2:
        return None
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def score(
    task: str,
    targets: ArrayLike,
    predictions: ArrayLike,
    names: Sequence[str],
    weights: ArrayLike | None = None,
) -> Scores:
    """Compare predictions with labels by every metric of a task.

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
    if task not in TASKS:
        raise ValueError(f"the task must be one of {', '.join(TASKS)}, not {task!r}")
    truth, guess = as_table(targets), as_table(predictions)
    if truth.shape != guess.shape or truth.shape[1] != len(names):
        raise ValueError(
            f"targets {truth.shape}, predictions {guess.shape} and {len(names)} names do not fit"
        )
    weight = as_weights(weights, len(truth))
    by_target: dict[str, dict[str, float | None]] = {}
    for name, y, p in zip(names, truth.T, guess.T, strict=True):
        labelled = np.isfinite(y) & (weight > 0)
        used = labelled & np.isfinite(p)
        if task == "classification":
            _check_classes(y[used], p[used])
        by_target[name] = {
            **{metric: REGISTRY[metric](y, p, weight) for metric in METRICS[task]},
            "n": int(used.sum()),
            "rejected": int(labelled.sum() - used.sum()),
        }
    mean = {metric: mean_of(t[metric] for t in by_target.values()) for metric in METRICS[task]}
    return {"targets": by_target, "mean": mean, "rows": len(truth)}


def score_task(
    task: Task,
    labels: Array,
    values: Array,
    weights: ArrayLike | None = None,
    bounds: NDArray[np.int8] | None = None,
) -> Scores:
    """Compare a model's outputs with labels, each target by the metrics of its kind.

    Args:
        task: what the model predicts.
        labels: [n, T], NaN where missing; numbers of classes where there are classes.
        values: [n, W] as a predictor gives them: numbers, probabilities of 1, or one for each of
            several classes.
        weights: [n].
        bounds: [n, T], 1 where the truth is above the label, −1 below. Such a label is no error
            where the prediction is on its side; ranks and R² leave it out.

    Returns:
        as :func:`score`; a metric that is not for a target's kind is None there.
    """
    if task.kind in TASKS and (bounds is None or not bounds.any()):
        return score(task.kind, labels, values, task.names, weights)
    weight, names = as_weights(weights, len(labels)), METRICS[task.kind]
    by_target: dict[str, dict[str, float | None]] = {}
    for place, (target, own) in enumerate(task.each(values)):
        y, found = labels[:, place], dict.fromkeys(names)
        labelled = np.isfinite(y) & (weight > 0)
        used = labelled & np.isfinite(own if own.ndim == 1 else own[:, 0])
        if "multiclass" in (target.kind, task.kind):
            found |= _of_classes(y[used], own[used], weight[used])
        else:
            kind = "regression" if target.kind == "regression" else "classification"
            sides = None if bounds is None else bounds[:, place]
            found |= {
                name: _bounded(REGISTRY[name], y, own, weight, sides) for name in METRICS[kind]
            }
        by_target[target.name] = {
            **{name: found[name] for name in names},
            "n": int(used.sum()),
            "rejected": int(labelled.sum() - used.sum()),
        }
    mean = {name: mean_of(t[name] for t in by_target.values()) for name in names}
    return {"targets": by_target, "mean": mean, "rows": len(labels)}


def value_of(
    target: Target,
    metric: Metric,
    labels: Array,
    values: Array,
    bounds: NDArray[np.int8] | None,
    weights: Array,
) -> float | None:
    """One metric of one target: labels [n], values [n] or, of K classes, [n, K]."""
    if target.kind != "multiclass":
        return _bounded(metric, labels, values, weights, bounds)
    used = np.isfinite(labels) & np.isfinite(values[:, 0]) & (weights > 0)
    return _of_classes(labels[used], values[used], weights[used], metric.name).get(metric.name)


def _bounded(
    metric: Metric, y: Array, p: Array, weight: Array, sides: NDArray[np.int8] | None
) -> float | None:
    """A metric where some labels are bounds: one that holds is no error, or is left out."""
    if sides is None or not sides.any():
        return metric(y, p, weight)
    if metric.needs_spread:
        return metric(np.where(sides == 0, y, np.nan), p, weight)
    holds = ((sides > 0) & (p >= y)) | ((sides < 0) & (p <= y))
    return metric(np.where(holds, p, y), p, weight)


def _of_classes(y: Array, p: Array, w: Array, only: str | None = None) -> dict[str, float | None]:
    """The metrics of several classes, or one: y their numbers [n], p their probabilities [n, K]."""
    from sklearn import metrics

    if not len(y):
        return {}
    p = np.clip(p if p.ndim == 2 else np.stack([1 - p, p], axis=1), _CLOSEST, 1)
    p /= p.sum(1, keepdims=True)
    guess, there = p.argmax(1), np.unique(y)
    mean = {"average": "macro", "labels": there, "sample_weight": w, "zero_division": 0}
    found: dict[str, Callable[[], float]] = {
        "accuracy": lambda: metrics.accuracy_score(y, guess, sample_weight=w),
        "log_loss": lambda: metrics.log_loss(y, p, labels=np.arange(p.shape[1]), sample_weight=w),
        "f1": lambda: metrics.f1_score(y, guess, **mean),
    }
    if len(there) > 1:
        found |= {
            "mcc": lambda: metrics.matthews_corrcoef(y, guess, sample_weight=w),
            "balanced_accuracy": lambda: metrics.recall_score(y, guess, **mean),
            "roc_auc": lambda: np.mean(
                [metrics.roc_auc_score(y == k, p[:, int(k)], sample_weight=w) for k in there]
            ),
        }
    return {name: float(value()) for name, value in found.items() if only in (None, name)}


def find_metric(text: str) -> Metric:
    """The metric a person means: "PR-AUC", "balanced accuracy" and "r2" are all understood.

    Example:
        >>> find_metric("PR-AUC").name, find_metric("R²").name
        ('average_precision', 'r2')
    """

    def plain(name: str) -> str:
        return "".join(filter(str.isalnum, name.lower().replace("²", "2")))

    for metric in REGISTRY.values():
        if plain(text) in (plain(metric.name), plain(metric.title)):
            return metric
    raise ValueError(f"unknown metric {text!r}: choose from {', '.join(REGISTRY)}")


def metric_for(text: str, task: Task) -> Metric:
    """The metric a person means, if it is one for these targets."""
    metric = find_metric(text)
    if metric.name not in METRICS[task.kind]:
        usual = ", ".join(REGISTRY[name].title for name in METRICS[task.kind])
        raise ValueError(f"{metric.title} is no metric of a {task.kind}: choose from {usual}")
    return metric


def mean_of(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are there."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def as_table(values: ArrayLike) -> Array:
    """Numbers as [rows, targets]; a single target may come as [rows]."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim not in (1, 2):
        raise ValueError(f"expected a table [rows, targets], got the shape {table.shape}")
    return table if table.ndim == 2 else table[:, None]


def as_weights(weights: ArrayLike | None, rows: int) -> Array:
    """Weights of the rows, 1 for every row if not given."""
    if weights is None:
        return np.ones(rows)
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != (rows,) or not (np.isfinite(given).all() and (given >= 0).all()):
        raise ValueError(f"weights must be {rows} numbers that are not negative")
    return given


def _sklearn(function: str, *, decided: bool = False, **options: Any) -> Measure:
    """A metric of scikit-learn, which is loaded when needed; of decisions at p = 0.5 if wanted."""

    def measure(y: Array, p: Array, w: Array) -> float:
        from sklearn import metrics

        guess = (p >= 0.5).astype(np.float64) if decided else p
        return float(getattr(metrics, function)(y, guess, sample_weight=w, **options))

    return measure


def _log_loss(y: Array, p: Array, w: Array) -> float:
    return _sklearn("log_loss", labels=[0, 1])(y, np.clip(p, _CLOSEST, 1 - _CLOSEST), w)


def _spearman(y: Array, p: Array, w: Array) -> float:
    """The correlation of the ranks. SciPy's own, which knows no weights, is the same without."""
    (yy, yp), (_, pp) = np.cov(_ranks(y, w), _ranks(p, w), aweights=w, ddof=0)
    return float(yp / np.sqrt(yy * pp)) if pp > 0 else math.nan


def _ranks(values: Array, w: Array) -> Array:
    """Ranks, equal values sharing the middle one: the weight below and half the weight here."""
    _, where = np.unique(values, return_inverse=True)
    here = np.bincount(where, w)
    ranks: Array = (np.cumsum(here) - here / 2)[where]
    return ranks


def _check_classes(y: Array, p: Array) -> None:
    if not np.isin(y, (0, 1)).all():
        raise ValueError("labels of a classification must be 0 or 1 (NaN where missing)")
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("predictions of a classification must be probabilities, between 0 and 1")


_VALUES, _CLASSES = frozenset({"regression"}), frozenset({"classification"})
_UP: dict[str, bool] = {"higher_is_better": True}
_RANK: dict[str, bool] = {"higher_is_better": True, "needs_spread": True}
_square = _sklearn("mean_squared_error")
_precision = _sklearn("average_precision_score")
_accuracy = _sklearn("accuracy_score", decided=True)
_f1 = _sklearn("f1_score", decided=True, zero_division=math.nan)
_mcc = _sklearn("matthews_corrcoef", decided=True)
_balanced = _sklearn("balanced_accuracy_score", decided=True)

REGISTRY: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("mae", "MAE", _VALUES, _sklearn("mean_absolute_error"), has_unit=True),
        Metric("rmse", "RMSE", _VALUES, lambda *a: math.sqrt(_square(*a)), has_unit=True),
        Metric("r2", "R²", _VALUES, _sklearn("r2_score"), **_RANK),
        Metric("spearman", "Spearman", _VALUES, _spearman, **_RANK),
        Metric("roc_auc", "ROC-AUC", _CLASSES, _sklearn("roc_auc_score"), **_RANK),
        Metric("average_precision", "PR-AUC", _CLASSES, _precision, **_RANK),
        Metric("accuracy", "accuracy", _CLASSES, _accuracy, **_UP),
        Metric("log_loss", "log loss", _CLASSES, _log_loss),
        Metric("brier", "Brier", _CLASSES, _square),
        Metric("f1", "F1", _CLASSES, _f1, **_UP),
        Metric("mcc", "MCC", _CLASSES, _mcc, **_RANK),
        Metric("balanced_accuracy", "balanced accuracy", _CLASSES, _balanced, **_RANK),
    )
}
METRICS = {task: tuple(n for n, m in REGISTRY.items() if task in m.kinds) for task in TASKS}
METRICS["multiclass"] = ("balanced_accuracy", "roc_auc", "accuracy", "f1", "mcc", "log_loss")
METRICS["mixed"] = (*METRICS["regression"], *METRICS["classification"])
METRIC_NAMES = {name: metric.title for name, metric in REGISTRY.items()}
MAIN_METRIC = {
    "regression": "mae", "classification": "roc_auc", "multiclass": "balanced_accuracy",
    "mixed": "mae",
}  # fmt: skip
HIGHER_IS_BETTER = frozenset(name for name, m in REGISTRY.items() if m.higher_is_better)
