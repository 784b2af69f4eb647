"""The plots of the report; None where there is nothing to draw."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from gad.report.svg import BOTTOM, LEFT, RIGHT, TOP, WIDTH, Array, Plot, Scale
from gad.report.text import number

Values: TypeAlias = "ArrayLike | Sequence[float | None]"

MOST_POINTS = 1000
# What lies beyond is the output of a model that has exploded, and would leave the rest a dot.
_LARGEST = 1e100


def parity(
    true: Values, predicted: Values, unit: str = "", q: float | None = None, log: bool = False
) -> Plot | None:
    """Predicted against true values, with the diagonal and, if q is given, the lines at ± q.

    Of very many rows an even choice is drawn, the worst ones among it. With ``log`` the axes are
    logarithmic, and the lines are at 10^±q times the truth.
    """
    y, p = _both(true, predicted)
    if log:
        kept = (y > 0) & (p > 0)
        y, p = y[kept], p[kept]
    if not len(y):
        return None
    span, within = np.concatenate([y, p]), f" / {unit}" if unit else ""
    plot = Plot(
        f"Predicted against true values of {len(y):,} molecules",
        f"true{within}", f"predicted{within}",
        Scale.over(span, LEFT, RIGHT, log=log), Scale.over(span, WIDTH - BOTTOM, TOP, log=log),
    )  # fmt: skip
    low, high = (math.log10(end) if log else end for end in (plot.x.low, plot.x.high))
    for shift in (0.0, *((-q, q) if q is not None and math.isfinite(q) else ())):
        start, end = max(low, low - shift), min(high, high - shift)
        if start < end:
            ends = [(start, start + shift), (end, end + shift)]
            ends = [(10**x, 10**y) for x, y in ends] if log else ends
            plot.line("soft" if shift else "rule", ends)
    for k in _some(np.abs(np.log(p / y) if log else p - y)):
        plot.dot("a dot", y[k], p[k], 2.5, f"true {number(y[k])}, predicted {number(p[k])}")
    return plot


def class_curves(labels: Values, probabilities: Values, bins: int = 10) -> dict[str, Plot]:
    """Four looks at probabilities of two classes; none where there is only one.

    Returns:
        ``roc``: the share of positives found against that of negatives mistaken for them.
        ``precision_recall``: how many of those called positive are so, against the share found.
        ``calibration``: the share of positives among molecules of about the same probability.
        ``thresholds``: recall, precision and F1 of the decisions made at every threshold.
    """
    from sklearn.metrics import precision_recall_curve, roc_curve

    y, p = _both(labels, probabilities)
    if not len(y) or y.min() == y.max():
        return {}
    precision, recall, at = precision_recall_curve(y, p)
    area = Plot("Receiver operating characteristic", "false positive rate", "true positive rate")
    area.line("rule", [(0, 0), (1, 1)])
    area.line("a line", _thinned(*roc_curve(y, p)[:2]))
    found = Plot("Precision against recall", "recall: share of positives found", "precision")
    found.line("rule", [(0, y.mean()), (1, y.mean())])
    found.line("a line", _thinned(recall, precision))

    told = "Share of positives against predicted probability"
    meant = Plot(told, "predicted probability", "share of positives")
    meant.line("rule", [(0, 0), (1, 1)])
    _calibrated(meant, p, y, "positive", bins)

    precision, recall = precision[:-1], recall[:-1]
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    best = int(f1.argmax())
    hint = f"F1 is largest, {number(f1[best])}, at a threshold of {number(at[best])}"
    decided = Plot(f"Decisions by threshold. {hint}", "threshold", "recall, precision, F1")
    for css, values in (("a line", recall), ("b line", precision), ("c line", f1)):
        decided.line(css, _thinned(at, values))
    decided.dot("c best", at[best], f1[best], 5, hint)
    return {"roc": area, "precision_recall": found, "calibration": meant, "thresholds": decided}


def several_classes(
    labels: Values, probabilities: Values, classes: Sequence[str]
) -> dict[str, Plot]:
    """Two looks at probabilities [n, K] of K classes; none where there is only one.

    Returns:
        ``precision_recall``: of each class against the rest, the most frequent ones.
        ``calibration``: how often the likeliest class is right, by its probability.
    """
    from sklearn.metrics import precision_recall_curve

    y, p = _drawable(labels), _drawable(probabilities)
    used = ~np.isnan(y) & ~np.isnan(p).any(1) if p.ndim == 2 else np.zeros(len(y), bool)
    y, p = y[used].astype(int), p[used]
    frequent = most_frequent(y)
    if len(frequent) < 2:
        return {}
    found = Plot("Precision against recall, class by class", "recall", "precision")
    for css, k in zip("abc", frequent, strict=False):
        precision, recall, _ = precision_recall_curve(y == k, p[:, k])
        found.line(f"{css} line", _thinned(recall, precision))
        middle = len(recall) // 2
        hint = f"{classes[k]}: {int((y == k).sum()):,} molecules"
        found.dot(f"{css} dot", recall[middle], precision[middle], 4, hint)
    meant = Plot(
        "Share of right classes against probability", "probability of the likeliest class",
        "share that is right",
    )  # fmt: skip
    meant.line("rule", [(0, 0), (1, 1)])
    _calibrated(meant, p.max(1), (p.argmax(1) == y).astype(np.float64), "right")
    return {"precision_recall": found, "calibration": meant}


def most_frequent(labels: Values) -> list[int]:
    """The numbers of the classes that have a line of their own, the most frequent first.

    >>> most_frequent([2, 0, 2, 1, 1, 2, None])
    [2, 1, 0]
    """
    y = _drawable(labels)
    there, counts = np.unique(y[~np.isnan(y)].astype(int), return_counts=True)
    found: list[int] = there[np.argsort(-counts, kind="stable")].tolist()
    return found[:3]


def confusion(labels: Values, probabilities: Values, count: int) -> list[list[int]]:
    """How many molecules of each class (a row) are taken for each class (a column)."""
    y, p = _drawable(labels), _drawable(probabilities)
    used = ~np.isnan(y) & ~np.isnan(p).any(1) if p.ndim == 2 else np.zeros(len(y), bool)
    table = np.zeros((count, count), dtype=int)
    np.add.at(table, (y[used].astype(int), p[used].argmax(1)), 1)
    return [[int(cell) for cell in row] for row in table]


def by_similarity(similarity: Values, errors: Values, what: str) -> Plot | None:
    """Sizes of errors against similarity to the nearest training molecule, with their mean."""
    x, y = _both(similarity, errors)
    if len(x) < 2 or x.min() == x.max():
        return None
    plot = Plot(
        f"Error of {len(x):,} molecules against similarity to the training set",
        "similarity to the nearest training molecule", what,
        Scale.over(x, LEFT, RIGHT), Scale.over(np.concatenate([[0.0], y]), WIDTH - BOTTOM, TOP),
    )  # fmt: skip
    for k in _some(y):
        plot.dot("a dot", x[k], y[k], 2.5, f"similarity {number(x[k])}, error {number(y[k])}")
    groups = similar_groups(x, y, 5)
    plot.line("b line", [(near, mean) for near, mean, *_ in groups])
    for near, mean, low, high, count in groups:
        hint = (
            f"{count:,} molecules, similarity {number(low)} to {number(high)}: mean {number(mean)}"
        )
        plot.dot("b best", near, mean, 4, hint)
    return plot


def similar_groups(
    similarity: Values, errors: Values, count: int = 3
) -> list[tuple[float, float, float, float, int]]:
    """Groups of equal size, the least similar first: mean similarity and error, range, how many."""
    x, y = _both(similarity, errors)
    parts = np.array_split(np.argsort(x, kind="stable"), count) if len(x) >= 5 * count else []
    return [
        (float(x[p].mean()), float(y[p].mean()), float(x[p].min()), float(x[p].max()), len(p))
        for p in parts
    ]


def learning_curve(
    curves: Sequence[Sequence[Mapping[str, Any]]], best: Sequence[int] = ()
) -> Plot | None:
    """Training and validation loss by epoch, one pair of lines a model, the best epoch marked."""
    tables = [_losses(curve) for curve in curves if curve]
    if not tables or np.isnan(np.vstack(tables)[:, 1:]).all():
        return None
    every = np.vstack(tables)
    seen = every[:, 1:][~np.isnan(every[:, 1:])]
    log = bool(seen.min() > 0 and seen.max() / seen.min() > 8)
    plot = Plot(
        "Loss by epoch: training and validation",
        "epoch", "loss" + (" (log scale)" if log else ""),
        Scale.over(every[:, 0], LEFT, RIGHT), Scale.over(seen, 220, TOP, log=log),
    )  # fmt: skip
    for css, column in (("a line", 1), ("b line", 2)):
        for table in tables:
            plot.line(css, table[~np.isnan(table[:, column])][:, [0, column]])
    for table, epoch in zip(tables, best, strict=False):
        for at, _, value in table[(table[:, 0] == epoch) & ~np.isnan(table[:, 2])][:1]:
            plot.line("soft", [(at, plot.y.low), (at, plot.y.high)])
            plot.dot("b best", at, value, 5, f"best epoch {at:g}: validation loss {number(value)}")
    for epoch, train, value in every[~np.isnan(every[:, 2])] if len(every) <= MOST_POINTS else ():
        hint = f"epoch {epoch:g}: training {number(train)}, validation {number(value)}"
        plot.dot("hover", epoch, value, 5, hint)
    return plot


def reach(layers: Sequence[Sequence[float]]) -> Plot | None:
    """The reach of every channel, √t in bonds, one lane a layer with its quartiles."""
    rows = [_drawable(layer) for layer in layers]
    rows = [row[~np.isnan(row)] for row in rows]
    if not any(len(row) for row in rows):
        return None
    plot = Plot(
        "Reach of the learned diffusion in each layer", "reach √t, in bonds", "layer",
        Scale.over(np.concatenate([[0.0], *rows]), LEFT, RIGHT),
        Scale(0, len(rows), TOP, TOP + 46 * len(rows)), lanes=True,
    )  # fmt: skip
    for k, row in enumerate(rows):
        for channel, value in enumerate(row):
            # Multiples of an irrational number spread evenly, and alike on every run.
            aside = ((channel * 0.7548777) % 1 - 0.5) * 0.62
            hint = f"layer {k + 1}, channel {channel + 1}: {number(value)} bonds"
            plot.dot("a dot", value, k + 0.5 + aside, 3, hint)
        if len(row):
            low, median, high = np.quantile(row, (0.25, 0.5, 0.75))
            top, bottom = k + 0.14, k + 0.86
            plot.line("box", [(low, top), (high, top), (high, bottom), (low, bottom), (low, top)])
            plot.line("b line solid", [(median, top), (median, bottom)])
    return plot


def _calibrated(plot: Plot, p: Array, y: Array, what: str, bins: int = 10) -> None:
    """Draw what is so (0 or 1) against how probable it was said to be, in groups of like p."""
    groups = np.array_split(np.argsort(p, kind="stable"), max(min(bins, len(y) // 5), 1))
    plot.line("a line", [(p[group].mean(), y[group].mean()) for group in groups])
    for group in groups:
        said, was = p[group].mean(), y[group].mean()
        hint = f"{len(group):,} molecules: predicted {number(said)}, {what} {number(was)}"
        plot.dot("a dot", said, was, 4, hint)


def _some(errors: Array) -> list[int]:
    """At most ``MOST_POINTS`` rows: evenly chosen, and the tenth of them that is worst."""
    if len(errors) <= MOST_POINTS:
        return list(range(len(errors)))
    worst = np.argsort(-errors, kind="stable")[: MOST_POINTS // 10]
    even = np.linspace(0, len(errors) - 1, MOST_POINTS - len(worst)).round().astype(int)
    chosen: list[int] = np.union1d(even, worst).tolist()
    return chosen


def _thinned(xs: Array, ys: Array) -> Array:
    """At most 400 points of a curve."""
    shown = np.unique(np.linspace(0, len(xs) - 1, 400).round().astype(int))
    points: Array = np.stack([xs, ys], axis=1)[shown]
    return points


def _both(true: Values, predicted: Values) -> tuple[Array, Array]:
    """The rows where both can be drawn."""
    y, p = _drawable(true).ravel(), _drawable(predicted).ravel()
    used = ~np.isnan(y) & ~np.isnan(p)
    return y[used], p[used]


def _losses(curve: Sequence[Mapping[str, Any]]) -> Array:
    """A row an epoch: its number, training and validation loss."""
    keys = ("train_loss", "val_loss")
    return _drawable([[row.get("epoch", k), *map(row.get, keys)] for k, row in enumerate(curve)])


def _drawable(values: Values) -> Array:
    """Numbers of ordinary size, NaN for the others; None and NaN are missing."""
    array = np.array(values, dtype=np.float64)
    array[~(np.abs(array) < _LARGEST)] = np.nan
    array[np.abs(array) < 1 / _LARGEST] = 0.0
    return array
