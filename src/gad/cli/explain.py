"""``gad explain``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gad.cli.console import Outcome, facts, grid
from gad.cli.options import (
    COLUMNS,
    OUTPUT,
    STRICT_CODE,
    Json,
    Model,
    Smiles,
    Strict,
    argument,
    number,
    option,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from gad.prediction.explanation.kernel import Kernel
    from gad.prediction.explanation.tables import Explained

_ENDINGS = (".html", ".csv", ".svg", ".png")
# Molecules whose atoms are printed.
_PRINTED = 3
_TOLD = ("prediction", "baseline", "whole", "particular", "remainder", "atoms")


def explain(
    model: Model,
    data: Annotated[
        str,
        argument(
            "A table of molecules (CSV, TSV, SMI, SDF, Parquet), or one SMILES in quotes.",
            "DATA|SMILES",
        ),
    ],
    out: Annotated[
        Path,
        option(
            "Where to write: a page (.html), one row an atom (.csv), or pictures (.svg, .png).",
            "--out", "-o", metavar="OUT",
        ),
    ],
    target: Annotated[
        str | None,
        option("The one target to explain; all if left out.", metavar="T", panel=COLUMNS),
    ] = None,
    kernel: Annotated[
        int | None,
        number(
            "Also show what this atom receives from all others at the learned diffusion times; 0 "
            "is the first atom of the SMILES.",
            "ATOM", 0, OUTPUT,
        ),
    ] = None,
    smiles: Smiles = None,
    strict: Strict = False,
    as_json: Json = False,
) -> Outcome:  # fmt: skip
    """Say why: what each atom contributes to each prediction.

    The contributions of all atoms, and of whole-molecule values if the model reads any, add up to
    the prediction less the baseline. Classes are explained on the logit of their probability.
    """
    from gad.cli.progress import listener
    from gad.data.atomic import write_atomic
    from gad.prediction.explanation.tables import explain_data, write_atoms, write_rejects
    from gad.prediction.predictor import load
    from gad.report.explanations import MOST_CARDS, pictures, render

    if out.suffix.lower() not in _ENDINGS:
        raise typer.BadParameter(f"{out}: an explanation is one of {', '.join(_ENDINGS)}")
    if not out.parent.is_dir():
        raise typer.BadParameter(f"{out}: there is no folder {out.parent}; make it first")
    predictor = load(model)
    with listener(quiet=as_json) as reporter:
        found = explain_data(predictor, data, smiles=smiles, target=target, reporter=reporter)
        kernels = _kernels(predictor.model, found, kernel, reporter.message)
        form = out.suffix.lower()
        if form != ".csv" and len(found.found) > MOST_CARDS:
            reporter.message(f"drawn are the first {MOST_CARDS} molecules; a .csv has all")
        if form == ".csv":
            write_atoms(out, found, kernels)
        elif form == ".html":
            page = render(predictor, found, kernels, _title(data, found))
            write_atomic(out, page.encode("utf-8", "replace"))
        else:
            write_atomic(out, pictures(found, kernels, "svg" if form == ".svg" else "png"))
        rejects = write_rejects(out, found)
    told = {
        "output": str(out),
        "model": str(model),
        "targets": found.columns,
        "rows": len(found.texts),
        "explained": len(found.found),
        "rejected": len(found.rejects),
        "rejects": None if rejects is None else str(rejects),
        "fidelity": predictor.contributions.fidelity[found.places].tolist(),
        "molecules": [
            {
                "row": row + 1,
                "smiles": "" if found.blocks else why.text,
                **{name: getattr(why, name)[..., found.places].tolist() for name in _TOLD},
            }
            for row, why in zip(found.rows, found.found, strict=True)
        ],
        "messages": reporter.messages,
    }
    return Outcome(told, _shown(told, found), STRICT_CODE if strict and found.rejects else 0)


def _title(data: str, found: Explained) -> str:
    what = Path(data).name if len(found.texts) > 1 else data
    return f"Why: {', '.join(found.columns)} of {what}"


def _kernels(
    model: Any, found: Explained, atom: int | None, say: Callable[[str], None]
) -> list[Kernel | None]:
    """The kernel of an atom in every molecule that has it."""
    from gad.prediction.explanation.kernel import kernel_of

    def one(text: str) -> Kernel | None:
        if atom is None:
            return None
        try:
            return kernel_of(model, text, atom, blocks=found.blocks)
        except ValueError as error:
            if len(found.texts) == 1:
                raise typer.BadParameter(f"--kernel {atom}: {error}") from error
            say(str(error))
            return None

    return [one(why.text) for why in found.found]


def _shown(told: dict[str, Any], found: Explained) -> RenderableType:
    """The atoms of the first molecules, and what was written."""
    from rich.console import Group

    from gad.chem import parse

    parts: list[RenderableType] = []
    if len(found.found) <= _PRINTED and not found.blocks:
        for one, why in zip(told["molecules"], found.found, strict=True):
            symbols = [atom.GetSymbol() for atom in parse(why.text).GetAtoms()]
            rows = [
                (str(k), symbols[k], *(f"{value:+.3f}" for value in values))
                for k, values in enumerate(one["atoms"])
            ]
            rows += [
                (name, "", *(f"{value:+.3f}" for value in one[name]))
                for name in ("baseline", "whole", "prediction")
            ]
            parts += [one["smiles"], grid(("atom", ""), found.columns, rows), ""]
    summary = facts(
        {
            "explained": f"{told['explained']:,} of {told['rows']:,} molecules",
            "rejected": f"{told['rejected']:,}, listed in {told['rejects']}"
            if told["rejected"]
            else None,
            "written": told["output"],
        }
    )
    return Group(*parts, summary)
