"""Graphs of a thousand to a million nodes: what building, diffusing and training cost.

Nothing is decomposed. Measured are the operators without and with directions, both diffusions of 16
channels with times from 0.5 to 10 and a whole training step of a block, beside scipy's
``expm_multiply`` and ``cg``, PyTorch Geometric's ``APPNP`` and, up to 10,000 nodes, ``GDC``::

    python -m benchmarks large_graphs                     # up to a million nodes, an hour
    python -m benchmarks large_graphs --resume            # what is not recorded yet
    python -m benchmarks large_graphs --nodes 1000 10000  # a quick look, with --output elsewhere
    python -m benchmarks large_graphs --graphs social --work step directions --nodes 1000000

on square grids, nearest neighbours in the plane, random graphs of degree 10, the same with one hub
of 100,000 neighbours, a social network by preferential attachment of mean degree 10, and Cora, on
which an epoch of ``NodeGAD`` is measured as well. Seconds are those of the processor, one thread,
so that a busy machine counts little; those of the clock stand beside them. Every measurement has a
fresh process to itself; its memory is what its peak exceeds the same process with the edges and
nothing else. Every row is written to ``results/large_graphs.json`` when it is there; what was
measured before and not again stays.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import multiprocessing
import platform
import resource
import sys
from pathlib import Path

import numpy as np
import scipy
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

import gad
from benchmarks import ROOT
from benchmarks.large_graphs.graphs import CORA, GRAPHS
from benchmarks.large_graphs.summary import Row, key, ratios, slopes
from benchmarks.large_graphs.work import (
    CHANNELS,
    DENSE,
    EPOCHS,
    LONGEST,
    SHORTEST,
    WORK,
    learned,
    seconds,
)
from benchmarks.speed.record import commit
from gad.data.atomic import write_atomic
from gad.machine import machine

__all__ = ["GRAPHS", "WORK", "learned", "main"]

NODES = (1_000, CORA, 10_000, 100_000, 1_000_000)
HERE = Path(__file__).parent
SOURCES = ("src/gad/operators", "src/gad/nn", "src/gad/native/walk.c", "benchmarks/large_graphs")


def megabytes() -> float:
    """The most memory this process has held, in MB (10⁶ bytes)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def measure(kind: str, what: str, edges: Tensor) -> Row:
    """One graph, one piece of work, in this process."""
    small = GRAPHS[kind](100)  # what is loaded on first use is not the graph's cost
    seconds(WORK[what](small, int(small.max()) + 1), 1)
    nodes, idle = int(edges.max()) + 1, megabytes()
    took, waited = seconds(WORK[what](edges, nodes), often(what, nodes))
    return {
        "graph": kind,
        "what": what,
        "nodes": nodes,
        "edges": edges.shape[1],
        "seconds": round(took, 5),
        "wall_seconds": round(waited, 5),
        "megabytes": round(megabytes() - idle, 1),
        "commit": commit(*SOURCES),
        "measure": measure_key(),
    }


def measure_apart(kind: str, what: str, edges: Tensor) -> Row | None:
    """The same in a process of its own, so that memory is its own; None if it died."""
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    child = fork.Process(target=lambda: there.send(measure(kind, what, edges)))
    child.start()
    there.close()
    try:
        row: Row = here.recv()
    except EOFError:
        return None
    finally:
        child.join()
    return row


def often(what: str, nodes: int) -> int:
    """How many times the work is done, of which the quickest counts."""
    if what == "directions":
        return 1
    if nodes < 200_000:
        return 3
    return 2 if what in ("spectral", "implicit") else 1


def measure_key() -> str:
    """What was measured and how: rows of another text of it are not taken over by ``--resume``."""
    texts = ((HERE / name).read_bytes() for name in ("graphs.py", "work.py"))
    return hashlib.sha256(b"".join([*texts, gad.__version__.encode()])).hexdigest()[:12]


def rows_to_measure(chosen: argparse.Namespace) -> list[tuple[str, str, int]]:
    """Graph, work and nodes, the smaller graphs first."""
    found = []
    for size in sorted(chosen.nodes):
        for kind in chosen.graphs:
            for what in chosen.work:
                # Cora has one size, and epochs are its own.
                if (kind == "cora") != (size == CORA) or (what in EPOCHS and kind != "cora"):
                    continue
                if what != "gdc" or size <= DENSE:
                    found.append((kind, what, size))
    return found


def show(console: Console, rows: list[Row], record: Row) -> None:
    """Print the measurements, their exponents and ratios."""
    table = Table(title=f"{CHANNELS} channels, times {SHORTEST} to {LONGEST}, one thread")
    for column in ("graph", "what"):
        table.add_column(column)
    for column in ("nodes", "edges", "seconds", "by the clock", "MB"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row["graph"], row["what"], f"{row['nodes']:,}", f"{row['edges']:,}",
            f"{row['seconds']:.3g}", f"{row['wall_seconds']:.3g}", f"{row['megabytes']:,.0f}",
        )  # fmt: skip
    console.print(table)
    for line in record["slopes"]:
        told = [f"{name} ∝ edges^{line[of]:.2f}" for name, of in
                (("time", "seconds"), ("memory", "megabytes")) if line[of] is not None]  # fmt: skip
        console.print(f"{line['graph']}, {line['what']}, {line['sizes']}: {', '.join(told)}")
    for line in record["ratios"]:
        console.print(f"{line['what']}, {line['nodes']:,} nodes: {line['ratio']:.2f}")


def recorded(output: Path) -> dict[tuple[str, str, int], Row]:
    """What was measured before, by graph, work and size."""
    before = json.loads(output.read_text(encoding="utf-8"))["rows"] if output.exists() else []
    return {key(row): row for row in before if "measure" in row}


def in_order(rows: dict[tuple[str, str, int], Row]) -> list[Row]:
    """By graph, by work and by size."""
    order = {name: place for place, name in enumerate((*GRAPHS, *WORK))}
    known = [row for row in rows.values() if row["graph"] in order and row["what"] in order]
    return sorted(known, key=lambda r: (order[r["graph"]], order[r["what"]], r["nodes"]))


def record_of(rows: list[Row]) -> Row:
    """The whole record."""
    import torch_geometric

    return {
        "what": (__doc__ or "").strip().partition("\n")[0],
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "commit": commit(*SOURCES),
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
    parser.add_argument("--resume", action="store_true",
                        help="leave out what the output has, measured this way")  # fmt: skip
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "large_graphs.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # also what allows a process to fork
    console, output = Console(width=120), arguments.output
    rows, new = recorded(output), []
    known, made = measure_key(), (("", 0), None)
    for place in rows_to_measure(arguments):
        if arguments.resume and rows.get(place, {}).get("measure") == known:
            continue
        kind, what, nodes = place
        console.print(f"{kind}, {what}, {nodes:,} nodes …", style="dim")
        if made[0] != (kind, nodes):
            made = ((kind, nodes), GRAPHS[kind](nodes))
        row = measure_apart(kind, what, made[1])
        if row is None:
            console.print("  died, perhaps for want of memory", style="red")
            continue
        new.append(row)
        # Another process may have measured other rows meanwhile.
        rows = {**recorded(output), key(row): row}
        output.parent.mkdir(parents=True, exist_ok=True)
        record = json.dumps(record_of(in_order(rows)), indent=1) + "\n"
        write_atomic(output, record.encode())
    show(console, new, record_of(in_order(rows)))
    console.print(f"{len(new)} rows measured, {len(rows)} in {output}")
