"""What a run has to say: metrics, comparisons, intervals, and how it was made."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from gad.data.splits import Split
from gad.nn import count_parameters
from gad.prediction.metrics import (
    MAIN_METRIC,
    METRICS,
    REGISTRY,
    Metric,
    Scores,
    bootstrap,
    mean_of,
    score_task,
    value_of,
)
from gad.prediction.model_file import Model
from gad.report.summary import (
    Baselines,
    Bootstrap,
    ByPart,
    FoldScores,
    LargeError,
    Parity,
    RejectedRow,
    Rows,
    RunSummary,
)
from gad.reporter import Reporter
from gad.settings.task import Target, Task
from gad.training.baselines import fit_baselines
from gad.training.dataset import Dataset
from gad.training.fit import Fitted
from gad.training.folder import Identity
from gad.training.trust import Trusted

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
_BOOTSTRAP_LEVEL = 0.95
# Fewer held-out rows promise nothing.
_LEAST_ROWS = 20
_REJECTS = 50


def summarise(
    model: Model,
    dataset: Dataset,
    splits: list[Split],
    fitted: list[tuple[int, Fitted]],
    outputs: Floats,
    trusted: Trusted,
    kind: str,
    identity: Identity,
    baselines: bool,
    reporter: Reporter,
    metric: Metric | None = None,
) -> RunSummary:
    """Everything a run has to say, with outputs [members, G, W] of all its molecules."""
    task, names = model.task, model.task.names
    kind = "own" if dataset.fixed_split is not None else kind
    per_fold: list[ByPart] = []
    held = np.full((len(dataset), task.outputs), np.nan)
    bounds = dataset.bounds
    for fold, split in enumerate(splits):
        values = outputs[[i for i, (f, _) in enumerate(fitted) if f == fold]].mean(0)
        values = trusted.trust.recalibrated(values)
        per_fold.append(
            {
                part: score_task(
                    task,
                    dataset.targets[rows],
                    values[rows],
                    dataset.weights[rows],
                    None if bounds is None else bounds[rows],
                )
                for part, rows in split.parts()
                if len(rows)
            }
        )
        held[split.test] = values[split.test]
    first, test = splits[0], np.flatnonzero(np.isfinite(held).all(1))
    whole = len(splits) == 1
    return RunSummary(
        title=dataset.title,
        task=task.kind,
        targets=list(names),
        units=list(task.units),
        logarithms=[t.name for t in task.targets if t.transform == "log10"] or None,
        split=kind,
        metrics=per_fold[0] if whole else _mean_scores(per_fold),
        parameters=count_parameters(model.members[0]),
        members=len(model.members),
        recipe=model.recipe.to_dict(),
        seed=model.recipe.training.seed,
        rows=Rows(
            dataset.rows_read, len(dataset), len(dataset.rejects),
            **{part: len(rows) for part, rows in first.parts()},
        ),
        rejects=[
            RejectedRow(row + 1, dataset.reject_texts.get(row, ""), why)
            for row, why in sorted(dataset.rejects.items())[:_REJECTS]
        ],
        messages=dataset.messages,
        curves=[f.curve for _, f in fitted],
        best_epochs=[f.best_epoch for _, f in fitted],
        reach=[d.reach.tolist() for d in model.members[0].diffusions()],
        fingerprint=dataset.fingerprint,
        versions=identity.versions,
        commit=identity.commit,
        machine=f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        metric=None if metric is None else metric.name,
        parity=_parity(dataset, held, test, task),
        folds=None if whole else _fold_scores(per_fold),
        worst=_worst(dataset, held, test, model) if task.is_regression else None,
        uncertainty=trusted.uncertainty,
        similarity=_similarity(trusted, test),
        bootstrap=_bootstrap(dataset, held, test, task, metric) if whole else None,
        baselines=_baselines(dataset, first, task, reporter) if baselines and whole else None,
    )  # fmt: skip


def _similarity(trusted: Trusted, test: Indices) -> list[float | None] | None:
    """Of the test rows to the nearest training molecule; None where that is not known."""
    found = dict(zip(trusted.held.rows.tolist(), trusted.held.similarity.tolist(), strict=True))
    told = [found.get(row, np.nan) for row in test.tolist()]
    return None if np.isnan(told).all() else [round(similar, 4) for similar in told]


def _parity(dataset: Dataset, held: Floats, test: Indices, task: Task) -> dict[str, Parity]:
    """Truths, predictions and sizes of errors of the test rows, target by target."""
    labels, found = dataset.targets[test], {}
    bounds = None if dataset.bounds is None else dataset.bounds[test]
    residuals = task.residuals(labels, held[test], bounds)
    for column, (target, own) in enumerate(task.each(held[test])):
        truth = labels[:, column]
        error = np.abs(residuals[:, column])
        if target.kind != "regression":
            each = own if own.ndim == 2 else np.stack([1 - own, own], axis=1)
            there = np.isfinite(truth)
            error[there] = 1 - each[there, truth[there].astype(np.int64)]
        classes = list(target.classes) if target.kind == "multiclass" else []
        found[target.name] = Parity(
            truth.tolist(), own.tolist(), target.kind, classes, error.tolist()
        )
    return found


def _bootstrap(
    dataset: Dataset, held: Floats, test: Indices, task: Task, metric: Metric | None
) -> Bootstrap | None:
    """How far the metric of each target depends on which rows were the test rows."""
    if len(test) < _LEAST_ROWS:
        return None
    known: dict[str, list[float]] = {}
    for column, (target, own) in enumerate(task.each(held[test])):
        sides = None if dataset.bounds is None else dataset.bounds[test, column]
        chosen = _metric_of(task, target, metric)
        measure = partial(value_of, target, chosen, dataset.targets[test, column], own, sides)
        ends = bootstrap(measure, dataset.weights[test], _BOOTSTRAP_LEVEL)
        known |= {} if ends is None else {target.name: list(ends)}
    usual = MAIN_METRIC[task.kind] if metric is None else metric.name
    return Bootstrap("" if task.kind == "mixed" else usual, _BOOTSTRAP_LEVEL, known)


def _metric_of(task: Task, target: Target, metric: Metric | None) -> Metric:
    """The metric of a target: the chosen one if it is for its kind, or what is usual."""
    kind = "classification" if target.kind == "binary" else target.kind
    kind = task.kind if task.kind == "multiclass" else kind
    if metric is not None and metric.name in METRICS[kind]:
        return metric
    # Of targets of several kinds all classes are judged alike (gad.report.verdict.main_metric).
    return REGISTRY[
        "roc_auc" if task.kind == "mixed" and kind != "regression" else MAIN_METRIC[kind]
    ]


def _baselines(dataset: Dataset, split: Split, task: Task, reporter: Reporter) -> Baselines | None:
    """What the mean and a linear model on descriptors are worth, for molecules that are SMILES."""
    if dataset.preparation is None:
        return None
    reporter.message("comparing with a mean predictor and a ridge on RDKit descriptors")
    parts = {part: rows for part, rows in split.parts() if len(rows)}
    learned = task.forward(dataset.targets)

    def to_user(guess: Floats) -> Floats:
        columns = zip(task.targets, task.spans, strict=True)
        return np.concatenate([t.backward(guess[:, span]) for t, span in columns], axis=1)

    def judge(part: str, guess: Floats) -> Scores:
        rows, bounds = parts[part], dataset.bounds
        return score_task(
            task, dataset.targets[rows], to_user(guess), dataset.weights[rows],
            None if bounds is None else bounds[rows],
        )  # fmt: skip

    found = fit_baselines(
        {p: [dataset.smiles[i] for i in rows] for p, rows in parts.items()},
        {p: learned[rows] for p, rows in parts.items()},
        task,
        task.names,
        progress=lambda done: reporter.progress("computing descriptors", done, len(dataset)),
        weights_by_part={p: dataset.weights[rows] for p, rows in parts.items()},
        judge=judge,
    )
    return Baselines(found["mean"], found["ridge"])


def _mean_scores(folds: list[ByPart]) -> ByPart:
    """The mean of every figure over the folds, in the layout of one score."""

    def mean(values: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
        return {key: mean_of(v.get(key) for v in values) for key in values[0]}

    whole: ByPart = {}
    for part in folds[0]:
        scores = [fold[part] for fold in folds if part in fold]
        names = scores[0]["targets"]
        whole[part] = {
            "targets": {name: mean([s["targets"][name] for s in scores]) for name in names},
            "mean": mean([s["mean"] for s in scores]),
            "rows": sum(s["rows"] for s in scores) / len(scores),
        }
    return whole


def _fold_scores(folds: list[ByPart]) -> dict[str, FoldScores]:
    """Test metrics of each fold, with their mean and standard deviation."""
    result = {}
    for metric in folds[0]["test"]["mean"]:
        values = [fold["test"]["mean"][metric] for fold in folds]
        there = [v for v in values if v is not None]
        spread = float(np.std(there, ddof=1)) if len(there) > 1 else None
        result[metric] = FoldScores(mean_of(values), spread, values)
    return result


def _worst(dataset: Dataset, held: Floats, test: Indices, model: Model) -> list[LargeError]:
    """The ten largest errors on the test rows, in units of each target's spread."""
    task, std = model.task, model.scales[0].labels[1].numpy()
    bounds = None if dataset.bounds is None else dataset.bounds[test]
    error = np.abs(task.residuals(dataset.targets[test], held[test], bounds)) / std
    error[~np.isfinite(error)] = -1
    worst = []
    for flat in np.argsort(-error, axis=None)[:10].tolist():
        row, column = divmod(flat, len(task.names))
        if error[row, column] >= 0:
            at = int(test[row])
            truth, value = float(dataset.targets[at, column]), float(held[at, column])
            worst.append(LargeError(dataset.smiles[at], task.names[column], truth, value))
    return worst
