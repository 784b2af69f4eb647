"""Calling the command line, in this process and in one of its own, and reading what it left."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from gad.cli import run
from gad.data.known.esol import load_esol

# A small network that trains in a second, alone; what asks for a blend says so.
TINY = (
    "--set", "width=20", "--set", "layers=2", "--set", "epochs=2", "--set", "blend=false",
    "--no-baselines",
)  # fmt: skip


@dataclass(frozen=True)
class Called:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout; NaN is no JSON."""
        assert self.out.count("\n") == 1
        data = json.loads(self.out, parse_constant=_no_constant)
        assert isinstance(data, dict)
        return data


def _no_constant(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


def call(*arguments: str | Path) -> Called:
    """Run ``gad`` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run([str(a) for a in arguments])
    return Called(code, out.getvalue(), err.getvalue())


def done(*arguments: str | Path) -> Called:
    """Run ``gad`` in this process; it must succeed."""
    called = call(*arguments)
    assert called.code == 0, called.err
    return called


def command(*arguments: str | Path) -> list[str]:
    """The command line of a process of its own."""
    return [sys.executable, "-m", "gad.cli", *map(str, arguments)]


def shell(*arguments: str | Path) -> Called:
    """Run ``gad`` in a process of its own."""
    told = subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=120, check=False
    )
    return Called(told.returncode, told.stdout, told.stderr)


def stopped(
    signal: int, ready: Callable[[], bool], *arguments: str | Path, **environment: str
) -> tuple[int, str]:
    """Start ``gad``, send it a signal as soon as it is ready; its exit code and stderr."""
    process = subprocess.Popen(
        command(*arguments),
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 120
    while not ready():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end, "it never got ready"
        time.sleep(0.01)
    process.send_signal(signal)
    err = process.communicate(timeout=120)[1]
    return process.returncode, err


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write rows that share their keys."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def esol_rows(count: int) -> list[dict[str, Any]]:
    """Rows spread over the solubility table that is part of the package."""
    table = load_esol()
    step = len(table) // count
    return [
        {"smiles": table.smiles[i], "logS": float(table.targets[i, 0])}
        for i in range(0, step * count, step)
    ]


def weights_of(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a model file."""
    return load_file(path)


def same_weights(one: Path, other: Path) -> bool:
    """Whether two model files hold the same bits."""
    a, b = weights_of(one), weights_of(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
