"""What a run's summary says in words and in one table, for the page and for the terminal alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from gad.prediction.metrics import HIGHER_IS_BETTER, MAIN_METRIC, METRICS
from gad.report.plots import number

Summary: TypeAlias = Mapping[str, Any]

PARTS = {"test": "test", "val": "validation", "train": "training"}
METRIC_NAMES = {
    "mae": "MAE",
    "rmse": "RMSE",
    "r2": "R²",
    "spearman": "Spearman",
    "roc_auc": "ROC-AUC",
    "average_precision": "avg. precision",
    "accuracy": "accuracy",
    "log_loss": "log loss",
    "brier": "Brier",
}
_IN_WORDS = {"mae": "mean absolute error", "roc_auc": "area under the ROC curve"}
# Errors of targets with different units have no mean; these metrics do.
_UNIT_FREE = frozenset({"r2", "spearman"})
# Two models whose errors differ by less than this share are called equal.
_ALIKE = 0.01


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


def task_of(summary: Summary) -> str:
    """The task; a summary that does not say is a regression unless a score tells otherwise."""
    task = summary.get("task")
    if task in METRICS:
        return str(task)
    scores = (summary.get("metrics") or {}).values()
    classified = any("roc_auc" in (s.get("mean") or {}) for s in scores)
    return "classification" if classified else "regression"


def targets_of(summary: Summary) -> list[str]:
    """Names of the targets, from the list or from the scores."""
    named = summary.get("targets")
    if named:
        return [named] if isinstance(named, str) else [str(name) for name in named]
    for scores in (summary.get("metrics") or {}).values():
        return list(scores.get("targets", {}))
    return []


def unit_of(summary: Summary, target: str) -> str:
    """The unit of a target, "" if unknown."""
    units = summary.get("units") or ""
    if isinstance(units, Mapping):
        units = units.get(target)
    elif not isinstance(units, str):
        units = dict(zip(targets_of(summary), units, strict=False)).get(target)
    return str(units or "")


def linear_of(summary: Summary) -> str:
    """Which linear model the baseline is."""
    return "ridge" if task_of(summary) == "regression" else "logistic"


def methods(summary: Summary) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """The model and each baseline there is: (key, short name, part → scores)."""
    yield "model", "model", summary.get("metrics") or {}
    for key, name in {"mean": "mean", "ridge": linear_of(summary)}.items():
        scores = (summary.get("baselines") or {}).get(key)
        if scores:
            yield key, name, scores


def compare(summary: Summary, target: str | None = None) -> Comparison:
    """All metrics of one target, or their means over targets, of every method on every part."""
    task = task_of(summary)
    metrics = METRICS[task]
    if target is None and task == "regression" and len(targets_of(summary)) > 1:
        metrics = tuple(m for m in metrics if m in _UNIT_FREE)
    lines = [
        (part, name, _scores(by_part.get(part), target))
        for part in PARTS
        for _, name, by_part in methods(summary)
    ]
    lines = [line for line in lines if line[2]]
    decimals = {m: _decimals([scores.get(m) for *_, scores in lines]) for m in metrics}
    rows = []
    for part, name, scores in lines:
        rivals = [other for p, _, other in lines if p == part]
        cells = [number(scores.get(m), decimals[m]) for m in metrics]
        # The training part flatters whoever learned it by heart.
        best = [
            part != "train" and len(rivals) > 1 and _is_best(m, scores, rivals) for m in metrics
        ]
        if target is not None or "n" in scores:
            cells.append(number(scores.get("n"), 0))
            best.append(False)
        rows.append(Row(PARTS[part], name, tuple(cells), tuple(best)))
    columns = [METRIC_NAMES[m] for m in metrics]
    if rows and len(rows[0].cells) > len(columns):
        columns.append("labels")
    return Comparison(tuple(columns), tuple(rows))


def compare_targets(summary: Summary) -> Comparison:
    """The main metric of every target on the part that counts most: a row a target."""
    task = task_of(summary)
    metric = MAIN_METRIC[task]
    part = main_part(summary) or "test"
    rows = []
    sources = list(methods(summary))
    for target in targets_of(summary):
        scores = [_scores(by_part.get(part), target) for *_, by_part in sources]
        decimals = _decimals([s.get(metric) for s in scores])
        cells = [number(s.get(metric), decimals) for s in scores]
        best = [len(scores) > 1 and _is_best(metric, s, scores) for s in scores]
        unit = unit_of(summary, target)
        name = f"{target} / {unit}" if unit else target
        count = number(scores[0].get("n"), 0)
        rows.append(Row(PARTS[part], name, (*cells, count), (*best, False)))
    return Comparison((*(name for _, name, _ in sources), "labels"), tuple(rows))


def main_part(summary: Summary) -> str | None:
    """The part whose scores count: test, or else what there is."""
    return next((part for part in PARTS if (summary.get("metrics") or {}).get(part)), None)


def headline(summary: Summary) -> str:
    """How good the model is, and whether it was worth it, in a sentence or two.

    Example:
        >>> scores = lambda mae: {"test": {"targets": {"logS": {"mae": mae, "n": 999}}, "mean": {}}}
        >>> print(
        ...     headline(
        ...         {
        ...             "units": "log mol/L",
        ...             "metrics": scores(1.1),
        ...             "baselines": {"mean": scores(2.2), "ridge": scores(1.0)},
        ...         }
        ...     )
        ... )
        On 999 test molecules the mean absolute error is 1.1 log mol/L: 50 % below the mean
        predictor (2.2), but 10 % above ridge regression on descriptors (1). The simpler model is
        the better one here.
    """
    part = main_part(summary)
    targets = targets_of(summary)
    if part is None or not targets:
        return "Nothing was held out or scored."
    metric = MAIN_METRIC[task_of(summary)]
    found = {
        key: (name, [_scores(by_part.get(part), target).get(metric) for target in targets])
        for key, name, by_part in methods(summary)
    }
    if len(targets) == 1:
        return _about_one(summary, part, targets[0], metric, found)
    return _about_many(part, metric, found)


def scores_of(summary: Summary, target: str) -> Mapping[str, Any]:
    """The model's scores of a target on the part that counts."""
    return _scores((summary.get("metrics") or {}).get(main_part(summary) or "test"), target)


