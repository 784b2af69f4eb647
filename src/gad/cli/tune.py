"""``gad tune``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gad.cli.console import Outcome, facts
from gad.cli.options import (
    OUTPUT,
    RUNNING,
    Data,
    Features,
    Json,
    Smiles,
    SplitBy,
    SplitColumn,
    SplitFile,
    Targets,
    Task,
    Weight,
    Workers,
    set_threads,
    split_kind,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gad.tuning.results import TuningRun

_SEARCH = "Search"
# Trials shown to people; all of them are in trials.csv.
_SHOWN = 15


def tune(
    data: Data,
    smiles: Smiles = None,
    target: Targets = None,
    weight: Weight = None,
    feature: Features = None,
    task: Task = None,
    split: SplitBy = None,
    split_column: SplitColumn = None,
    split_file: SplitFile = None,
    recipe: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="What the trials are changes of: see `gad recipes`; or a TOML file.",
            rich_help_panel=_SEARCH,
        ),
    ] = "default",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a setting of the recipe, which is then not searched; once for each.",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    space: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="What is tried: default, qm9-paper, or a TOML file of your own.",
            rich_help_panel=_SEARCH,
        ),
    ] = "default",
    trials: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Go on until N trials are finished in all, old ones and other processes' too.",
            rich_help_panel=_SEARCH,
        ),
    ] = 20,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="Give up trials that are worse than the median of the others on their way.",
            rich_help_panel=_SEARCH,
        ),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(metavar="S", help="Short for --set seed=S.", rich_help_panel=_SEARCH),
    ] = None,
    workers: Workers = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Threads of the training itself: OMP_NUM_THREADS, or 1; start several processes "
            "to use several cores.",
            rich_help_panel=RUNNING,
        ),
    ] = None,
    accelerator: Annotated[
        str,
        typer.Option(metavar="A", help="Lightning's: cpu, gpu, mps, …", rich_help_panel=RUNNING),
    ] = "auto",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The folder of best.toml and trials.csv. [dim]\\[default: gad-runs/DATA-tune][/]",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|URL",
            help="Where trials are kept: an SQLite file, or a database URL. "
            "[dim]\\[default: study.db in --out][/]",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    study: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The name of the search in the storage. [dim]\\[default: the data's][/]",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    as_json: Json = False,
) -> Outcome:
    """Search for better settings of a recipe, by their error on the validation rows.

    Ends with the best recipe as best.toml, which `gad train --recipe` takes. The same command goes
    on with a search that was stopped, and several at once share it. The test rows are not used.
    """
    from gad.tuning.storage import need_optuna

    need_optuna()  # before anything that takes time
    from gad.cli.progress import listener
    from gad.settings.recipe import parse_setting
    from gad.training.fit import Hardware
    from gad.tuning.search import tune as search

    changes = dict(parse_setting(text) for text in settings or ())
    if seed is not None:
        changes["seed"] = str(seed)
    set_threads(threads)
    with listener(quiet=as_json) as reporter:
        found = search(
            data,
            smiles=smiles,
            target=target or None,
            weight=weight,
            features=feature or (),
            task=None if task is None else task.value,
            split=split_kind(split, split_column, split_file),
            split_column=split_column,
            split_file=split_file,
            recipe=recipe,
            settings=changes,
            space=space,
            trials=trials,
            prune=prune,
            out=out,
            storage=storage,
            study=study,
            workers=workers,
            hardware=Hardware(accelerator, 1),
            reporter=reporter,
        )
    return Outcome({**_data(found), "messages": reporter.messages}, _shown(found))


def _data(found: TuningRun) -> dict[str, Any]:
    return {
        "metric": found.metric,
        "unit": found.unit,
        "best": asdict(found.best),
        "recipe_file": str(found.recipe_file),
        "recipe": found.recipe.to_dict(),
        "trials": [asdict(row) for row in found.trials],
        "storage": found.storage,
        "study": found.study,
        "out": str(found.directory),
    }


def _shown(found: TuningRun) -> RenderableType:
    """The best trials, best first, and where the recipe is."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from gad.report.verdict import METRIC_NAMES

    there = sorted(
        (row for row in found.trials if row.error is not None),
        key=lambda row: (row.error or 0.0, row.number),
    )
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    grid.add_column("trial", justify="right")
    grid.add_column(f"validation {METRIC_NAMES[found.metric]}", justify="right")
    keys = list(found.best.settings)
    for key in (*keys, "epoch", "minutes"):
        grid.add_column(key, justify="right")
    for row in there[:_SHOWN]:
        cells = [_cell(row.settings.get(key)) for key in keys]
        rest = [_cell(row.best_epoch), "–" if row.minutes is None else f"{row.minutes:.1f}"]
        grid.add_row(str(row.number), _cell(row.error), *map(Text, cells), *rest)
    given_up = len(found.trials) - len(there)
    return Group(
        grid,
        "",
        facts(
            {
                "trials": f"{len(found.trials)} finished"
                + (f", {given_up} of them given up" if given_up else ""),
                "all trials": found.directory / "trials.csv",
                "kept in": f"{found.storage} as {found.study!r}",
                "best recipe": found.recipe_file,
                "train it by": f"gad train … --recipe {found.recipe_file}",
            }
        ),
    )


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
