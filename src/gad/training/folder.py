"""The folder of a run: what made it, and what it leaves."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save

from gad.data.atomic import write_atomic
from gad.data.splits import Split
from gad.data.tables.writers import RejectsWriter
from gad.machine import is_first
from gad.nn import GAD
from gad.prediction.metrics import Metric
from gad.prediction.model_file import Model
from gad.settings.recipe import Recipe
from gad.settings.task import Task, TaskCard
from gad.training.dataset import Dataset
from gad.training.fit import Fitted


@dataclass(frozen=True)
class Identity:
    """What made a run: the same identity gives the same model on the same machine."""

    data: str
    title: str
    targets: list[str]
    recipe: dict[str, object]
    split: str
    parts: list[list[int]]
    ensemble: int
    task: str | None
    learned: TaskCard
    metric: str | None
    origin: Any
    threads: int
    versions: dict[str, str]
    commit: str | None

    @staticmethod
    def of(
        dataset: Dataset,
        recipe: Recipe,
        splits: list[Split],
        ensemble: int,
        kind: str,
        task: str | None,
        origin: Model | None,
        learned: Task,
        metric: Metric | None,
    ) -> Identity:
        """Of a run on these data, by this code."""
        names = ("graph-anisotropic-diffusion", "torch", "lightning", "rdkit", "numpy")
        return Identity(
            data=dataset.fingerprint,
            title=dataset.title,
            targets=list(dataset.target_names),
            recipe=recipe.to_dict(),
            split=kind,
            parts=[[len(rows) for _, rows in s.parts()] for s in splits],
            ensemble=ensemble,
            task=task,
            learned=learned.to_dict(),
            metric=None if metric is None else metric.name,
            origin=None if origin is None else origin.notes.get("data"),
            threads=torch.get_num_threads(),
            versions={name: version(name) for name in names},
            commit=code_commit(),
        )


def code_commit() -> str | None:
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


@contextmanager
def open_folder(folder: Path, identity: Identity, resume: bool) -> Iterator[bool]:
    """Begin a run in a folder, or go on with the one that is there; True if that one is over.

    A folder that was begun here, and in which nothing was trained before something failed, is left
    as it was found. Of several processes the first has to do with it; the others only look.
    """
    path = folder / "run.json"
    if not is_first():
        yield resume and _is_over(folder)
        return
    if path.exists():
        _check_identity(folder, identity, resume)
        yield _is_over(folder)
        return
    made = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    before = set() if made else set(folder.iterdir())
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(asdict(identity), indent=1).encode())
    try:
        yield False
    except Exception:
        if not any(folder.glob("member-*")):
            for new in set(folder.iterdir()) - before:
                shutil.rmtree(new) if new.is_dir() else new.unlink()
            with suppress(OSError):  # somebody else's run may have moved in beside it
                for parent in made:
                    parent.rmdir()
        raise


def refuse_taken(folder: Path) -> None:
    """Refuse to begin in a folder that holds a run."""
    if (folder / "run.json").exists():
        raise FileExistsError(
            f"{folder} already holds a run: go on with it (--resume), or name another --out"
        )


def _is_over(folder: Path) -> bool:
    return (folder / "model.gad").exists() and (folder / "summary.json").exists()


def _check_identity(folder: Path, identity: Identity, resume: bool) -> None:
    """Refuse to begin where there is a run, and to go on with another one."""
    if not resume:
        refuse_taken(folder)
    before = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    # A run that began before a recipe had some key began with that key's default.
    before["recipe"] = Recipe.from_dict(before["recipe"]).to_dict()
    known = ("data", "targets", "recipe", "split", "parts", "ensemble", "task", "learned", "metric")
    for key in known:
        # A run that began before there was a key began without it.
        if key in before and before[key] != getattr(identity, key):
            what = {"parts": "split", "learned": "task"}.get(key, key)
            raise ValueError(
                f"{folder} holds a run with another {what}: resume with the options it was "
                "started with, or name another --out"
            )


def new_folder(title: str) -> Path:
    """A folder nobody has used, named after the data and the time."""
    stem = title.split(".", maxsplit=1)[0] or "run"
    base = Path("gad-runs") / f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    folder, number = base, 1
    while folder.exists():
        number += 1
        folder = base.with_name(f"{base.name}-{number}")
    return folder


def write_rejects(folder: Path, dataset: Dataset) -> None:
    """List the rows that cannot be used in ``rejects.csv``, if there are any."""
    if not dataset.rejects:
        return
    with RejectsWriter(folder / "rejects.csv") as writer:
        for row, why in sorted(dataset.rejects.items()):
            writer.add(row + 1, dataset.reject_texts.get(row, ""), why)
        writer.commit()


def write_standardised(folder: Path, dataset: Dataset) -> None:
    """List the molecules that standardising changed in ``standardised.csv``, if there are any."""
    if not dataset.changed:
        return
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["row", "smiles", "standardised"])
    writer.writerows((row + 1, *names) for row, names in sorted(dataset.changed.items()))
    write_atomic(folder / "standardised.csv", text.getvalue().encode())


def write_log(path: Path, curve: list[dict[str, float]]) -> None:
    """Write the curve of a model as CSV, one row an epoch."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(curve[0]))
    writer.writeheader()
    writer.writerows(curve)
    write_atomic(path, text.getvalue().encode())


def write_member(path: Path, fitted: Fitted) -> None:
    """Keep a finished member until the whole run is."""
    rest = {f.name: getattr(fitted, f.name) for f in fields(fitted) if f.name != "model"}
    tensors = {k: t.contiguous() for k, t in fitted.model.state_dict().items()}
    write_atomic(path, save(tensors, metadata={"fitted": json.dumps(rest)}))


def read_member(path: Path, model: GAD) -> Fitted:
    """Read back :func:`write_member` into a model of the same shape."""
    with safe_open(path, framework="pt") as file:
        rest = json.loads(file.metadata()["fitted"])
    model.load_state_dict(load_file(path))
    return Fitted(model=model.eval(), **rest)
