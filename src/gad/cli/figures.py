"""``gad reproduce figures``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gad.cli.console import Outcome
from gad.cli.options import OUTPUT, Json

if TYPE_CHECKING:
    from rich.table import Table

_WHAT = "On molecules"
_ABOUT = {
    "figure-1a": "a unit of heat on the paper's graph at t = 0, 1, 5",
    "figure-1b": "the filters B_av and B_dx at one node: by the equations, and as drawn",
    "figure-3": "diffusion, then the filter, at one node: by the equations, and as drawn",
    "kernels": "kernels of the model's first layer, at its largest learned time",
    "times": "the learned times of every layer and channel, as reach in bonds",
}


def figures(
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="DIR", help="The folder to draw into.", rich_help_panel=OUTPUT
        ),
    ],
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A trained model; if left out, one is trained on esol and kept in DIR/esol.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    smiles: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SMILES",
            help="A molecule, in quotes, a name behind it if you like; once for each.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    as_json: Json = False,
) -> Outcome:
    """Draw the paper's figures, and the same of a trained model on real molecules.

    Each comes as SVG and as PNG; the numbers they show are in figures.json.
    """
    from gad.cli.progress import listener
    from gad.experiments.figures import make_figures

    with listener(quiet=as_json) as reporter:
        made = make_figures(out, model=model, smiles=smiles or (), reporter=reporter)
    told = {"figures": made, "out": str(out), "messages": reporter.messages}
    return Outcome(told, _shown(made))


def _shown(made: dict[str, Any]) -> Table:
    """What was drawn, and where it is."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    grid.add_column("figure")
    grid.add_column("files")
    for name, figure in made.items():
        svg, _ = figure["files"]
        grid.add_row(_ABOUT[name], Text(f"{svg}, .png", overflow="fold"))
    return grid
