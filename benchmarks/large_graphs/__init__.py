"""Graphs of a thousand to a million nodes: what building, diffusing and training cost.

Nothing is decomposed. Measured are the operators without and with directions, both diffusions of 16
channels with times from 0.5 to 10 and a whole training step of a block, beside scipy's
``expm_multiply`` and ``cg``, PyTorch Geometric's ``APPNP`` and, up to 10,000 nodes, ``GDC``::

    python -m benchmarks.large_graphs                     # up to a million nodes, an hour
    python -m benchmarks.large_graphs --nodes 1000 10000  # a quick look, with --output elsewhere
    python -m benchmarks.large_graphs --graphs social --work step directions --nodes 1000000

on square grids, nearest neighbours in the plane, random graphs of degree 10, the same with one hub
of 100,000 neighbours, and a social network by preferential attachment of mean degree 10. Seconds
are those of the processor, one thread, so that a busy machine does not count. Every measurement has
a fresh process to itself; its memory is what its peak exceeds the same process with the edges and
nothing else. Results go to ``results/large_graphs.json``; what was measured before and not again
stays there.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
import torch_geometric
from rich.console import Console
from rich.table import Table

import gad
from benchmarks import ROOT
from benchmarks.large_graphs.graphs import GRAPHS
from benchmarks.large_graphs.work import (
    CHANNELS,
    DENSE,
    LONGEST,
    OURS,
    SHORTEST,
    WORK,
    learned,
    seconds,
)
from benchmarks.speed.record import commit
from gad.data.atomic import write_atomic
from gad.machine import machine

__all__ = ["GRAPHS", "WORK", "learned", "main"]

NODES = (1_000, 10_000, 100_000, 1_000_000)
Row = dict[str, Any]


def megabytes() -> float:
    """The most memory this process has held, in MB (10⁶ bytes)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def measure(kind: str, what: str, nodes: int) -> Row:
    """One graph, one piece of work, in this process."""
    torch.set_num_threads(1)
    small = GRAPHS[kind](100)  # what is loaded on first use is not the graph's cost
    seconds(WORK[what](small, int(small.max()) + 1), 1)
    edges = GRAPHS[kind](nodes)
    nodes = int(edges.max()) + 1
    idle = megabytes()
    took = seconds(WORK[what](edges, nodes), 1 if nodes > 200_000 or what == "directions" else 3)
    return {
        "graph": kind,
        "what": what,
        "nodes": nodes,
        "edges": edges.shape[1],
        "seconds": round(took, 5),
        "megabytes": round(megabytes() - idle, 1),
    }


