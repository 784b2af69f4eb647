"""What a run's summary says in words and in one table, for the page and for the terminal alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gad.prediction.metrics import MAIN_METRIC, METRICS, REGISTRY, Metric, mean_of
from gad.report.summary import PARTS, ByPart, RunSummary
from gad.report.text import number

Values: TypeAlias = Mapping[str, float | None]

_IN_WORDS = {"mae": "mean absolute error", "roc_auc": "area under the ROC curve"}
_SPLITS = {"column": "split by a column", "file": "split by a file", "own": "the set's own split"}
# Two models whose errors differ by less than this share are called equal.
_ALIKE = 0.01
_USE = """\
from gad.training.baselines import DescriptorModel

model = DescriptorModel("{task}").fit(smiles, values)
model.predict(["CCO", "c1ccccc1"])"""


@dataclass(frozen=True)
class Row:
    """One line of a comparison: cells as text, and which of them are the best of their part."""

    part: str
    method: str
    cells: tuple[str, ...]
    best: tuple[bool, ...]


@dataclass(frozen=True)
class Comparison:
    """Model and baselines, part by part."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def linear_of(summary: RunSummary) -> str:
    """Which linear model the baseline is."""
    return {"regression": "ridge", "mixed": "linear"}.get(summary.task, "logistic")


def methods(summary: RunSummary) -> dict[str, ByPart]:
    """The model and each baseline there is: short name → part → scores."""
    found = {"model": summary.metrics}
    if summary.baselines is not None:
        found |= {"mean": summary.baselines.mean, linear_of(summary): summary.baselines.ridge}
    return {name: by_part for name, by_part in found.items() if by_part or name == "model"}


def main_metric(summary: RunSummary, target: str | None = None) -> Metric:
    """The metric by which a run is judged: the one that was chosen, or what is usual.

    Of targets of several kinds each has its own.
    """
    usual = summary.metric or MAIN_METRIC[summary.task]
    if target is not None and summary.task == "mixed":
        scores = _scores(summary.metrics, main_part(summary), target)
        usual = next((m for m in (usual, "mae", "roc_auc") if scores.get(m) is not None), usual)
    return REGISTRY[usual]


def metric_in_words(summary: RunSummary) -> str:
    """The same for a heading."""
    return "the metric of each" if summary.task == "mixed" else main_metric(summary).title


def main_part(summary: RunSummary) -> str:
    """The part whose scores count: test, or else what there is; "" if there is none."""
    return next((part for part in PARTS if summary.metrics.get(part)), "")


def main_values(summary: RunSummary) -> dict[str, dict[str, float | None]]:
    """What counts: method → target → the main metric on the main part."""
    part = main_part(summary)
    return {
        name: {
            target: _scores(by_part, part, target).get(main_metric(summary, target).name)
            for target in summary.targets
        }
        for name, by_part in methods(summary).items()
    }


def compare(summary: RunSummary, target: str | None = None, most: int | None = None) -> Comparison:
    """The metrics of one target, or their means over targets, of every method on every part."""
    metrics = [REGISTRY[name] for name in METRICS[summary.task]][:most]
    if target is None and len(summary.targets) > 1:
        # Errors of targets with different units have no mean.
        metrics = [metric for metric in metrics if not metric.has_unit]
    elif target is None:
        target = next(iter(summary.targets), "")
    lines = [
        (part, name, scores)
        for part in PARTS
        for name, by_part in methods(summary).items()
        if (scores := _scores(by_part, part, target))
    ]
    # A target of one kind has no use for the metrics of another.
    metrics = [m for m in metrics if any(scores.get(m.name) is not None for *_, scores in lines)]
    decimals = {m: _decimals([scores.get(m.name) for *_, scores in lines]) for m in metrics}
    rows = []
    for part, name, scores in lines:
        rivals = [other for p, _, other in lines if p == part]
        cells = [number(scores.get(m.name), decimals[m]) for m in metrics]
        best = [
            # The training part flatters whoever learned it by heart.
            part != "train" and _is_best(m, scores.get(m.name), [r.get(m.name) for r in rivals])
            for m in metrics
        ]
        if "n" in scores:
            cells.append(number(scores["n"], 0))
            best.append(False)
        rows.append(Row(PARTS[part], name, tuple(cells), tuple(best)))
    titles = (*(metric.title for metric in metrics), "labels")
    return Comparison(titles[: len(rows[0].cells) if rows else 0], tuple(rows))


