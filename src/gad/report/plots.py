"""Small plots as SVG text: no library, no network, sharp on any screen.

Colours, line widths and the two themes are the page's business: everything here carries a class
(``a`` and ``b`` for the two colours, ``axis``, ``grid``, ``soft``). A value can be read by hovering
over its point.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gad.prediction.metrics import roc_curve

Array: TypeAlias = NDArray[np.float64]

WIDTH = 400
MOST_POINTS = 1000
# What lies beyond is the output of a model that has exploded, and would leave the rest a dot.
_LARGEST = 1e100
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 12, 12, 40


def number(value: float | None, decimals: int | None = None) -> str:
    """A number for people: three significant digits, or so many decimals; a dash for none.

    >>> number(0.012345), number(-1234.5), number(2.0, 3), number(None)
    ('0.0123', '−1,234', '2.000', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if decimals is None:
        size = abs(value)
        decimals = 0 if size == 0 else 2 - math.floor(math.log10(size))
        if not -5 < decimals < 8:
            return f"{value:.2e}".replace("-", "−")
        text = f"{value:,.{max(decimals, 0)}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        text = f"{value:,.{decimals}f}"
    if not text.strip("-0.,"):
        text = text.lstrip("-")  # rounded to nothing: −0.00 is 0.00
    return text.replace("-", "−")


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers within [low, high], about ``count`` of them.

    >>> ticks(-0.3, 9.1)
    [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = min((power * k for k in (1, 2, 5, 10)), key=lambda s: abs(math.log(s / rough)))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = 3 - math.floor(math.log10(step))
    return [round(k * step, digits) for k in range(first, last + 1)]


@dataclass(frozen=True)
class Scale:
    """A line from values [low, high] to places [start, end], logarithmic if wanted."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @staticmethod
    def over(values: Array, start: float, end: float, *, log: bool = False) -> Scale:
        """The scale that holds all values, with a little room."""
        low, high = float(values.min()), float(values.max())
        if log:
            room = (high / low) ** 0.04 if high > low else 2.0
            return Scale(low / room, high * room, start, end, log=True)
        room = 0.04 * (high - low) or 0.5 * abs(low) or 1.0
        return Scale(low - room, high + room, start, end)

    def __call__(self, value: float) -> float:
        """The place of a value, to a tenth of a pixel."""
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """Round numbers on the scale."""
        if self.log:
            first = math.floor(math.log10(self.low))
            last = math.ceil(math.log10(self.high))
            for digits in ((1,), (1, 3), (1, 2, 5)):
                marks = [d * 10.0**p for p in range(first, last + 1) for d in digits]
                marks = [mark for mark in marks if self.low <= mark <= self.high]
                if len(marks) > 2:
                    return marks[:: math.ceil(len(marks) / 8)]
        return ticks(self.low, self.high)


def parity(true: ArrayLike, predicted: ArrayLike, unit: str = "", q: float | None = None) -> str:
    """Predicted against true values, with the diagonal and, if q is given, the lines at ± q.

    Of very many rows an even choice is drawn, the worst ones among it.
    """
    y, p = _both(true, predicted)
    if not len(y):
        return ""
    span = np.concatenate([y, p])
    x_scale = Scale.over(span, _LEFT, WIDTH - _RIGHT)
    y_scale = Scale.over(span, WIDTH - _BOTTOM, _TOP)
    parts = [_frame(x_scale, y_scale, "true" + _in(unit), "predicted" + _in(unit))]
    for shift in (0.0, *((-q, q) if q is not None and math.isfinite(q) else ())):
        ends = _diagonal(x_scale.low, x_scale.high, shift)
        if ends:
            places = " ".join(f"{x_scale(a)},{y_scale(b)}" for a, b in ends)
            parts.append(f'<polyline class="{"soft" if shift else "rule"}" points="{places}"/>')
    for k in _some(np.abs(p - y)):
        hint = f"true {number(y[k])}, predicted {number(p[k])}"
        parts.append(_dot("a dot", x_scale(y[k]), y_scale(p[k]), 2.5, hint))
    return _svg(parts, WIDTH, f"Predicted against true values of {len(y):,} molecules")


def roc(labels: ArrayLike, probabilities: ArrayLike) -> str:
    """The share of positives found against the share of negatives mistaken for them."""
    false, true = roc_curve(labels, probabilities)
    if not len(false):
        return ""
    x_scale = Scale(0, 1, _LEFT, WIDTH - _RIGHT)
    y_scale = Scale(0, 1, WIDTH - _BOTTOM, _TOP)
    shown = np.unique(np.linspace(0, len(false) - 1, 400).round().astype(int))
    chance = f"{x_scale(0)},{y_scale(0)} {x_scale(1)},{y_scale(1)}"
    parts = [
        _frame(x_scale, y_scale, "false positive rate", "true positive rate"),
        f'<polyline class="rule" points="{chance}"/>',
        _line("a line", x_scale, y_scale, false[shown], true[shown]),
    ]
    return _svg(parts, WIDTH, "Receiver operating characteristic")


def learning_curve(
    curves: Sequence[Sequence[Mapping[str, Any]]], best: Sequence[int | None] = ()
) -> str:
    """Training and validation loss by epoch, one pair of lines a model, the best epoch marked."""
    height = 260
    tables = [_losses(curve) for curve in curves if curve]
    if not tables or np.isnan(np.vstack(tables)[:, 1:]).all():
        return ""
    every = np.vstack(tables)
    seen = every[:, 1:][~np.isnan(every[:, 1:])]
    log = bool(seen.min() > 0 and seen.max() / seen.min() > 8)
    x_scale = Scale.over(every[:, 0], _LEFT, WIDTH - _RIGHT)
    y_scale = Scale.over(seen, height - _BOTTOM, _TOP, log=log)
    parts = [_frame(x_scale, y_scale, "epoch", "loss" + (" (log scale)" if log else ""))]
    for css, column in (("a line", 1), ("b line", 2)):
        for table in tables:
            there = table[~np.isnan(table[:, column])]
            parts.append(_line(css, x_scale, y_scale, there[:, 0], there[:, column]))
    for table, epoch in zip(tables, best, strict=False):
        for at, _, value in table[(table[:, 0] == epoch) & ~np.isnan(table[:, 2])][:1]:
            x = x_scale(at)
            parts.append(f'<line class="soft" x1="{x}" x2="{x}" y1="{_TOP}" y2="{y_scale.start}"/>')
            hint = f"best epoch {at:g}: validation loss {number(value)}"
            parts.append(_dot("b best", x, y_scale(value), 5, hint))
    for epoch, train, value in every[~np.isnan(every[:, 2])] if len(every) <= MOST_POINTS else ():
        hint = f"epoch {epoch:g}: training {number(train)}, validation {number(value)}"
        parts.append(_dot("hover", x_scale(epoch), y_scale(value), 5, hint))
    return _svg(parts, height, "Loss by epoch: training and validation")


def reach(layers: Sequence[Sequence[float]]) -> str:
    """The reach of every channel, √t in bonds, one strip a layer with its quartiles."""
    rows = [_drawable(layer) for layer in layers]
    rows = [row[~np.isnan(row)] for row in rows]
    if not any(len(row) for row in rows):
        return ""
    lane = 46
    height = _TOP + lane * len(rows) + _BOTTOM
    x_scale = Scale.over(np.concatenate([[0.0], *rows]), _LEFT, WIDTH - _RIGHT)
    y_scale = Scale(0, len(rows), _TOP, height - _BOTTOM)
    parts = [_frame(x_scale, y_scale, "reach √t, in bonds", "layer", y_ticks=())]
    for k, row in enumerate(rows):
        middle = y_scale(k + 0.5)
        parts.append(f'<text class="tick" x="{_LEFT - 8}" y="{middle + 4}">{k + 1}</text>')
        if not len(row):
            continue
        low, median, high = (x_scale(v) for v in np.quantile(row, (0.25, 0.5, 0.75)))
        for channel, value in enumerate(row):
            # Multiples of an irrational number spread evenly, and alike on every run.
            y = round(middle + ((channel * 0.7548777) % 1 - 0.5) * lane * 0.62, 1)
            hint = f"layer {k + 1}, channel {channel + 1}: {number(value)} bonds"
            parts.append(_dot("a dot", x_scale(value), y, 3, hint))
        parts.append(
            f'<rect class="box" x="{low}" y="{middle - lane * 0.36:.1f}" '
            f'width="{high - low:.1f}" height="{lane * 0.72:.1f}"/>'
            f'<line class="b line" x1="{median}" x2="{median}" y1="{middle - lane * 0.36:.1f}" '
            f'y2="{middle + lane * 0.36:.1f}"/>'
        )
    return _svg(parts, height, "Reach of the learned diffusion in each layer")


def _frame(
    x: Scale, y: Scale, x_label: str, y_label: str, y_ticks: Sequence[float] | None = None
) -> str:
    """Grid, ticks and labels."""
    left, right, bottom, top = x.start, x.end, y.start, y.end
    bottom, top = max(bottom, top), min(bottom, top)
    parts = []
    for mark in x.ticks():
        place = x(mark)
        parts.append(f'<line class="grid" x1="{place}" x2="{place}" y1="{top}" y2="{bottom}"/>')
        parts.append(f'<text class="tick mid" x="{place}" y="{bottom + 15}">{number(mark)}</text>')
    for mark in y.ticks() if y_ticks is None else y_ticks:
        place = y(mark)
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{place}" y2="{place}"/>')
        parts.append(f'<text class="tick" x="{left - 6}" y="{place + 4}">{number(mark)}</text>')
    parts.append(f'<path class="axis" d="M{left} {top}V{bottom}H{right}"/>')
    middle = (top + bottom) / 2
    parts.append(
        f'<text class="mid" x="{(left + right) / 2}" y="{bottom + 33}">{escape(x_label)}</text>'
        f'<text class="mid" transform="translate(12 {middle}) rotate(-90)">{escape(y_label)}</text>'
    )
    return "".join(parts)


def _svg(parts: list[str], height: float, label: str) -> str:
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
        + "".join(parts)
        + "</svg>"
    )


def _line(css: str, x_scale: Scale, y_scale: Scale, xs: Array, ys: Array) -> str:
    places = " ".join(f"{x_scale(x)},{y_scale(y)}" for x, y in zip(xs, ys, strict=True))
    return f'<polyline class="{css}" points="{places}"/>'


def _dot(css: str, x: float, y: float, radius: float, hint: str) -> str:
    title = f"<title>{escape(hint)}</title>"
    return f'<circle class="{css}" cx="{x}" cy="{y}" r="{radius:g}">{title}</circle>'


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


def _in(unit: str) -> str:
    return f" / {unit}" if unit else ""
