"""The report of a training run: one HTML file that needs nothing else, and the same in a terminal.

Both are made from one ``summary``, a dictionary that JSON can hold. Every key may be missing; what
it would have shown is left out.

==================  ==============================================================================
title               name of the data set
task                ``"regression"`` or ``"classification"``
targets, units      names of the targets; one unit for all, or a list or dictionary of units
metrics             ``{"train" | "val" | "test": score()}``, see :mod:`gad.prediction.metrics`
folds               ``{metric: {"mean", "std", "folds": [...]}}`` of a cross-validation
baselines           ``{"mean": {part: score()}, "ridge": {part: score()}}``
parity              ``{target: {"true": [...], "pred": [...]}}`` on the test part
curve, best_epoch   ``[{"epoch", "train_loss", "val_loss", ...}]``; lists of them for an ensemble
reach               √t in bonds, of every channel of every layer
worst               ``[{"smiles", "target", "true", "pred"}]``
rows                ``{"read", "used", "rejected", "train", "val", "test"}``
rejects             ``[{"row", "smiles", "reason"}]``, rows as people count them
messages            what was guessed, and anything else to know about the data
duplicates          molecules whose labels disagree: texts, or dictionaries
recipe              every setting of the run
uncertainty         ``{"level", "coverage", "coverage_min", "coverage_max", "split",
                    "q": {target: half-width}}``
model, report       where they were written; ``paths`` for what else there is
members, split, seed, parameters, minutes, fingerprint, commit, versions, machine
==================  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gad.prediction.metrics import MAIN_METRIC
from gad.report import plots
from gad.report.page import (
    Html,
    bullets,
    figure,
    join,
    page,
    section,
    table,
    tag,
)
from gad.report.plots import number
from gad.report.verdict import (
    METRIC_NAMES,
    PARTS,
    Comparison,
    Summary,
    compare,
    compare_targets,
    headline,
    linear_of,
    main_part,
    ridge_wins,
    scores_of,
    targets_of,
    task_of,
    unit_of,
)

if TYPE_CHECKING:
    import os

    from rich.console import Group

_MOST_PLOTS = 6
_MOST_LINES = 10


def write_report(path: str | os.PathLike[str], summary: Summary) -> None:
    """Write the report of a run as one HTML file, whole or not at all.

    It reads on a phone, in light and dark, in print and offline, and fetches nothing.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp(), "report.html")
        >>> write_report(path, {"title": "A <small> set", "rows": {"read": 3, "used": 2}})
        >>> "<h1>A &lt;small&gt; set</h1>" in path.read_text(encoding="utf-8")
        True
    """
    from gad.data.atomic import write_atomic

    # A SMILES or a name may hold half a surrogate pair; it is shown as a question mark.
    write_atomic(path, render(summary).encode("utf-8", "replace"))


def render(summary: Summary) -> str:
    """The report of a run as HTML."""
    from gad import __version__

    title = str(summary.get("title") or "Training report")
    sections = (
        _heading(title, summary),
        _results(summary),
        _predictions(summary),
        _worst(summary),
        _training(summary),
        _data(summary),
        _origin(summary),
    )
    footer = f"Written by gad {__version__}. Values appear when you point at a dot or a line."
    return page(title, join(sections), footer)


def terminal_summary(summary: Summary) -> Group:
    """The headline, the table of metrics and the paths, ready for ``rich``'s ``print``."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    many = len(targets_of(summary)) > 1
    shown = compare_targets(summary) if many else compare(summary)
    parts: list[Any] = [Text(headline(summary), style="yellow" if ridge_wins(summary) else "bold")]
    if shown.rows:
        grid = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        grid.add_column("" if many else "part")
        if not many:
            grid.add_column("")
        for column in shown.columns:
            grid.add_column(column, justify="right")
        before = ""
        for row in shown.rows:
            names = [row.method] if many else ["" if row.part == before else row.part, row.method]
            before = row.part
            cells = [
                Text(text, style="bold" if best else "")
                for text, best in zip(row.cells, row.best, strict=True)
            ]
            grid.add_row(*(Text(name) for name in names), *cells)
        parts += [Text(""), grid]
    paths = {key: summary[key] for key in ("model", "report") if summary.get(key)}
    paths.update(summary.get("paths") or {})
    if paths:
        written = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for what, where in paths.items():
            written.add_row(Text(str(what), style="dim"), Text(str(where), overflow="fold"))
        parts += [Text(""), written]
    return Group(*parts)


