"""How fast this commit is beside an earlier one: training, inference and preparation, in turn.

Each commit in a process of its own with one thread, ZINC-12k molecules, about 100,000 parameters::

    GAD_DATA=... python -m benchmarks before             # beside the commit before the rooms
    GAD_DATA=... python -m benchmarks before COMMIT

Both have a go at everything, round after round. What is compared are processor seconds, so that it
can be measured on a machine that does other things meanwhile; a ratio is that of a round, above 1
where this commit is faster. The record is ``results/house_speed.json``. Linux only.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import ROOT
from benchmarks.speed.record import (
    RESULTS,
    commit,
    machine,
    need_data,
    now,
    our_versions,
    rounded,
    save,
)
from benchmarks.speed.workers import Worker, interleave, middle

BEFORE = "1e392b9"
OUTPUT = RESULTS / "house_speed.json"
MOLECULES = 2_000
# Name → what is asked of a worker; ``batch`` is how many molecules a step takes.
FIGURES: dict[str, dict[str, Any]] = {
    **{f"train, batch {n}": {"do": "train", "batch": n, "compiled": True} for n in (64, 128)},
    **{f"infer, batch {n}": {"do": "infer", "batch": n, "compiled": True} for n in (16, 64, 128)},
    "prepare": {"do": "prepare", "count": MOLECULES, "descriptors": True},
}


def checkout(name: str, folder: Path) -> Path:
    """The files of a commit in a folder."""
    packed = subprocess.run(
        ["git", "archive", name], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def worker_of(root: Path) -> Worker:
    """Our side of the comparison, as a commit has it."""
    module = "speed.gad" if (root / "benchmarks" / "speed" / "gad.py").exists() else "speed_gad"
    return Worker(module, threads=1, root=root)


def spent(worker: Worker, request: dict[str, Any], seconds: float) -> float:
    """Processor seconds for a molecule."""
    request = dict(request)
    if request["do"] != "prepare":
        request["seconds"] = seconds
    start = worker.processor_seconds()
    answer = worker.ask(**request)
    passed = worker.processor_seconds() - start
    return passed / (request.get("count") or answer["steps"] * request["batch"])


def compare(earlier: Worker, this: Worker, seconds: float, rounds: int, tell: Any) -> list[Any]:
    """Every figure: microseconds for a molecule of both, and their ratio."""
    figures = []
    for name, request in FIGURES.items():
        for worker in (earlier, this):  # what is loaded on first use is loaded now
            spent(worker, request, 0.0)
        goes = {
            who: lambda worker=worker, request=request: spent(worker, request, seconds)
            for who, worker in (("before", earlier), ("now", this))
        }
        found = interleave(goes, rounds, lambda _: None)
        ratios = [a / b for a, b in zip(found["before"], found["now"], strict=True)]
        figures.append({
            "name": name,
            "before": 1e6 * middle(found["before"]),
            "now": 1e6 * middle(found["now"]),
            "unit": "processor µs/molecule",
            "ratio": middle(ratios),
            "spread": [min(ratios), max(ratios)],
        })  # fmt: skip
        tell(f"{name}: {figures[-1]['ratio']:.3g}")
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks before", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("commit", nargs="?", default=BEFORE, help=f"the earlier one ({BEFORE})")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one go (1)")
    parser.add_argument("--rounds", type=int, default=11, help="how often each has a go (11)")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the record")
    chosen = parser.parse_args(arguments)
    need_data()
    console = Console(width=120)
    with tempfile.TemporaryDirectory(prefix="gad-before-") as folder:
        earlier, this = worker_of(checkout(chosen.commit, Path(folder))), worker_of(ROOT)
        try:
            figures = compare(earlier, this, chosen.seconds, chosen.rounds, console.print)
        finally:
            earlier.close()
            this.close()
    record = {
        "what": (__doc__ or "").partition("\n")[0],
        "command": "python -m benchmarks before",
        "machine": machine(),
        "versions": our_versions(),
        "before": chosen.commit,
        "commit": commit(),
        "when": now(),
        "plan": {"seconds": chosen.seconds, "rounds": chosen.rounds, "threads": 1},
        "figures": rounded(figures),
    }
    save(chosen.output, record)
    table = Table("figure", "before", "now", "ratio", "spread", title="Processor µs a molecule")
    for f in record["figures"]:
        spread = "–".join(f"{s:.3g}" for s in f["spread"])
        table.add_row(
            f["name"], f"{f['before']:.4g}", f"{f['now']:.4g}", f"{f['ratio']:.3g}", spread
        )
    console.print(table)
    console.print(f"written to {chosen.output}")


if __name__ == "__main__":
    main()
