"""``gad reproduce``: the paper's experiments, one command each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gad.cli.console import Outcome
from gad.cli.options import OUTPUT, RUNNING, Json

if TYPE_CHECKING:
    from rich.table import Table

_MODEL = "Model"


class ZincModel(str, Enum):
    """The rows of the paper's first table that can be run."""

    gad_i = "gad-i"
    gad_s = "gad-s"
    dgn = "dgn"
    pna = "pna"
    gcn = "gcn"
    gin = "gin"
    sage = "sage"
    gat = "gat"
    monet = "monet"
    gatedgcn = "gatedgcn"
    gsn = "gsn"


class Qm9Model(str, Enum):
    """The rows of the paper's second table."""

    gad_s = "gad-s"
    dgn = "dgn"
    pna = "pna"


class Property(str, Enum):
    """The columns of the paper's second table."""

    mu = "mu"
    alpha = "alpha"
    homo = "homo"
    lumo = "lumo"
    gap = "gap"
    r2 = "r2"
    zpve = "zpve"
    all = "all"


Recipe = Annotated[
    str,
    typer.Option(
        metavar="NAME|FILE", help="See `gad recipes`; or a TOML file.", rich_help_panel=_MODEL
    ),
]
Edges = Annotated[
    bool | None,
    typer.Option(
        "--edges/--no-edges",
        help="Bonds in the messages. [dim]\\[default: yes, where the model can][/]",
        show_default=False,
        rich_help_panel=_MODEL,
    ),
]
Seeds = Annotated[
    int,
    typer.Option(min=1, metavar="N", help="Run seeds 0, 1, … N − 1.", rich_help_panel=_MODEL),
]
Seed = Annotated[
    list[int] | None,
    typer.Option(
        min=0,
        metavar="S",
        help="Run this seed instead; once for each.",
        rich_help_panel=_MODEL,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting of the recipe; once for each. It is recorded as another run.",
        rich_help_panel=_MODEL,
    ),
]
Limit = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="Use N molecules of each part, to try it out; such a run is marked short.",
        show_default=False,
        rich_help_panel=RUNNING,
    ),
]
Jobs = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="N",
        help="Runs at once, each in a process with one thread.",
        rich_help_panel=RUNNING,
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Go on with runs that are there; finished ones are not repeated.",
        rich_help_panel=RUNNING,
    ),
]
Minutes = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="M",
        help="Stop after M minutes; --resume goes on.",
        rich_help_panel=RUNNING,
    ),
]
Results = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Where records and models are kept. [dim]\\[default: results][/]",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
Out = Annotated[
    Path,
    typer.Option(metavar="DIR", help="The folder of the runs' folders.", rich_help_panel=OUTPUT),
]
_RUNS = Path("gad-runs")


def zinc(
    model: Annotated[
        list[ZincModel] | None,
        typer.Option(
            help="A row of the paper's table; once for each. [dim]\\[default: gad-i][/]",
            show_default=False,
            rich_help_panel=_MODEL,
        ),
    ] = None,
    recipe: Recipe = "zinc-paper",
    edges: Edges = None,
    seeds: Seeds = 1,
    seed: Seed = None,
    budget: Annotated[
        int,
        typer.Option(
            min=1000,
            metavar="P",
            help="The most parameters; the width follows.",
            rich_help_panel=_MODEL,
        ),
    ] = 100_000,
    settings: Settings = None,
    limit: Limit = 0,
    jobs: Jobs = 2,
    resume: Resume = False,
    minutes: Minutes = None,
    results: Results = None,
    out: Out = _RUNS,
    as_json: Json = False,
) -> Outcome:
    """Train a model of the paper's first table on ZINC-12k, and record it.

    Every run that is started is recorded in DIR/zinc as JSON, with its validation errors from the
    first epoch on; the test error is computed once, at the end. The finished model lies beside it.
    """
    from gad.experiments.models import WITHOUT_BONDS, Run, settings_of
    from gad.settings.recipe import parse_setting

    changes = settings_of(dict(parse_setting(text) for text in settings or ()))
    runs = [
        Run(
            "zinc",
            name,
            recipe,
            name not in WITHOUT_BONDS if edges is None else edges,
            number,
            settings=changes,
            budget=budget,
            limit=limit,
        )
        for name in _names(model, ZincModel.gad_i)
        for number in seed or range(seeds)
    ]
    return _reproduce(runs, limit, jobs, resume, minutes, results, out, as_json)


