"""Drawings of molecules, with numbers on their atoms if wanted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from rdkit import Chem

from gad.chem.canvas import (
    BAR_HEIGHT,
    NEGATIVE,
    POSITIVE,
    Colour,
    ascii_of,
    canvas_of,
    caption,
    captions,
    colour_of,
    draw_bar,
    flat_of,
    flat_or_empty,
    room,
    shade,
    svg_of,
)
from gad.chem.molecule import parse, usable, without_hydrogens

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

__all__ = ["NEGATIVE", "POSITIVE", "Colour", "Layout", "draw", "draw_grid", "layout", "shade"]


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
    mol = flat_of(molecule)
    discs = {} if values is None else _discs(mol, values)
    width, height = size
    panel = height - (BAR_HEIGHT if discs else 0)
    canvas = canvas_of(format, width, height, width, panel)
    if format == "png":
        canvas.DrawMolecule(mol, legend=ascii_of(legend), **discs)
    else:
        canvas.DrawMolecule(mol, legend=room(legend), **discs)
    if values is not None:
        draw_bar(canvas, *_limits(values))
    canvas.FinishDrawing()
    if format == "png":
        return bytes(canvas.GetDrawingText())
    return svg_of(canvas, caption(legend, width / 2, panel - 8, width)).encode()


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
    canvas = canvas_of("svg", width * columns, height * rows, width, height)
    canvas.DrawMolecules(
        [flat_or_empty(molecule) for molecule, _ in pairs],
        legends=[room(text) for _, text in pairs],
    )
    canvas.FinishDrawing()
    texts = [text for _, text in pairs]
    return svg_of(canvas, *captions(texts, columns, width, height))


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
    mol = flat_of(Chem.AddHs(mol) if explicit_hydrogens else mol)
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


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """Ends of the scale: symmetric about zero where both signs occur, else from zero."""
    low, high = min(0.0, *values), max(0.0, *values)
    return (-max(-low, high), max(-low, high)) if low < 0 < high else (low, high)


def _discs(mol: Chem.Mol, values: Sequence[float]) -> dict[str, object]:
    if len(values) != mol.GetNumAtoms():
        raise ValueError(f"{len(values)} values for {mol.GetNumAtoms()} atoms: give one for each")
    if not all(map(math.isfinite, values)):
        raise ValueError("a value that is not a finite number cannot be drawn")
    largest = max(map(abs, _limits(values)))
    colours = {i: colour_of(float(value), largest) for i, value in enumerate(values)}
    return {
        "highlightAtoms": list(colours),
        "highlightAtomColors": colours,
        "highlightBonds": [],
    }
