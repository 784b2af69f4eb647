"""Diffusion on graphs of a thousand to a million nodes: is the cost linear in the edges?

Nothing is decomposed: heat diffuses by a Chebyshev polynomial and the implicit step by conjugate
gradients, 16 channels with times from 0.5 to 10, forward and backward, on square grids (degree 4)
and on random graphs (degree 10)::

    python -m benchmarks.large_graphs                     # up to a million nodes, some minutes
    python -m benchmarks.large_graphs --nodes 1000 10000  # a quick look

Seconds are those of the processor, one thread, so that a busy machine does not count. Every
measurement has a fresh process to itself; its memory is what its peak exceeds the same
process with the edges and nothing else. Results go to ``results/large_graphs.json``.
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
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

import gad
from benchmarks import ROOT
from benchmarks.speed.record import commit
from gad.machine import machine
from gad.operators import (
    HEAT,
    IMPLICIT,
    Chebyshev,
    ConjugateGradient,
    Scheme,
    Solver,
    build_operators,
)

NODES = (1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000)
CHANNELS = 16
SHORTEST, LONGEST = 0.5, 10.0


def grid(nodes: int) -> Tensor:
    """A square grid of about so many nodes: edges [2, E]."""
    side = round(nodes**0.5)
    index = torch.arange(side * side).view(side, side)
    right = torch.stack([index[:, :-1].reshape(-1), index[:, 1:].reshape(-1)])
    down = torch.stack([index[:-1].reshape(-1), index[1:].reshape(-1)])
    return both_ways(torch.cat([right, down], dim=1))


def random(nodes: int, rings: int = 5) -> Tensor:
    """Rings through all nodes in random orders, of degree 2 · rings: edges [2, E]."""
    generator = torch.Generator().manual_seed(0)
    orders = [torch.randperm(nodes, generator=generator) for _ in range(rings)]
    pairs = torch.cat([torch.stack([order, order.roll(1)]) for order in orders], dim=1)
    low, high = pairs.amin(0), pairs.amax(0)
    key = (low * nodes + high).unique()
    return both_ways(torch.stack([key // nodes, key % nodes]))


def both_ways(pairs: Tensor) -> Tensor:
    return torch.cat([pairs, pairs.flip(0)], dim=1)


GRAPHS: dict[str, Callable[[int], Tensor]] = {"grid": grid, "random": random}
SOLVERS: dict[str, tuple[Solver, Scheme]] = {
    "chebyshev": (Chebyshev(), HEAT),
    "conjugate": (ConjugateGradient(), IMPLICIT),
}


def megabytes() -> float:
    """The most memory this process has held, in MB (10⁶ bytes)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def measure(kind: str, solver_name: str, nodes: int) -> dict[str, Any]:
    """One graph, one solver, in this process."""
    torch.set_num_threads(1)
    diffuse(kind, solver_name, 100)  # what PyTorch loads on first use is not the graph's cost
    return diffuse(kind, solver_name, nodes)


def diffuse(kind: str, solver_name: str, nodes: int) -> dict[str, Any]:
    """Build a graph's operators, diffuse there and back, and say what it took."""
    solver, scheme = SOLVERS[solver_name]
    edges = GRAPHS[kind](nodes)
    nodes = int(edges.max()) + 1
    idle = megabytes()
    start = time.process_time()
    operators = build_operators(edges, nodes, basis=False, directions=False, dtype=torch.float32)
    operators.random_walk  # noqa: B018 - made on first use: part of building, not of diffusing
    build_seconds, built = time.process_time() - start, megabytes()
    x = torch.randn(nodes, CHANNELS, generator=torch.Generator().manual_seed(1))
    x.requires_grad_()
    times = torch.linspace(SHORTEST, LONGEST, CHANNELS, requires_grad=True)
    best = [float("inf"), float("inf")]
    for _ in range(1 if nodes > 200_000 else 5):
        start = time.process_time()
        h = solver(operators, x, times, scheme)
        middle = time.process_time()
        h.square().sum().backward()
        passed = (middle - start, time.process_time() - middle)
        best = [min(a, b) for a, b in zip(best, passed, strict=True)]
    # Σ m x is conserved: a check that what was timed is the right answer.
    mass = operators.mass.double()[:, None]
    drift = (mass * (h.detach().double() - x.detach())).sum(0).abs()
    return {
        "graph": kind,
        "solver": solver_name,
        "nodes": nodes,
        "edges": operators.num_edges,
        "build_seconds": round(build_seconds, 5),
        "forward_seconds": round(best[0], 5),
        "backward_seconds": round(best[1], 5),
        "build_megabytes": round(built - idle, 1),
        "peak_megabytes": round(megabytes() - idle, 1),
        "drift": float((drift / (mass * x.detach().abs()).sum(0)).max()),
    }


