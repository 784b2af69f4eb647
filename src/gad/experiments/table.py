"""The paper's tables with our columns beside the paper's, from the records alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from gad.experiments import paper
from gad.experiments.models import is_current
from gad.experiments.records import Record, read_records
from gad.settings.recipe import Recipe


@dataclass(frozen=True)
class Row:
    """One model by one recipe: the finished runs that differ by their seed only.

    Attributes:
        data: zinc or qm9.
        model: a row of the paper's table.
        edges: bonds in the messages.
        recipe: the recipe's name, with what was changed in it; "earlier" if the recipe has changed
            since.
        target: the property of QM9.
        allowed: the most epochs.
        short: fewer epochs or molecules than the recipe wants.
        version: the whole recipe but for the seed.
        records: ascending by seed.
    """

    data: str
    model: str
    edges: bool
    recipe: str
    target: str | None
    allowed: int
    short: bool
    version: str
    records: tuple[Record, ...] = ()

    def each(self, key: str) -> list[Any]:
        """A number of every run."""
        return [getattr(record, key) for record in self.records]

    @property
    def is_plain(self) -> bool:
        """Whether the recipe is one as it is now, unchanged."""
        return " " not in self.recipe

    @property
    def error(self) -> float:
        """The mean test error over the seeds."""
        return fmean(self.each("test_mae"))

    @property
    def paper(self) -> paper.Error | None:
        """What the paper prints for this cell."""
        return paper.error(self.data, self.model, self.edges, self.target)

    @property
    def is_met(self) -> bool | None:
        """Whether the error is at most the paper's and two of its standard deviations."""
        if self.short or self.paper is None or self.paper[1] is None:
            return None
        return self.error <= self.paper[0] + 2 * self.paper[1]

    def to_json(self) -> dict[str, object]:
        """The row for programs."""
        return {
            "model": self.model,
            "edges": self.edges,
            **({} if self.target is None else {"property": self.target}),
            "recipe": self.recipe,
            "val_mae": self.each("val_mae"),
            "val_trimmed": self.each("val_trimmed"),
            "test_mae": self.each("test_mae"),
            "parameters": max(self.each("parameters")),
            "epochs": self.each("epochs"),
            "minutes": self.each("minutes"),
            "short": self.short,
            "paper": None if self.paper is None else list(self.paper),
        }


def load_rows(results: Path, data: str) -> list[Row]:
    """The rows of all finished runs, in the order of the paper's table."""
    groups: dict[Row, list[Record]] = {}
    for record in read_records(results, data):
        if record.is_finished:
            row = Row(
                data,
                record.model,
                record.edges,
                _label(record),
                record.target,
                Recipe.from_dict(record.full_recipe).training.epochs,
                record.short,
                _version(record),
            )
            groups.setdefault(row, []).append(record)
    rows = [
        replace(row, records=tuple(sorted(found, key=lambda record: record.seed)))
        for row, found in groups.items()
    ]
    return sorted(rows, key=_order)


def _label(record: Record) -> str:
    """A recipe and what was changed in it; fewer epochs are told by ``short``."""
    changes = {key: value for key, value in record.settings.items() if key != "epochs"}
    name = record.recipe + ("" if is_current(record) else " (earlier)")
    return " ".join([name, *(f"+ {key}={value}" for key, value in sorted(changes.items()))])


def _version(record: Record) -> str:
    """The recipe as text; a key that it does not know yet has its default."""
    return repr(Recipe.from_dict(record.full_recipe).override({"seed": 0}))


def _order(row: Row) -> tuple[Any, ...]:
    models, targets = list(paper.TITLES), list(paper.PROPERTIES)
    first = -1 if row.target is None else targets.index(row.target)
    # The paper's recipe, plain, comes first.
    own = row.recipe != {"zinc": "zinc-paper", "qm9": "qm9"}[row.data]
    return first, models.index(row.model), row.edges, own, row.short, row.recipe, -row.allowed


def against_dgn(row: Row, rows: Iterable[Row]) -> float | None:
    """By how many percent the error is below DGN's under equal conditions; None if it has none."""
    if not row.model.startswith("gad"):
        return None
    twins = [
        other.error
        for other in rows
        if other.model == "dgn"
        and (other.edges, other.recipe, other.target, other.allowed, other.short)
        == (row.edges, row.recipe, row.target, row.allowed, row.short)
    ]
    return _gain(row.error, twins[0]) if twins else None


def paper_against_dgn(data: str, model: str, edges: bool, target: str | None) -> float | None:
    """The same by the paper's numbers.

    >>> round(paper_against_dgn("zinc", "gad-i", True, None), 1)
    17.3
    """
    ours, theirs = (paper.error(data, name, edges, target) for name in (model, "dgn"))
    if not model.startswith("gad") or ours is None or theirs is None:
        return None
    return _gain(ours[0], theirs[0])


def _gain(error: float, reference: float) -> float:
    return 100 * (1 - error / reference)


def cells(data: str) -> list[tuple[str, bool, str | None]]:
    """The cells of the paper's table: model, edges, property."""
    if data == "qm9":
        return [(m, True, p) for p in paper.PROPERTIES for m in paper.QM9]
    return [
        (model, edges, None)
        for model, errors in paper.ZINC.items()
        for edges in (False, True)
        if errors[edges] is not None
    ]


def to_json(results: Path, data: str) -> dict[str, list[dict[str, object]]]:
    """The table for programs: rows that were run, and what was not run or not finished."""
    rows = load_rows(results, data)
    run = {(row.model, row.edges, row.target) for row in rows}

    def cell(model: str, edges: bool, target: str | None) -> dict[str, object]:
        error = paper.error(data, model, edges, target)
        return {
            "model": model,
            "edges": edges,
            **({} if target is None else {"property": target}),
            "paper": None if error is None else list(error),
        }

    so_far = (
        "model", "edges", "property", "recipe", "settings", "seed", "status", "epochs", "val_mae",
    )  # fmt: skip
    missing = [of for of in cells(data) if of not in run]
    return {
        "rows": [row.to_json() for row in rows],
        "against_dgn": [
            {
                **cell(row.model, row.edges, row.target),
                "recipe": row.recipe,
                "percent": gain,
                "paper": paper_against_dgn(data, row.model, row.edges, row.target),
            }
            for row in rows
            if (gain := against_dgn(row, rows)) is not None
        ],
        "quoted": [],  # every system of the table runs; programs may look for the key
        "not_run": [cell(*of) for of in missing],
        "unfinished": [
            {key: value for key, value in record.to_dict().items() if key in so_far}
            for record in unfinished(results, data)
        ],
    }


def unfinished(results: Path, data: str) -> list[Record]:
    """Runs that were started and are not finished."""
    return [record for record in read_records(results, data) if not record.is_finished]
