"""The programs we compare with, each in an environment of its own.

A contender is no dependency: it is installed beside our environment when a comparison first needs
it, with the very PyTorch that ``constraints.txt`` names, and is found there ever after::

    python -m benchmarks.contenders      # make the environment, print what it runs
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks import ROOT

CONSTRAINTS = ROOT / "constraints.txt"
CHEMPROP = "chemprop>=2.2,<3"


def chemprop_python() -> Path:
    """The Python that can import chemprop, in ``.venv-chemprop``, made on first use.

    PyTorch is installed first and by its exact version, so that chemprop finds it there and both
    sides of a comparison run on the same one.
    """
    home = ROOT / ".venv-chemprop"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    # Written last: an environment that was cut off half-way is finished, not trusted.
    stamp = home / ".installed"
    wanted = f"torch=={pinned('torch')} {CHEMPROP}\n"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    print(f"installing chemprop into {home.name}, once …", file=sys.stderr)
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
    (home / ".gitignore").write_text("*\n", encoding="utf-8")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    torch = f"torch=={pinned('torch')}"
    subprocess.run([*pip, torch], check=True)
    # Named again, so that no requirement of chemprop's can put another in its place.
    subprocess.run([*pip, torch, CHEMPROP], check=True)
    stamp.write_text(wanted, encoding="utf-8")
    return python


def pinned(package: str) -> str:
    """The version of a package in ``constraints.txt``.

    >>> pinned("torch")[0].isdigit()
    True
    """
    for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines():
        name, equals, version = line.partition(";")[0].strip().partition("==")
        if equals and name == package:
            return version
    raise LookupError(f"{CONSTRAINTS.name} names no version of {package}")


def versions(python: Path, *packages: str) -> dict[str, str]:
    """The versions of some packages in another environment."""
    code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    told = subprocess.run(
        [python, "-c", code, *packages], check=True, capture_output=True, text=True
    )
    return dict(zip(packages, told.stdout.split(), strict=True))


if __name__ == "__main__":
    found = chemprop_python()
    print(found, *(f"{k} {v}" for k, v in versions(found, "chemprop", "torch", "rdkit").items()))