def measure_apart(kind: str, solver_name: str, nodes: int) -> dict[str, Any]:
    """The same in a fresh process, so that memory is its own."""
    command = [sys.executable, "-m", __spec__.name, "--one", kind, solver_name, str(nodes)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def slope(rows: list[dict[str, Any]], quantity: Callable[[dict[str, Any]], float]) -> float:
    """The exponent p of quantity ∝ edges^p, by least squares in logarithms."""
    x, y = np.log([r["edges"] for r in rows]), np.log([quantity(r) for r in rows])
    return float(np.polyfit(x, y, 1)[0])


def diffusion_seconds(row: dict[str, Any]) -> float:
    return float(row["forward_seconds"] + row["backward_seconds"])


def slopes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Exponents of time and memory for each graph and solver, over all sizes and the large ones."""
    found = []
    for kind in GRAPHS:
        for solver in SOLVERS:
            some = [r for r in rows if (r["graph"], r["solver"]) == (kind, solver)]
            large = [r for r in some if r["nodes"] > 50_000]
            for name, chosen in (("all", some), ("over 50,000 nodes", large)):
                if len(chosen) < 2:
                    continue
                found.append({
                    "graph": kind,
                    "solver": solver,
                    "sizes": name,
                    "seconds": round(slope(chosen, diffusion_seconds), 3),
                    "megabytes": round(slope(chosen, lambda r: max(r["peak_megabytes"], 0.1)), 3),
                })  # fmt: skip
    return found


def write(path: Path, record: dict[str, Any]) -> None:
    """Write all of the record or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".json")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)
        file.write("\n")
    Path(temporary).chmod(0o644)
    Path(temporary).replace(path)


def show(console: Console, rows: list[dict[str, Any]], exponents: list[dict[str, Any]]) -> None:
    """Print the measurements and their exponents."""
    title = f"Diffusion of {CHANNELS} channels, times {SHORTEST} to {LONGEST}, one thread"
    table = Table(title=title)
    for column in ("graph", "solver"):
        table.add_column(column)
    for column in ("nodes", "edges", "build s", "forward s", "backward s", "build MB", "peak MB"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row["graph"],
            row["solver"],
            f"{row['nodes']:,}",
            f"{row['edges']:,}",
            *(f"{row[f'{part}_seconds']:.3g}" for part in ("build", "forward", "backward")),
            *(f"{row[f'{part}_megabytes']:,.0f}" for part in ("build", "peak")),
        )
    console.print(table)
    for line in exponents:
        console.print(
            f"{line['graph']}, {line['solver']}, {line['sizes']}: "
            f"time ∝ edges^{line['seconds']:.2f}, memory ∝ edges^{line['megabytes']:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES, help="sizes to measure")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "large_graphs.json")
    parser.add_argument("--one", nargs=3, metavar=("GRAPH", "SOLVER", "NODES"),
                        help="one measurement in this process, as JSON")  # fmt: skip
    arguments = parser.parse_args()
    if arguments.one:
        kind, solver, nodes = arguments.one
        print(json.dumps(measure(kind, solver, int(nodes))))
        return
    console = Console(width=120)
    rows = []
    for kind in GRAPHS:
        for solver in SOLVERS:
            for nodes in sorted(arguments.nodes):
                console.print(f"{kind}, {solver}, {nodes:,} nodes …", style="dim")
                rows.append(measure_apart(kind, solver, nodes))
    exponents = slopes(rows)
    show(console, rows, exponents)
    record = {
        "what": (__doc__ or "").strip().partition("\n")[0],
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "commit": commit("src/gad/operators", "benchmarks/large_graphs.py"),
        "machine": machine(),
        "versions": {
            "gad": gad.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
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
        "slopes": exponents,
    }
    write(arguments.output, record)
    console.print(f"written to {arguments.output}")


if __name__ == "__main__":
    main()