def _heading(title: str, summary: Summary) -> Html:
    named = [_with_unit(target, unit_of(summary, target)) for target in targets_of(summary)]
    if len(named) > _MOST_LINES:
        named = [*named[:_MOST_LINES], f"{len(named) - _MOST_LINES} more"]
    doing = "Predicting" if task_of(summary) == "regression" else "Classifying"
    return join(
        [
            tag("h1", title),
            tag("p", f"{doing} {', '.join(named)}", "sub") if named else "",
            tag("p", headline(summary), "lead warn" if ridge_wins(summary) else "lead")
            if summary.get("metrics")
            else "",
        ]
    )


def _results(summary: Summary) -> Html:
    targets = targets_of(summary)
    baselines = summary.get("baselines") or {}
    linear = linear_of(summary)
    about = {
        "mean": "mean: the mean of the training labels, whatever the molecule",
        "ridge": f"{linear}: {linear} regression on RDKit's 2-D descriptors",
    }
    known = [text for key, text in about.items() if key in baselines]
    note = tag("p", "; ".join(known) + ". Best values are bold.", "note") if known else ""
    if len(targets) < 2:
        return section("Results", _comparison(compare(summary), ""), note, _folds(summary))
    each = [
        join([tag("h3", target), _comparison(compare(summary, target), "")]) for target in targets
    ]
    metric, part = METRIC_NAMES[MAIN_METRIC[task_of(summary)]], PARTS[main_part(summary) or "test"]
    return section(
        "Results",
        tag("p", f"{metric} on the {part} part", "note"),
        _comparison(compare_targets(summary), "target"),
        note,
        tag("h3", "Mean over targets"),
        _comparison(compare(summary), ""),
        _folds(summary),
        tag("details", join([tag("summary", "Every target, every part"), *each])),
    )


def _comparison(comparison: Comparison, first: str) -> Html:
    """A table of numbers under a heading; rows of several parts are kept apart by their names."""
    head = join([tag("th", first, "name"), *(tag("th", name) for name in comparison.columns)])
    several = len({row.part for row in comparison.rows}) > 1
    rows, part = [], ""
    for row in comparison.rows:
        if several and row.part != part:
            rows.append(tag("tr", Html(f'<th class="part" colspan="9">{row.part}</th>')))
        part = row.part
        cells = [
            tag("td", text, "best" if best else "")
            for text, best in zip(row.cells, row.best, strict=True)
        ]
        rows.append(tag("tr", join([tag("th", row.method), *cells])))
    if not rows:
        return Html("")
    whole = join([tag("thead", tag("tr", head)), tag("tbody", join(rows))])
    return tag("div", tag("table", whole, "numbers"), "scroll")


def _folds(summary: Summary) -> Html:
    """The scatter over the folds of a cross-validation."""
    folds: Mapping[str, Any] = summary.get("folds") or {}
    if not folds:
        return Html("")
    rows = [
        (
            METRIC_NAMES.get(metric, metric),
            f"{number(told.get('mean'))} ± {number(told.get('std'))}",
            ", ".join(number(value) for value in told.get("folds") or []),
        )
        for metric, told in folds.items()
    ]
    head = ("test part", "mean ± standard deviation", "each fold")
    return join([tag("h3", "Cross-validation"), table(rows, head)])


