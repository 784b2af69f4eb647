"""Scales and plots as data: what is drawn where. The page's template turns them into SVG.

Colours, line widths and the two themes are the page's business as well: everything here carries a
class (``a``, ``b`` and ``c`` for the colours, ``rule``, ``soft``, ``box``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

WIDTH = 400
LEFT, RIGHT, TOP, BOTTOM = 56, WIDTH - 12, 12, 40
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


class Dot(NamedTuple):
    """A dot at a place, with what is shown when it is pointed at."""

    css: str
    x: float
    y: float
    radius: float
    hint: str


@dataclass
class Plot:
    """A frame with its axes, and what is drawn into it.

    Attributes:
        label: what the plot shows, for those who do not see it.
        x_label, y_label: what the axes show.
        x, y: from values to places; from 0 to 1 if not given.
        lanes: whether y counts lanes, which are numbered, and not values.
        lines: class and points of each line.
    """

    label: str
    x_label: str
    y_label: str
    x: Scale = Scale(0, 1, LEFT, RIGHT)
    y: Scale = Scale(0, 1, WIDTH - BOTTOM, TOP)
    lanes: bool = False
    lines: list[tuple[str, str]] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)

    @property
    def frame(self) -> tuple[float, float]:
        """The top and the bottom of the frame."""
        return min(self.y.start, self.y.end), max(self.y.start, self.y.end)

    def line(self, css: str, points: Iterable[Iterable[float]]) -> None:
        """Draw a line through points (x, y)."""
        places = " ".join(f"{self.x(x)},{self.y(y)}" for x, y in points)
        self.lines.append((css, places))

    def dot(self, css: str, x: float, y: float, radius: float, hint: str) -> None:
        """Draw a dot at a value."""
        self.dots.append(Dot(css, self.x(x), self.y(y), radius, hint))
