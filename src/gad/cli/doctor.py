"""``gad doctor``: what the program runs on, and what it found there."""

from __future__ import annotations

import contextlib
import os
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypedDict

from gad.cli.console import Outcome, facts
from gad.machine import Machine, cores, machine

_PACKAGES = (
    "torch", "torch-geometric", "lightning", "rdkit", "numpy", "scipy", "scikit-learn", "pyarrow",
    "optuna",
)  # fmt: skip


class Cache(TypedDict):
    """A folder, and how large it is."""

    folder: str
    bytes: int


class Data(TypedDict):
    """Where data sets are looked for."""

    folder: str | None
    exists: bool


class Findings(TypedDict):
    """What was found; ``kernels`` as :class:`gad.native.KernelStatus` has it."""

    versions: dict[str, str | None]
    kernels: dict[str, object]
    threads: int
    cores: int
    machine: Machine
    accelerators: list[str]
    cache: Cache
    data: Data


def doctor() -> Outcome:
    """Show versions, whether the compiled kernels are used and why, threads, and folders.

    A question about the program is answered sooner with this beside it.
    """
    import torch

    from gad import __version__, native
    from gad.folders import cache_folder

    cache, data = cache_folder(), os.environ.get("GAD_DATA") or None
    described = machine(torch.get_num_threads())
    told: Findings = {
        "versions": {
            "gad": __version__,
            "python": described["python"],
            **{name: _version(name) for name in _PACKAGES},
        },
        "kernels": asdict(native.status()),
        "threads": described["threads"],
        "cores": cores(),
        "machine": described,
        "accelerators": [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())],
        "cache": {"folder": str(cache), "bytes": _size(cache)},
        "data": {"folder": data, "exists": data is not None and Path(data).expanduser().is_dir()},
    }
    return Outcome(told, facts(_lines(told)))


def _lines(told: Findings) -> dict[str, str]:
    """What people are shown, name by name."""
    kernels, data, cache = told["kernels"], told["data"], told["cache"]
    missing = "" if data["exists"] else " (there is no such folder)"
    return {
        **{name: found or "not installed" for name, found in told["versions"].items()},
        "kernels": f"{'used' if kernels['active'] else 'not used'}: {kernels['reason']}",
        "processor": f"{told['machine']['processor']}, {told['machine']['system']}",
        "threads": f"{told['threads']}, on {told['cores']} cores",
        "accelerators": ", ".join(told["accelerators"]) or "none",
        "cache folder": f"{cache['folder']} ({cache['bytes'] / 1e6:,.1f} MB)",
        "data folder": f"{data['folder']}{missing}" if data["folder"] else "GAD_DATA is not set",
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _size(folder: Path) -> int:
    """Bytes of all files below a folder, 0 if it is not there; files may vanish meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(parent) / name).lstat().st_size
    return total
