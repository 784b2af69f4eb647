"""``gad predict`` and ``gad evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gad.cli.console import Outcome, facts
from gad.cli.options import (
    COLUMNS,
    OUTPUT,
    RUNNING,
    STRICT_CODE,
    Json,
    Model,
    Smiles,
    Strict,
    Workers,
)

if TYPE_CHECKING:
    from rich.table import Table


def predict(
    model: Model,
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="A table of molecules: CSV, TSV, SMI, SDF, Parquet."),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="OUT",
            help="Where to write: .csv, .tsv (also with .gz) or .parquet.",
            rich_help_panel=OUTPUT,
        ),
    ],
    smiles: Smiles = None,
    workers: Workers = None,
    uncertainty: Annotated[
        bool,
        typer.Option(
            "--uncertainty",
            help="Add a 90 % interval (_lower, _upper) and the spread of an ensemble (_std).",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    embeddings: Annotated[
        bool,
        typer.Option(
            "--embeddings",
            help="Add what the model's head reads, one column a channel.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with an interrupted prediction; leave a finished one as it is.",
            rich_help_panel=RUNNING,
        ),
    ] = False,
    strict: Strict = False,
    as_json: Json = False,
) -> Outcome:
    """Predict a table of molecules, of any length.

    Every row comes out, in order, with its own columns first, then TARGET_pred for each target,
    warning and reject_reason, which are empty where all is well. A name that the table has already
    gets _gad behind it.
    """
    from gad.cli.progress import listener
    from gad.prediction.engines import LocalEngine, Request

    request = Request(model, data, out, smiles, uncertainty, embeddings, resume)
    with listener(quiet=as_json) as reporter:
        done = LocalEngine(workers).predict(request, reporter)
    shown = facts(
        {
            "predicted": f"{done.predicted:,} of {done.rows:,} rows",
            "rejected": f"{done.rejected:,}, listed in {done.rejects}" if done.rejected else None,
            "written": done.output,
        }
    )
    return Outcome(
        {**done.to_dict(), "messages": reporter.messages},
        shown,
        STRICT_CODE if strict and done.rejected else 0,
    )


def evaluate(
    model: Model,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="A table with labels, or a known set: esol, zinc, qm9."
        ),
    ],
    smiles: Smiles = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL",
            help="The columns of the labels, in the model's order, if they have other names.",
            rich_help_panel=COLUMNS,
        ),
    ] = None,
    as_json: Json = False,
) -> Outcome:
    """Compare a model's predictions with labels."""
    from rich.console import Group

    from gad.cli.progress import listener
    from gad.prediction.evaluation import evaluate_file

    with listener(quiet=as_json) as reporter:
        done = evaluate_file(model, data, smiles=smiles, targets=target or None, reporter=reporter)
    counts = facts(
        {
            "rows": f"{done.rows:,}",
            "rejected": f"{done.rejected:,}" if done.rejected else None,
            "within the 90 % interval": None if done.coverage is None else f"{done.coverage:.1%}",
        }
    )
    return Outcome(
        {**done.to_dict(), "messages": reporter.messages},
        Group(_scores(done.metrics), "", counts),
    )


def _scores(metrics: dict[str, Any]) -> Table:
    """A row for each part and target, a column for each metric."""
    from rich.table import Table
    from rich.text import Text

    from gad.prediction.metrics import METRIC_NAMES

    names = list(next(iter(metrics.values()))["mean"])
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("part", "target"):
        grid.add_column(heading)
    for heading in (*(METRIC_NAMES[name] for name in names), "labels"):
        grid.add_column(heading, justify="right")
    for part, scores in metrics.items():
        for target, values in scores["targets"].items():
            cells = ["–" if values[n] is None else f"{values[n]:.4g}" for n in names]
            grid.add_row(part, Text(target), *cells, f"{values['n']:,}")
    return grid