def _predictions(summary: Summary) -> Html:
    parity: Mapping[str, Any] = summary.get("parity") or {}
    classes = task_of(summary) == "classification"
    widths = (summary.get("uncertainty") or {}).get("q") or {}
    metric = MAIN_METRIC[task_of(summary)]
    figures = []
    for target, values in list(parity.items())[:_MOST_PLOTS]:
        unit = unit_of(summary, target)
        if classes:
            picture = plots.roc(values["true"], values["pred"])
        else:
            picture = plots.parity(values["true"], values["pred"], unit, widths.get(target))
        told = f"{target}: {METRIC_NAMES[metric]} {number(scores_of(summary, target).get(metric))}"
        if not classes and len(values["true"]) > plots.MOST_POINTS:
            shown = f"{plots.MOST_POINTS:,} of {len(values['true']):,} molecules"
            told += f"; {shown} are drawn, the worst among them"
        figures.append(figure(picture, told))
    drawn = join([*figures, _uncertainty(summary)])
    if not drawn:
        return Html("")
    about = (
        "How many of the positives are found (up) at the cost of how many false alarms (right), "
        "as the threshold falls. The diagonal is chance."
        if classes
        else "Each dot is a molecule of the test part; on the diagonal a prediction is exact."
        + (" Between the dotted lines it is within its interval." if widths else "")
    )
    more = len(parity) - _MOST_PLOTS
    return section(
        "Receiver operating characteristic" if classes else "Predicted and true",
        tag("p", about, "note") if any(figures) else "",
        tag("div", drawn, "figures"),
        tag("p", f"Not drawn: {more} more.", "note") if more > 0 else "",
    )


def _uncertainty(summary: Summary) -> Html:
    told: Mapping[str, Any] = summary.get("uncertainty") or {}
    if not told:
        return Html("")
    level = f"{told.get('level', 0.9):.0%}".replace("%", " %")
    widths: Mapping[str, float] = told.get("q") or {}
    text = f"A prediction ± the half-width below is meant to hold the truth {level} of the time."
    if told.get("coverage") is not None:
        shares = [told.get(key) for key in ("coverage", "coverage_min", "coverage_max")]
        mean, low, high = ("–" if s is None else f"{100 * s:.1f} %" for s in shares)
        halvings = told.get("partitions", "several")
        text += (
            f" Calibrated on one half of the held-out rows and counted on the other, it did so "
            f"{mean} of the time ({low} to {high} in {halvings} random halvings)."
        )
    kind = told.get("split")
    caution = (
        "This holds for molecules like those held out"
        + (f" ({kind} split)" if kind else "")
        + ", on average: expect less for molecules unlike any of them."
    )
    rows = [
        (target, Html(f"± {number(q)}"), unit_of(summary, target)) for target, q in widths.items()
    ]
    return tag(
        "div",
        join([tag("h3", "Uncertainty"), tag("p", text), table(rows), tag("p", caution, "note")]),
    )


def _worst(summary: Summary) -> Html:
    worst: Sequence[Mapping[str, Any]] = summary.get("worst") or []
    many = len(targets_of(summary)) > 1
    cards = []
    for item in worst[:_MOST_LINES]:
        smiles = str(item.get("smiles", ""))
        target = str(item.get("target", ""))
        values = f"true {number(item.get('true'))}", f"predicted {number(item.get('pred'))}"
        lines = [tag("b", join([values[0], Html("<br>"), values[1]]))]
        if many:
            lines.append(tag("div", target))
        lines.append(tag("div", tag("code", smiles if len(smiles) < 90 else smiles[:88] + " …")))
        cards.append(figure(_drawing(smiles), join(lines)))
    return section(
        "Largest errors",
        tag("p", "Look here first for mistakes in the data.", "note") if cards else "",
        tag("div", join(cards), "cards") if cards else "",
    )


def _drawing(smiles: str) -> str:
    from gad.chem import draw_grid

    return draw_grid([(smiles, "")], columns=1, size=(220, 170))


