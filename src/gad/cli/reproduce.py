"""``gad reproduce``: the paper's experiments, one command each."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gad.cli.console import Outcome, cell, grid
from gad.cli.options import (
    MODEL,
    OUTPUT,
    RUNNING,
    Json,
    Minutes,
    Recipe,
    Settings,
    changes,
    number,
    one_of,
    option,
)
from gad.experiments.paper import PROPERTIES, QM9, ZINC

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Reproduction:
    """The options of an experiment that do not depend on its data."""

    settings: Settings = None
    edges: Annotated[
        bool | None,
        option(
            "Bonds in the messages.",
            "--edges/--no-edges",
            default="yes, where the model can",
            panel=MODEL,
        ),
    ] = None
    seeds: Annotated[int, number("Run seeds 0, 1, … N − 1.", "N", 1, MODEL)] = 1
    seed: Annotated[
        list[int] | None, number("Run this seed instead; once for each.", "S", 0, MODEL)
    ] = None
    limit: Annotated[
        int,
        number(
            "Use N molecules of each part, to try it out; such a run is marked short.",
            "N", 0, RUNNING, show_default=False,
        ),
    ] = 0  # fmt: skip
    jobs: Annotated[
        int, number("Runs at once, each in a process with one thread.", "N", 1, RUNNING)
    ] = 2
    resume: Annotated[
        bool,
        option(
            "Go on with runs that are there; finished ones are not repeated.",
            "--resume",
            panel=RUNNING,
        ),
    ] = False
    minutes: Minutes = None
    results: Annotated[
        Path | None,
        option(
            "Where records and models are kept.", metavar="DIR", default="results", panel=OUTPUT
        ),
    ] = None
    out: Annotated[
        Path, option("The folder of the runs' folders.", metavar="DIR", panel=OUTPUT)
    ] = Path("gad-runs")
    as_json: Json = False

    def perform(
        self,
        data: str,
        models: Iterable[str],
        recipe: str,
        budget: int,
        targets: Iterable[str | None] = (None,),
    ) -> Outcome:
        """Train every model on every target from every seed, and tell how it went."""
        from gad.cli.progress import listener
        from gad.experiments.jobs import perform_all
        from gad.experiments.models import WITHOUT_BONDS, Run, settings_of
        from gad.experiments.sheet import Place

        settings = settings_of(changes(self.settings))
        runs = [
            Run(
                data,
                model,
                recipe,
                model not in WITHOUT_BONDS if self.edges is None else self.edges,
                seed,
                target,
                settings,
                budget,
                self.limit,
            )
            for target in dict.fromkeys(targets)
            for model in dict.fromkeys(models)
            for seed in self.seed or range(self.seeds)
        ]
        # A trial is no result: it is recorded with its run unless a place was named.
        kept = self.results or (self.out / "results" if self.limit else Path("results"))
        until = None if self.minutes is None else time.time() + 60 * self.minutes
        place = Place(self.out, kept, until, self.resume)
        with listener(quiet=self.as_json) as reporter:
            done = perform_all(runs, place, jobs=self.jobs, reporter=reporter, quiet=self.as_json)
        told = [{key: value for key, value in row.items() if key != "curve"} for row in done]
        return Outcome(
            {"runs": told, "results": str(kept), "messages": reporter.messages},
            _shown(told),
            int(any(row["status"] == "failed" for row in told)),
        )


def _rows(names: Iterable[str], default: str) -> Any:
    """The option that names models of a table."""
    return option("A row of the paper's table; once for each.", default=default, **one_of(*names))


def zinc(
    *,
    model: Annotated[list[str] | None, _rows(ZINC, "gad-i")] = None,
    recipe: Recipe = "zinc-paper",
    budget: Annotated[
        int, number("The most parameters; the width follows.", "P", 1000, MODEL)
    ] = 100_000,
    reproduction: Reproduction,
) -> Outcome:
    """Train a model of the paper's first table on ZINC-12k, and record it.

    Every run that is started is recorded in DIR/zinc as JSON, with its validation errors from the
    first epoch on; the test error is computed once, at the end. The finished model lies beside it.
    """
    return reproduction.perform("zinc", model or ["gad-i"], recipe, budget)


def qm9(
    *,
    property_: Annotated[
        list[str] | None,
        option(
            "A column of the paper's table; once for each.",
            "--property",
            default="mu",
            **one_of(*PROPERTIES, "all"),
        ),
    ] = None,
    model: Annotated[list[str] | None, _rows(QM9, "gad-s")] = None,
    recipe: Recipe = "qm9",
    budget: Annotated[
        int,
        number(
            "The most parameters of GAD-s, 0 for the recipe's width. DGN and PNA get as many.",
            "P", 0, MODEL,
        ),
    ] = 0,
    reproduction: Reproduction,
) -> Outcome:  # fmt: skip
    """Train a model of the paper's second table on QM9 without coordinates, and record it.

    One model for each property. DGN and PNA have as many parameters as GAD-s, within 2 %. The
    records are those of `gad reproduce zinc`, in DIR/qm9.
    """
    wanted = property_ or ["mu"]
    targets = PROPERTIES if "all" in wanted else wanted
    return reproduction.perform("qm9", model or ["gad-s"], recipe, budget, targets)


def _shown(rows: list[dict[str, object]]) -> Table:
    """How each run ended."""
    forms = {"epochs": "d", "minutes": ".1f", "parameters": ",d", "val_mae": "", "test_mae": ""}
    names = {"val_mae": "validation", "test_mae": "test"}
    return grid(
        ("run", "status"),
        [names.get(key, key) for key in forms],
        [
            [
                *(str(row[key]) for key in ("name", "status")),
                *(cell(row.get(key), form) for key, form in forms.items()),
            ]
            for row in rows
        ],
    )
