"""Learning curves: what 50, 100, 200, 500 and 1,000 measured molecules are worth to four methods.

ESOL and Lipophilicity, five seeds. A seed shuffles the rows: the last are the test rows, and of the
first n one in five is for validation, the same for every method::

    GAD_DATA=... python -m benchmarks curves             # what is missing, about two hours
    GAD_DATA=... python -m benchmarks curves --figure    # only draw docs/figures/curves.svg again

``base`` is the default recipe, ``scratch`` the same by ``--from scratch``; trees are those of the
ADMET suite, the best of eight settings on validation; chemprop has its defaults. Rows enter
``results/curves.json`` as they end.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks import ROOT
from benchmarks.accuracy import SETS, by_chemprop, made_by, processor_seconds
from benchmarks.admet import Task, by_gad, by_trees, load
from gad.data.atomic import write_atomic
from gad.data.splits import Split
from gad.machine import machine
from gad.report.svg import Scale
from gad.training.folder import code_commit

SIZES, SEEDS = (50, 100, 200, 500, 1000), 5
METHODS = {
    "base": "from the base (default)", "scratch": "from scratch", "trees": "boosted trees",
    "chemprop": "chemprop",
}  # fmt: skip
TITLES = {"esol": "ESOL", "lipophilicity": "Lipophilicity"}
TEST = {"esol": 128, "lipophilicity": 1000}
RECORD, FIGURE = ROOT / "results" / "curves.json", ROOT / "docs" / "figures" / "curves.svg"


def table(name: str) -> Task:
    """All rows of a set; which are for test depends on the seed."""
    if name == "lipophilicity":
        return load("lipophilicity_astrazeneca")
    smiles, values = SETS[name].read()
    return Task(name, "regression", "MAE", None, smiles, values, np.empty(0, dtype=int))


def division(rows: int, size: int, test: int, seed: int) -> Split:
    """The rows of each part.

    >>> one, more = division(100, 10, 20, 0), division(100, 50, 20, 0)
    >>> len(one.train), len(one.val), len(one.test), bool((one.test == more.test).all())
    (8, 2, 20, True)
    >>> set(one.train) <= set(more.train)
    True
    """
    order = np.random.default_rng(seed).permutation(rows)
    given, held = order[:size], np.arange(size) % 5 == 4
    return Split(given[~held], given[held], order[-test:])


def measure(task: Task, name: str, size: int, seed: int, method: str) -> dict[str, Any]:
    """Train one method on so many rows."""
    split = division(len(task.smiles), size, TEST[name], seed)
    start = time.process_time() + processor_seconds()
    if method == "trees":
        told = by_trees(task, split, seed)
    elif method == "chemprop":
        with tempfile.TemporaryDirectory() as folder:
            told = by_chemprop(task.smiles, task.labels, split, seed, Path(folder) / "run")
    else:
        told = by_gad(task, split, seed, {"start": method})
    return {
        "set": name, "size": size, "seed": seed, "method": method,
        "mae": task.score(split.test, np.asarray(told["test"])),
        "minutes": round((time.process_time() + processor_seconds() - start) / 60, 3),
        "made_by": made_by("gad" if method in ("base", "scratch") else method),
        "commit": code_commit(),
    }  # fmt: skip


def collected(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """By set and method: sizes, the mean error of the seeds, and its standard error."""
    told: dict[str, Any] = {}
    for name in TEST:
        for method in METHODS:
            own = [r for r in rows if (r["set"], r["method"]) == (name, method)]
            sizes = sorted({r["size"] for r in own})
            errors = [[r["mae"] for r in own if r["size"] == size] for size in sizes]
            told.setdefault(name, {})[method] = {
                "sizes": sizes,
                "seeds": [len(e) for e in errors],
                "mae": [round(float(np.mean(e)), 4) for e in errors],
                "standard_error": [
                    round(float(np.std(e, ddof=1) / len(e) ** 0.5), 4) if len(e) > 1 else None
                    for e in errors
                ],
            }
    return told


COLOURS = dict(zip(METHODS, ("#1b6ca8", "#7fb2d9", "#3a8a4f", "#c1572b"), strict=True))


def figure(curves: dict[str, Any]) -> str:
    """Both sets side by side; error against rows, both logarithmic, with standard errors."""
    parts = []
    for place, (name, by) in enumerate(curves.items()):
        left, right, top, bottom = 60 + 400 * place, 400 + 400 * place, 40, 290
        seen = np.array([value for own in by.values() for value in own["mae"]])
        x, y = Scale(45, 1110, left, right, log=True), Scale.over(seen, bottom, top, log=True)
        middle = (left + right) / 2
        parts.append(f'<text x="{middle}" y="24" class="title">{TITLES[name]}</text>')
        parts.append(f'<path d="M{left} {top}V{bottom}H{right}" class="axis"/>')
        for size in SIZES:
            parts.append(f'<text x="{x(size)}" y="{bottom + 18}" class="middle">{size:,}</text>')
            parts.append(f'<path d="M{x(size)} {bottom}v4" class="axis"/>')
        for mark in y.ticks():
            parts.append(f'<text x="{left - 8}" y="{y(mark) + 4}" class="end">{mark:g}</text>')
            parts.append(f'<path d="M{left} {y(mark)}H{right}" class="grid"/>')
        parts.append(
            f'<text x="{middle}" y="{bottom + 38}" class="middle">measured molecules</text>'
        )
        for method, own in by.items():
            colour = COLOURS[method]
            points = list(zip(own["sizes"], own["mae"], own["standard_error"], strict=True))
            line = " ".join(f"{x(size)},{y(mae)}" for size, mae, _ in points)
            parts.append(f'<polyline points="{line}" stroke="{colour}" class="line"/>')
            for size, mae, error in points:
                parts.append(f'<circle cx="{x(size)}" cy="{y(mae)}" r="3" fill="{colour}"/>')
                if error:
                    ends = f"M{x(size)} {y(mae - error)}V{y(mae + error)}"
                    parts.append(f'<path d="{ends}" stroke="{colour}" class="bar"/>')
    parts.append(
        '<text x="16" y="165" class="middle" transform="rotate(-90 16 165)">test MAE</text>'
    )
    for at, (method, title) in zip((110, 330, 490, 650), METHODS.items(), strict=True):
        colour = COLOURS[method]
        parts.append(f'<path d="M{at} 352h22" stroke="{colour}" class="line"/>')
        parts.append(f'<text x="{at + 28}" y="356">{title}</text>')
    style = (
        "text{font:13px sans-serif;fill:#333}.title{font-weight:bold;text-anchor:middle}"
        ".middle{text-anchor:middle}.end{text-anchor:end}.axis{stroke:#555;fill:none}"
        ".grid{stroke:#e4e4e4}.line{fill:none;stroke-width:2.2}.bar{stroke-width:1.2}"
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 830 372" role="img" aria-label="'
        'Learning curves of four methods on two sets"><style>'
        f'{style}</style><rect width="830" height="372" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", default=",".join(TEST), help="separated by commas")
    parser.add_argument("--methods", default=",".join(METHODS), help="separated by commas")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many, from 0")
    parser.add_argument("--figure", action="store_true", help="only draw the figure")
    parser.add_argument("--output", type=Path, default=RECORD)
    chosen = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if chosen.output.exists():
        rows = json.loads(chosen.output.read_text(encoding="utf-8"))["rows"]
    if chosen.figure:
        write_atomic(FIGURE, figure(collected(rows)).encode())
        return
    if not os.environ.get("GAD_DATA"):
        sys.exit("set GAD_DATA to the folder with moleculenet/ and tdc_admet/")
    console = Console(width=120)
    done = {(r["set"], r["size"], r["seed"], r["method"]) for r in rows}
    tasks = {name: table(name) for name in chosen.sets.split(",")}
    for seed in range(chosen.seeds):
        for name, task in tasks.items():
            for size in SIZES:
                for method in chosen.methods.split(","):
                    if (name, size, seed, method) in done:
                        continue
                    row = measure(task, name, size, seed, method)
                    rows.append(row)
                    save(chosen.output, rows)
                    told = f"{name}, {size} rows, seed {seed}, {method}: MAE {row['mae']:.3f}"
                    console.print(f"{told}, {row['minutes']:.1f} min")
    save(chosen.output, rows)
    if chosen.output == RECORD:
        write_atomic(FIGURE, figure(collected(rows)).encode())


def save(path: Path, rows: list[dict[str, Any]]) -> None:
    """All of the record or nothing."""
    record = {
        "what": (__doc__ or "").strip().partition("\n")[0],
        "command": "python -m benchmarks curves",
        "machine": machine(),
        "test_rows": TEST,
        "curves": collected(rows),
        "rows": rows,
    }
    write_atomic(path, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
