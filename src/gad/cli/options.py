"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

COLUMNS, OUTPUT, RUNNING = "Columns", "Output", "Running"

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

STRICT_CODE = 3


def examples(*lines: str) -> str:
    """Examples for the end of a help page, one a line."""
    return "\n".join(["[bold]Examples[/]", *(f"$ {line}" for line in lines)])