def qm9(
    property_: Annotated[
        list[Property] | None,
        typer.Option(
            "--property",
            help="A column of the paper's table; once for each. [dim]\\[default: mu][/]",
            show_default=False,
            rich_help_panel=_MODEL,
        ),
    ] = None,
    model: Annotated[
        list[Qm9Model] | None,
        typer.Option(
            help="A row of the paper's table; once for each. [dim]\\[default: gad-s][/]",
            show_default=False,
            rich_help_panel=_MODEL,
        ),
    ] = None,
    recipe: Recipe = "qm9",
    edges: Edges = None,
    seeds: Seeds = 1,
    seed: Seed = None,
    budget: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="P",
            help="The most parameters of GAD-s, 0 for the recipe's width. DGN and PNA get as many.",
            rich_help_panel=_MODEL,
        ),
    ] = 0,
    settings: Settings = None,
    limit: Limit = 0,
    jobs: Jobs = 2,
    resume: Resume = False,
    minutes: Minutes = None,
    results: Results = None,
    out: Out = _RUNS,
    as_json: Json = False,
) -> Outcome:
    """Train a model of the paper's second table on QM9 without coordinates, and record it.

    One model for each property. DGN and PNA have as many parameters as GAD-s, within 2 %. The
    records are those of `gad reproduce zinc`, in DIR/qm9.
    """
    from gad.experiments.models import Run, settings_of
    from gad.experiments.paper import PROPERTIES
    from gad.settings.recipe import parse_setting

    changes = settings_of(dict(parse_setting(text) for text in settings or ()))
    wanted = _names(property_, Property.mu)
    runs = [
        Run(
            "qm9",
            name,
            recipe,
            edges is not False,
            number,
            prop,
            settings=changes,
            budget=budget,
            limit=limit,
        )
        for prop in (PROPERTIES if "all" in wanted else wanted)
        for name in _names(model, Qm9Model.gad_s)
        for number in seed or range(seeds)
    ]
    return _reproduce(runs, limit, jobs, resume, minutes, results, out, as_json)


def _names(chosen: Sequence[Enum] | None, default: Enum) -> list[str]:
    """What was asked for, each once, in that order."""
    return list(dict.fromkeys(str(item.value) for item in chosen or [default]))


def _reproduce(
    runs: list[Any],
    limit: int,
    jobs: int,
    resume: bool,
    minutes: float | None,
    results: Path | None,
    out: Path,
    as_json: bool,
) -> Outcome:
    from gad.cli.progress import listener
    from gad.experiments.jobs import perform_all
    from gad.experiments.sheet import Place

    # A trial is no result: it is recorded with its run unless a place was named.
    kept = results or (out / "results" if limit else Path("results"))
    until = None if minutes is None else time.time() + 60 * minutes
    with listener(quiet=as_json) as reporter:
        done = perform_all(
            runs, Place(out, kept, until, resume), jobs=jobs, reporter=reporter, quiet=as_json
        )
    told = [{key: value for key, value in row.items() if key != "curve"} for row in done]
    failed = any(row["status"] == "failed" for row in told)
    return Outcome(
        {"runs": told, "results": str(kept), "messages": reporter.messages},
        _shown(told),
        1 if failed else 0,
    )


def _shown(rows: list[dict[str, Any]]) -> Table:
    """How each run ended."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("run", "status"):
        table.add_column(name)
    for name in ("epochs", "minutes", "parameters", "validation", "test"):
        table.add_column(name, justify="right")
    for row in rows:
        cells = [
            str(row["name"]),
            str(row["status"]),
            _cell(row, "epochs", "d"),
            _cell(row, "minutes", ".1f"),
            _cell(row, "parameters", ",d"),
            _cell(row, "val_mae", ".4g"),
            _cell(row, "test_mae", ".4g"),
        ]
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _cell(row: dict[str, Any], key: str, form: str) -> str:
    return format(row[key], form) if row.get(key) is not None else "–"
