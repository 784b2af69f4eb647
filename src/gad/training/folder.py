"""The folder of a run: what made it, and what it leaves."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import time
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save

from gad.data.atomic import write_atomic
from gad.data.splits import Split
from gad.data.tables.writers import RejectsWriter
from gad.nn import GAD
from gad.prediction.model_file import Model
from gad.settings.recipe import Recipe
from gad.training.dataset import Dataset
from gad.training.fit import Fitted


def identity_of(
    dataset: Dataset,
    recipe: Recipe,
    splits: list[Split],
    ensemble: int,
    kind: str,
    task: str | None,
    origin: Model | None,
) -> dict[str, Any]:
    """What made a run: the same identity gives the same model on the same machine."""
    return {
        "data": dataset.fingerprint,
        "title": dataset.title,
        "targets": list(dataset.target_names),
        "recipe": recipe.to_dict(),
        "split": kind,
        "parts": [[len(rows) for _, rows in s.parts()] for s in splits],
        "ensemble": ensemble,
        "task": task,
        "from": None if origin is None else origin.notes.get("data"),
        "threads": torch.get_num_threads(),
        "versions": {
            name: version(name)
            for name in ("graph-anisotropic-diffusion", "torch", "lightning", "rdkit", "numpy")
        },
        "commit": _commit(),
    }


def _commit() -> str | None:
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


def open_folder(folder: Path, identity: dict[str, Any], resume: bool) -> bool:
    """Begin a run in a folder, or find the one that is to go on; True if that one is over."""
    path = folder / "run.json"
    if path.exists() and not resume:
        raise FileExistsError(
            f"{folder} already holds a run: go on with it (--resume), or name another --out"
        )
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(identity, indent=1).encode())
        return False
    before = json.loads(path.read_text(encoding="utf-8"))
    for key, what in (
        ("data", "data"), ("targets", "targets"), ("recipe", "recipe"), ("split", "split"),
        ("parts", "split"), ("ensemble", "ensemble"), ("task", "task"),
    ):  # fmt: skip
        if before.get(key) != identity[key]:
            raise ValueError(
                f"{folder} holds a run with another {what}: resume with the options it was "
                "started with, or name another --out"
            )
    return (folder / "model.gad").exists() and (folder / "summary.json").exists()


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
