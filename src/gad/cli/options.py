"""Options that several commands share."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

COLUMNS, SPLITTING, OUTPUT, RUNNING = "Columns", "Splitting", "Output", "Running"

STRICT_CODE = 3


class TaskKind(str, Enum):
    """What is learned."""

    regression = "regression"
    classification = "classification"


class SplitKind(str, Enum):
    """How rows are divided into training, validation and test."""

    random = "random"
    stratified = "stratified"
    scaffold = "scaffold"
    column = "column"
    file = "file"


Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model: model.gad of a training run.")
]
Smiles = Annotated[
    str | None,
    typer.Option(
        metavar="COL",
        help="The column of the molecules; guessed if left out.",
        rich_help_panel=COLUMNS,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Processes that prepare molecules; all cores if left out.",
        rich_help_panel=RUNNING,
    ),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one JSON object on stdout, and nothing else there.",
        rich_help_panel=OUTPUT,
    ),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Exit with 3 if any row was rejected.", rich_help_panel=OUTPUT),
]

# What to learn, and from which rows: of `gad train` and `gad tune` alike.
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A table (CSV, TSV, SMI, SDF, Parquet), or a known set: esol, zinc, qm9.",
    ),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COL",
        help="What to learn; once for each column. Guessed if only one is numeric.",
        rich_help_panel=COLUMNS,
    ),
]
Weight = Annotated[
    str | None,
    typer.Option(metavar="COL", help="How much each row counts.", rich_help_panel=COLUMNS),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COL",
        help="A numeric column given to the model; once for each.",
        rich_help_panel=COLUMNS,
    ),
]
Task = Annotated[
    TaskKind | None,
    typer.Option(help="The labels decide if left out.", rich_help_panel=COLUMNS),
]
SplitBy = Annotated[
    SplitKind | None,
    typer.Option(
        help="How rows are divided 80:10:10. [dim]\\[default: random][/]",
        rich_help_panel=SPLITTING,
    ),
]
SplitColumn = Annotated[
    str | None,
    typer.Option(
        metavar="COL", help="The column that says train, val or test.", rich_help_panel=SPLITTING
    ),
]
SplitFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A file that lists the rows of each part, such as split.json of a run.",
        rich_help_panel=SPLITTING,
    ),
]


def examples(*lines: str) -> str:
    """Examples for the end of a help page, one a line."""
    return "\n".join(["[bold]Examples[/]", *(f"$ {line}" for line in lines)])


def split_kind(split: SplitKind | None, column: str | None, file: Path | None) -> str:
    """The kind of split that the three options agree on."""
    if column is not None and file is not None:
        raise typer.BadParameter("--split-column and --split-file exclude each other")
    implied = SplitKind.column if column is not None else SplitKind.file if file else None
    if split is not None and implied is not None and split is not implied:
        raise typer.BadParameter(f"--split {split.value} contradicts --split-{implied.value}")
    chosen = split or implied or SplitKind.random
    if implied is None and chosen in {SplitKind.column, SplitKind.file}:
        raise typer.BadParameter(f"--split {chosen.value} needs --split-{chosen.value}")
    return chosen.value


def set_threads(threads: int | None, usual: int = 1) -> None:
    """So many threads as were asked for, or OMP_NUM_THREADS, or what is usual."""
    import os

    import torch

    if threads is not None or "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(threads or usual)