def ridge_wins(summary: Summary) -> bool:
    """Whether the linear model is better on most targets, by more than a hair."""
    part, metric = main_part(summary), MAIN_METRIC[task_of(summary)]
    scores = {key: by_part for key, _, by_part in methods(summary)}
    if part is None or "ridge" not in scores:
        return False
    gains = [
        _gain(
            metric,
            _scores(scores["model"].get(part), target).get(metric),
            _scores(scores["ridge"].get(part), target).get(metric),
        )
        for target in targets_of(summary)
    ]
    known = [gain for gain in gains if gain is not None]
    return sum(gain < -_ALIKE for gain in known) > len(known) / 2


def _about_one(
    summary: Summary,
    part: str,
    target: str,
    metric: str,
    found: Mapping[str, tuple[str, list[float | None]]],
) -> str:
    scores = _scores(summary["metrics"][part], target)
    value = scores.get(metric)
    unit = unit_of(summary, target) if metric not in HIGHER_IS_BETTER else ""
    text = f"the {_IN_WORDS[metric]} is {number(value)}" + (f" {unit}" if unit else "")
    folds = (summary.get("folds") or {}).get(metric) or {}
    if folds.get("folds"):
        text += f" (standard deviation over {len(folds['folds'])} folds {number(folds.get('std'))})"
        text = f"In cross-validation {text}"
    else:
        rows = f"{number(scores['n'], 0)} " if scores.get("n") else ""
        text = f"On {rows}{PARTS[part]} molecules {text}"
    compared = [
        (key, name, gain, others[0])
        for key, (name, others) in found.items()
        if key != "model" and (gain := _gain(metric, value, others[0])) is not None
    ]
    phrases = [_phrase(metric, name, gain, other) for _, name, gain, other in compared]
    gains = {key: gain for key, _, gain, _ in compared}
    if len(phrases) == 2 and gains["mean"] > _ALIKE and gains["ridge"] < -_ALIKE:
        text += f": {phrases[0]}, but {phrases[1]}"
    elif phrases:
        text += ": " + " and ".join(phrases)
    return text + "." + _moral(gains) + _left_out(scores.get("rejected"))


