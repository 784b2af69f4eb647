"""``gad doctor``: what the program runs on, and what it found there."""

from __future__ import annotations

import contextlib
import os
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from gad.cli.console import Outcome, facts

_PACKAGES = (
    "torch", "torch-geometric", "lightning", "rdkit", "numpy", "scipy", "scikit-learn", "pyarrow",
    "optuna",
)  # fmt: skip


def doctor() -> Outcome:
    """Show versions, whether the compiled kernels are used and why, threads, and folders.

    A question about the program is answered sooner with this beside it.
    """
    import torch

    from gad import __version__, native
    from gad.folders import cache_folder
    from gad.machine import cores, machine

    cache, data = cache_folder(), os.environ.get("GAD_DATA") or None
    described = machine(torch.get_num_threads())
    told: dict[str, Any] = {
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


def _lines(told: dict[str, Any]) -> dict[str, Any]:
    """What people are shown, name by name."""
    kernels, data = told["kernels"], told["data"]
    missing = "" if data["exists"] else " (there is no such folder)"
    return {
        **{name: found or "not installed" for name, found in told["versions"].items()},
        "kernels": f"{'used' if kernels['active'] else 'not used'}: {kernels['reason']}",
        "processor": f"{told['machine']['processor']}, {told['machine']['system']}",
        "threads": f"{told['threads']}, on {told['cores']} cores",
        "accelerators": ", ".join(told["accelerators"]) or "none",
        "cache folder": f"{told['cache']['folder']} ({told['cache']['bytes'] / 1e6:,.1f} MB)",
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
