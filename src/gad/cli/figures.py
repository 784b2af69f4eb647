"""``gad reproduce figures``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gad.cli.console import Outcome, grid
from gad.cli.options import Json, option

_ABOUT = {
    "figure-1a": "a unit of heat on the paper's graph at t = 0, 1, 5",
    "figure-1b": "the filters B_av and B_dx at one node: by the equations, and as drawn",
    "figure-3": "diffusion, then the filter, at one node: by the equations, and as drawn",
    "kernels": "kernels of the model's first layer, at its largest learned time",
    "times": "the learned times of every layer and channel, as reach in bonds",
}


def figures(
    out: Annotated[Path, option("The folder to draw into.", "--out", "-o", metavar="DIR")],
    model: Annotated[
        Path | None,
        option(
            "A trained model; if left out, one is trained on esol and kept in DIR/esol.",
            metavar="FILE",
        ),
    ] = None,
    smiles: Annotated[
        list[str] | None,
        option(
            "A molecule, in quotes, a name behind it if you like; once for each.", metavar="SMILES"
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
    rows = [(_ABOUT[name], f"{out / name}.svg, .png") for name in made]
    return Outcome(told, grid(("figure", "files"), (), rows))