def _about_many(part: str, metric: str, found: Mapping[str, tuple[str, list[float | None]]]) -> str:
    _, values = found["model"]
    text = f"On the {PARTS[part]} part, by {_IN_WORDS[metric]}, this model is better than "
    phrases = []
    for key, (name, others) in found.items():
        gains = [_gain(metric, a, b) for a, b in zip(values, others, strict=True)]
        known = [gain for gain in gains if gain is not None]
        if key != "model" and known:
            won = sum(gain > 0 for gain in known)
            phrases.append(f"{_in_full(name)} on {won} of {len(known)} targets")
    if not phrases:
        known_values = [value for value in values if value is not None]
        text = f"On the {PARTS[part]} part {len(known_values)} of {len(values)} targets were scored"
    text += " and ".join(phrases) + "."
    if metric in HIGHER_IS_BETTER:  # areas have a mean, errors in different units have none
        means = [f"{name} {number(_mean(found[key][1]))}" for key, (name, _) in found.items()]
        text += f" Mean over targets: {', '.join(means)}."
    return text


def _phrase(metric: str, name: str, gain: float, other: float | None) -> str:
    if metric in HIGHER_IS_BETTER:
        relation = "above" if gain > 0 else "below"
        return f"{number(abs(gain))} {relation} {_in_full(name)} ({number(other)})"
    if abs(gain) < _ALIKE:
        return f"the same as {_in_full(name)} ({number(other)})"
    much = f"{abs(gain):.0%} ".replace("%", " %") if math.isfinite(gain) else ""
    return f"{much}{'below' if gain > 0 else 'above'} {_in_full(name)} ({number(other)})"


def _moral(gains: Mapping[str, float]) -> str:
    if gains.get("mean", 1.0) < _ALIKE:
        return " It has learned nothing that holds beyond its training data."
    if "ridge" not in gains or gains["ridge"] >= _ALIKE:
        return ""
    if gains["ridge"] > -_ALIKE:
        return " The simpler model does as well."
    return " The simpler model is the better one here."


def _left_out(rejected: int | None) -> str:
    if not rejected:
        return ""
    return f" Left out: {rejected:,} prediction{'s' * (rejected != 1)} without a finite value."


def _gain(metric: str, value: float | None, other: float | None) -> float | None:
    """How much better: the share of the other's error that is gone, or the difference of areas."""
    if value is None or other is None:
        return None
    if metric in HIGHER_IS_BETTER:
        return value - other
    if other == 0:
        return 0.0 if value == 0 else -math.inf
    return 1 - value / other


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _in_full(name: str) -> str:
    return "the mean predictor" if name == "mean" else f"{name} regression on descriptors"


def _scores(scores: Mapping[str, Any] | None, target: str | None) -> Mapping[str, Any]:
    """The scores of a target, or the mean of all (of a single target, its own)."""
    if not scores:
        return {}
    by_target: Mapping[str, Mapping[str, Any]] = scores.get("targets") or {}
    if target is None and len(by_target) == 1:
        (target,) = by_target
    found: Mapping[str, Any] = (
        scores.get("mean") if target is None else by_target.get(target)
    ) or {}
    return found


def _is_best(metric: str, scores: Mapping[str, Any], rivals: list[Mapping[str, Any]]) -> bool:
    values = [v for rival in rivals if (v := rival.get(metric)) is not None]
    top = (max if metric in HIGHER_IS_BETTER else min)(values, default=None)
    return top is not None and scores.get(metric) == top


def _decimals(values: list[float | None]) -> int:
    """So many that the smallest value in a column keeps three digits, within reason."""
    sizes = [abs(v) for v in values if v is not None and math.isfinite(v) and v]
    if not sizes:
        return 3
    # A stray tiny value (R² of the mean predictor) may not push the others to ten decimals.
    middle = sorted(sizes)[len(sizes) // 2]
    return min(max(2 - math.floor(math.log10(middle)), 0), 6)
