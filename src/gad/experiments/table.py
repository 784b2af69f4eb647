"""The paper's tables with our columns beside the paper's, from the records alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from gad.experiments import paper
from gad.experiments.records import FINISHED, read_records

NOT_RUN, QUOTED = "not run", "quoted"


@dataclass(frozen=True)
class Row:
    """One model by one recipe: the finished runs that differ by their seed only.

    Attributes:
        data: zinc or qm9.
        model: a row of the paper's table.
        edges: bonds in the messages.
        recipe: the recipe's name, with what was changed in it.
        target: the property of QM9.
        allowed: the most epochs.
        short: fewer epochs or molecules than the recipe wants.
        records: ascending by seed.
    """

    data: str
    model: str
    edges: bool
    recipe: str
    target: str | None
    allowed: int
    short: bool
    records: tuple[dict[str, Any], ...] = ()

    def each(self, key: str) -> list[Any]:
        """A number of every run."""
        return [record[key] for record in self.records]

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

    def to_json(self) -> dict[str, Any]:
        """The row for programs."""
        return {
            "model": self.model,
            "edges": self.edges,
            **({} if self.target is None else {"property": self.target}),
            "recipe": self.recipe,
            "val_mae": self.each("val_mae"),
            "test_mae": self.each("test_mae"),
            "parameters": max(self.each("parameters")),
            "epochs": self.each("epochs"),
            "minutes": self.each("minutes"),
            "short": self.short,
            "paper": None if self.paper is None else list(self.paper),
        }


def load_rows(results: Path, data: str) -> list[Row]:
    """The rows of all finished runs, in the order of the paper's table."""
    groups: dict[Row, list[dict[str, Any]]] = {}
    for record in read_records(results, data):
        if record["status"] == FINISHED:
            row = Row(
                data,
                record["model"],
                record["edges"],
                _label(record),
                record.get("property"),
                record["full_recipe"]["epochs"],
                record["short"],
            )
            groups.setdefault(row, []).append(record)
    rows = [
        replace(row, records=tuple(sorted(found, key=lambda record: int(record["seed"]))))
        for row, found in groups.items()
    ]
    return sorted(rows, key=_order)


def _label(record: dict[str, Any]) -> str:
    """A recipe and what was changed in it; fewer epochs are told by ``short``."""
    changes = {key: value for key, value in record["settings"].items() if key != "epochs"}
    return " ".join(
        [record["recipe"], *(f"+ {key}={value}" for key, value in sorted(changes.items()))]
    )


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


def to_json(results: Path, data: str) -> dict[str, Any]:
    """The table for programs: rows that were run, and what was quoted, not run, or not finished."""
    rows = load_rows(results, data)
    run = {(row.model, row.edges, row.target) for row in rows}

    def cell(model: str, edges: bool, target: str | None) -> dict[str, Any]:
        error = paper.error(data, model, edges, target)
        return {
            "model": model,
            "edges": edges,
            **({} if target is None else {"property": target}),
            "paper": None if error is None else list(error),
        }

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
        "quoted": [cell(*of) for of in missing if of[0] in paper.QUOTED],
        "not_run": [cell(*of) for of in missing if of[0] not in paper.QUOTED],
        "unfinished": unfinished(results, data),
    }


def unfinished(results: Path, data: str) -> list[dict[str, Any]]:
    """Runs that were started and are not finished, with their validation errors so far."""
    keys = (
        "model", "edges", "property", "recipe", "settings", "seed", "status", "epochs", "val_mae",
    )  # fmt: skip
    return [
        {key: record[key] for key in keys if key in record}
        for record in read_records(results, data)
        if record["status"] != FINISHED
    ]


@dataclass(frozen=True)
class Grid:
    """A table of texts; ``left`` columns at the start are names, the others numbers."""

    header: tuple[str, ...]
    lines: list[tuple[str, ...]]
    left: int

    def only(self, *names: str) -> Grid:
        """Some of the columns."""
        places = [self.header.index(name) for name in names]
        lines = [tuple(line[place] for place in places) for line in self.lines]
        return Grid(names, lines, sum(place < self.left for place in places))

    def markdown(self) -> str:
        """The table as Markdown."""
        rule = ["---"] * self.left + ["---:"] * (len(self.header) - self.left)
        every = [self.header, tuple(rule), *self.lines]
        return "\n".join(f"| {' | '.join(line)} |" for line in every)


