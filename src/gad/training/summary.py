"""What a run has to say: metrics, comparisons, intervals, and how it was made."""

from __future__ import annotations

import math
import platform
from typing import Any

import numpy as np
import numpy.typing as npt

from gad.data.splits import Split
from gad.nn import count_parameters
from gad.prediction.intervals import coverage_of_partitions, quantiles
from gad.prediction.metrics import score
from gad.prediction.model_file import Model
from gad.prediction.predictor import Predictor
from gad.reporter import Reporter
from gad.settings.task import Task
from gad.training.baselines import fit_baselines
from gad.training.dataset import Dataset
from gad.training.fit import Fitted

Floats = npt.NDArray[np.float64]
# The share of truths that conformal intervals shall cover.
LEVEL = 0.9


def summarise(
    model: Model,
    dataset: Dataset,
    splits: list[Split],
    fitted: list[tuple[int, Fitted]],
    kind: str,
    identity: dict[str, Any],
    baselines: bool,
    reporter: Reporter,
) -> dict[str, Any]:
    """Everything a run has to say, as JSON can hold it."""
    task, names = model.task, model.task.names
    outputs = Predictor(model).run(dataset.packed)[0].numpy()
    members = {
        f: [i for i, (fold, _) in enumerate(fitted) if fold == f] for f in range(len(splits))
    }
    per_fold = []
    held = np.full(dataset.targets.shape, np.nan)
    for fold, split in enumerate(splits):
        values = outputs[members[fold]].mean(0)
        per_fold.append(
            {
                part: score(
                    task.kind, dataset.targets[rows], values[rows], names, dataset.weights[rows]
                )
                for part, rows in split.parts()
                if len(rows)
            }
        )
        held[split.test] = values[split.test]
    first, test = splits[0], np.flatnonzero(np.isfinite(held).all(1))
    summary: dict[str, Any] = {
        "title": dataset.title,
        "task": task.kind,
        "targets": list(names),
        "units": list(task.units),
        "split": kind,
        "metrics": per_fold[0] if len(splits) == 1 else _mean_scores(per_fold),
        "parameters": count_parameters(model.members[0]),
        "members": len(model.members),
        "recipe": model.recipe.to_dict(),
        "seed": model.recipe.seed,
        "rows": {
            "read": dataset.rows_read,
            "used": len(dataset),
            "rejected": len(dataset.rejects),
            **{part: len(rows) for part, rows in first.parts()},
        },
        "rejects": [
            {"row": row + 1, "smiles": dataset.reject_texts.get(row, ""), "reason": why}
            for row, why in sorted(dataset.rejects.items())[:50]
        ],
        "messages": dataset.messages,
        "curve": [f.curve for _, f in fitted] if len(fitted) > 1 else fitted[0][1].curve,
        "best_epoch": [f.best_epoch for _, f in fitted]
        if len(fitted) > 1
        else fitted[0][1].best_epoch,
        "reach": [d.reach.tolist() for d in model.members[0].diffusions()],
        "fingerprint": dataset.fingerprint,
        "data": {"title": dataset.title, "fingerprint": dataset.fingerprint},
        "versions": identity["versions"],
        "commit": identity["commit"],
        "machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "parity": {
            name: {
                "true": dataset.targets[test, column].tolist(),
                "pred": held[test, column].tolist(),
            }
            for column, name in enumerate(names)
        },
    }
    if len(splits) > 1:
        summary["folds"] = _fold_scores(per_fold)
    if task.is_regression:
        residuals = held[test] - dataset.targets[test]
        summary["worst"] = _worst(dataset, held, test, task)
        if len(test) >= 20:
            half = quantiles(residuals, LEVEL)
            summary["uncertainty"] = {
                **coverage_of_partitions(residuals, LEVEL),
                "q": {n: float(v) for n, v in zip(names, half, strict=True) if math.isfinite(v)},
                "split": kind,
                "calibrated_on": "test rows: used neither for training nor for selection",
            }
    if baselines and dataset.preparation is not None and len(splits) == 1:
        reporter.message("comparing with a mean predictor and a ridge on RDKit descriptors")
        parts = {part: rows for part, rows in first.parts() if len(rows)}
        summary["baselines"] = fit_baselines(
            {p: [dataset.smiles[i] for i in rows] for p, rows in parts.items()},
            {p: dataset.targets[rows] for p, rows in parts.items()},
            task.kind,
            names,
            progress=lambda done: reporter.progress("computing descriptors", done, len(dataset)),
            weights_by_part={p: dataset.weights[rows] for p, rows in parts.items()},
        )
    return summary


def finite(value: Any) -> Any:
    """What JSON can hold: None in place of NaN and infinities."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _mean_scores(folds: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean of every figure over the folds, in the layout of one score."""

    def mean(values: list[Any]) -> Any:
        if isinstance(values[0], dict):
            return {key: mean([v[key] for v in values if key in v]) for key in values[0]}
        there = [v for v in values if v is not None]
        return float(np.mean(there)) if there else None

    return {part: mean([fold[part] for fold in folds if part in fold]) for part in folds[0]}


def _fold_scores(folds: list[dict[str, Any]]) -> dict[str, Any]:
    """Test metrics of each fold, with their mean and standard deviation."""
    result: dict[str, Any] = {}
    for metric in folds[0]["test"]["mean"]:
        values = [fold["test"]["mean"][metric] for fold in folds]
        there = [v for v in values if v is not None]
        result[metric] = {
            "mean": float(np.mean(there)) if there else None,
            "std": float(np.std(there, ddof=1)) if len(there) > 1 else None,
            "folds": values,
        }
    return result


def _worst(dataset: Dataset, held: Floats, test: Any, task: Task) -> list[dict[str, Any]]:
    """The ten largest errors on the test rows, in units of each target's spread."""
    std = np.array(task.std)
    error = np.abs(held[test] - dataset.targets[test]) / std
    error[~np.isfinite(error)] = -1
    order = np.argsort(-error, axis=None)[:10]
    worst = []
    for flat in order.tolist():
        row, column = divmod(flat, len(task.names))
        if error[row, column] < 0:
            break
        at = int(test[row])
        worst.append(
            {
                "smiles": dataset.smiles[at],
                "target": task.names[column],
                "true": float(dataset.targets[at, column]),
                "pred": float(held[at, column]),
            }
        )
    return worst
