"""Molecules side by side, coloured on one scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gad.chem.draw import (
    _BAR_HEIGHT,
    Colour,
    _ascii,
    _canvas,
    _caption,
    _draw_bar,
    _flat_or_empty,
    _room,
    _svg,
    shade,
)

if TYPE_CHECKING:
    from rdkit import Chem


@dataclass(frozen=True)
class Panel:
    """A molecule, a number for each of its atoms, and a line below it."""

    molecule: str | Chem.Mol
    values: Sequence[float]
    caption: str = ""


def draw_coloured(
    panels: Sequence[Panel],
    largest: float,
    *,
    columns: int = 4,
    size: tuple[int, int] = (260, 220),
    bar: bool = True,
    format: Literal["svg", "png"] = "svg",  # noqa: A002
) -> bytes:
    """Draw molecules whose atoms are coloured from −largest (blue) over 0 to largest (vermilion).

    A molecule that cannot be drawn leaves its place empty but for the caption.

    >>> draw_coloured([Panel("CCO", [0.3, 0.1, -0.5], "ethanol")], 1.0)[:4]
    b'<svg'
    """
    width, height = size
    columns = max(1, min(columns, len(panels)))
    rows = max(1, math.ceil(len(panels) / columns))
    total = height * rows + (_BAR_HEIGHT if bar else 0)
    canvas = _canvas(format, width * columns, total, width, height)
    molecules, colours = [], []
    for panel in panels:
        flat = _flat_or_empty(panel.molecule)
        own = dict(enumerate(_colours(panel.values, largest)))
        molecules.append(flat)
        colours.append({atom: own[atom] for atom in range(flat.GetNumAtoms())})
    words = _ascii if format == "png" else _room
    canvas.DrawMolecules(
        molecules,
        legends=[words(panel.caption) for panel in panels],
        highlightAtoms=[list(own) for own in colours],
        highlightAtomColors=colours,
        highlightBonds=[[] for _ in panels],
    )
    if bar:
        canvas.SetOffset(0, 0)
        _draw_bar(canvas, -largest, largest)
    canvas.FinishDrawing()
    if format == "png":
        return bytes(canvas.GetDrawingText())
    captions = [
        _caption(
            panel.caption,
            (k % columns + 0.5) * width,
            (k // columns + 1) * height - 8,
            width,
        )
        for k, panel in enumerate(panels)
    ]
    return _svg(canvas, *captions).encode()


def _colours(values: Sequence[float], largest: float) -> list[Colour]:
    return [shade(float(value) / largest if largest else 0.0) for value in values]
