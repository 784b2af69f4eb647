"""A whole training run: data, split, members, metrics, model file, report."""

from __future__ import annotations

import csv
import io
import json
import math
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from gad.data.atomic import write_atomic
from gad.data.splits import Split
from gad.data.writers import RejectsWriter
from gad.nn import GAD, count_parameters, mean_log_degree
from gad.training.baselines import fit_baselines
from gad.training.batches import Labelled, mix
from gad.training.build import build_model
from gad.training.conformal import coverage_of_partitions, quantiles
from gad.training.dataset import Dataset, Source, load_dataset, split_dataset
from gad.training.fit import Fitted, Hardware, fit
from gad.training.metrics import score
from gad.training.model_file import Model, load_model
from gad.training.predictor import Predictor, standardise
from gad.training.recipe import Recipe, load_recipe
from gad.training.report import write_report
from gad.training.reporter import Reporter
from gad.training.task import Task

Floats = npt.NDArray[np.float64]
LEVEL = 0.9
# What a model that is trained further keeps of its own recipe: everything that shapes it.
_ARCHITECTURE = (
    "explicit_hydrogens", "descriptors", "k", "random_walk", "scheme", "layers", "width", "budget",
    "towers", "aggregators", "scalers", "dx_centre", "edges", "edge_channels", "readout",
    "batch_norm", "graph_norm", "residual",
)  # fmt: skip


@dataclass(frozen=True)
class TrainingRun:
    """What a run leaves: its folder, the model, and the summary (as in ``summary.json``)."""

    directory: Path
    model: Predictor
    summary: dict[str, Any]


def train(
    data: Any,
    *,
    smiles: str | None = None,
    target: str | Sequence[str] | None = None,
    weight: str | None = None,
    features: Sequence[str] = (),
    task: str | None = None,
    split: str = "random",
    split_column: str | None = None,
    split_file: str | Path | None = None,
    fractions: Sequence[float] = (0.8, 0.1, 0.1),
    folds: int | None = None,
    recipe: str | Path | Recipe = "default",
    settings: Mapping[str, Any] | None = None,
    ensemble: int = 1,
    out: str | Path | None = None,
    resume: bool = False,
    start_from: str | Path | None = None,
    workers: int | None = None,
    hardware: Hardware | None = None,
    baselines: bool = True,
    logger: str = "csv",
    reporter: Reporter | None = None,
) -> TrainingRun:
    """Train a model on a table of molecules, or on a known set.

    Args:
        data: a path (CSV, TSV, SMI, SDF, Parquet), the name of a known set ("esol", "zinc",
            "qm9"), or a pair (SMILES, targets).
        smiles: the column of the molecules, guessed if left out.
        target: the column or columns to learn, guessed if left out.
        weight: a column of weights.
        features: further numeric columns given to the model.
        task: "regression" or "classification"; the labels decide if left out.
        split: random, stratified, scaffold, column or file.
        split_column: the column that names each row's part.
        split_file: a file that lists the rows of each part.
        fractions: shares of train, validation and test.
        folds: cross-validate in so many folds instead of splitting once.
        recipe: a recipe's name, file, or object.
        settings: changes to the recipe, as ``--set key=value``.
        ensemble: train so many models that differ by their seed.
        out: the folder of the run.
        resume: go on with the run of that folder.
        start_from: a model file whose weights to start from; new targets are allowed.
        workers: processes that prepare molecules.
        hardware: Lightning's flags.
        baselines: compare with a mean predictor and a ridge on descriptors.
        logger: "csv", or "tensorboard" (an extra) in addition.
        reporter: is told how it goes.
    """
    reporter = reporter or Reporter()
    began = time.monotonic()
    origin = None if start_from is None else load_model(start_from)
    chosen = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    if origin is not None:
        chosen = replace(chosen, **{key: getattr(origin.recipe, key) for key in _ARCHITECTURE})
    chosen = chosen.override(settings or {})
    if ensemble < 1:
        raise ValueError(f"an ensemble has at least one member, not {ensemble}")
    targets = (target,) if isinstance(target, str) else target
    source = Source(data, smiles, targets, weight, tuple(features), split_column)
    dataset = load_dataset(source, chosen, workers=workers, progress=reporter.progress)
    kind = "column" if split_column is not None else "file" if split_file is not None else split
    splits, said = split_dataset(
        dataset, kind, seed=chosen.seed, fractions=fractions, file=split_file, folds=folds
    )
    for text in (*dataset.messages, *said):
        reporter.message(text)
    if dataset.rejects:
        reporter.message(
            f"{len(dataset.rejects)} of {dataset.rows_read} rows cannot be used: see rejects.csv"
        )
    folder = Path(out) if out is not None else _new_folder(dataset.title)
    identity = _identity(dataset, chosen, splits, ensemble, kind, task, origin)
    _open_folder(folder, identity, resume)
    _write_rejects(folder, dataset)
    splits[0].save(folder / "split.json")
    learned = Task.of(
        task,
        dataset.target_names,
        dataset.units,
        dataset.targets[np.concatenate([s.train for s in splits])],
        chosen.loss,
    )
    scale = _scale(dataset.packed.graph_values[torch.from_numpy(splits[0].train)])
    packed = replace(dataset.packed, graph_values=standardise(dataset.packed.graph_values, scale))
    labelled = Labelled(
        packed, learned.to_model(dataset.targets), torch.from_numpy(dataset.weights).float()
    )
    fitted: list[tuple[int, Fitted]] = []
    for fold, part in enumerate(splits):
        for member in range(ensemble):
            number = fold * ensemble + member
            own = replace(chosen, seed=chosen.seed + number)
            fitted.append(
                (
                    fold,
                    _fit_member(
                        number, own, learned, dataset, labelled, part, folder, resume,
                        hardware, logger, origin, reporter, len(splits) * ensemble,
                    ),
                )
            )  # fmt: skip
    model = Model(
        [f.model for _, f in fitted], chosen, learned, dataset.preparation, dataset.inputs,
        dataset.feature_names, scale,
    )  # fmt: skip
    summary = _summary(model, dataset, splits, fitted, kind, identity, baselines, reporter)
    summary["minutes"] = (time.monotonic() - began) / 60
    keep = ("metrics", "folds", "uncertainty", "rows", "data", "versions", "commit", "best_epoch")
    model = replace(model, notes={key: summary[key] for key in keep if key in summary})
    model.save(folder / "model.gad")
    summary["model"], summary["report"] = str(folder / "model.gad"), str(folder / "report.html")
    summary = finite(summary)
    write_report(folder / "report.html", summary)
    write_atomic(folder / "summary.json", json.dumps(summary, indent=1).encode())
    for leftover in (*folder.glob("member-*.ckpt"), *folder.glob("member-*.safetensors")):
        leftover.unlink()
    return TrainingRun(folder, Predictor(model), summary)


