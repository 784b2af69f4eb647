"""``gad table``: the paper's tables with ours beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gad.cli.console import Outcome
from gad.cli.console import grid as grid_of
from gad.cli.options import OUTPUT, argument, one_of, option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from gad.experiments.grid import Grid
    from gad.experiments.records import Record


def table(
    data: Annotated[
        str,
        argument("Which of the paper's tables, or nodes.", **one_of("zinc", "qm9", "nodes")),
    ],
    results: Annotated[Path, option("Where the records are.", metavar="DIR")] = Path("results"),
    markdown: Annotated[bool, option("Print Markdown.", "--markdown", panel=OUTPUT)] = False,
) -> Outcome:
    """Show one of the paper's tables with our results beside it.

    Everything is read from the records that `gad reproduce` keeps: mean ± standard deviation over
    the seeds, and by how much the error is below DGN's. "met" is an error of at most the paper's
    and two of its standard deviations. "nodes" is not in the paper: there GAD stands beside the
    best of GCN, SAGE and GAT; it "holds" where it is at least as good, within the standard error of
    the paired difference.
    """
    from gad.experiments.grid import grid
    from gad.experiments.table import to_json, unfinished

    if data == "nodes":
        return _nodes(results, markdown)
    told = to_json(results, data)
    if markdown:
        return Outcome(told, _plain(grid(results, data).markdown()))
    return Outcome(told, _shown(grid(results, data), unfinished(results, data), data))


def _nodes(results: Path, markdown: bool) -> Outcome:
    from gad.experiments.nodes import node_table

    told, table = node_table(results)
    if markdown:
        return Outcome(told, _plain(table.markdown()))
    return Outcome(told, grid_of(table.header[:2], table.header[2:], table.lines))


def _plain(text: str) -> RenderableType:
    from rich.text import Text

    return Text(text, no_wrap=True, overflow="ignore")


def _shown(grid: Grid, unfinished: Iterable[Record], data: str) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    shown = Table(title=f"{data.upper()}: mean absolute error on the test molecules", box=None)
    for place, name in enumerate(grid.header):
        shown.add_column(name, justify="left" if place < grid.left else "right")
    before = None
    for line in grid.lines:
        style = "bold" if line[grid.left + 1] != "not run" else "dim"
        first = "" if line[0] == before else line[0]
        shown.add_row(*(Text(cell, style=style) for cell in (first, *line[1:])))
        before = line[0]
    notes = [Text(_note(run), style="dim") for run in unfinished]
    return Group(shown, *([Text(""), Text("Not finished:", style="dim"), *notes] if notes else []))


def _note(run: Record) -> str:
    """A run that is going on, or was given up."""
    name = [run.target, run.model, "bonds" if run.edges else "no bonds", run.recipe]
    words = " ".join([*filter(None, name), *(f"{k}={v}" for k, v in run.settings.items())])
    so_far = "–" if run.epochs is None else f"{run.epochs} epochs, validation {run.val_mae:.4g}"
    return f"  {words}, seed {run.seed}: {run.status}, {so_far}"
