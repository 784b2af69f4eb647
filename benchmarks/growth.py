"""How training time and memory grow: with molecules, width, depth, and atoms per molecule.

And two questions of every user with more than one core: two processes of one thread, or one process
of two? And how much of the time is not the model at all?::

    GAD_DATA=... python -m benchmarks growth            # three minutes
    GAD_DATA=... python -m benchmarks growth --quick    # does it run? the numbers are idle

Every size has a fresh process of one thread to itself: the seconds of an epoch that follows a few
steps of warming up, and the memory by which its peak exceeds the same process before the molecules
are read. Molecules of more atoms are ZINC molecules joined by a bond, two, four or eight at a time.
Results go to ``results/growth.json``.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

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
from benchmarks.speed.workers import ROOT, Worker, middle, threads_only

OUTPUT = RESULTS / "growth.json"
BATCH = 64
# Where nothing else is said: so many molecules, channels and blocks, joined so many at a time.
USUAL = {"molecules": 1_024, "width": 60, "layers": 4, "joined": 1}
SIZES: dict[str, tuple[int, ...]] = {
    "molecules": (1_024, 2_048, 4_096, 8_192),
    "width": (30, 60, 120, 240),
    "layers": (2, 4, 8, 16),
    "joined": (1, 2, 4, 8),
}


def join(graphs: Any, several: int) -> Any:
    """Every ``several`` graphs as one: the last atom of each is bonded to the first of the next."""
    if several == 1:
        return graphs
    count = len(graphs) // several
    nodes = graphs.node_ptr[: count * several + 1]
    sizes = np.diff(nodes)
    first = nodes[:-1] - np.repeat(nodes[:-1:several], several)
    owner = np.repeat(np.arange(count * several), np.diff(graphs.edge_ptr)[: count * several])
    bonds = graphs.bonds[: len(owner)] + first[owner, None]
    begins = first.reshape(count, several)[:, 1:].ravel()
    links = np.stack([begins - 1, begins], axis=1)
    link_owner = np.repeat(np.arange(count), several - 1)
    every = np.concatenate([bonds, links]).astype(np.int32)
    molecule = np.concatenate([owner // several, link_owner])
    order = np.lexsort((every[:, 1], every[:, 0], molecule))
    kinds = graphs.bond_categories
    single = np.zeros((len(links), kinds.shape[1]), kinds.dtype)
    return replace(
        graphs,
        node_ptr=np.concatenate([[0], np.cumsum(sizes.reshape(count, several).sum(1))]),
        atom_categories=graphs.atom_categories[: nodes[-1]],
        atom_values=graphs.atom_values[: nodes[-1]],
        edge_ptr=np.concatenate([[0], np.cumsum(np.bincount(molecule, minlength=count))]),
        bonds=every[order],
        bond_categories=np.concatenate([kinds[: len(owner)], single])[order],
        targets=graphs.targets[: count * several : several],
        split=type(graphs.split)(range(count), [], []),
    )


def megabytes() -> float:
    """The most memory this process has held, in MB (10⁶ bytes)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def measure(molecules: int, width: int, layers: int, joined: int) -> dict[str, Any]:
    """One size, in this process."""
    import torch

    from benchmarks.speed.gad import RECIPE, Work, first_graphs, optimiser, step, zinc
    from gad.nn import count_parameters

    torch.set_num_threads(1)
    if joined * molecules > 10_000:
        raise ValueError(f"there are 10,000 molecules to join, not {joined * molecules}")
    zinc()
    recipe = RECIPE.override({"width": width, "budget": 0, "layers": layers})
    # What PyTorch loads on first use is not the molecules' cost.
    first = Work.of(first_graphs(2))
    model = first.model(recipe.override({"width": 5, "layers": 1})).train()
    step(model, optimiser(model), next(first.batches(2)))
    idle = megabytes()
    work = Work.of(join(first_graphs(joined * molecules), joined))
    model = work.model(recipe).train()
    descent = optimiser(model)
    batches = work.batches(BATCH)
    steps = math.ceil(molecules / BATCH)
    for _ in range(min(3, steps)):
        step(model, descent, next(batches))
    start = time.perf_counter()
    for _ in range(steps):
        step(model, descent, next(batches))
    seconds = time.perf_counter() - start
    return {
        "molecules": molecules,
        "width": width,
        "layers": layers,
        "atoms": work.packed.operators.num_nodes / molecules,
        "parameters": count_parameters(model),
        "epoch_seconds": seconds,
        "molecules_per_second": molecules / seconds,
        "peak_megabytes": megabytes() - idle,
    }


def measure_apart(**sizes: int) -> dict[str, Any]:
    """The same in a fresh process, so that memory is its own."""
    command = [sys.executable, "-m", "benchmarks.growth", "--one", json.dumps(sizes)]
    done = subprocess.run(
        command, cwd=ROOT, env=threads_only(1), check=True, stdout=subprocess.PIPE, text=True
    )
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def slope(rows: list[dict[str, Any]], against: str, quantity: str) -> float:
    """The exponent p of quantity ∝ against^p, by least squares in logarithms."""
    x = np.log([row[against] for row in rows])
    y = np.log([max(row[quantity], 1e-9) for row in rows])
    return float(np.polyfit(x, y, 1)[0])


