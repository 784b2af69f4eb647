"""The record of a run while it is being written."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gad.experiments.models import Run, is_short
from gad.experiments.records import (
    FINISHED,
    Record,
    keep_model,
    record_path,
    rounded,
    write_record,
)
from gad.machine import machine
from gad.reporter import Reporter


@dataclass(frozen=True)
class Place:
    """Where runs work, where they are recorded, and until when they may go on.

    Attributes:
        runs: the folder of the runs' folders.
        results: the folder of the records.
        until: the time (of :func:`time.time`) at which a run stops, None for never.
        resume: go on with what is there.
    """

    runs: Path
    results: Path
    until: float | None = None
    resume: bool = False

    def folder(self, run: Run) -> Path:
        """The folder of a run."""
        return self.runs / run.data / run.name

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.until is not None and time.time() >= self.until


class OutOfTime(Exception):  # noqa: N818  # nothing went wrong
    """The time is up; the checkpoint is there."""


class Sheet(Reporter):
    """Listens to the training and writes down what it hears."""

    def __init__(self, run: Run, place: Place, before: Record | None, reporter: Reporter) -> None:
        self.run, self.place, self.reporter = run, place, reporter
        self.path = record_path(place.results, run)
        self.folder = place.folder(run)
        self.scale = 1.0
        self.record: Record | None = None
        keys = ("train_loss", "val_mae", "lr")
        then = {} if before is None else before.curve
        self.curve: dict[str, list[float | None]] = {key: list(then.get(key, ())) for key in keys}

    def open(
        self,
        *,
        recipe: dict[str, object],
        scale: float,
        unit: str,
        fingerprint: str,
        rows: dict[str, int],
    ) -> None:
        """The run begins."""
        run = self.run
        self.scale = scale
        self.record = Record(
            status="started", command=run.command, model=run.model, recipe=run.recipe_name,
            edges=run.edges, target=run.target, seed=run.seed, settings=run.extras,
            short=is_short(run), unit=unit,
            data={"name": run.data, "fingerprint": fingerprint, "rows": rows},
            machine=machine(), full_recipe=recipe, curve=self.curve,
        )  # fmt: skip
        self._write()

    @property
    def opened(self) -> Record:
        """The record, once the run has begun."""
        assert self.record is not None
        return self.record

    def epoch(self, name: str, row: Mapping[str, float], epochs: int) -> None:
        """Enter the errors of an epoch in the target's units; stop when the time is up."""
        del name
        at = int(row["epoch"])
        losses = {key: row[key] * self.scale for key in ("train_loss", "val_loss")}
        told = {"train_loss": losses["train_loss"], "val_mae": losses["val_loss"], "lr": row["lr"]}
        for key, values in self.curve.items():
            del values[at:]
            values.append(rounded(told[key]))
        self.opened.minutes = rounded(row["seconds"] / 60)
        self._origin()
        self._write()
        self.reporter.epoch(self.run.name, {**row, **losses}, epochs)
        # The first checkpoint is waited for: whoever has little time gets on nevertheless.
        saved = (self.folder / "member-0.ckpt").exists()
        if at + 1 < epochs and self.place.is_over and saved:
            raise OutOfTime

    def message(self, text: str) -> None:
        """Not worth repeating for each run."""

    def close(self, status: str, error: str | None = None) -> None:
        """The run stops before its end."""
        if self.record is not None:
            self.record.status, self.record.error = status, error
            self._write()

    def finish(self, trained: Any, val_trimmed: float) -> None:
        """The run is over: its errors by the weights of the best epoch, and its model."""
        summary, record = trained.summary, self.opened
        curve = summary["curve"]
        for key, of in (("train_loss", "train_loss"), ("val_mae", "val_loss")):
            self.curve[key] = [rounded(row[of] * self.scale) for row in curve]
        self.curve["lr"] = [rounded(row["lr"]) for row in curve]
        self._origin()
        # An average of weights is not trained itself, so it is no use to ask what requires_grad.
        member = trained.model.model.members[0]
        metrics = summary["metrics"]
        record.status = FINISHED
        record.parameters = sum(weights.numel() for weights in member.parameters())
        record.width = member.channels
        record.epochs, record.best_epoch = len(curve), summary["best_epoch"] + 1
        record.minutes = rounded(curve[-1]["seconds"] / 60)
        record.train_mae, record.val_mae, record.test_mae = (
            rounded(metrics[part]["mean"]["mae"], 7) for part in ("train", "val", "test")
        )
        record.val_trimmed = rounded(val_trimmed, 7)
        record.model_file = keep_model(
            trained.directory / "model.gad", self.place.results, self.run
        )
        if summary["commit"] != record.commit:
            record.commit_at_end = summary["commit"]
        self._write()

    def _origin(self) -> None:
        """By which code the run was begun."""
        path = self.folder / "run.json"
        if self.opened.versions is None and path.is_file():
            begun = json.loads(path.read_text(encoding="utf-8"))
            self.opened.commit, self.opened.versions = begun["commit"], begun["versions"]

    def _write(self) -> None:
        """Write the record, with what follows from the curve."""
        record, errors = self.opened, self.curve["val_mae"]
        there = [error for error in errors if error is not None]
        if there and not record.is_finished:
            record.val_mae = min(there)
            record.epochs, record.best_epoch = len(errors), errors.index(record.val_mae) + 1
        record.curve = self.curve
        write_record(self.path, record)