def compare_targets(summary: RunSummary) -> Comparison:
    """The main metric of every target on the part that counts most: a row a target."""
    part, found, rows = main_part(summary), main_values(summary), []
    for target in summary.targets if part else ():
        metric = main_metric(summary, target)
        values, unit = [each[target] for each in found.values()], summary.unit(target)
        unit = metric.title if summary.task == "mixed" and not metric.has_unit else unit
        cells = [number(value, _decimals(values)) for value in values]
        best = [_is_best(metric, value, values) for value in values]
        if summary.bootstrap:
            cells.append(_interval(summary, target) or "–")
        cells.append(number(_scores(summary.metrics, part, target).get("n"), 0))
        best += [False] * (len(cells) - len(best))
        name = f"{target} / {unit}" if unit else target
        rows.append(Row(PARTS[part], name, tuple(cells), tuple(best)))
    told = (f"{100 * summary.bootstrap.level:g} % interval",) if summary.bootstrap else ()
    return Comparison((*found, *told, "labels"), tuple(rows))


def headline(summary: RunSummary) -> str:
    """How good the model is, and whether it was worth it, in a sentence or two.

    Example:
        >>> scores = lambda mae: {"test": {"targets": {"logS": {"mae": mae, "n": 999}}, "mean": {}}}
        >>> told = {
        ...     "targets": ["logS"],
        ...     "units": ["log mol/L"],
        ...     "split": "scaffold",
        ...     "metrics": scores(1.1),
        ...     "baselines": {"mean": scores(2.2), "ridge": scores(1.0)},
        ... }
        >>> print(headline(RunSummary.from_dict(told)))
        On 999 test molecules (scaffold split) the mean absolute error is 1.1 log mol/L: 50 % below
        the mean predictor (2.2), but 10 % above ridge regression on descriptors (1). The simpler
        model is the better one here.
    """
    if not main_part(summary) or not summary.targets:
        return "Nothing was held out or scored."
    return (_about_one if len(summary.targets) == 1 else _about_many)(summary)


def ridge_wins(summary: RunSummary) -> bool:
    """Whether the linear model is better on most targets, by more than a hair."""
    gains = _gains(summary).get(linear_of(summary), [])
    return sum(gain < -_ALIKE for gain in gains) > len(gains) / 2


def how_to_use_ridge(summary: RunSummary) -> str:
    """The code that fits the linear model and predicts with it."""
    return _USE.format(task="regression" if summary.task == "mixed" else summary.task)


def trust(summary: RunSummary) -> list[str]:
    """What intervals and sets of classes are worth, in a line each."""
    told = summary.uncertainty
    if told is None:
        return []
    lines = []
    if told.coverage is not None:
        lines.append(
            f"{100 * told.level:g} % intervals hold {100 * told.coverage:.1f} % of held-out values"
        )
    for target, own in told.classes.items():
        text = f"{target}: expected calibration error {number(own.calibration_error)}"
        if own.before != own.calibration_error:
            text += f" ({number(own.before)} before recalibration by {own.recalibration})"
        if own.size is not None:
            text += f"; a set holds {number(own.size)} classes"
        lines.append(text)
    return lines


def split_in_words(summary: RunSummary) -> str:
    """The kind of split, as it stands in a sentence; "" if unknown."""
    kind = summary.split
    return _SPLITS.get(kind, f"{kind} split") if kind else ""


def _about_one(summary: RunSummary) -> str:
    (target,) = summary.targets
    part, metric = main_part(summary), main_metric(summary, target)
    scores, values = _scores(summary.metrics, part, target), main_values(summary)
    split = f" ({split_in_words(summary)})" if summary.split else ""
    unit = summary.unit(target) if metric.has_unit else ""
    what = _IN_WORDS.get(metric.name, metric.title)
    text = f" the {what} is {number(values['model'][target])} {unit}".rstrip()
    folds = (summary.folds or {}).get(metric.name)
    if folds is not None and folds.folds:
        text = f"In cross-validation{split}{text}"
        text += f" (standard deviation over {len(folds.folds)} folds {number(folds.std)})"
    else:
        rows = f"{number(scores['n'], 0)} " if scores.get("n") else ""
        text = f"On {rows}{PARTS[part]} molecules{split}{text}"
        if summary.bootstrap is not None and target in summary.bootstrap.targets:
            level = f"{100 * summary.bootstrap.level:g}"
            text += f" ({level} % interval {_interval(summary, target)})"
    gains = {name: each[0] for name, each in _gains(summary).items() if each}
    phrases = [_phrase(metric, name, gain, values[name][target]) for name, gain in gains.items()]
    linear = gains.get(linear_of(summary), math.inf)
    if len(phrases) == 2 and gains["mean"] > _ALIKE and linear < -_ALIKE:
        text += f": {phrases[0]}, but {phrases[1]}"
    elif phrases:
        text += ": " + " and ".join(phrases)
    if gains.get("mean", 1.0) < _ALIKE:
        text += ". It has learned nothing that holds beyond its training data"
    elif linear < _ALIKE:
        better = "is the better one here" if linear <= -_ALIKE else "does as well"
        text += f". The simpler model {better}"
    rejected = int(scores.get("rejected") or 0)
    if rejected:
        text += f". Left out: {rejected:,} prediction{'s' * (rejected != 1)} without a finite value"
    return text + "."


