"""A small kit for plots as SVG text: no library, no network, sharp on any screen.

Colours, line widths and the two themes are the page's business: everything here carries a class
(``a``, ``b`` and ``c`` for the colours, ``axis``, ``grid``, ``soft``). A value can be read by
pointing at it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from gad.report.text import number

Array: TypeAlias = NDArray[np.float64]

WIDTH = 400
LEFT, RIGHT, TOP, BOTTOM = 50, WIDTH - 12, 12, 40
"""Where the frame begins and ends; below it ``BOTTOM`` is left for the ticks and the label."""


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


class Plot:
    """A frame with its axes, and what is drawn into it.

    Args:
        x, y: from values to places.
        x_label, y_label: what the axes show.
        y_ticks: instead of round numbers.
    """

    def __init__(
        self, x: Scale, y: Scale, x_label: str, y_label: str, y_ticks: Sequence[float] | None = None
    ) -> None:
        self.x, self.y = x, y
        left, right = x.start, x.end
        top, bottom = sorted((y.start, y.end))
        self.parts: list[str] = []
        for mark in x.ticks():
            place = x(mark)
            self.rule("grid", place, place, top, bottom)
            self.text("tick mid", place, bottom + 15, number(mark))
        for mark in y.ticks() if y_ticks is None else y_ticks:
            place = y(mark)
            self.rule("grid", left, right, place, place)
            self.text("tick", left - 6, place + 4, number(mark))
        self.parts.append(f'<path class="axis" d="M{left} {top}V{bottom}H{right}"/>')
        self.text("mid", (left + right) / 2, bottom + 33, x_label)
        turned = f"translate(12 {(top + bottom) / 2}) rotate(-90)"
        self.parts.append(f'<text class="mid" transform="{turned}">{escape(y_label)}</text>')

    @staticmethod
    def of_shares(x_label: str, y_label: str) -> Plot:
        """A square from 0 to 1 both ways."""
        places = (LEFT, RIGHT), (WIDTH - BOTTOM, TOP)
        x, y = (Scale(0, 1, start, end) for start, end in places)
        return Plot(x, y, x_label, y_label)

    def line(self, css: str, points: Iterable[Iterable[float]]) -> None:
        """A line through points (x, y)."""
        places = " ".join(f"{self.x(x)},{self.y(y)}" for x, y in points)
        self.parts.append(f'<polyline class="{css}" points="{places}"/>')

    def dot(self, css: str, x: float, y: float, radius: float, hint: str) -> None:
        """A dot at a value, with what is shown when it is pointed at."""
        title = f"<title>{escape(hint)}</title>"
        place = f'cx="{self.x(x)}" cy="{self.y(y)}" r="{radius:g}"'
        self.parts.append(f'<circle class="{css}" {place}>{title}</circle>')

    def rule(self, css: str, x1: float, x2: float, y1: float, y2: float) -> None:
        """A straight line between places of the picture."""
        self.parts.append(f'<line class="{css}" x1="{x1}" x2="{x2}" y1="{y1}" y2="{y2}"/>')

    def text(self, css: str, x: float, y: float, text: str) -> None:
        """A text at a place of the picture."""
        self.parts.append(f'<text class="{css}" x="{x}" y="{y}">{escape(text)}</text>')

    def svg(self, label: str, height: float = WIDTH) -> Markup:
        """The picture, with what it shows in words for those who do not see it."""
        box = f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}"'
        return Markup(f'<svg class="plot" {box}>{"".join(self.parts)}</svg>')  # noqa: S704