def _fit_member(
    number: int,
    recipe: Recipe,
    task: Task,
    dataset: Dataset,
    labelled: Labelled,
    split: Split,
    folder: Path,
    resume: bool,
    hardware: Hardware | None,
    logger: str,
    origin: Model | None,
    reporter: Reporter,
    members: int,
) -> Fitted:
    """One member, from scratch, from its checkpoint, or from its finished file."""
    rows = {part: torch.from_numpy(index) for part, index in split.parts()}
    delta = mean_log_degree(dataset.packed.operators.select(rows["train"]))
    torch.manual_seed(mix(recipe.seed, 0))
    model = build_model(recipe, dataset.inputs, len(task.names), delta=delta)
    if origin is not None:
        _start_from(model, origin.members[number % len(origin.members)])
    done = folder / f"member-{number}.safetensors"
    if resume and done.exists():
        return _read_member(done, model)
    name = f"model {number + 1} of {members}" if members > 1 else "training"

    def report(row: dict[str, float]) -> None:
        reporter.epoch(name, row, recipe.epochs)

    fitted = fit(
        model,
        recipe,
        task,
        labelled,
        rows,
        checkpoint=folder / f"member-{number}.ckpt",
        resume=resume,
        hardware=hardware,
        report=report,
        logger=_logger(logger, folder, number),
    )
    _write_member(done, fitted)
    _write_log(folder / ("log.csv" if members == 1 else f"log-{number}.csv"), fitted.curve)
    return fitted


def _start_from(model: GAD, origin: GAD) -> None:
    """Take over every weight that fits; what does not (a head of other targets) stays new."""
    own = model.state_dict()
    taken = {
        name: tensor
        for name, tensor in origin.state_dict().items()
        if name in own and own[name].shape == tensor.shape and not name.endswith(".delta")
    }
    model.load_state_dict(taken, strict=False)


