"""Molecules side by side, coloured on one scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gad.chem.canvas import (
    BAR_HEIGHT,
    ascii_of,
    canvas_of,
    captions,
    colour_of,
    draw_bar,
    flat_or_empty,
    room,
    svg_of,
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
    total = height * rows + (BAR_HEIGHT if bar else 0)
    canvas = canvas_of(format, width * columns, total, width, height)
    molecules, colours = [], []
    for panel in panels:
        flat = flat_or_empty(panel.molecule)
        molecules.append(flat)
        own = (colour_of(float(panel.values[atom]), largest) for atom in range(flat.GetNumAtoms()))
        colours.append(dict(enumerate(own)))
    words = ascii_of if format == "png" else room
    canvas.DrawMolecules(
        molecules,
        legends=[words(panel.caption) for panel in panels],
        highlightAtoms=[list(own) for own in colours],
        highlightAtomColors=colours,
        highlightBonds=[[] for _ in panels],
    )
    if bar:
        canvas.SetOffset(0, 0)
        draw_bar(canvas, -largest, largest)
    canvas.FinishDrawing()
    if format == "png":
        return bytes(canvas.GetDrawingText())
    texts = [panel.caption for panel in panels]
    return svg_of(canvas, *captions(texts, columns, width, height)).encode()
