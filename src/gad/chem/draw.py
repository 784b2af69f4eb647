"""Drawings of molecules, with numbers on their atoms if wanted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import combining, normalize

import numpy as np
from rdkit import Chem

from gad.chem.molecule import MoleculeError, parse, quiet, usable, without_hydrogens

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

Colour = tuple[float, float, float]

# Okabe and Ito's blue and vermilion, told apart with any colour vision; white is zero.
NEGATIVE: Colour = (0.0, 0.45, 0.70)
POSITIVE: Colour = (0.84, 0.37, 0.0)
_BLACK: Colour = (0.0, 0.0, 0.0)

_BAR_HEIGHT = 44
_STEPS = 60
_MOST_ATOMS = 500  # the layout of 1,300 takes 20 seconds
_PLAIN = str.maketrans({"−": "-", "–": "-", "—": "-", "±": "+/-", "×": "x", "·": ".", "°": " deg"})


def draw(
    molecule: str | Chem.Mol,
    *,
    values: Sequence[float] | None = None,
    legend: str = "",
    size: tuple[int, int] = (420, 320),
    format: Literal["svg", "png"] = "svg",  # noqa: A002
) -> bytes:
    """Draw a molecule.

    Args:
        molecule: a SMILES, or a molecule, drawn with the atoms it has.
        values: one number per atom, shown as a disc: blue below zero, vermilion above, white at
            zero. A bar below the molecule gives the scale.
        legend: a line of text below the molecule.
        size: width and height in pixels.
        format: "svg" (self-contained, fit for a web page) or "png".

    Returns:
        The picture, as the content of a file.

    >>> draw("CCO", values=[-1, 0.2, 1])[:4]
    b'<svg'
    """
    mol = _flat(molecule)
    discs = {} if values is None else _discs(mol, values)
    width, height = size
    panel = height - (_BAR_HEIGHT if discs else 0)
    canvas = _canvas(format, width, height, width, panel)
    if format == "png":
        canvas.DrawMolecule(mol, legend=_ascii(legend), **discs)
    else:
        canvas.DrawMolecule(mol, legend=_room(legend), **discs)
    if values is not None:
        _draw_bar(canvas, *_limits(values))
    canvas.FinishDrawing()
    if format == "png":
        return bytes(canvas.GetDrawingText())
    return _svg(canvas, _caption(legend, width / 2, panel - 8, width)).encode()


def draw_grid(
    molecules: Iterable[tuple[str | Chem.Mol, str]],
    *,
    columns: int = 4,
    size: tuple[int, int] = (220, 200),
) -> str:
    """Draw many molecules, each with a caption, as one SVG; ``size`` is that of one cell.

    A molecule that cannot be read leaves its cell empty but for the caption.

    >>> draw_grid([("CCO", "ethanol"), ("c1ccccc1", "benzene")])[:4]
    '<svg'
    """
    pairs = list(molecules)
    width, height = size
    columns = max(1, min(columns, len(pairs)))
    rows = max(1, math.ceil(len(pairs) / columns))
    canvas = _canvas("svg", width * columns, height * rows, width, height)
    canvas.DrawMolecules(
        [_flat_or_empty(molecule) for molecule, _ in pairs],
        legends=[_room(caption) for _, caption in pairs],
    )
    canvas.FinishDrawing()
    return _svg(
        canvas,
        *(
            _caption(caption, (k % columns + 0.5) * width, (k // columns + 1) * height - 8, width)
            for k, (_, caption) in enumerate(pairs)
        ),
    )


@dataclass(frozen=True, eq=False)
class Layout:
    """A molecule on paper: N atoms, their bonds, and where they are.

    Attributes:
        places: float64 [N, 2], a bond 1 long on average; the second number grows upward.
        symbols: of the atoms, "" for a carbon with neighbours.
        bonds: (i, j, order) with order 1, 2 or 3; a ring's aromatic bonds alternate.
    """

    places: NDArray[np.float64]
    symbols: tuple[str, ...]
    bonds: tuple[tuple[int, int, int], ...]


def layout(molecule: str | Chem.Mol, *, explicit_hydrogens: bool = False) -> Layout:
    """RDKit's 2-D layout of the graph :class:`~gad.chem.Featurizer` makes, in the same order.

    >>> flat = layout("CC(=O)O")
    >>> flat.symbols, flat.bonds
    (('', '', 'O', 'O'), ((0, 1, 1), (1, 2, 2), (1, 3, 1)))
    """
    mol = without_hydrogens(usable(molecule)) if isinstance(molecule, Chem.Mol) else parse(molecule)
    mol = _flat(Chem.AddHs(mol) if explicit_hydrogens else mol)
    bonds = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx(), b.GetBondType()) for b in mol.GetBonds()]
    orders = {Chem.BondType.DOUBLE: 2, Chem.BondType.TRIPLE: 3}
    places = np.array(mol.GetConformer().GetPositions()[:, :2], dtype=np.float64)
    lengths = [float(np.linalg.norm(places[i] - places[j])) for i, j, _ in bonds]
    return Layout(
        places / (np.mean(lengths) if lengths else 1.0),
        tuple(_symbol(atom) for atom in mol.GetAtoms()),
        tuple((min(i, j), max(i, j), orders.get(kind, 1)) for i, j, kind in bonds),
    )


def _symbol(atom: Chem.Atom) -> str:
    symbol, charge = atom.GetSymbol(), atom.GetFormalCharge()
    if symbol == "C" and not charge and atom.GetDegree():
        return ""
    sign = "+" if charge > 0 else "-"
    return symbol + (sign if abs(charge) == 1 else f"{abs(charge)}{sign}" if charge else "")


def shade(share: float) -> Colour:
    """The colour of a share of the scale: blue at −1, white at 0, vermilion at 1.

    >>> shade(0.0)
    (1.0, 1.0, 1.0)
    """
    end = POSITIVE if share > 0 else NEGATIVE
    depth = 0.9 * min(1.0, abs(share))
    red, green, blue = (1 - depth * (1 - channel) for channel in end)
    return red, green, blue


def _canvas(kind: str, width: int, height: int, panel_width: int, panel_height: int) -> Any:
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


def _svg(canvas: Any, *captions: str) -> str:
    """The drawing with its captions, without the XML declaration: fit for a page and for a file."""
    text = str(canvas.GetDrawingText())
    start, end = text.index("<svg"), text.rindex("</svg>")
    return text[start:end] + "".join(captions) + "</svg>\n"


def _caption(text: str, x: float, y: float, width: float) -> str:
    # Written here since RDKit draws ASCII only.
    font = min(14.0, 1.8 * width / max(1, len(text)))
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" font-family="sans-serif" '
        f'font-size="{font:.1f}">{escape(text)}</text>\n'
        if text
        else ""
    )


def _room(text: str) -> str:
    """A blank legend, for which RDKit leaves as much room as for a written one."""
    return " " if text else ""


def _ascii(text: str) -> str:
    plain = (c for c in normalize("NFKD", text.translate(_PLAIN)) if not combining(c))
    return "".join(plain).encode("ascii", "replace").decode()


def _flat(molecule: str | Chem.Mol) -> Chem.Mol:
    """A copy with 2-D coordinates, ready to be drawn."""
    from rdkit.Chem.Draw import rdMolDraw2D

    mol = usable(molecule) if isinstance(molecule, Chem.Mol) else parse(molecule)
    if mol.GetNumAtoms() > _MOST_ATOMS:
        raise MoleculeError(
            f"{mol.GetNumAtoms():,} atoms are too many to draw, {_MOST_ATOMS} the most"
        )
    with quiet:
        return rdMolDraw2D.PrepareMolForDrawing(mol, addChiralHs=False, forceCoords=True)


def _flat_or_empty(molecule: str | Chem.Mol) -> Chem.Mol:
    try:
        return _flat(molecule)
    except MoleculeError:
        return Chem.Mol()


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """Ends of the scale: symmetric about zero where both signs occur, else from zero."""
    low, high = min(0.0, *values), max(0.0, *values)
    return (-max(-low, high), max(-low, high)) if low < 0 < high else (low, high)


def _colour(value: float, largest: float) -> Colour:
    return shade(value / largest if largest else 0.0)


def _discs(mol: Chem.Mol, values: Sequence[float]) -> dict[str, Any]:
    if len(values) != mol.GetNumAtoms():
        raise ValueError(f"{len(values)} values for {mol.GetNumAtoms()} atoms: give one for each")
    if not all(map(math.isfinite, values)):
        raise ValueError("a value that is not a finite number cannot be drawn")
    largest = max(map(abs, _limits(values)))
    colours = {i: _colour(float(value), largest) for i, value in enumerate(values)}
    return {
        "highlightAtoms": list(colours),
        "highlightAtomColors": colours,
        "highlightBonds": [],
    }


def _draw_bar(canvas: Any, low: float, high: float) -> None:
    from rdkit.Geometry import Point2D

    left, right = canvas.Width() * 0.2, canvas.Width() * 0.8
    top = canvas.Height() - _BAR_HEIGHT + 6
    bottom = top + 12
    largest = max(-low, high)
    canvas.SetFillPolys(True)
    canvas.SetLineWidth(1)
    step = (right - left) / _STEPS
    for k in range(_STEPS):
        value = low + (high - low) * (k + 0.5) / _STEPS
        canvas.SetColour(_colour(value, largest))
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
