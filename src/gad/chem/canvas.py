"""What drawings share: canvas, molecules laid flat, colours, captions, the bar of a scale."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any
from unicodedata import combining, normalize

from rdkit import Chem

from gad.chem.molecule import MoleculeError, parse, quiet, usable

if TYPE_CHECKING:
    from collections.abc import Sequence

Colour = tuple[float, float, float]

# Okabe and Ito's blue and vermilion, told apart with any colour vision; white is zero.
NEGATIVE: Colour = (0.0, 0.45, 0.70)
POSITIVE: Colour = (0.84, 0.37, 0.0)
_BLACK: Colour = (0.0, 0.0, 0.0)

BAR_HEIGHT = 44
_STEPS = 60
_MOST_ATOMS = 500  # the layout of 1,300 takes 20 seconds
_PLAIN = str.maketrans({"−": "-", "–": "-", "—": "-", "±": "+/-", "×": "x", "·": ".", "°": " deg"})


def shade(share: float) -> Colour:
    """The colour of a share of the scale: blue at −1, white at 0, vermilion at 1.

    >>> shade(0.0)
    (1.0, 1.0, 1.0)
    """
    end = POSITIVE if share > 0 else NEGATIVE
    depth = 0.9 * min(1.0, abs(share))
    red, green, blue = (1 - depth * (1 - channel) for channel in end)
    return red, green, blue


def colour_of(value: float, largest: float) -> Colour:
    """The colour of a value on a scale from −largest to largest."""
    return shade(value / largest if largest else 0.0)


def canvas_of(kind: str, width: int, height: int, panel_width: int, panel_height: int) -> Any:
    """RDKit's canvas of a kind, svg or png, in the house style."""
    from rdkit.Chem.Draw import rdMolDraw2D

    classes = {"svg": rdMolDraw2D.MolDraw2DSVG, "png": rdMolDraw2D.MolDraw2DCairo}
    if kind not in classes:
        raise ValueError(f"a drawing is svg or png, not {kind!r}")
    canvas = classes[kind](width, height, panel_width, panel_height)
    options: Any = canvas.drawOptions()
    options.useBWAtomPalette()
    options.prepareMolsBeforeDrawing = False
    options.atomHighlightsAreCircles = True
    options.fillHighlights = True
    options.highlightRadius = 0.42
    options.legendFontSize = 16
    options.padding = 0.08
    options.fixedBondLength = 40
    options.flagCloseContactsDist = -1  # no red rings where a large molecule's atoms come close
    return canvas


def svg_of(canvas: Any, *captions: str) -> str:
    """The drawing with its captions, without the XML declaration: fit for a page and for a file."""
    text = str(canvas.GetDrawingText())
    start, end = text.index("<svg"), text.rindex("</svg>")
    return text[start:end] + "".join(captions) + "</svg>\n"


def caption(text: str, x: float, y: float, width: float) -> str:
    """A line of text, centred at x."""
    # Written here since RDKit draws ASCII only.
    font = min(14.0, 1.8 * width / max(1, len(text)))
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" font-family="sans-serif" '
        f'font-size="{font:.1f}">{escape(text)}</text>\n'
        if text
        else ""
    )


def captions(texts: Sequence[str], columns: int, width: int, height: int) -> list[str]:
    """A line below each cell of a grid."""
    return [
        caption(text, (k % columns + 0.5) * width, (k // columns + 1) * height - 8, width)
        for k, text in enumerate(texts)
    ]


def room(text: str) -> str:
    """A blank legend, for which RDKit leaves as much room as for a written one."""
    return " " if text else ""


def ascii_of(text: str) -> str:
    """The nearest that RDKit can write."""
    plain = (c for c in normalize("NFKD", text.translate(_PLAIN)) if not combining(c))
    return "".join(plain).encode("ascii", "replace").decode()


def flat_of(molecule: str | Chem.Mol) -> Chem.Mol:
    """A copy with 2-D coordinates, ready to be drawn."""
    from rdkit.Chem.Draw import rdMolDraw2D

    mol = usable(molecule) if isinstance(molecule, Chem.Mol) else parse(molecule)
    if mol.GetNumAtoms() > _MOST_ATOMS:
        raise MoleculeError(
            f"{mol.GetNumAtoms():,} atoms are too many to draw, {_MOST_ATOMS} the most"
        )
    with quiet:
        return rdMolDraw2D.PrepareMolForDrawing(mol, addChiralHs=False, forceCoords=True)


def flat_or_empty(molecule: str | Chem.Mol) -> Chem.Mol:
    """The same; no atoms at all where it cannot be drawn."""
    try:
        return flat_of(molecule)
    except MoleculeError:
        return Chem.Mol()


def draw_bar(canvas: Any, low: float, high: float) -> None:
    """The scale, at the bottom of the canvas."""
    from rdkit.Geometry import Point2D

    left, right = canvas.Width() * 0.2, canvas.Width() * 0.8
    top = canvas.Height() - BAR_HEIGHT + 6
    bottom = top + 12
    largest = max(-low, high)
    canvas.SetFillPolys(True)
    canvas.SetLineWidth(1)
    step = (right - left) / _STEPS
    for k in range(_STEPS):
        value = low + (high - low) * (k + 0.5) / _STEPS
        canvas.SetColour(colour_of(value, largest))
        x = left + k * step
        canvas.DrawRect(Point2D(x, top), Point2D(x + step, bottom), rawCoords=True)
    canvas.SetFillPolys(False)
    canvas.SetColour(_BLACK)
    canvas.DrawRect(Point2D(left, top), Point2D(right, bottom), rawCoords=True)
    canvas.SetFontSize(14)
    ticks = sorted({low, 0.0, high})
    for value in ticks:
        x = left + (right - left) * ((value - low) / (high - low) if high > low else 0.5)
        canvas.DrawString(f"{value:.3g}", Point2D(x, bottom + 12), rawCoords=True)
