"""What a record holds besides its figures: the machine, the versions, the commit."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.contenders import chemprop_python, versions
from gad.data.atomic import write_atomic
from gad.machine import machine as described

RESULTS = ROOT / "results"


def need_data() -> None:
    """Stop with a sentence where the molecules are not to be found."""
    folder = os.environ.get("GAD_DATA")
    if not folder or not (Path(folder) / "zinc12k" / "zinc12k_smiles.csv.gz").is_file():
        sys.exit("set GAD_DATA to the folder with zinc12k/zinc12k.npz and zinc12k_smiles.csv.gz")


def machine() -> dict[str, Any]:
    """What the seconds depend on; ``load`` says whether anything else was going on."""
    load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    return {**described(), "load": load}


def our_versions() -> dict[str, str]:
    """Of what our side runs on."""
    names = ("graph-anisotropic-diffusion", "torch", "torch-geometric", "rdkit", "lightning")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def all_versions() -> dict[str, str]:
    """Of both sides."""
    theirs = versions(chemprop_python(), "chemprop", "torch", "rdkit", "lightning")
    chemprop = theirs.pop("chemprop")
    return {
        **our_versions(),
        "chemprop": chemprop,
        **{f"{name} (chemprop's environment)": found for name, found in theirs.items()},
    }


def commit(*paths: str) -> str | None:
    """The commit of the measured code, marked where these paths have been changed since."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return None

    def ask(*words: str) -> str:
        done = subprocess.run([git, *words], cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    changed = ask("status", "--porcelain", "--", *(paths or ("src", "benchmarks")))
    return ask("rev-parse", "HEAD") + (" and changes" if changed else "")


def now() -> str:
    """The moment, to the minute, in UTC."""
    return dt.datetime.now(dt.timezone.utc).isoformat(timespec="minutes")


def save(path: Path, record: dict[str, Any]) -> None:
    """Write all of a record or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())


def load(path: Path) -> dict[str, Any]:
    """A record of before; empty if there is none."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def rounded(value: Any, digits: int = 4) -> Any:
    """Numbers to so many significant digits, however deep."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {key: rounded(v, digits) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(v, digits) for v in value]
    return value
