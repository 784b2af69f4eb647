"""A whole training run: data, split, members, metrics, model file, report."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gad.data.atomic import write_atomic
from gad.data.rows import Source
from gad.data.splits import Split
from gad.machine import is_first
from gad.nn import GAD, mean_log_degree
from gad.prediction.model_file import Model, load_model
from gad.prediction.predictor import Predictor, standardise
from gad.report.report import write_report
from gad.report.summary import RunSummary
from gad.reporter import Reporter
from gad.settings.model import build_model
from gad.settings.recipe import Recipe, load_recipe
from gad.settings.task import Task
from gad.training.batches import Labelled, mix
from gad.training.dataset import Dataset, load_dataset, split_dataset
from gad.training.fit import Fitted, Hardware, fit
from gad.training.folder import (
    identity_of,
    new_folder,
    open_folder,
    read_member,
    write_log,
    write_member,
    write_rejects,
)
from gad.training.summary import summarise

Floats = npt.NDArray[np.float64]
# What a model that is trained further keeps of its own recipe: everything that shapes it.
_ARCHITECTURE = (
    "explicit_hydrogens", "descriptors", "k", "random_walk", "cycles", "laplacian", "field",
    "network", "scheme", "layers", "width", "budget", "towers", "aggregators", "scalers",
    "dx_centre", "messages", "edges", "edge_channels", "readout", "batch_norm", "graph_norm",
    "residual", "value_norm",
)  # fmt: skip


@dataclass(frozen=True)
class TrainingRun:
    """What a run leaves: its folder, the model, and the summary (as in ``summary.json``)."""

    directory: Path
    model: Predictor
    summary: RunSummary


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
    folder = Path(out) if out is not None else new_folder(dataset.title)
    identity = identity_of(dataset, chosen, splits, ensemble, kind, task, origin)
    if is_first():
        reporter.message(f"the run is kept in {folder}")
        if open_folder(folder, identity, resume):
            return _finished(folder)
        write_rejects(folder, dataset)
        for number, part in enumerate(splits):
            part.save(folder / ("split.json" if folds is None else f"split-{number}.json"))
    rows = np.concatenate([s.train for s in splits])
    learned = Task.of(
        task,
        dataset.target_names,
        dataset.units,
        dataset.targets[rows],
        chosen.loss,
        dataset.weights[rows],
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
    if not is_first():
        return TrainingRun(folder, Predictor(model), RunSummary())
    summary = summarise(model, dataset, splits, fitted, kind, identity, baselines, reporter)
    summary = replace(
        summary,
        minutes=(time.monotonic() - began) / 60,
        model=str(folder / "model.gad"),
        report=str(folder / "report.html"),
    )
    model = replace(model, notes=summary.notes())
    model.save(folder / "model.gad")
    write_report(folder / "report.html", summary)
    write_atomic(folder / "summary.json", json.dumps(summary.to_dict(), indent=1).encode())
    for leftover in (*folder.glob("member-*.ckpt"), *folder.glob("member-*.safetensors")):
        leftover.unlink()
    return TrainingRun(folder, Predictor(model), summary)


def _finished(folder: Path) -> TrainingRun:
    """What a run that is over has left."""
    told = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return TrainingRun(folder, Predictor.load(folder / "model.gad"), RunSummary.from_dict(told))


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
        return read_member(done, model)
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
    if not is_first():
        return fitted
    write_member(done, fitted)
    write_log(folder / ("log.csv" if members == 1 else f"log-{number}.csv"), fitted.curve)
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
