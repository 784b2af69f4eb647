"""A molecule drawn for a page that colours and animates it itself."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rdkit import Chem

from gad.chem.canvas import canvas_of, flat_of, svg_of

# RDKit writes style='a:b;c:d'; a page that forbids inline styles takes the same as attributes.
_STYLE = re.compile(r"style='([^']*)'")
_NOISE = re.compile(r"<\?xml.*?\?>|<!--.*?-->|<rect.*?</rect>| xmlns:\w+='[^']*'", re.DOTALL)


@dataclass(frozen=True)
class Sketch:
    """Lines and letters of a molecule, and where its N atoms are.

    Attributes:
        svg: the drawing, in the colour of the text around it, on nothing.
        size: its width and height; places are in the same units.
        places: (x, y) of each atom, in the order of the SMILES; y grows downward.
        symbols: of each atom.
        bonds: (i, j) of each bond, in the order of the molecule's own.
    """

    svg: str
    size: tuple[int, int]
    places: tuple[tuple[float, float], ...]
    symbols: tuple[str, ...]
    bonds: tuple[tuple[int, int], ...]


def sketch(molecule: str | Chem.Mol, size: tuple[int, int] = (420, 320)) -> Sketch:
    """Draw a molecule with the places of its atoms.

    >>> drawn = sketch("CO")
    >>> drawn.symbols, drawn.bonds, "style=" in drawn.svg
    (('C', 'O'), ((0, 1),), False)
    """
    mol = flat_of(molecule)
    canvas = canvas_of("svg", *size, *size)
    options = canvas.drawOptions()
    options.clearBackground = False
    options.bondLineWidth = 2
    options.fixedBondLength = 46
    options.padding = 0.09
    canvas.DrawMolecule(mol)
    atoms = range(mol.GetNumAtoms())
    points = [canvas.GetDrawCoords(atom) for atom in atoms]
    canvas.FinishDrawing()
    return Sketch(
        _attributes(svg_of(canvas)),
        size,
        tuple((round(point.x, 2), round(point.y, 2)) for point in points),
        tuple(atom.GetSymbol() for atom in mol.GetAtoms()),
        tuple((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds()),
    )


def _attributes(svg: str) -> str:
    def attributes(found: re.Match[str]) -> str:
        pairs = (pair.split(":", 1) for pair in found[1].split(";") if ":" in pair)
        return " ".join(f"{name.strip()}='{value.strip()}'" for name, value in pairs)

    return _STYLE.sub(attributes, _NOISE.sub("", svg)).replace("#000000", "currentColor")
