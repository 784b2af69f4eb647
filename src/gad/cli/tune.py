"""``gad tune``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gad.cli.console import Outcome, cell, facts, grid
from gad.cli.options import OUTPUT, Json, Learning, number, option

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gad.tuning.results import TuningRun

# Trials shown to people; all of them are in trials.csv.
_SHOWN = 15


def tune(
    learning: Learning,
    space: Annotated[
        str,
        option(
            "What is tried: default, qm9-paper, or a TOML file of your own.", metavar="NAME|FILE"
        ),
    ] = "default",
    trials: Annotated[
        int,
        number(
            "Go on until N trials are finished in all, old ones and other processes' too.", "N", 1
        ),
    ] = 20,
    prune: Annotated[
        bool,
        option(
            "Give up trials that are worse than the median of the others on their way.", "--prune"
        ),
    ] = False,
    out: Annotated[
        Path | None,
        option(
            "The folder of best.toml and trials.csv.", metavar="DIR", default="gad-runs/DATA-tune"
        ),
    ] = None,
    storage: Annotated[
        str | None,
        option(
            "Where trials are kept: an SQLite file, or a database URL.",
            metavar="FILE|URL",
            default="study.db in --out",
            panel=OUTPUT,
        ),
    ] = None,
    study: Annotated[
        str | None,
        option(
            "The name of the search in the storage.",
            metavar="NAME",
            default="the data's",
            panel=OUTPUT,
        ),
    ] = None,
    as_json: Json = False,
) -> Outcome:
    """Search for better settings of a recipe, by their error on the validation rows.

    Ends with the best recipe as best.toml, which `gad train --recipe` takes. The same command goes
    on with a search that was stopped, and several at once share it. A key that is --set is not
    searched. The test rows are not used.
    """
    from gad.tuning.storage import need_optuna

    need_optuna()  # before anything that takes time
    from gad.cli.progress import listener
    from gad.training.fit import Hardware
    from gad.tuning.search import tune as search

    arguments = learning.arguments()
    learning.set_threads()
    with listener(quiet=as_json) as reporter:
        found = search(
            **arguments, space=space, trials=trials, prune=prune, out=out, storage=storage,
            study=study, reporter=reporter,
            hardware=Hardware(learning.accelerator, 1, threads=learning.threads),
        )  # fmt: skip
    return Outcome({**_data(found), "messages": reporter.messages}, _shown(found))


def _data(found: TuningRun) -> dict[str, object]:
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

    from gad.tuning.bench import error_name

    there = sorted(
        (row for row in found.trials if row.error is not None),
        key=lambda row: (row.error or 0.0, row.number),
    )
    keys = list(found.best.settings)
    rows = [
        [
            str(row.number),
            cell(row.error),
            *(cell(row.settings.get(key)) for key in keys),
            cell(row.best_epoch),
            cell(row.minutes, ".1f"),
        ]
        for row in there[:_SHOWN]
    ]
    error = f"validation {error_name(found.metric)}"
    given_up = len(found.trials) - len(there)
    return Group(
        grid((), ("trial", error, *keys, "epoch", "minutes"), rows),
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