def grid(
    results: Path,
    data: str,
    *,
    variations: bool = True,
    missing: bool = True,
    models: Sequence[str] = tuple(paper.TITLES),
) -> Grid:
    """The paper's table with ours beside it.

    Args:
        results: where the records are.
        data: zinc or qm9.
        variations: with rows of changed recipes.
        missing: with the cells that were not run.
        models: of these models.
    """
    every = load_rows(results, data)
    rows = [r for r in every if r.model in models and (variations or "+" not in r.recipe)]
    shown = [of for of in cells(data) if of[0] in models and missing]
    by_cell: dict[tuple[str, bool, str | None], list[Row]] = {of: [] for of in shown}
    for row in rows:
        by_cell.setdefault((row.model, row.edges, row.target), []).append(row)
    targets, titles = list(paper.PROPERTIES), list(paper.TITLES)
    order = sorted(
        by_cell,
        key=lambda of: (targets.index(of[2]) if of[2] else 0, titles.index(of[0]), of[1]),
    )
    lines = [line for of in order for line in _lines(data, of, by_cell[of], every)]
    names = ("property", "model") if data == "qm9" else ("model", "bonds")
    numbers: tuple[str, ...] = (
        "paper", "ours", "met", "validation", "seeds", "parameters", "epochs", "minutes",
        "below DGN, paper", "below DGN, ours",
    )  # fmt: skip
    if data == "qm9":  # the paper prints no deviations there
        numbers = tuple(name for name in numbers if name != "met")
        lines = [line[:5] + line[6:] for line in lines]
    return Grid((*names, "recipe", *numbers), lines, 3)


def _lines(
    data: str, cell: tuple[str, bool, str | None], rows: Sequence[Row], every: Sequence[Row]
) -> list[tuple[str, ...]]:
    """The lines of one cell of the paper's table."""
    model, edges, target = cell
    title = paper.TITLES[model]
    first = (
        (f"{target} ({paper.PROPERTIES[target]})", title)
        if target
        else (title, "yes" if edges else "no")
    )
    printed = _error(paper.error(data, *cell))
    theirs = _percent(paper_against_dgn(data, model, edges, target))
    if not rows:
        state = QUOTED if model in paper.QUOTED else NOT_RUN
        return [(*first, "–", printed, state, *("–",) * 6, theirs, "–")]
    return [
        (
            *first,
            row.recipe + (" (short)" if row.short else ""),
            printed,
            _mean(row.each("test_mae")),
            "–" if row.is_met is None else "yes" if row.is_met else "no",
            _mean(row.each("val_mae")),
            str(len(row.records)),
            f"{max(row.each('parameters')):,}",
            _span(row.each("epochs")) + _of_paper(row),
            f"{fmean(row.each('minutes')):.0f}",
            theirs,
            _percent(against_dgn(row, every)),
        )
        for row in rows
    ]


def _of_paper(row: Row) -> str:
    """How far a short run is from the paper's epochs."""
    return f" of {paper.EPOCHS}" if row.short else ""


def _error(error: paper.Error | None) -> str:
    if error is None:
        return "–"
    mean, std = error
    return _number(mean) if std is None else f"{_number(mean)} ± {std:.3f}"


def _mean(values: Sequence[float]) -> str:
    """Mean and standard deviation over seeds.

    >>> _mean([0.14]), _mean([0.14, 0.15, 0.16]), _mean([64.31])
    ('0.140', '0.150 ± 0.010', '64.3')
    """
    mean = _number(fmean(values))
    decimals = len(mean.partition(".")[2])
    return mean if len(values) == 1 else f"{mean} ± {stdev(values):.{decimals}f}"


def _number(value: float) -> str:
    """Three decimals for small numbers, three digits for larger ones."""
    return (
        f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
    )


def _span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low}–{high}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} %"
