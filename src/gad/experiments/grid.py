"""The tables as text: one line for each row, for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from gad.experiments import paper
from gad.experiments.table import Row, against_dgn, cells, load_rows, paper_against_dgn
from gad.settings.recipe import load_recipe, recipe_names

NOT_RUN = "not run"


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

    def without(self, *names: str) -> Grid:
        """All columns but some."""
        return self.only(*(name for name in self.header if name not in names))

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
        variations: with rows of changed and earlier recipes; without, a recipe that has not been
            run as it stands shows the one of lowest validation error.
        missing: with the cells that were not run.
        models: of these models.
    """
    every = load_rows(results, data)
    rows = [r for r in (every if variations else _chief(every)) if r.model in models]
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
        "paper", "ours", "met", "validation", "trimmed", "seeds", "parameters", "epochs", "minutes",
        "below DGN, paper", "below DGN, ours",
    )  # fmt: skip
    made = Grid((*names, "recipe", *numbers), lines, 3)
    # The paper prints no deviations for QM9, and no label there is far from all others.
    return made.without("met", "trimmed") if data == "qm9" else made


def _chief(rows: Sequence[Row]) -> list[Row]:
    """One row of each recipe and cell that varies: as it stands, or the best on validation.

    A run of fewer epochs than the recipe has is a variation, too.
    """

    def place(row: Row) -> tuple[object, ...]:
        return row.model, row.edges, row.target, row.recipe.partition(" ")[0]

    plain = {place(row) for row in rows if row.is_plain and not row.short}
    varied: dict[tuple[object, ...], Row] = {}
    for row in sorted(rows, key=lambda row: fmean(row.each("val_mae"))):
        if place(row) not in plain:
            varied.setdefault(place(row), row)
    return [
        row for row in rows if (row.is_plain and not row.short) or varied.get(place(row)) is row
    ]


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
        return [(*first, "–", printed, NOT_RUN, *("–",) * 7, theirs, "–")]
    return [
        (
            *first,
            row.recipe + (" (short)" if row.short else ""),
            printed,
            _mean(row.each("test_mae")),
            "–" if row.is_met is None else "yes" if row.is_met else "no",
            _mean(row.each("val_mae")),
            _mean(row.each("val_trimmed")),
            str(len(row.records)),
            f"{max(row.each('parameters')):,}",
            _span(row.each("epochs")) + _of_all(row),
            f"{fmean(row.each('minutes')):.0f}",
            theirs,
            _percent(against_dgn(row, every)),
        )
        for row in rows
    ]


def _of_all(row: Row) -> str:
    """How many epochs the recipe has, where the run was allowed fewer."""
    name = row.records[0].recipe
    if not row.short or name not in recipe_names():
        return ""
    return f" of {load_recipe(name).training.epochs}"


def _error(error: paper.Error | None) -> str:
    if error is None:
        return "–"
    mean, std = error
    return _number(mean) if std is None else f"{_number(mean)} ± {std:.3f}"


def _mean(values: Sequence[float | None]) -> str:
    """Mean and standard deviation over seeds, if all have one.

    >>> _mean([0.14]), _mean([0.14, 0.15, 0.16]), _mean([64.31]), _mean([0.14, None])
    ('0.140', '0.150 ± 0.010', '64.3', '–')
    """
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "–"
    mean = _number(fmean(known))
    decimals = len(mean.partition(".")[2])
    return mean if len(known) == 1 else f"{mean} ± {stdev(known):.{decimals}f}"


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