def measure_growth(sizes: dict[str, tuple[int, ...]], usual: dict[str, int], tell: Any) -> Any:
    """Rows for every size, and the slopes."""
    rows, slopes = [], []
    for name, values in sizes.items():
        some = []
        for value in values:
            tell(f"{name} {value:,}")
            some.append({"varied": name, **measure_apart(**{**usual, name: value})})
        rows += some
        against = "atoms" if name == "joined" else name
        slopes.append(
            {
                "varied": name,
                "against": against,
                "epoch_seconds": slope(some, against, "epoch_seconds"),
                "peak_megabytes": slope(some, against, "peak_megabytes"),
            }
        )
    return rows, slopes


def measure_cores(
    seconds: float, rounds: int, threads: int, tell: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Processes against threads, and the share of time outside the model."""
    alone, other, wide = (Worker("speed.gad", count) for count in (1, 1, threads))
    workers = (alone, other, wide)
    request = {"batch": BATCH, "seconds": seconds}
    rates: dict[str, list[float]] = {"one_thread": [], "two_threads": [], "two_processes": []}
    shares: dict[str, list[dict[str, float]]] = {"loop": [], "fit": []}
    try:
        for worker in workers:
            worker.ask("train", batch=BATCH, seconds=0.0)
        for number in range(rounds):
            tell(f"threads and processes, round {number + 1} of {rounds}")
            rates["one_thread"].append(alone.ask("train", **request)["rate"])
            rates["two_threads"].append(wide.ask("train", **request)["rate"])
            for worker in (alone, other):
                worker.send("train", **request)
            rates["two_processes"].append(sum(w.receive()["rate"] for w in (alone, other)))
            shares["loop"].append(alone.ask("outside", **request))
            batches = 10 + round(rates["one_thread"][-1] * seconds / BATCH)
            shares["fit"].append(alone.ask("fit", batch=BATCH, batches=batches))
    finally:
        for worker in workers:
            worker.close()
    cores = {name: middle(found) for name, found in rates.items()}
    parts = ("batching_share", "layouts_share", "model_share", "step_ms", "model_ms")
    outside = {part: middle(go[part] for go in shares["loop"]) for part in parts}
    outside["outside_share"] = outside["batching_share"] + outside["layouts_share"]
    outside["fit_step_ms"] = 1e3 * BATCH / middle(go["rate"] for go in shares["fit"])
    return {"unit": "molecules/s", "batch": BATCH, **cores}, {"batch": BATCH, **outside}


def show(console: Console, record: dict[str, Any]) -> None:
    """Print the measurements and their slopes."""
    table = Table(title=f"Training, one thread, batch {BATCH}")
    table.add_column("varied")
    headings = ("molecules", "width", "layers", "atoms", "epoch s", "molecules/s", "peak MB")
    for heading in headings:
        table.add_column(heading, justify="right")
    last = ""
    for row in record["rows"]:
        if last and row["varied"] != last:
            table.add_section()
        last = row["varied"]
        table.add_row(
            row["varied"], f"{row['molecules']:,}", str(row["width"]), str(row["layers"]),
            f"{row['atoms']:.1f}", f"{row['epoch_seconds']:.3g}",
            f"{row['molecules_per_second']:,.0f}", f"{row['peak_megabytes']:,.0f}",
        )  # fmt: skip
    console.print(table)
    for line in record["slopes"]:
        console.print(
            f"time ∝ {line['against']}^{line['epoch_seconds']:.2f}, "
            f"memory ∝ {line['against']}^{line['peak_megabytes']:.2f}"
        )
    cores, outside = record["cores"], record["outside"]
    console.print(
        f"one thread {cores['one_thread']:,.0f} molecules/s, two threads "
        f"{cores['two_threads']:,.0f}, two processes {cores['two_processes']:,.0f}"
    )
    console.print(
        f"outside the model: {outside['outside_share']:.1%} of a step "
        f"({outside['batching_share']:.1%} batching, {outside['layouts_share']:.1%} layouts)"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="see that it runs; recorded apart")
    parser.add_argument("--output", type=Path, help="the record (results/growth.json)")
    parser.add_argument("--one", metavar="SIZES", help="one measurement in this process, as JSON")
    chosen = parser.parse_args(arguments)
    if chosen.one:
        print(json.dumps(measure(**json.loads(chosen.one))))
        return
    need_data()
    console = Console(width=120)
    sizes, usual, seconds, rounds = SIZES, USUAL, 2.0, 3
    if chosen.quick:
        sizes = {name: values[:2] for name, values in SIZES.items()}
        usual, seconds, rounds = {**USUAL, "molecules": 128}, 0.2, 1
        sizes["molecules"] = (128, 256)
    record: dict[str, Any] = {
        "what": (__doc__ or "").partition("\n")[0],
        "machine": machine(),
        "versions": our_versions(),
        "commit": commit(),
        "when": now(),
        "settings": {"batch": BATCH, "threads": 1, **usual},
    }

    def tell(text: str) -> None:
        console.print(f"{text} …", style="dim")

    record["cores"], record["outside"] = rounded(
        measure_cores(seconds, rounds, 1 if chosen.quick else 2, tell)
    )
    record["rows"], record["slopes"] = rounded(measure_growth(sizes, usual, tell))
    output = chosen.output or (ROOT / "build" / "growth.json" if chosen.quick else OUTPUT)
    save(output, record)
    show(console, record)
    console.print(f"written to {output}")


if __name__ == "__main__":
    main()
