"""The plots of the report, as SVG text; "" where there is nothing to draw."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike

from gad.report.svg import BOTTOM, LEFT, RIGHT, TOP, WIDTH, Array, Plot, Scale
from gad.report.text import number

MOST_POINTS = 1000
# What lies beyond is the output of a model that has exploded, and would leave the rest a dot.
_LARGEST = 1e100


def parity(true: ArrayLike, predicted: ArrayLike, unit: str = "", q: float | None = None) -> Markup:
    """Predicted against true values, with the diagonal and, if q is given, the lines at ± q.

    Of very many rows an even choice is drawn, the worst ones among it.
    """
    y, p = _both(true, predicted)
    if not len(y):
        return Markup()
    span, within = np.concatenate([y, p]), f" / {unit}" if unit else ""
    plot = Plot(
        Scale.over(span, LEFT, RIGHT), Scale.over(span, WIDTH - BOTTOM, TOP),
        f"true{within}", f"predicted{within}",
    )  # fmt: skip
    for shift in (0.0, *((-q, q) if q is not None and math.isfinite(q) else ())):
        ends = _diagonal(plot.x.low, plot.x.high, shift)
        if ends:
            plot.line("soft" if shift else "rule", ends)
    for k in _some(np.abs(p - y)):
        plot.dot("a dot", y[k], p[k], 2.5, f"true {number(y[k])}, predicted {number(p[k])}")
    return plot.svg(f"Predicted against true values of {len(y):,} molecules")


def roc(labels: ArrayLike, probabilities: ArrayLike) -> Markup:
    """The share of positives found against the share of negatives mistaken for them."""
    from sklearn.metrics import roc_curve

    y, p = _classes(labels, probabilities)
    if not len(y):
        return Markup()
    plot = Plot.of_shares("false positive rate", "true positive rate")
    plot.line("rule", [(0, 0), (1, 1)])
    plot.line("a line", _thinned(*roc_curve(y, p)[:2]))
    return plot.svg("Receiver operating characteristic")


def precision_recall(labels: ArrayLike, probabilities: ArrayLike) -> Markup:
    """How many of those called positive are so, against the share of positives found."""
    from sklearn.metrics import precision_recall_curve

    y, p = _classes(labels, probabilities)
    if not len(y):
        return Markup()
    precision, recall, _ = precision_recall_curve(y, p)
    plot = Plot.of_shares("recall: share of positives found", "precision")
    plot.line("rule", [(0, y.mean()), (1, y.mean())])
    plot.line("a line", _thinned(recall, precision))
    return plot.svg("Precision against recall")


def calibration(labels: ArrayLike, probabilities: ArrayLike, bins: int = 10) -> Markup:
    """The share of positives among molecules of about the same predicted probability."""
    y, p = _classes(labels, probabilities)
    if not len(y):
        return Markup()
    order = np.argsort(p, kind="stable")
    groups = [group for group in np.array_split(order, min(bins, len(y) // 5 or 1)) if len(group)]
    means = [(float(p[group].mean()), float(y[group].mean())) for group in groups]
    plot = Plot.of_shares("predicted probability", "share of positives")
    plot.line("rule", [(0, 0), (1, 1)])
    plot.line("a line", means)
    for group, (said, was) in zip(groups, means, strict=True):
        hint = f"{len(group):,} molecules: predicted {number(said)}, positive {number(was)}"
        plot.dot("a dot", said, was, 4, hint)
    return plot.svg("Share of positives against predicted probability")


def thresholds(labels: ArrayLike, probabilities: ArrayLike) -> Markup:
    """Recall, precision and F1 of the decisions made at every threshold; the best F1 marked."""
    from sklearn.metrics import precision_recall_curve

    y, p = _classes(labels, probabilities)
    if not len(y):
        return Markup()
    precision, recall, at = precision_recall_curve(y, p)
    precision, recall = precision[:-1], recall[:-1]
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    plot = Plot.of_shares("threshold", "recall, precision, F1")
    for css, values in (("a line", recall), ("b line", precision), ("c line", f1)):
        plot.line(css, _thinned(at, values))
    best = int(f1.argmax())
    hint = f"F1 is largest, {number(f1[best])}, at a threshold of {number(at[best])}"
    plot.dot("c best", at[best], f1[best], 5, hint)
    return plot.svg(f"Recall, precision and F1 against the threshold. {hint}")


def learning_curve(
    curves: Sequence[Sequence[Mapping[str, Any]]], best: Sequence[int] = ()
) -> Markup:
    """Training and validation loss by epoch, one pair of lines a model, the best epoch marked."""
    height = 260
    tables = [_losses(curve) for curve in curves if curve]
    if not tables or np.isnan(np.vstack(tables)[:, 1:]).all():
        return Markup()
    every = np.vstack(tables)
    seen = every[:, 1:][~np.isnan(every[:, 1:])]
    log = bool(seen.min() > 0 and seen.max() / seen.min() > 8)
    x_scale = Scale.over(every[:, 0], LEFT, RIGHT)
    y_scale = Scale.over(seen, height - BOTTOM, TOP, log=log)
    plot = Plot(x_scale, y_scale, "epoch", "loss" + (" (log scale)" if log else ""))
    for css, column in (("a line", 1), ("b line", 2)):
        for table in tables:
            plot.line(css, table[~np.isnan(table[:, column])][:, [0, column]])
    for table, epoch in zip(tables, best, strict=False):
        for at, _, value in table[(table[:, 0] == epoch) & ~np.isnan(table[:, 2])][:1]:
            plot.rule("soft", x_scale(at), x_scale(at), TOP, y_scale.start)
            plot.dot("b best", at, value, 5, f"best epoch {at:g}: validation loss {number(value)}")
    for epoch, train, value in every[~np.isnan(every[:, 2])] if len(every) <= MOST_POINTS else ():
        hint = f"epoch {epoch:g}: training {number(train)}, validation {number(value)}"
        plot.dot("hover", epoch, value, 5, hint)
    return plot.svg("Loss by epoch: training and validation", height)


def reach(layers: Sequence[Sequence[float]]) -> Markup:
    """The reach of every channel, √t in bonds, one strip a layer with its quartiles."""
    rows = [_drawable(layer) for layer in layers]
    rows = [row[~np.isnan(row)] for row in rows]
    if not any(len(row) for row in rows):
        return Markup()
    lane = 46
    height = TOP + lane * len(rows) + BOTTOM
    x_scale = Scale.over(np.concatenate([[0.0], *rows]), LEFT, RIGHT)
    y_scale = Scale(0, len(rows), TOP, height - BOTTOM)
    plot = Plot(x_scale, y_scale, "reach √t, in bonds", "layer", y_ticks=())
    for k, row in enumerate(rows):
        plot.text("tick", LEFT - 8, y_scale(k + 0.5) + 4, str(k + 1))
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
    return plot.svg("Reach of the learned diffusion in each layer", height)


def _diagonal(low: float, high: float, shift: float) -> list[tuple[float, float]]:
    """The ends of y = x + shift within the square [low, high]²; none outside of it."""
    start, end = max(low, low - shift), min(high, high - shift)
    return [(start, start + shift), (end, end + shift)] if start < end else []


def _some(errors: Array) -> list[int]:
    """At most ``MOST_POINTS`` rows: evenly chosen, and the tenth of them that is worst."""
    if len(errors) <= MOST_POINTS:
        return list(range(len(errors)))
    worst = np.argsort(-errors, kind="stable")[: MOST_POINTS // 10]
    even = np.linspace(0, len(errors) - 1, MOST_POINTS - len(worst)).round().astype(int)
    chosen: list[int] = np.union1d(even, worst).tolist()
    return chosen


def _both(true: ArrayLike, predicted: ArrayLike) -> tuple[Array, Array]:
    """The rows where both can be drawn."""
    y, p = _drawable(true).ravel(), _drawable(predicted).ravel()
    used = ~np.isnan(y) & ~np.isnan(p)
    return y[used], p[used]


def _classes(labels: ArrayLike, probabilities: ArrayLike) -> tuple[Array, Array]:
    """The rows where both are known; none if they are all of one class."""
    y, p = _both(labels, probabilities)
    return (y, p) if len(y) and y.min() < y.max() else (y[:0], p[:0])


def _thinned(xs: Array, ys: Array) -> Array:
    """At most 400 points of a curve."""
    shown = np.unique(np.linspace(0, len(xs) - 1, 400).round().astype(int))
    points: Array = np.stack([xs, ys], axis=1)[shown]
    return points


def _losses(curve: Sequence[Mapping[str, Any]]) -> Array:
    """A row an epoch: its number, training and validation loss."""
    keys = ("train_loss", "val_loss")
    return _drawable([[row.get("epoch", k), *map(row.get, keys)] for k, row in enumerate(curve)])


def _drawable(values: ArrayLike) -> Array:
    """Numbers of ordinary size, NaN for the others; None and NaN are missing."""
    array = np.array(values, dtype=np.float64)
    array[~(np.abs(array) < _LARGEST)] = np.nan
    array[np.abs(array) < 1 / _LARGEST] = 0.0
    return array
