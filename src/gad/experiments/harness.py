"""Training the runs of an experiment: resumable, recorded from the first moment, side by side."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gad.data.atomic import write_atomic
from gad.experiments.models import Run, fitted_recipe, is_short, recipe_of
from gad.experiments.records import (
    FINISHED,
    forget_checkpoint,
    keep_checkpoint,
    keep_model,
    machine,
    read_record,
    record_path,
    restore_checkpoint,
    rounded,
    write_record,
)
from gad.training.reporter import Reporter


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


def check(run: Run, place: Place) -> None:
    """Refuse to begin what is there already."""
    if place.resume:
        return
    for path in (place.folder(run) / "run.json", record_path(place.results, run)):
        if path.exists():
            raise FileExistsError(
                f"{path} is there already: go on with that run (--resume), or name another --out "
                "and --results"
            )


def perform(run: Run, place: Place, reporter: Reporter | None = None) -> dict[str, Any]:
    """Train one run, or go on with it, and return its record.

    A run that is over is not repeated. The record is written when the run begins and after every
    epoch, so that even a run that is killed has left its validation errors; the test error enters
    it once, at the end, by the weights of the best validation epoch.
    """
    reporter = reporter or Reporter()
    check(run, place)
    before = read_record(record_path(place.results, run)) or {}
    if before.get("status") == FINISHED:
        reporter.message(f"{run.name} is finished")
        return before
    sheet = _Sheet(run, place, before, reporter)
    try:
        return _train(run, place, sheet, reporter)
    except OutOfTime:
        sheet.close("unfinished")
        kept = keep_checkpoint(place.folder(run), place.results, run)
        where = "" if kept else f" (all there is is in {place.folder(run)})"
        reporter.message(f"{run.name}: the time is up; go on with --resume{where}")
    except Exception as error:
        sheet.close("failed", error=f"{type(error).__name__}: {error}")
        raise
    except BaseException:  # interrupted; Lightning leaves by sys.exit
        sheet.close("unfinished")
        raise
    return sheet.record


def _train(run: Run, place: Place, sheet: _Sheet, reporter: Reporter) -> dict[str, Any]:
    import torch

    from gad.experiments.sets import inputs_of, load_graphs, offered
    from gad.training.run import train
    from gad.training.task import Task

    torch.set_num_threads(1)
    folder = place.folder(run)
    if place.resume:
        restore_checkpoint(folder, place.results, run)
        _update(folder)
    graphs = load_graphs(run.data, run.target, run.limit)
    recipe = fitted_recipe(run, inputs_of(graphs, recipe_of(run)))
    labels = graphs.targets[graphs.split.train]
    task = Task.of("regression", graphs.target_names, graphs.units, labels, recipe.loss)
    sheet.open(
        recipe=recipe.to_dict(),
        scale=float(task.std[0]),
        unit=graphs.units[0],
        fingerprint=graphs.fingerprint,
        rows={part: len(rows) for part, rows in graphs.split.parts()},
    )
    with offered(graphs) as name:
        trained = train(
            name,
            target=graphs.target_names[0],
            task="regression",
            recipe=recipe,
            out=folder,
            resume=place.resume,
            baselines=False,
            reporter=sheet,
        )
    sheet.finish(trained)
    forget_checkpoint(place.results, run)
    if sheet.record["model_file"] is None:
        reporter.message(f"{run.name}: the model has more than 1 MB and stays in {folder}")
    reporter.message(
        f"{run.name}: test error {sheet.record['test_mae']:.4g} {graphs.units[0]}".rstrip()
    )
    return sheet.record


def _update(folder: Path) -> None:
    """A run that began before a recipe had some key began with that key's default."""
    from gad.training.recipe import Recipe

    path = folder / "run.json"
    if path.is_file():
        begun = json.loads(path.read_text(encoding="utf-8"))
        recipe = Recipe.from_dict(begun["recipe"]).to_dict()
        if recipe != begun["recipe"]:
            write_atomic(path, json.dumps({**begun, "recipe": recipe}, indent=1).encode())


class _Sheet(Reporter):
    """The record of a run while it is being written; it listens to the training."""

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
        curve = summary["curve"]
        for key, of in (("train_loss", "train_loss"), ("val_mae", "val_loss")):
            self.curve[key] = [rounded(row[of] * self.scale) for row in curve]
        self.curve["lr"] = [rounded(row["lr"]) for row in curve]
        self._origin()
        # An average of weights is not trained itself, so it is no use to ask what requires_grad.
        member = trained.model.model.members[0]
        metrics = {
            part: summary["metrics"][part]["mean"]["mae"] for part in ("train", "val", "test")
        }
        self.record.update(
            status=FINISHED,
            parameters=sum(weights.numel() for weights in member.parameters()),
            width=member.channels,
            epochs=len(curve),
            best_epoch=summary["best_epoch"] + 1,
            minutes=rounded(curve[-1]["seconds"] / 60),
            **{f"{part}_mae": rounded(mae, 7) for part, mae in metrics.items()},
            model_file=keep_model(trained.directory / "model.gad", self.place.results, self.run),
        )
        if summary["commit"] != self.record.get("commit"):
            self.record["commit_at_end"] = summary["commit"]
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


def job_of(run: Run, place: Place) -> str:
    """A run and its place as text, for a process of its own."""
    return json.dumps(
        {
            "run": asdict(run),
            "runs": str(place.runs),
            "results": str(place.results),
            "until": place.until,
            "resume": place.resume,
        }
    )


def read_job(text: str) -> tuple[Run, Place]:
    """Read back :func:`job_of`.

    >>> run = Run("qm9", "dgn", "qm9", True, 1, "mu", (("epochs", "3"),))
    >>> read_job(job_of(run, Place(Path("a"), Path("b"))))[0] == run
    True
    """
    job = json.loads(text)
    fields = job["run"]
    fields["settings"] = tuple((key, value) for key, value in fields["settings"])
    place = Place(Path(job["runs"]), Path(job["results"]), job["until"], job["resume"])
    return Run(**fields), place