def _about_many(summary: RunSummary) -> str:
    metric, values = main_metric(summary), main_values(summary)
    where = f"On the {PARTS[main_part(summary)]} part"
    if summary.split:
        where += f" ({split_in_words(summary)})"
    better = " and ".join(
        f"{_in_full(name)} on {sum(gain > 0 for gain in gains)} of {len(gains)} targets"
        for name, gains in _gains(summary).items()
        if gains
    )
    if better:
        by = _IN_WORDS.get(metric.name, metric.title)
        by = "the metric of each" if summary.task == "mixed" else by
        text = f"{where}, by {by}, this model is better than {better}."
    else:
        known = [value for value in values["model"].values() if value is not None]
        text = f"{where} {len(known)} of {len(summary.targets)} targets were scored."
    if not metric.has_unit and summary.task != "mixed":
        means = [f"{name} {number(mean_of(each.values()))}" for name, each in values.items()]
        text += f" Mean over targets: {', '.join(means)}."
    return text + " The simpler model is the better one on most." * ridge_wins(summary)


def _gains(summary: RunSummary) -> dict[str, list[float]]:
    """How much better the model is than each baseline, target by target where both have a score.

    Of errors the share of the baseline's that is gone, of areas the difference.
    """
    values = main_values(summary)
    model = values.pop("model")
    return {
        name: [
            _gain(main_metric(summary, target), value, other)
            for target, value in model.items()
            if value is not None and (other := others[target]) is not None
        ]
        for name, others in values.items()
    }


def _gain(metric: Metric, value: float, other: float) -> float:
    if metric.higher_is_better:
        return value - other
    if other == 0:
        return 0.0 if value == 0 else -math.inf
    return 1 - value / other


def _phrase(metric: Metric, name: str, gain: float, other: float | None) -> str:
    rival = f"{_in_full(name)} ({number(other)})"
    if metric.higher_is_better:
        return f"{number(abs(gain))} {'above' if gain > 0 else 'below'} {rival}"
    if abs(gain) < _ALIKE:
        return f"the same as {rival}"
    much = f"{abs(gain):.0%} ".replace("%", " %") if math.isfinite(gain) else ""
    return f"{much}{'below' if gain > 0 else 'above'} {rival}"


def _interval(summary: RunSummary, target: str) -> str:
    """Where the bootstrap puts the main metric of a target, "" if unknown."""
    ends = summary.bootstrap.targets.get(target) if summary.bootstrap else None
    return f"{number(ends[0])} to {number(ends[1])}" if ends else ""


def _in_full(name: str) -> str:
    return "the mean predictor" if name == "mean" else f"{name} regression on descriptors"


def _scores(by_part: ByPart, part: str, target: str | None) -> Values:
    """The scores of a target on a part, or the means over all targets."""
    scores = by_part.get(part)
    if not scores:
        return {}
    return scores["mean"] if target is None else scores["targets"].get(target, {})


def _is_best(metric: Metric, value: float | None, rivals: Sequence[float | None]) -> bool:
    known = [rival for rival in rivals if rival is not None]
    return len(rivals) > 1 and value is not None and value == metric.best(known)


def _decimals(values: Sequence[float | None]) -> int:
    """So many that the middle value of a column keeps three digits, within reason."""
    sizes = sorted(abs(v) for v in values if v is not None and math.isfinite(v) and v)
    # The middle one: a stray tiny value (R² of the mean predictor) may not ask for ten decimals.
    return min(max(2 - math.floor(math.log10(sizes[len(sizes) // 2])), 0), 6) if sizes else 3
