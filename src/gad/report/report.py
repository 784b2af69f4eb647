"""The report of a training run: one HTML file that needs nothing else, and the same in a terminal.

Both are made from a :class:`~gad.report.summary.RunSummary`; what it does not have is left out.
The page is ``templates/report.html.j2``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from gad.report import plots, verdict
from gad.report.summary import PARTS, RejectedRow, RunSummary
from gad.report.svg import BOTTOM, WIDTH, Plot
from gad.report.text import number, plain

if TYPE_CHECKING:
    import os

    from jinja2 import Template
    from markupsafe import Markup
    from rich.console import Group

# So many metrics fit into a terminal of ordinary width, and the plots of so many targets on a page.
_MOST_COLUMNS, _MOST_PLOTS = 5, 6


def write_report(path: str | os.PathLike[str], summary: RunSummary) -> None:
    """Write the report of a run as one HTML file, whole or not at all.

    It reads on a phone, in light and dark, in print and offline, and fetches nothing.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp(), "report.html")
        >>> write_report(path, RunSummary(title="A <small> set"))
        >>> "<h1>A &lt;small&gt; set</h1>" in path.read_text(encoding="utf-8")
        True
    """
    from gad.data.atomic import write_atomic

    # A SMILES or a name may hold half a surrogate pair; it is shown as a question mark.
    write_atomic(path, render(summary).encode("utf-8", "replace"))


def render(summary: RunSummary) -> str:
    """The report of a run as HTML."""
    return _template().render(
        run=summary, pictures=_pictures(summary), reasons=_reasons(summary.rejects)
    )


def terminal_summary(summary: RunSummary) -> Group:
    """The headline, the table of metrics and the paths, ready for ``rich``'s ``print``."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    many, lost = len(summary.targets) > 1, verdict.ridge_wins(summary)
    shown = (
        verdict.compare_targets(summary) if many else verdict.compare(summary, most=_MOST_COLUMNS)
    )
    parts: list[Any] = [Text(verdict.headline(summary), style="yellow" if lost else "bold")]
    if lost:
        parts += [
            Text("\nTo use it, with lists of SMILES and of values to learn from:\n"),
            Text(verdict.how_to_use_ridge(summary), style="dim"),
        ]
    if shown.rows:
        grid = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for name in ("",) if many else ("part", ""):
            grid.add_column(name)
        for column in shown.columns:
            grid.add_column(column, justify="right")
        before = ""
        for row in shown.rows:
            names = [row.method] if many else ["" if row.part == before else row.part, row.method]
            before = row.part
            cells = zip(row.cells, row.best, strict=True)
            grid.add_row(*map(Text, names), *(Text(c, style="bold" * best) for c, best in cells))
        parts += [Text(""), grid]
    if told := verdict.trust(summary):
        parts += [Text(""), *(Text(line, style="dim") for line in told)]
    paths = {"model": summary.model, "report": summary.report, **(summary.paths or {})}
    written = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for what, where in paths.items():
        if where:
            written.add_row(Text(what, style="dim"), Text(where, overflow="fold"))
    return Group(*parts, Text(""), written) if written.row_count else Group(*parts)


@lru_cache(maxsize=1)
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from gad import __version__

    environment = Environment(
        loader=PackageLoader("gad.report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters.update(number=number, plain=plain)
    environment.globals.update(
        plots=plots, verdict=verdict, kind_of=kind_of, drawing=_drawing, version=__version__,
        PARTS=PARTS, WIDTH=WIDTH, BOTTOM=BOTTOM, MOST_PLOTS=_MOST_PLOTS,
    )  # fmt: skip
    return environment.get_template("report.html.j2")


def _drawing(smiles: str) -> Markup:
    from markupsafe import Markup

    from gad.chem import draw_grid

    return Markup(draw_grid([(smiles, "")], columns=1, size=(220, 170)))  # noqa: S704


def _pictures(summary: RunSummary) -> dict[str, dict[str, Plot]]:
    """The plots of the first targets that have any."""
    found: dict[str, dict[str, Plot]] = {}
    widths = summary.uncertainty.q if summary.uncertainty else {}
    for target, rows in list(summary.parity.items())[:_MOST_PLOTS]:
        kind = kind_of(summary, target)
        if kind == "binary":
            drawn = plots.class_curves(rows.true, rows.pred)
        elif kind == "multiclass":
            drawn = plots.several_classes(rows.true, rows.pred, rows.classes)
        else:
            plot = plots.parity(
                rows.true, rows.pred, summary.unit(target), widths.get(target),
                log=target in (summary.logarithms or ()),
            )  # fmt: skip
            drawn = {"parity": plot} if plot else {}
        if summary.similarity and rows.error:
            what = "size of the error" if kind == "regression" else "1 − probability of the truth"
            what += " of log10" * (target in (summary.logarithms or ()))
            apart = plots.by_similarity(summary.similarity, rows.error, what)
            drawn |= {"similarity": apart} if apart else {}
        found |= {target: drawn} if drawn else {}
    return found


def kind_of(summary: RunSummary, target: str) -> str:
    """Whether a target is a regression, binary or multiclass; older runs have one kind."""
    told = summary.parity[target].kind
    return told or ("binary" if summary.task == "classification" else "regression")


def _reasons(rejects: Sequence[RejectedRow]) -> list[tuple[str, list[RejectedRow]]]:
    """Rejected rows by reason, the most frequent first."""
    found: dict[str, list[RejectedRow]] = {}
    for reject in rejects:
        found.setdefault(reject.reason, []).append(reject)
    return sorted(found.items(), key=lambda item: -len(item[1]))
