"""What a recipe is worth: train it, and measure its error on the validation rows. Never on test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from gad.data.rows import Source
from gad.data.splits import Split
from gad.data.store.molecules import Preparation
from gad.nn import GAD, count_parameters, mean_log_degree
from gad.prediction.metrics import score
from gad.prediction.predictor import standardise
from gad.reporter import Reporter
from gad.settings.model import build_model, preparation_of
from gad.settings.recipe import Recipe
from gad.settings.task import Task
from gad.training.batches import Labelled, mix
from gad.training.dataset import Dataset, load_dataset, split_dataset
from gad.training.fit import Hardware, fit

METRICS = {"regression": "mae", "classification": "log_loss"}
"""What is minimised; several targets of a regression count in units of their spread."""
_BATCH = 256


@dataclass(frozen=True)
class Measured:
    """The worth of a recipe: its validation error, and what that took."""

    error: float
    best_epoch: int
    epochs: int
    minutes: float
    parameters: int


class Bench:
    """One table and one split of it, for every recipe the same.

    Args:
        source: the data and its columns.
        base: the recipe that the others are changes of; its seed draws the split.
        split: the kind of split.
        split_file: for a split by file.
        task: "regression" or "classification"; None lets the labels decide.
        workers: processes that prepare molecules.
        hardware: Lightning's flags.
        reporter: is told how it goes.
    """

    def __init__(
        self,
        source: Source,
        base: Recipe,
        *,
        split: str = "random",
        split_file: str | Path | None = None,
        task: str | None = None,
        workers: int | None = None,
        hardware: Hardware | None = None,
        reporter: Reporter | None = None,
    ) -> None:
        self.source, self.base, self.task = source, base, task
        self.split, self.split_file = split, split_file
        self.workers, self.hardware = workers, hardware
        self.reporter = reporter or Reporter()
        self._kept: tuple[Preparation, Dataset, Split] | None = None

    def prepared(self, recipe: Recipe) -> tuple[Dataset, Split]:
        """The molecules as a recipe wants them, without the labels of the test rows.

        Trials that prepare molecules alike share them; one set at a time fits into memory.
        """
        preparation = preparation_of(recipe)
        if self._kept is None or self._kept[0] != preparation:
            told = self._kept is not None
            self._kept = None
            self._kept = (preparation, *self._prepare(recipe, told))
        return self._kept[1:]

    def _prepare(self, recipe: Recipe, told: bool) -> tuple[Dataset, Split]:
        progress = self.reporter.progress
        data = load_dataset(self.source, recipe, workers=self.workers, progress=progress)
        (split,), messages = split_dataset(
            data, self.split, seed=self.base.seed, file=self.split_file
        )
        for text in () if told else (*data.messages, *messages):
            self.reporter.message(text)
        if not len(split.train) or not len(split.val):
            raise ValueError(
                f"{data.title}: the split leaves no rows to train on, or none to validate on, so "
                "recipes cannot be compared"
            )
        targets = data.targets.copy()
        targets[split.test] = np.nan
        return replace(data, targets=targets), split

    def learned(self, data: Dataset, split: Split, loss: str) -> Task:
        """What is learned, scaled by the training rows."""
        labels, weights = data.targets[split.train], data.weights[split.train]
        return Task.of(self.task, data.target_names, data.units, labels, loss, weights)

    def measure(
        self,
        recipe: Recipe,
        checkpoint: Path | None = None,
        report: Callable[[dict[str, float]], None] | None = None,
    ) -> Measured:
        """Train a recipe, from its checkpoint if there is one, and validate its best epoch."""
        data, split = self.prepared(recipe)
        task = self.learned(data, split, recipe.loss)
        rows = {"train": torch.from_numpy(split.train), "val": torch.from_numpy(split.val)}
        values = data.packed.graph_values
        packed = data.packed
        if values.shape[1]:
            std, mean = torch.std_mean(values[rows["train"]].double(), dim=0, correction=0)
            scale = torch.stack([mean, torch.where(std > 1e-9, std, 1.0)]).float()
            packed = replace(packed, graph_values=standardise(values, scale))
        weights = torch.from_numpy(data.weights).float()
        labelled = Labelled(packed, task.to_model(data.targets), weights)
        delta = mean_log_degree(packed.operators.select(rows["train"]))
        torch.manual_seed(mix(recipe.seed, 0))
        model = build_model(recipe, data.inputs, len(task.names), delta=delta)
        fitted = fit(
            model, recipe, task, labelled, rows,
            checkpoint=checkpoint, resume=True, hardware=self.hardware, report=report,
        )  # fmt: skip
        return Measured(
            error=_error(fitted.model, task, labelled, rows["val"], data),
            best_epoch=fitted.best_epoch + 1,
            epochs=len(fitted.curve),
            minutes=fitted.seconds / 60,
            parameters=count_parameters(model),
        )


@torch.no_grad()
def _error(model: GAD, task: Task, labelled: Labelled, rows: torch.Tensor, data: Dataset) -> float:
    """The validation error in the user's units."""
    outputs = [
        model(**labelled.molecules.batch(some).inputs()) for some in torch.split(rows, _BATCH)
    ]
    values = task.to_user(torch.cat(outputs)).numpy()
    metric = METRICS[task.kind]
    at = rows.numpy()
    scores = score(task.kind, data.targets[at], values, task.names, data.weights[at])["targets"]
    spread = task.std if task.is_regression and len(task.names) > 1 else (1.0,) * len(task.names)
    errors = [
        value / std
        for name, std in zip(task.names, spread, strict=True)
        if (value := scores[name][metric]) is not None
    ]
    return float(np.mean(errors)) if errors else float("nan")
