"""``gad draw``: a molecule, and heat that spreads over it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gad.cli.console import Outcome, facts, grid
from gad.cli.options import argument, number, one_of, option

if TYPE_CHECKING:
    from rich.console import RenderableType

_HEAT = "Heat"


def draw(
    smiles: Annotated[str, argument("The molecule, in quotes.", "SMILES")],
    out: Annotated[
        Path, option("Where to draw it: .svg or .png.", "--out", "-o", metavar="FILE")
    ],
    atom: Annotated[
        int | None,
        number(
            "Where heat starts, at temperature 1; 0 is the first atom of the SMILES.", "I", 0, _HEAT
        ),
    ] = None,
    time: Annotated[
        float, number("How long it spreads: about √T bonds far.", "T", 0, _HEAT)
    ] = 1.0,
    scheme: Annotated[
        str,
        option(
            "One implicit step, or the heat equation itself.",
            panel=_HEAT,
            **one_of("implicit", "spectral"),
        ),
    ] = "implicit",
) -> Outcome:  # fmt: skip
    """Draw a molecule, or how heat spreads over it from one atom."""
    from gad.chem import draw as draw_molecule
    from gad.chem import parse
    from gad.data.atomic import write_atomic

    format_ = _format(out)
    molecule = parse(smiles)
    symbols = [a.GetSymbol() for a in molecule.GetAtoms()]
    told: dict[str, object] = {"output": str(out), "smiles": smiles, "atoms": symbols}
    values, legend = None, ""
    if atom is not None:
        if atom >= len(symbols):
            last = len(symbols) - 1
            raise typer.BadParameter(f"--atom {atom}: the molecule has atoms 0 to {last}")
        values = heat(molecule, atom, time, scheme)
        legend = f"heat from atom {atom} after time {time:g} ({scheme})"
        told |= {"atom": atom, "time": time, "scheme": scheme, "values": values}
    picture = draw_molecule(molecule, values=values, legend=legend, format=format_)
    write_atomic(out, picture)
    return Outcome(told, _shown(out, symbols, values))


def heat(molecule: Any, atom: int, time: float, scheme: str) -> list[float]:
    """Temperatures of all atoms, a time after one of them had 1 and the others 0."""
    import torch

    import gad
    from gad.chem import Featurizer
    from gad.nn import ImplicitDiffusion, SpectralDiffusion

    bonds = torch.from_numpy(Featurizer()(molecule).bonds).to(torch.int64)
    count = molecule.GetNumAtoms()
    operators = gad.build_operators(torch.cat([bonds, bonds.flip(1)]).t(), count)
    kind = {"implicit": ImplicitDiffusion, "spectral": SpectralDiffusion}[scheme]
    start = torch.zeros(count, 1)
    start[atom] = 1
    with torch.no_grad():
        spread: list[float] = kind(1, times=[time])(start, operators).flatten().tolist()
    return spread


def _format(path: Path) -> Literal["svg", "png"]:
    match path.suffix.lower():
        case ".svg":
            return "svg"
        case ".png":
            return "png"
    raise typer.BadParameter(f"{path}: a drawing is .svg or .png")


def _shown(out: Path, symbols: list[str], values: list[float] | None) -> RenderableType:
    """The temperatures, atom by atom, and where the picture is."""
    from rich.console import Group

    written = facts({"written": out})
    if values is None:
        return written
    atoms = enumerate(zip(symbols, values, strict=True))
    rows = [(str(number), symbol, f"{value:.4f}") for number, (symbol, value) in atoms]
    return Group(grid(("atom", ""), ("temperature",), rows), "", written)
