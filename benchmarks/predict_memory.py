"""Memory of ``gad predict`` on a thousand to a hundred thousand rows: does it stay flat?

The solubility table of the package is repeated to the length wanted, and predicted by a model of
the default size (trained for one epoch: what it predicts does not matter here)::

    python -m benchmarks.predict_memory                    # some minutes
    python -m benchmarks.predict_memory --rows 1000 10000  # a quick look

Every prediction is a process of its own with all that it starts; a table of fewer than three chunks
(6,144 rows) starts none. Memory is the largest sum, over those processes, of their proportional
share of physical memory, looked at twice a second; processor seconds are summed alike. Results
go to ``results/predict_memory.json``.
"""

from __future__ import annotations

import argparse
import csv
import datetime as dt
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice, pairwise
from pathlib import Path
from typing import Any

import psutil
import torch
from rich.console import Console
from rich.table import Table

import gad
from benchmarks import ROOT
from gad.data.known.esol import load_esol
from gad.machine import machine

ROWS = (1_000, 10_000, 100_000)
WORKERS = (1, 2)
PAUSE = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "predict_memory.json")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    console = Console()
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train = ("train", "esol", "--set", "epochs=1", "--no-baselines", "--out", folder / "run")
        subprocess.run(command(*train), check=True, capture_output=True)
        for workers in options.workers:
            for rows in options.rows:
                console.print(f"{rows:,} rows, {workers} workers …", highlight=False)
                found.append(measure(folder, rows, workers))
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(report(found), indent=1) + "\n", encoding="utf-8")
    console.print(as_table(found))


def measure(folder: Path, rows: int, workers: int) -> dict[str, Any]:
    """Predict so many rows; the peak of memory, and how much work it was."""
    table, out = folder / "table.csv", folder / "out.csv"
    write_table(table, rows)
    peak, seconds = 0, dict[int, float]()
    arguments = ("predict", folder / "run" / "model.gad", table, "-o", out, "--workers", workers)
    with subprocess.Popen(
        command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None:
            peak = max(peak, look(process.pid, seconds))
            time.sleep(PAUSE)
        if process.returncode:
            sys.exit(process.stderr.read() if process.stderr else "failed")
    with out.open(encoding="utf-8") as file:
        assert sum(1 for _ in file) == rows + 1
    return {
        "rows": rows,
        "workers": workers,
        "peak_megabytes": round(peak / 2**20, 1),
        "processor_seconds": round(sum(seconds.values()), 1),
        "input_megabytes": round(table.stat().st_size / 2**20, 2),
    }


def look(root: int, seconds: dict[int, float]) -> int:
    """Bytes of a process and its descendants, shared pages counted once; notes their work."""
    total = 0
    try:
        process = psutil.Process(root)
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return 0
    for member in family:
        try:
            share, work = member.memory_full_info(), member.cpu_times()
        except psutil.Error:  # it has just ended
            continue
        seconds[member.pid] = work.user + work.system
        total += getattr(share, "pss", 0) or share.uss
    return total


def write_table(path: Path, rows: int) -> None:
    table = load_esol()
    molecules = zip(table.names, table.smiles, strict=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("name", "smiles"))
        writer.writerows(islice(cycle(molecules), rows))


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "gad.cli", *map(str, arguments)]


def report(found: list[dict[str, Any]]) -> dict[str, Any]:
    peaks = {(r["workers"], r["rows"]): r["peak_megabytes"] for r in found}
    sizes = sorted({rows for _, rows in peaks})
    growth = [
        {"workers": w, "from": a, "to": b, "factor": round(peaks[w, b] / peaks[w, a], 3)}
        for w in dict.fromkeys(workers for workers, _ in peaks)
        for a, b in pairwise(sizes)
    ]
    return {
        "what": str(__doc__).splitlines()[0],
        "date": dt.datetime.now(tz=dt.timezone.utc).date().isoformat(),
        "commit": commit(),
        "machine": machine(),
        "versions": {
            "gad": gad.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
        },
        "rows": found,
        "growth": growth,
    }


def commit() -> str | None:
    told = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return told.stdout.strip() or None


def as_table(found: list[dict[str, Any]]) -> Table:
    table = Table(title="gad predict", box=None, padding=(0, 2))
    for heading in found[0]:
        table.add_column(heading.replace("_", " "), justify="right")
    for row in found:
        table.add_row(*(f"{value:,}" for value in row.values()))
    return table


if __name__ == "__main__":
    main()
