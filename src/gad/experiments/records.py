"""Records: one small JSON for every run that was started, with its model beside it."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from types import UnionType
from typing import Any, TypedDict, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np
import numpy.typing as npt

from gad.data.atomic import write_atomic
from gad.experiments.models import Run
from gad.machine import Machine

LARGEST_MODEL, LARGEST_CHECKPOINT = 1 << 20, 2 << 20
"""Bytes of what is kept beside the records."""
FINISHED = "finished"


class RecordData(TypedDict):
    """What a run was trained on; rows of each part."""

    name: str
    fingerprint: str
    rows: dict[str, int]


@dataclass(kw_only=True)
class Record:
    """What is kept of a run: what made its numbers, and the numbers; None is not known yet.

    The fields stand in the order of a record's lines, so that two can be compared line by line.

    Attributes:
        status: started, unfinished, failed or finished.
        error: why it failed.
        command: what to type for this run alone.
        model, recipe, edges, target, seed, settings: as in :class:`gad.experiments.models.Run`; a
            target is called "property" in JSON.
        short: fewer epochs or molecules than the recipe wants.
        unit: of the errors.
        parameters, width: of the model.
        epochs, best_epoch: how many there were, and which had the lowest validation error.
        minutes: of training.
        train_mae, val_mae, test_mae: mean absolute errors, by the weights of the best epoch.
        val_trimmed: the validation error without its largest 0.5 % (:func:`trimmed`).
        model_file: the model below the folder of the records, None if it was not kept.
        data: name, fingerprint and numbers of rows.
        commit, commit_at_end, versions, machine: by which code, and on what.
        full_recipe: every setting.
        curve: train_loss, val_mae and lr of every epoch.
    """

    status: str
    error: str | None = None
    command: str
    model: str
    recipe: str
    edges: bool
    target: str | None = None
    seed: int
    settings: dict[str, str]
    short: bool
    unit: str
    parameters: int | None = None
    width: int | None = None
    epochs: int | None = None
    best_epoch: int | None = None
    minutes: float | None = None
    train_mae: float | None = None
    val_mae: float | None = None
    val_trimmed: float | None = None
    test_mae: float | None = None
    model_file: str | None = None
    data: RecordData
    commit: str | None = None
    commit_at_end: str | None = None
    versions: dict[str, str] | None = None
    machine: Machine
    full_recipe: dict[str, object]
    curve: dict[str, list[float | None]]

    @property
    def is_finished(self) -> bool:
        """Whether the run is over and has its test error."""
        return self.status == FINISHED

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it; what is not known is left out."""
        return {
            _WRITTEN.get(key, key): value
            for key, value in vars(self).items()
            if value is not None or (key == "model_file" and self.is_finished)
        }

    @staticmethod
    def from_dict(values: Any) -> Record:
        """Read back :meth:`to_dict`; an error says why that is no record."""
        if not isinstance(values, Mapping):
            raise ValueError("it is no object")
        hints, known = get_type_hints(Record), {}
        for field in fields(Record):
            key = _WRITTEN.get(field.name, field.name)
            if key not in values and field.default is MISSING:
                raise ValueError(f"it has no {key}")
            if key in values:
                known[field.name] = values[key]
                if not isinstance(values[key], _kinds(hints[field.name])):
                    raise ValueError(f"its {key} is {values[key]!r}")
        if unknown := set(values) - {_WRITTEN.get(name, name) for name in known}:
            raise ValueError(f"it has {min(unknown)!r}, which no record has")
        return Record(**known)


_WRITTEN = {"target": "property"}


def _kinds(hint: Any) -> tuple[type, ...]:
    """The types of a field's values; a whole number is a number, too."""
    union = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    plain = tuple(dict if is_typeddict(kind) else get_origin(kind) or kind for kind in union)
    return (*plain, int) if float in plain else plain


def record_path(results: Path, run: Run) -> Path:
    """Where the record of a run is."""
    return results / run.data / f"{run.name}.json"


def model_path(results: Path, run: Run) -> Path:
    """Where the model of a finished run is."""
    return results / run.data / "models" / f"{run.name}.gad"


def unfinished_path(results: Path, run: Run) -> Path:
    """Where the checkpoint of a run is kept that goes on elsewhere."""
    return results / "unfinished" / run.data / run.name


def read_record(path: Path) -> Record | None:
    """A record, or None if there is none."""
    if not path.is_file():
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return Record.from_dict(values)
    except ValueError as error:
        raise ValueError(f"{path} is not a record of a run: {error}") from error


def read_records(results: Path, data: str) -> list[Record]:
    """All records of a data set, in the order of their names."""
    found = (read_record(path) for path in sorted((results / data).glob("*.json")))
    return [record for record in found if record is not None]


def write_record(path: Path, record: Record) -> None:
    """Write a record, a line for each key: short, and a change is seen in a diff."""
    lines = [
        f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}"
        for key, value in record.to_dict().items()
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


def keep_model(source: Path, results: Path, run: Run) -> str | None:
    """Copy a model beside its record, if it is one of GAD's or the best, and small; its name."""
    worth_it = run.model.startswith("gad") or run.recipe_name == "zinc-best"
    if not worth_it or source.stat().st_size > LARGEST_MODEL:
        return None
    path = model_path(results, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, source.read_bytes())
    return path.relative_to(results).as_posix()


# What a run needs in order to go on on another machine.
_STATE = ("run.json", "member-0.ckpt")


def keep_checkpoint(folder: Path, results: Path, run: Run) -> bool:
    """Copy the state of an unfinished run beside the records, unless it is too large."""
    files = [folder / name for name in _STATE if (folder / name).is_file()]
    small = sum(file.stat().st_size for file in files) <= LARGEST_CHECKPOINT
    if not small or not (folder / "member-0.ckpt").is_file():
        return False
    place = unfinished_path(results, run)
    place.mkdir(parents=True, exist_ok=True)
    for file in files:
        write_atomic(place / file.name, file.read_bytes())
    return True


def restore_checkpoint(folder: Path, results: Path, run: Run) -> None:
    """Bring back what :func:`keep_checkpoint` kept, where the run's own folder is missing."""
    place = unfinished_path(results, run)
    if place.is_dir() and not (folder / "run.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for file in place.iterdir():
            write_atomic(folder / file.name, file.read_bytes())


def forget_checkpoint(results: Path, run: Run) -> None:
    """A finished run needs none, nor the folders that were made for it."""
    place = unfinished_path(results, run)
    shutil.rmtree(place, ignore_errors=True)
    for parent in (place.parent, place.parent.parent):
        if parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()


def trimmed(errors: npt.ArrayLike, share: float = 0.005) -> float:
    """The mean absolute error without the largest: so large a share of them, rounded down.

    A few molecules of ZINC have a target far from all others, which nothing in their graphs tells;
    they are a good part of every mean and hide how far two models differ elsewhere.

    >>> trimmed([1.0, -2.0, 3.0, 100.0], share=0.25)
    2.0
    """
    ascending = np.sort(np.abs(np.asarray(errors, dtype=np.float64)))
    return float(ascending[: len(ascending) - int(share * len(ascending))].mean())


def rounded(value: Any, digits: int = 5) -> float | None:
    """A number to so many digits, None if it is none.

    >>> rounded(0.123456789), rounded(12345678.9), rounded(float("nan"))
    (0.12346, 12346000.0, None)
    """
    number = float("nan") if value is None else float(value)
    return float(f"{number:.{digits}g}") if math.isfinite(number) else None
