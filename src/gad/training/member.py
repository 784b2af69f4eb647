"""One member of a run: a model on one split, trained from scratch, or from where it was left."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gad.data.splits import Split
from gad.machine import is_first
from gad.nn import GAD, mean_log_degree
from gad.prediction.metrics import Metric, score_task
from gad.prediction.model_file import Model
from gad.reporter import Reporter
from gad.settings.model import build_model
from gad.settings.recipe import Recipe
from gad.settings.task import Scale, Task
from gad.training.batches import Labelled, mix
from gad.training.dataset import Dataset
from gad.training.fit import Fitted, Hardware, fit
from gad.training.folder import read_member, write_log, write_member
from gad.training.teachers import taught


@dataclass(frozen=True, eq=False)
class Member:
    """What is trained, on what, and where it is kept: number ``number`` of ``count``."""

    number: int
    count: int
    recipe: Recipe
    task: Task
    dataset: Dataset
    split: Split
    scale: Scale
    folder: Path
    metric: Metric | None = None

    @property
    def name(self) -> str:
        """For people."""
        return f"model {self.number + 1} of {self.count}" if self.count > 1 else "training"


@dataclass(frozen=True, eq=False)
class Judged:
    """A metric of one split's validation rows, as the mean over the targets that have it."""

    metric: Metric
    task: Task
    dataset: Dataset
    rows: npt.NDArray[np.int64]
    scale: Scale

    @property
    def higher_is_better(self) -> bool:
        """The direction in which it improves."""
        return self.metric.higher_is_better

    def __call__(self, outputs: Tensor) -> float:
        """The metric of the outputs [n, W], or the worst there is where it does not exist."""
        data, rows = self.dataset, self.rows
        scores = score_task(
            self.task, data.targets[rows], self.task.to_user(outputs, self.scale).numpy(),
            data.weights[rows], None if data.bounds is None else data.bounds[rows],
        )  # fmt: skip
        value = scores["mean"][self.metric.name]
        worst = -math.inf if self.higher_is_better else math.inf
        return worst if value is None else value


def begin(
    recipe: Recipe, task: Task, dataset: Dataset, split: Split, scale: Scale
) -> tuple[GAD, Labelled, dict[str, Tensor]]:
    """A new model by its seed, the molecules as it sees them, and the rows of each part."""
    rows = {part: torch.from_numpy(index) for part, index in split.parts()}
    packed = dataset.packed
    labelled = Labelled(
        replace(packed, graph_values=scale.standardise(packed.graph_values)),
        task.to_model(taught(recipe, dataset, split), scale, dataset.bounds),
        label_weights(recipe, task, dataset, split),
    )
    delta = mean_log_degree(packed.operators.select(rows["train"]))
    torch.manual_seed(mix(recipe.training.seed, 0))
    return build_model(recipe, dataset.inputs, task.outputs, delta=delta), labelled, rows


def label_weights(recipe: Recipe, task: Task, dataset: Dataset, split: Split) -> Tensor:
    """How much each label counts, [n] or, balanced, [n, T].

    Balanced, the classes of a target weigh the same together: those of class k get n / (K nₖ).
    """
    rows = torch.from_numpy(dataset.weights).float()
    if not recipe.training.balance or all(t.kind == "regression" for t in task.targets):
        return rows
    factors = np.ones(dataset.targets.shape)
    for column, (target, labels) in enumerate(zip(task.targets, dataset.targets.T, strict=True)):
        if target.kind != "regression":
            seen = labels[split.train]
            kinds, counts = np.unique(seen[np.isfinite(seen)], return_counts=True)
            for kind, count in zip(kinds, counts, strict=True):
                factors[labels == kind, column] = counts.sum() / (len(kinds) * count)
    return rows[:, None] * torch.from_numpy(factors).float()


def fit_member(
    member: Member,
    origin: Model | None,
    resume: bool,
    hardware: Hardware | None,
    logger: str,
    reporter: Reporter,
) -> Fitted:
    """Train a member from scratch, from its checkpoint, or find its finished file."""
    number, recipe, folder = member.number, member.recipe, member.folder
    model, labelled, rows = begin(recipe, member.task, member.dataset, member.split, member.scale)
    if origin is not None:
        _start_from(model, origin.members[number % len(origin.members)])
    done = folder / f"member-{number}.safetensors"
    if resume and done.exists():
        return read_member(done, model)
    fitted = fit(
        model,
        recipe,
        member.task,
        labelled,
        rows,
        checkpoint=folder / f"member-{number}.ckpt",
        resume=resume,
        hardware=hardware,
        report=lambda row: reporter.epoch(member.name, row, recipe.training.epochs),
        logger=None if logger == "csv" else _tensorboard(folder, number),
        judge=None
        if member.metric is None
        else Judged(member.metric, member.task, member.dataset, member.split.val, member.scale),
    )
    if is_first():
        write_member(done, fitted)
        write_log(folder / ("log.csv" if member.count == 1 else f"log-{number}.csv"), fitted.curve)
    return fitted


def _start_from(model: GAD, origin: GAD) -> None:
    """Take over every weight that fits; what does not (a head of other targets) stays new.

    So is δ of the scalers: the weights are used to it.
    """
    own = model.state_dict()
    taken = {
        name: tensor
        for name, tensor in origin.state_dict().items()
        if name in own and own[name].shape == tensor.shape
    }
    model.load_state_dict(taken, strict=False)


def checked_logger(kind: str) -> None:
    """Refuse a logger that is not known, or not installed."""
    if kind not in ("csv", "tensorboard"):
        raise ValueError(f"unknown logger {kind!r}: choose csv or tensorboard")
    if kind == "tensorboard":
        _tensorboard(Path(), 0)


def _tensorboard(folder: Path, number: int) -> Any:
    try:
        from lightning.pytorch.loggers import TensorBoardLogger

        return TensorBoardLogger(str(folder), name="tensorboard", version=f"member-{number}")
    except ModuleNotFoundError as error:
        raise ValueError(
            "TensorBoard is not installed: pip install 'graph-anisotropic-diffusion[tensorboard]'"
        ) from error
