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

    def __init__(
        self, run: Run, place: Place, before: Mapping[str, Any], reporter: Reporter
    ) -> None:
        self.run, self.place, self.reporter = run, place, reporter
        self.path = record_path(place.results, run)
        self.folder = place.folder(run)
        self.scale = 1.0
        self.curve: dict[str, list[Any]] = {
            key: list(before.get("curve", {}).get(key, ()))
            for key in ("train_loss", "val_mae", "lr")
        }
        self.record: dict[str, Any] = {}

    def open(
        self,
        *,
        recipe: dict[str, Any],
        scale: float,
        unit: str,
        fingerprint: str,
        rows: dict[str, int],
    ) -> None:
        """The run begins."""
        run = self.run
        self.scale = scale
        self.record = {
            "status": "started",
            "command": run.command,
            "model": run.model,
            "recipe": run.recipe_name,
            "edges": run.edges,
            "seed": run.seed,
            **({"property": run.target} if run.target else {}),
            "settings": run.extras,
            "short": is_short(run),
            "unit": unit,
            "data": {"name": run.data, "fingerprint": fingerprint, "rows": rows},
            "machine": machine(),
            "full_recipe": recipe,
        }
        self._curve()
        self._write()

    def epoch(self, name: str, row: Mapping[str, float], epochs: int) -> None:
        """Enter the errors of an epoch in the target's units; stop when the time is up."""
        del name
        at = int(row["epoch"])
        losses = {key: row[key] * self.scale for key in ("train_loss", "val_loss")}
        told = {
            "train_loss": rounded(losses["train_loss"]),
            "val_mae": rounded(losses["val_loss"]),
            "lr": rounded(row["lr"]),
        }
        for key, values in self.curve.items():
            del values[at:]
            values.append(told[key])
        self.record["minutes"] = rounded(row["seconds"] / 60)
        self._origin()
        self._curve()
        self._write()
        self.reporter.epoch(self.run.name, {**row, **losses}, epochs)
        # The first checkpoint is waited for: whoever has little time gets on nevertheless.
        saved = (self.folder / "member-0.ckpt").exists()
        if at + 1 < epochs and self.place.is_over and saved:
            raise OutOfTime

    def message(self, text: str) -> None:
        """Not worth repeating for each run."""

    def close(self, status: str, **more: Any) -> None:
        """The run stops before its end."""
        if self.record:
            self.record.update(status=status, **more)
            self._write()

    def finish(self, trained: Any) -> None:
        """The run is over: its errors by the weights of the best epoch, and its model."""
        summary = trained.summary
        (curve,) = summary.curves
        for key, of in (("train_loss", "train_loss"), ("val_mae", "val_loss")):
            self.curve[key] = [rounded(row[of] * self.scale) for row in curve]
        self.curve["lr"] = [rounded(row["lr"]) for row in curve]
        self._origin()
        # An average of weights is not trained itself, so it is no use to ask what requires_grad.
        member = trained.model.model.members[0]
        parts = ("train", "val", "test")
        metrics = {part: summary.metrics[part]["mean"]["mae"] for part in parts}
        self.record.update(
            status=FINISHED,
            parameters=sum(weights.numel() for weights in member.parameters()),
            width=member.channels,
            epochs=len(curve),
            best_epoch=summary.best_epochs[0] + 1,
            minutes=rounded(curve[-1]["seconds"] / 60),
            **{f"{part}_mae": rounded(mae, 7) for part, mae in metrics.items()},
            model_file=keep_model(trained.directory / "model.gad", self.place.results, self.run),
        )
        if summary.commit != self.record.get("commit"):
            self.record["commit_at_end"] = summary.commit
        self._curve()
        self._write()

    def _origin(self) -> None:
        """By which code the run was begun."""
        path = self.folder / "run.json"
        if "commit" not in self.record and path.is_file():
            begun = json.loads(path.read_text(encoding="utf-8"))
            self.record.update(commit=begun["commit"], versions=begun["versions"])

    def _curve(self) -> None:
        """Enter the curve, and what follows from it."""
        errors = [error for error in self.curve["val_mae"] if error is not None]
        if errors and self.record["status"] != FINISHED:
            best = min(errors)
            self.record.update(
                epochs=len(self.curve["val_mae"]),
                best_epoch=self.curve["val_mae"].index(best) + 1,
                val_mae=best,
            )
        self.record["curve"] = self.curve

    def _write(self) -> None:
        write_record(self.path, self.record)
