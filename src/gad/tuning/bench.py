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
from gad.nn import GAD, count_parameters
from gad.prediction.metrics import REGISTRY, metric_for, score_task
from gad.reporter import Reporter
from gad.settings.model import preparation_of
from gad.settings.recipe import Recipe
from gad.settings.task import Scale, Task
from gad.training.batches import Labelled
from gad.training.dataset import Dataset, Splitting, load_dataset, split_dataset
from gad.training.fit import Hardware, fit
from gad.training.member import Judged, begin

_METRICS = {"regression": "mae", "binary": "log_loss", "multiclass": "log_loss"}
_BATCH = 256


def metric_of(task: Task) -> str:
    """What is minimised; several targets of a regression count in units of their spread."""
    return "mae" if task.kind in ("regression", "mixed") else "log_loss"


def error_name(metric: str) -> str:
    """What is minimised, for people: of what is better the higher it is, what is missing to 1."""
    found = REGISTRY[metric]
    return f"1 − {found.title}" if found.higher_is_better else found.title


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
        splitting: how rows are divided.
        metric: what recipes are judged by and their epoch is chosen by; the usual if None.
        workers: processes that prepare molecules.
        hardware: Lightning's flags.
        reporter: is told how it goes.
    """

    def __init__(
        self,
        source: Source,
        base: Recipe,
        *,
        splitting: Splitting | None = None,
        metric: str | None = None,
        workers: int | None = None,
        hardware: Hardware | None = None,
        reporter: Reporter | None = None,
    ) -> None:
        self.source, self.base = source, base
        self.splitting, self.metric = splitting or Splitting(), metric
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
        (split,), messages = split_dataset(data, self.splitting, seed=self.base.training.seed)
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

    def learned(self, data: Dataset, recipe: Recipe) -> Task:
        """What is learned."""
        return data.task(recipe.training.loss)

    def judged(self, task: Task) -> str:
        """The metric by which recipes for a task are judged."""
        return metric_of(task) if self.metric is None else metric_for(self.metric, task).name

    def measure(
        self,
        recipe: Recipe,
        checkpoint: Path | None = None,
        report: Callable[[dict[str, float]], None] | None = None,
    ) -> Measured:
        """Train a recipe, from its checkpoint if there is one, and validate its best epoch."""
        data, split = self.prepared(recipe)
        task = self.learned(data, recipe)
        scale = data.scale(task, split.train)
        model, labelled, rows = begin(recipe, task, data, split, scale)
        judge = None
        if self.metric is not None:
            judge = Judged(metric_for(self.metric, task), task, data, split.val, scale)
        fitted = fit(
            model, recipe, task, labelled, rows, checkpoint=checkpoint, resume=True,
            hardware=self.hardware, report=report, judge=judge,
        )  # fmt: skip
        return Measured(
            error=_error(fitted.model, task, scale, labelled, rows["val"], data, judge),
            best_epoch=fitted.best_epoch + 1,
            epochs=len(fitted.curve),
            minutes=fitted.seconds / 60,
            parameters=count_parameters(model),
        )


@torch.no_grad()
def _error(
    model: GAD,
    task: Task,
    scale: Scale,
    labelled: Labelled,
    rows: torch.Tensor,
    data: Dataset,
    judge: Judged | None,
) -> float:
    """The validation error in the user's units."""
    outputs = torch.cat(
        [model(**labelled.molecules.batch(some).inputs()) for some in torch.split(rows, _BATCH)]
    )
    if judge is not None:
        found = judge(outputs)
        return 1 - found if judge.higher_is_better else found
    values = task.to_user(outputs, scale).numpy()
    at = rows.numpy()
    bounds = None if data.bounds is None else data.bounds[at]
    scores = score_task(task, data.targets[at], values, data.weights[at], bounds)["targets"]
    spread = scale.labels[1].tolist() if len(task.names) > 1 else [1.0]
    errors = [
        value / std
        for target, std in zip(task.targets, spread, strict=True)
        if (value := scores[target.name][_METRICS[target.kind]]) is not None
    ]
    return float(np.mean(errors)) if errors else float("nan")