def _training(summary: Summary) -> Html:
    curve: Sequence[Any] = summary.get("curve") or []
    curves = [curve] if curve and isinstance(curve[0], Mapping) else list(curve)
    best = summary.get("best_epoch")
    best_epochs = list(best) if isinstance(best, (list, tuple)) else [best] * len(curves)
    caption = Html(
        '<span class="key a"></span> training &ensp; <span class="key b"></span> validation'
        + (" &ensp; ○ best epoch" if any(b is not None for b in best_epochs) else "")
    )
    reach = (
        "Reach of the learned diffusion. Each dot is a channel, whose signal is carried √t bonds "
        "far (root mean square) in its learned time t; boxes hold the middle half and the median."
    )
    figures = join(
        [
            figure(plots.learning_curve(curves, best_epochs), caption),
            figure(plots.reach(summary.get("reach") or []), reach),
        ]
    )
    return section("Training", tag("div", figures, "figures") if figures else "")


def _data(summary: Summary) -> Html:
    rows: Mapping[str, Any] = summary.get("rows") or {}
    counts = [(_PLAIN.get(key, key), f"{value:,}") for key, value in rows.items()]
    rejects: Sequence[Mapping[str, Any]] = summary.get("rejects") or []
    duplicates: Sequence[Any] = summary.get("duplicates") or []
    return section(
        "Data",
        table(counts),
        bullets(summary.get("messages") or []),
        _titled("Rows that could not be used", _reasons(rejects, rows.get("rejected") or 0)),
        _titled("Molecules whose labels disagree", _some(map(_duplicate, duplicates))),
    )


def _reasons(rejects: Sequence[Mapping[str, Any]], total: int) -> Html:
    """The most frequent reasons, each with its first row."""
    by_reason: dict[str, list[Mapping[str, Any]]] = {}
    for reject in rejects:
        by_reason.setdefault(str(reject.get("reason", "")), []).append(reject)
    often = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    rows = [
        (reason, len(hits), hits[0].get("row", ""), tag("code", hits[0].get("smiles") or ""))
        for reason, hits in often[:_MOST_LINES]
    ]
    notes = []
    if len(often) > len(rows):
        notes.append(f"{len(often) - len(rows)} more reasons are not shown.")
    if total > len(rejects) > 0:
        notes.append(f"These are the first {len(rejects):,} of {total:,} such rows.")
    told = tag("p", " ".join(notes), "note") if notes else ""
    return join([table(rows, ("reason", "rows", "first row", "SMILES")), told])


def _duplicate(item: Any) -> str:
    if not isinstance(item, Mapping):
        return str(item)
    name = item.get("smiles") or item.get("key") or "?"
    values = ", ".join(map(_plain, item.get("values") or []))
    rows = ", ".join(map(str, item.get("rows") or []))
    return f"{name}: {values}" + (f" (rows {rows})" if rows else "")


def _origin(summary: Summary) -> Html:
    minutes = summary.get("minutes")
    parameters = summary.get("parameters")
    facts = {
        "split": summary.get("split"),
        "models": summary.get("members"),
        "seed": summary.get("seed"),
        "parameters": None if parameters is None else f"{parameters:,}",
        "minutes": None if minutes is None else number(minutes),
        "machine": summary.get("machine"),
        "data fingerprint": summary.get("fingerprint"),
        "commit": summary.get("commit"),
        "versions": summary.get("versions"),
    }
    rows = [(what, _plain(value)) for what, value in facts.items() if value not in (None, "", {})]
    recipe = [(key, _plain(value)) for key, value in _flat(summary.get("recipe") or {})]
    hidden = tag("details", join([tag("summary", "The recipe"), table(recipe)])) if recipe else ""
    return section("How it was made", table(rows), hidden)


def _titled(title: str, content: Html) -> Html:
    return join([tag("h3", title), content]) if content else Html("")


def _some(items: Any) -> Html:
    """The first few of a list, and how many more there are."""
    lines = list(items)
    more = len(lines) - _MOST_LINES
    return bullets([*lines[:_MOST_LINES], *([f"and {more} more"] if more > 0 else [])])


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _plain(value: Any) -> str:
    """A setting as people would write it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_plain, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return "–" if value is None else str(value)


def _with_unit(target: str, unit: str) -> str:
    return f"{target} ({unit})" if unit else target


_PLAIN = {
    "read": "rows read",
    "used": "rows used",
    "rejected": "rows rejected",
    **{part: f"{name} part" for part, name in PARTS.items()},
}