def measure_apart(kind: str, what: str, nodes: int) -> Row:
    """The same in a fresh process, so that memory is its own."""
    command = [sys.executable, "-m", "benchmarks.large_graphs", "--one", kind, what, str(nodes)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


def slopes(rows: list[Row]) -> list[Row]:
    """The exponents p of seconds and megabytes ∝ edges^p, by least squares in logarithms."""
    found = []
    for kind in GRAPHS:
        for what in OURS:
            some = [r for r in rows if (r["graph"], r["what"]) == (kind, what)]
            large = [r for r in some if r["nodes"] > 50_000]
            for name, chosen in (("all", some), ("over 50,000 nodes", large)):
                if len(chosen) < 2:
                    continue
                x = np.log([r["edges"] for r in chosen])

                def exponent(key: str, of: list[Row] = chosen, x: Any = x) -> float:
                    y = np.log([max(r[key], 1e-4) for r in of])
                    return round(float(np.polyfit(x, y, 1)[0]), 3)

                found.append({
                    "graph": kind, "what": what, "sizes": name,
                    "seconds": exponent("seconds"), "megabytes": exponent("megabytes"),
                })  # fmt: skip
    return found


def ratios(rows: list[Row]) -> list[Row]:
    """Implicit to spectral diffusion, and a hub to a random graph, at every size."""
    at: dict[tuple[str, str, int], float] = {}
    for row in rows:
        size = 10 ** round(np.log10(row["nodes"]))
        at[row["graph"], row["what"], size] = row["seconds"]
    sizes = sorted({size for _, _, size in at})

    def ratio(name: str, one: Callable[[int], Any], other: Callable[[int], Any]) -> list[Row]:
        return [
            {"what": name, "nodes": size, "ratio": round(at[one(size)] / at[other(size)], 2)}
            for size in sizes
            if one(size) in at and other(size) in at
        ]

    found = []
    for kind in GRAPHS:
        found += ratio(
            f"implicit / spectral, {kind}",
            lambda size, kind=kind: (kind, "implicit", size),
            lambda size, kind=kind: (kind, "spectral", size),
        )
    for what in ("spectral", "implicit", "step"):
        found += ratio(
            f"hub / random, {what}",
            lambda size, what=what: ("hub", what, size),
            lambda size, what=what: ("random", what, size),
        )
    return found


def show(console: Console, rows: list[Row], record: Row) -> None:
    """Print the measurements, their exponents and ratios."""
    table = Table(title=f"{CHANNELS} channels, times {SHORTEST} to {LONGEST}, one thread")
    for column in ("graph", "what"):
        table.add_column(column)
    for column in ("nodes", "edges", "seconds", "MB"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row["graph"], row["what"], f"{row['nodes']:,}", f"{row['edges']:,}",
            f"{row['seconds']:.3g}", f"{row['megabytes']:,.0f}",
        )  # fmt: skip
    console.print(table)
    for line in record["slopes"]:
        console.print(
            f"{line['graph']}, {line['what']}, {line['sizes']}: "
            f"time ∝ edges^{line['seconds']:.2f}, memory ∝ edges^{line['megabytes']:.2f}"
        )
    for line in record["ratios"]:
        console.print(f"{line['what']}, {line['nodes']:,} nodes: {line['ratio']:.2f}")


def kept(output: Path, rows: list[Row]) -> list[Row]:
    """What was measured before, with what is new in its place."""

    def key(row: Row) -> tuple[str, str, int]:
        return row["graph"], row["what"], row["nodes"]

    before = json.loads(output.read_text(encoding="utf-8"))["rows"] if output.exists() else []
    found = {key(row): row for row in before if "what" in row} | {key(row): row for row in rows}
    order = {name: place for place, name in enumerate((*GRAPHS, *WORK))}
    return sorted(found.values(), key=lambda r: (order[r["graph"]], order[r["what"]], r["nodes"]))


def record_of(rows: list[Row]) -> Row:
    """The whole record."""
    return {
        "what": (__doc__ or "").strip().partition("\n")[0],
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "commit": commit("src/gad/operators", "src/gad/nn", "benchmarks/large_graphs"),
        "machine": machine(),
        "versions": {
            "gad": gad.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "torch_geometric": torch_geometric.__version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
        "settings": {
            "channels": CHANNELS,
            "times": [SHORTEST, LONGEST],
            "precision": "float32",
            "tolerance": 1e-6,
        },
        "rows": rows,
        "slopes": slopes(rows),
        "ratios": ratios(rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES, help="sizes to measure")
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), choices=GRAPHS)
    parser.add_argument("--work", nargs="+", default=list(WORK), choices=WORK)
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "large_graphs.json")
    parser.add_argument("--one", nargs=3, metavar=("GRAPH", "WORK", "NODES"),
                        help="one measurement in this process, as JSON")  # fmt: skip
    arguments = parser.parse_args()
    if arguments.one:
        kind, what, nodes = arguments.one
        print(json.dumps(measure(kind, what, int(nodes))))
        return
    console = Console(width=120)
    rows: list[Row] = []
    for kind in arguments.graphs:
        for what in arguments.work:
            for nodes in sorted(arguments.nodes):
                if what == "gdc" and nodes > DENSE:
                    continue
                console.print(f"{kind}, {what}, {nodes:,} nodes …", style="dim")
                rows.append(measure_apart(kind, what, nodes))
                record = record_of(kept(arguments.output, rows))
                arguments.output.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(arguments.output, (json.dumps(record, indent=1) + "\n").encode())
    if rows:
        show(console, rows, record)
        console.print(f"written to {arguments.output}")
