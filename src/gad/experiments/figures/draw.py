"""The figures as pictures: graphs with numbers on their nodes, and times as dumb-bells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gad.chem.draw import NEGATIVE, POSITIVE, Layout, shade
from gad.chem.picture import BLACK, GREY, WHITE, Colour, Picture

PALE: Colour = (0.75, 0.75, 0.75)
# Where each node of the paper's drawing lies: seen from which node, in which direction (degrees).
_PAPER_STEPS = (
    (1, 0, -30), (2, 1, 30), (3, 2, 90), (4, 3, 150), (5, 0, 90), (6, 0, 210),
    (7, 6, -90), (8, 6, 150), (9, 8, 210), (10, 9, 150), (11, 10, 90), (12, 10, 210),
)  # fmt: skip


def paper_layout(edges: Sequence[tuple[int, int]]) -> Layout:
    """The paper's own drawing of its graph, to lay beside ours.

    >>> paper_layout(((0, 1),)).places[1].round(3).tolist()
    [0.866, -0.5]
    """
    places = np.zeros((13, 2))
    for node, origin, degrees in _PAPER_STEPS:
        angle = math.radians(degrees)
        places[node] = places[origin] + (math.cos(angle), math.sin(angle))
    return Layout(places, ("",) * 13, tuple((i, j, 1) for i, j in edges))


@dataclass(frozen=True)
class Shades:
    """Colours of values up to a largest one, by the root of their share: small ones show as well.

    >>> Shades.over([0.03, -0.27]).largest
    0.4
    """

    largest: float
    signed: bool = True

    @staticmethod
    def over(values: Sequence[float]) -> Shades:
        """Shades for these values, up to the next round number."""
        most = max(map(abs, values), default=0.0)
        if most <= 0:
            return Shades(1.0, signed=False)
        power = 10.0 ** math.floor(math.log10(most))
        largest = next(r * power for r in (1, 2, 4, 6, 8, 10) if r * power >= most * (1 - 1e-9))
        return Shades(float(f"{largest:.1g}"), signed=min(values) < -1e-9 * most)

    def share(self, value: float) -> float:
        """The place of a value on the scale, −1 to 1."""
        return math.copysign(math.sqrt(min(1.0, abs(value) / self.largest)), value)

    def __call__(self, value: float) -> Colour:
        """Blue below zero, white at zero, vermilion above."""
        return shade(self.share(value))

    def bar(self, picture: Picture, x: float, y: float, width: float, unit: str = "") -> None:
        """The scale, with the numbers below it; x is its middle, y its top."""
        low = -1.0 if self.signed else 0.0
        left, steps = x - width / 2, 80
        for k in range(steps):
            share = low + (1 - low) * (k + 0.5) / steps
            # A little wider than a step: no seams.
            step = width / steps + (0.5 if k + 1 < steps else 0.0)
            picture.box(left + k * width / steps, y, step, 10, fill=shade(share))
        picture.box(left, y, width, 10, edge=BLACK)
        parts = (0.0, 0.25, 1.0) if self.signed else (0.0, 0.04, 0.25, 1.0)
        for value in sorted({s * p * self.largest + 0.0 for p in parts for s in (low or 1.0, 1.0)}):
            at = left + (self.share(value) - low) / (1 - low) * width
            picture.line(at, y + 10, at, y + 14, width=1)
            picture.words(at, y + 22, f"{value:.3g}{unit}", size=11)


@dataclass(frozen=True)
class Panel:
    """A graph with a value on each node.

    Attributes:
        title: above it.
        layout: of the graph.
        values: one each.
        shades: their colours.
        marked: the node that receives, drawn black (with numbers) or ringed (without).
        decimals: of the numbers in the nodes; None for the symbols of atoms instead.
    """

    title: str
    layout: Layout
    values: Sequence[float]
    shades: Shades
    marked: int | None = None
    decimals: int | None = None

    def paint(
        self, picture: Picture, left: float, top: float, width: float, height: float,
        longest: float = 54,
    ) -> None:  # fmt: skip
        """Paint it into a box, bonds at most ``longest`` pixels long."""
        picture.words(left + width / 2, top + 12, self.title, size=13)
        places, unit = fit(self.layout.places, width, height - 28, longest)
        places += np.array([left + width / 2, top + 28 + (height - 28) / 2])
        for i, j, order in self.layout.bonds:
            _bond(picture, places[i], places[j], order, unit)
        for node, ((x, y), value) in enumerate(zip(places.tolist(), self.values, strict=True)):
            self._node(picture, node, x, y, float(value), unit)

    def _node(
        self, picture: Picture, node: int, x: float, y: float, value: float, unit: float
    ) -> None:
        here = node == self.marked
        hint = f"node {node}: {value:.5g}"
        if self.decimals is None:
            symbol = self.layout.symbols[node]
            edge, width = (BLACK, 0.09 * unit) if here else (GREY, 0.7)
            # Hydrogens are many and close to one another.
            radius = (0.27 if symbol == "H" else 0.36) * unit
            picture.disc(x, y, radius, fill=self.shades(value), edge=edge, width=width, hint=hint)
            size = min(1.15 * radius, 2.4 * radius / max(1, len(symbol)))
            picture.words(x, y, symbol, size=max(7.0, size))
            return
        fill = BLACK if here else self.shades(value)
        picture.disc(x, y, 0.38 * unit, fill=fill, width=1.2, hint=hint)
        whole = abs(value - round(value)) < 1e-9
        text = f"{round(value)}" if whole else f"{value:.{self.decimals}f}"
        colour = WHITE if here else BLACK
        picture.words(x, y, text, size=0.7 * unit / max(3.4, 0.6 * len(text)), colour=colour)


def fit(
    places: NDArray[np.float64], width: float, height: float, longest: float
) -> tuple[NDArray[np.float64], float]:
    """Places in pixels about the middle of a box, y downward, and the length of a bond."""
    low, high = places.min(0), places.max(0)
    span = high - low + 1.0  # half a bond for the discs on each side
    unit = min(longest, width / float(span[0]), height / float(span[1]))
    return (places - (low + high) / 2) * (unit, -unit), unit


def _bond(
    picture: Picture, a: NDArray[np.float64], b: NDArray[np.float64], order: int, unit: float
) -> None:
    along = (b - a) / max(1e-9, float(np.linalg.norm(b - a)))
    across = np.array([-along[1], along[0]]) * 0.16 * unit
    shifts = {1: (0.0,), 2: (-0.5, 0.5), 3: (-1.0, 0.0, 1.0)}[order]
    for shift in shifts:
        (x1, y1), (x2, y2) = a + shift * across, b + shift * across
        picture.line(float(x1), float(y1), float(x2), float(y2), width=max(1.2, 0.045 * unit))


def figure_1a(layout: Layout, heat: Mapping[float, Sequence[float]]) -> Picture:
    """Figure 1(a): a unit of heat after several times, in percent."""
    width, height = 390, 236
    title = "Figure 1(a): a unit of heat at one node, after an implicit step of time t, in percent"
    picture = Picture(width * len(heat) + 20, height + 96, title)
    picture.words(picture.width / 2, 18, title, size=15)
    shades = Shades(100.0, signed=False)
    for column, (time, percent) in enumerate(heat.items()):
        panel = Panel(f"t = {time:g}", layout, percent, shades, decimals=2)
        panel.paint(picture, 10 + column * width, 36, width, height)
    shades.bar(picture, picture.width / 2, height + 50, 320, " %")
    return picture


def filter_figure(
    title: str,
    layout: Layout,
    node: int,
    rows: Mapping[str, Mapping[str, Sequence[float]]],
    names: Mapping[str, str],
) -> Picture:
    """Figures 1(b) and 3: filters at one node, a row by the equations and a row as drawn."""
    width, height, head = 430, 258, 38
    picture = Picture(width * len(names) + 20, 40 + (height + head) * len(rows) + 52, title)
    picture.words(picture.width / 2, 18, title, size=15)
    shades = Shades.over([v for kernels in rows.values() for key in names for v in kernels[key]])
    for row, (heading, kernels) in enumerate(rows.items()):
        top = 40 + row * (height + head)
        picture.line(16, top, picture.width - 16, top, width=0.8, colour=PALE)
        picture.words(16, top + 18, heading, size=13, anchor="start", colour=GREY)
        for column, (key, name) in enumerate(names.items()):
            panel = Panel(name, layout, kernels[key], shades, marked=node, decimals=3)
            panel.paint(picture, 10 + column * width, top + head, width, height)
    shades.bar(picture, picture.width / 2, picture.height - 40, 320)
    return picture


@dataclass(frozen=True)
class MoleculeKernels:
    """The kernels of one molecule: its name and layout, the atom that receives, and the rows."""

    name: str
    layout: Layout
    atom: int
    kernels: Mapping[str, Sequence[float]]
    signed: bool = True


def kernels_figure(
    title: str, below: str, molecules: Sequence[MoleculeKernels], names: Mapping[str, str]
) -> Picture:
    """Kernels on molecules: a row for each molecule, a column for each kernel."""
    width, height, head = 330, 206, 26
    across, down = len(names), len(molecules)
    begin = 92
    picture = Picture(max(width * across + 20, 720), begin + (height + head) * down + 52, title)
    left = (picture.width - width * across) / 2
    picture.words(picture.width / 2, 18, title, size=15)
    picture.words(picture.width / 2, 42, below, size=13, colour=GREY)
    for column, (key, name) in enumerate(names.items()):
        middle = left + (column + 0.5) * width
        picture.words(middle, begin - 16, name, size=13)
        shades = Shades.over([v for m in molecules for v in m.kernels[key]])
        for row, molecule in enumerate(molecules):
            top = begin + row * (height + head)
            panel = Panel("", molecule.layout, molecule.kernels[key], shades, molecule.atom)
            panel.paint(picture, left + column * width + 8, top + head - 20, width - 16, height, 42)
        shades.bar(picture, middle, picture.height - 40, 220)
    for row, molecule in enumerate(molecules):
        top = begin + row * (height + head)
        picture.line(16, top, picture.width - 16, top, width=0.8, colour=PALE)
        size = "" if molecule.signed else " (several directions: length of dx)"
        picture.words(16, top + 14, molecule.name + size, anchor="start", colour=GREY)
    return picture


def times_figure(
    title: str,
    below: str,
    learned: Sequence[Sequence[float]],
    start: Sequence[Sequence[float]],
) -> Picture:
    """The reach √t of every channel in every layer: where it started and what it became."""
    left, right, top, lane, gap = 52, 24, 118, 104, 34
    picture = Picture(860, top + len(learned) * (lane + gap) + 20, title)
    picture.words(picture.width / 2, 18, title, size=15)
    picture.words(picture.width / 2, 42, below, size=13, colour=GREY)
    _legend(picture, left, 70)
    most = max(v for rows in (*learned, *start) for v in rows) * 1.06 or 1.0
    plot = picture.width - left - right
    for layer, (now, before) in enumerate(zip(learned, start, strict=True)):
        base = top + layer * (lane + gap) + lane
        order = sorted(range(len(now)), key=lambda c: (before[c], c))

        def height(value: float, base: float = base) -> float:
            return base - math.sqrt(value / most) * lane

        for mark in _marks(most, lane):
            y = height(mark)
            picture.line(left, y, picture.width - right, y, width=0.6, colour=PALE)
            picture.words(left - 8, y, f"{mark:g}", size=11, anchor="end", colour=GREY)
        middle, longest = float(np.median(now)), max(now)
        told = f"layer {layer + 1}: median {middle:.2f} bonds, longest {longest:.2f}"
        picture.words(left, base - lane - 12, told, size=12, anchor="start")
        for position, channel in enumerate(order):
            x = left + (position + 0.5) * plot / len(order)
            was, became = before[channel], now[channel]
            colour = POSITIVE if became >= was else NEGATIVE
            radius = min(3.4, 0.42 * plot / len(order))
            picture.line(x, height(was), x, height(became), width=1.2, colour=colour)
            hint = f"layer {layer + 1}, channel {channel + 1}: {became:.3g} bonds, from {was:.3g}"
            picture.disc(x, height(became), radius, fill=colour, edge=None, hint=hint)
            picture.disc(x, height(was), 0.55 * radius, fill=WHITE, edge=GREY, width=0.8)
    foot = "channels, in the order of their reach at the start"
    picture.words(left + plot / 2, picture.height - 22, foot, size=13)
    return picture


def _legend(picture: Picture, x: float, y: float) -> None:
    entries: tuple[tuple[str, Colour | None, int], ...] = (
        ("reach in bonds, the root of t, at the start", None, 300),
        ("learned, longer", POSITIVE, 140),
        ("learned, shorter", NEGATIVE, 140),
    )
    for text, colour, room in entries:
        edge = GREY if colour is None else None
        picture.disc(x + 4, y, 2.6 if colour is None else 4.2, fill=colour or WHITE, edge=edge)
        picture.words(x + 16, y, text, size=12, anchor="start")
        x += room


def _marks(most: float, lane: float) -> list[float]:
    """Round numbers up to the most, at least a line of text apart on a scale of roots."""
    marks: list[float] = []
    for mark in (s * 10.0**p for p in range(6, -3, -1) for s in (5, 2, 1)):
        place = math.sqrt(mark / most) * lane
        above = math.sqrt(marks[-1] / most) * lane if marks else math.inf
        if mark <= most and above - place >= 13 <= place:
            marks.append(float(f"{mark:.3g}"))
    return [*marks, 0.0]
