"""``gad predict`` and ``gad evaluate``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gad.cli.console import Outcome, facts
from gad.cli.options import (
    HARDWARE,
    OUTPUT,
    RUNNING,
    STRICT_CODE,
    Json,
    Model,
    Smiles,
    Strict,
    Workers,
    argument,
    column,
    number,
    one_of,
    option,
)

if TYPE_CHECKING:
    from rich.table import Table

_ENGINES = one_of("local", "ray")


def predict(
    model: Model,
    data: Annotated[
        str,
        argument(
            "A table of molecules: CSV, TSV, SMI, SDF, Parquet; with --engine ray also a folder, a "
            "pattern or a URL of such.",
            "DATA",
        ),
    ],
    out: Annotated[
        str,
        option(
            "Where to write: .csv, .tsv (also with .gz) or .parquet; with --engine ray a folder.",
            "--out",
            "-o",
            metavar="OUT",
            panel=OUTPUT,
        ),
    ],
    smiles: Smiles = None,
    workers: Workers = None,
    uncertainty: Annotated[
        bool,
        option(
            "Add a 90 % interval (_lower, _upper) or set of classes (_set), the spread of an "
            "ensemble (_std), and domain: inside, edge or outside of the training molecules.",
            "--uncertainty",
            panel=OUTPUT,
        ),
    ] = False,
    neighbours: Annotated[
        int,
        number("Add the K nearest training molecules with their measured values.", "K", 0, OUTPUT),
    ] = 0,
    embeddings: Annotated[
        bool,
        option(
            "Add what the model's head reads, one column a channel.", "--embeddings", panel=OUTPUT
        ),
    ] = False,
    resume: Annotated[
        bool,
        option(
            "Go on with an interrupted prediction; leave a finished one as it is.",
            "--resume",
            panel=RUNNING,
        ),
    ] = False,
    part: Annotated[
        str | None,
        option(
            "Every N-th block of rows, from the I-th; see gad join.", metavar="I/N", panel=RUNNING
        ),
    ] = None,
    engine: Annotated[
        str, option("Processes of this machine, or a cluster.", panel=RUNNING, **_ENGINES)
    ] = "local",
    address: Annotated[
        str | None,
        option("Of the Ray cluster; if left out one is started here.", metavar="A", panel=RUNNING),
    ] = None,
    accelerator: Annotated[
        str, option("Where the networks run: cpu, gpu, auto, …", metavar="A", panel=HARDWARE)
    ] = "cpu",
    num_gpus: Annotated[
        float | None, number("Graphics cards of each Ray worker.", "N", 0, HARDWARE)
    ] = None,
    strict: Strict = False,
    as_json: Json = False,
) -> Outcome:  # fmt: skip
    """Predict a table of molecules, of any length.

    Every row comes out, in order, with its own columns first, then TARGET_pred for each target,
    warning and reject_reason, which are empty where all is well. A name that the table has already
    gets _gad behind it. On Ray the output is a folder of Parquet files, and source_file and
    source_row say where a row was.
    """
    from gad.cli.progress import listener
    from gad.prediction.engines import Engine, LocalEngine, Request
    from gad.prediction.engines.ray import RayEngine

    if engine != "ray" and (address is not None or num_gpus is not None):
        raise typer.BadParameter("--address and --num-gpus are for --engine ray")
    if engine == "ray" and part is not None:
        raise typer.BadParameter("--part is for machines without a cluster: leave it out")
    on: Engine = RayEngine(address, workers, num_gpus) if engine == "ray" else LocalEngine(workers)
    request = Request(
        model, data, out, smiles, uncertainty, embeddings, resume, _part(part), accelerator,
        neighbours,
    )  # fmt: skip
    with listener(quiet=as_json) as reporter:
        done = on.predict(request, reporter)
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


def _part(text: str | None) -> tuple[int, int] | None:
    """The numbers of ``I/N``."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)/(\d+)", text.strip())
    number, count = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= count:
        raise typer.BadParameter(f"--part {text}: write I/N with I from 1 to N, such as 3/8")
    return number, count


def evaluate(
    model: Model,
    data: Annotated[str, argument("A table with labels, or a known set: esol, zinc, qm9.", "DATA")],
    smiles: Smiles = None,
    target: Annotated[
        list[str] | None, column("The labels, in the model's order, if named otherwise.")
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
