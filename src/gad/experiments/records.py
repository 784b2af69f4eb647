"""Records: one small JSON for every run that was started, with its model beside it."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gad.data.atomic import write_atomic
from gad.experiments.models import Run

LARGEST_MODEL, LARGEST_CHECKPOINT = 1 << 20, 2 << 20
"""Bytes of what is kept beside the records."""
FINISHED = "finished"
# The order of a record's lines, so that two records can be compared line by line.
_KEYS = (
    "status", "error", "command", "model", "recipe", "edges", "property", "seed", "settings",
    "short", "unit", "parameters", "width", "epochs", "best_epoch", "minutes", "train_mae",
    "val_mae", "test_mae", "model_file", "data", "commit", "commit_at_end", "versions", "machine",
    "full_recipe", "curve",
)  # fmt: skip


def record_path(results: Path, run: Run) -> Path:
    """Where the record of a run is."""
    return results / run.data / f"{run.name}.json"


def model_path(results: Path, run: Run) -> Path:
    """Where the model of a finished run is."""
    return results / run.data / "models" / f"{run.name}.gad"


def unfinished_path(results: Path, run: Run) -> Path:
    """Where the checkpoint of a run is kept that goes on elsewhere."""
    return results / "unfinished" / run.data / run.name


def read_record(path: Path) -> dict[str, Any] | None:
    """A record, or None if there is none."""
    if not path.is_file():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not a record: {error}") from error
    if not isinstance(record, dict) or "status" not in record:
        raise ValueError(f"{path} is not a record of a run: it has no status")
    return record


def read_records(results: Path, data: str) -> list[dict[str, Any]]:
    """All records of a data set, in the order of their names."""
    found = (read_record(path) for path in sorted((results / data).glob("*.json")))
    return [record for record in found if record is not None]


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record, a line for each key: short, and a change is seen in a diff."""
    lines = [
        f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}"
        for key, value in sorted(record.items(), key=lambda item: _KEYS.index(item[0]))
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


def keep_model(source: Path, results: Path, run: Run) -> str | None:
    """Copy a model beside its record, unless it is too large; its name there."""
    if source.stat().st_size > LARGEST_MODEL:
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


def rounded(value: Any, digits: int = 5) -> float | None:
    """A number to so many digits, None if it is none.

    >>> rounded(0.123456789), rounded(12345678.9), rounded(float("nan"))
    (0.12346, 12346000.0, None)
    """
    number = float("nan") if value is None else float(value)
    return float(f"{number:.{digits}g}") if math.isfinite(number) else None
