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


def parity(true: Values, predicted: Values, unit: str = "", q: float | None = None) -> Plot | None:
    """Predicted against true values, with the diagonal and, if q is given, the lines at ± q.

    Of very many rows an even choice is drawn, the worst ones among it.
    """
    y, p = _both(true, predicted)
    if not len(y):
        return None
    span, within = np.concatenate([y, p]), f" / {unit}" if unit else ""
    plot = Plot(
        f"Predicted against true values of {len(y):,} molecules",
        f"true{within}", f"predicted{within}",
        Scale.over(span, LEFT, RIGHT), Scale.over(span, WIDTH - BOTTOM, TOP),
    )  # fmt: skip
    low, high = plot.x.low, plot.x.high
    for shift in (0.0, *((-q, q) if q is not None and math.isfinite(q) else ())):
        start, end = max(low, low - shift), min(high, high - shift)
        if start < end:
            plot.line("soft" if shift else "rule", [(start, start + shift), (end, end + shift)])
    for k in _some(np.abs(p - y)):
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
    groups = np.array_split(np.argsort(p, kind="stable"), max(min(bins, len(y) // 5), 1))
    meant.line("a line", [(p[group].mean(), y[group].mean()) for group in groups])
    for group in groups:
        said, was = p[group].mean(), y[group].mean()
        hint = f"{len(group):,} molecules: predicted {number(said)}, positive {number(was)}"
        meant.dot("a dot", said, was, 4, hint)

    precision, recall = precision[:-1], recall[:-1]
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    best = int(f1.argmax())
    hint = f"F1 is largest, {number(f1[best])}, at a threshold of {number(at[best])}"
    decided = Plot(f"Decisions by threshold. {hint}", "threshold", "recall, precision, F1")
    for css, values in (("a line", recall), ("b line", precision), ("c line", f1)):
        decided.line(css, _thinned(at, values))
    decided.dot("c best", at[best], f1[best], 5, hint)
    return {"roc": area, "precision_recall": found, "calibration": meant, "thresholds": decided}


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