def _write_member(path: Path, fitted: Fitted) -> None:
    rest = {f.name: getattr(fitted, f.name) for f in fields(fitted) if f.name != "model"}
    tensors = {k: t.contiguous() for k, t in fitted.model.state_dict().items()}
    write_atomic(path, save(tensors, metadata={"fitted": json.dumps(rest)}))


def _read_member(path: Path, model: GAD) -> Fitted:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        rest = json.loads(file.metadata()["fitted"])
    model.load_state_dict(load_file(path))
    return Fitted(model=model.eval(), **rest)


def _write_log(path: Path, curve: list[dict[str, float]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(curve[0]))
    writer.writeheader()
    writer.writerows(curve)
    write_atomic(path, text.getvalue().encode())


def _logger(kind: str, folder: Path, number: int) -> Any:
    if kind == "csv":
        return None
    if kind != "tensorboard":
        raise ValueError(f"unknown logger {kind!r}: choose csv or tensorboard")
    try:
        from lightning.pytorch.loggers import TensorBoardLogger

        return TensorBoardLogger(str(folder), name="tensorboard", version=f"member-{number}")
    except ModuleNotFoundError as error:
        raise ValueError(
            "TensorBoard is not installed: pip install 'graph-anisotropic-diffusion[tensorboard]'"
        ) from error


def _scale(values: Tensor) -> Tensor:
    """Mean and standard deviation of whole-molecule values; a constant column counts as it is."""
    if values.shape[1] == 0:
        return torch.zeros(2, 0)
    std, mean = torch.std_mean(values.to(torch.float64), dim=0, correction=0)
    std = torch.where(std > 1e-9, std, torch.ones_like(std))
    return torch.stack([mean, std]).to(torch.float32)


def _summary(
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


def _identity(
    dataset: Dataset,
    recipe: Recipe,
    splits: list[Split],
    ensemble: int,
    kind: str,
    task: str | None,
    origin: Model | None,
) -> dict[str, Any]:
    """What made a run: the same identity gives the same model on the same machine."""
    return {
        "data": dataset.fingerprint,
        "title": dataset.title,
        "targets": list(dataset.target_names),
        "recipe": recipe.to_dict(),
        "split": kind,
        "parts": [[len(rows) for _, rows in s.parts()] for s in splits],
        "ensemble": ensemble,
        "task": task,
        "from": None if origin is None else origin.notes.get("data"),
        "threads": torch.get_num_threads(),
        "versions": {
            name: version(name)
            for name in ("graph-anisotropic-diffusion", "torch", "lightning", "rdkit", "numpy")
        },
        "commit": _commit(),
    }


def _commit() -> str | None:
    """The commit of the code, when it runs from a checkout."""
    here = Path(__file__).parent
    try:
        told = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],  # noqa: S607
            cwd=here, capture_output=True, text=True, timeout=5, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    inside = any((parent / ".git").exists() for parent in here.parents)
    return told.stdout.strip() if inside else None


def _open_folder(folder: Path, identity: dict[str, Any], resume: bool) -> None:
    """Begin a run in a folder, or find the one that is to go on."""
    path = folder / "run.json"
    if not resume:
        if path.exists():
            raise FileExistsError(
                f"{folder} already holds a run: go on with it (--resume), or name another --out"
            )
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(identity, indent=1).encode())
        return
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(identity, indent=1).encode())
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    for key, what in (
        ("data", "data"), ("targets", "targets"), ("recipe", "recipe"), ("split", "split"),
        ("parts", "split"), ("ensemble", "ensemble"), ("task", "task"),
    ):  # fmt: skip
        if before.get(key) != identity[key]:
            raise ValueError(
                f"{folder} holds a run with another {what}: resume with the options it was "
                "started with, or name another --out"
            )


def _new_folder(title: str) -> Path:
    stem = title.split(".", maxsplit=1)[0] or "run"
    base = Path("gad-runs") / f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder, number = base, 1
    while folder.exists():
        number += 1
        folder = base.with_name(f"{base.name}-{number}")
    return folder


def _write_rejects(folder: Path, dataset: Dataset) -> None:
    if not dataset.rejects:
        return
    with RejectsWriter(folder / "rejects.csv") as writer:
        for row, why in sorted(dataset.rejects.items()):
            writer.add(row + 1, dataset.reject_texts.get(row, ""), why)
        writer.commit()
