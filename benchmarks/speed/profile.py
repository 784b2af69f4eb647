"""Where the time goes: of one training step, and of a prediction from SMILES to values.

One thread, batches of 64 (training) and 256 (prediction) ZINC molecules, about 100,000 parameters::

    GAD_DATA=... python -m benchmarks profile

A step is taken apart by PyTorch's profiler: every operator's own time, grouped by what it does. The
profiler costs something for every operator, so small ones look larger than they are; the wall times
beside the shares are those without it. A prediction is timed stage by stage. Results go to
``results/profile.json``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
from benchmarks.speed.workers import ROOT, middle, threads_only

OUTPUT = RESULTS / "profile.json"
# The first word that an operator's name begins with says what it does.
GROUPS: dict[str, tuple[str, ...]] = {
    "products": ("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "linear", "matmul", "einsum"),
    "gathers": ("index", "gather", "scatter", "embedding", "_embedding", "take", "bincount"),
    "copies": ("copy", "clone", "cat", "fill", "zero", "contiguous", "_to_copy", "stack"),
    "other": (
        *("view", "reshape", "transpose", "t", "slice", "select", "expand", "as_strided"),
        *("unsqueeze", "squeeze", "permute", "empty", "new_empty", "new_zeros", "detach"),
        *("alias", "split", "chunk", "narrow", "_unsafe_view", "flatten", "to", "item"),
        *("resize", "zeros", "ones", "result_type", "resolve", "lift_fresh", "set_data"),
        *("_local_scalar_dense", "is_nonzero", "numpy_T", "unflatten", "unbind"),
    ),
}
PARTS = ("products", "compiled kernels", "gathers", "elementwise and reductions", "copies",
         "optimiser", "batching and layouts", "other")  # fmt: skip


def group_of(name: str) -> str:
    """What an operator does.

    >>> group_of("aten::bmm"), group_of("aten::index_select"), group_of("aten::addcmul_")
    ('products', 'gathers', 'elementwise and reductions')
    """
    if name.startswith("kernel "):
        return "compiled kernels"
    if not name.startswith("aten::"):
        return "other"  # autograd's and Python's own work
    word = name.removeprefix("aten::").rstrip("_")
    for group, beginnings in GROUPS.items():
        for beginning in beginnings:
            if word == beginning or word.startswith(f"{beginning}_"):
                return group
    return "elementwise and reductions"


def profiled(work: Callable[[], None], repeats: int) -> dict[str, Any]:
    """Shares of time by group, the heaviest operators, and the wall time without the profiler."""
    from torch.profiler import ProfilerActivity, profile

    work()
    walls = []
    for _ in range(max(3, repeats)):
        start = time.perf_counter()
        work()
        walls.append(time.perf_counter() - start)
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        for _ in range(repeats):
            work()
    spent: dict[str, float] = defaultdict(float)
    operators: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
    for event in recorded.events():
        own = event.self_cpu_time_total
        owners = ancestors(event)
        if any(name.startswith("Optimizer.step") for name in owners):
            group = "optimiser"
        elif any(name == "batching" for name in owners):
            group = "batching and layouts"
        else:
            group = group_of(event.name)
            operators[event.name][0] += own
            operators[event.name][1] += 1
        spent[group] += own
    whole = sum(spent.values())
    heaviest = sorted(operators.items(), key=lambda item: -item[1][0])[:15]
    return {
        "wall_ms": 1e3 * middle(walls),
        "profiled_ms": whole / repeats / 1e3,
        "shares": {part: spent[part] / whole for part in PARTS if part in spent},
        "heaviest": [
            {"operator": name, "share": own / whole, "calls": count / repeats}
            for name, (own, count) in heaviest
        ],
    }


def ancestors(event: Any) -> list[str]:
    """The names of an event and of all it happened in."""
    names = []
    while event is not None:
        names.append(event.name)
        event = event.cpu_parent
    return names


@contextmanager
def marked() -> Iterator[None]:
    """Mark compiled kernels, and what operators make on first use: that belongs to the batch."""
    from torch.profiler import record_function

    from gad import native
    from gad.operators import GraphOperators

    make, call = GraphOperators.once, native.call

    def kernel(name: str, *arguments: Any) -> None:
        with record_function(f"kernel {name}"):
            call(name, *arguments)

    def layout(self: Any, name: str, how: Any) -> Any:
        if name in self._cache:
            return self._cache[name]
        with record_function("batching"):
            return make(self, name, how)

    GraphOperators.once = layout  # type: ignore[assignment,method-assign]
    native.call = kernel
    try:
        yield
    finally:
        GraphOperators.once, native.call = make, call  # type: ignore[method-assign]


def profile_training(batch: int, repeats: int) -> dict[str, Any]:
    """One training step, batching included."""
    import torch
    from torch.profiler import record_function

    from benchmarks.speed.gad import optimiser, step, work

    model = work().model().train()
    descent = optimiser(model)
    rows = torch.randperm(len(work().packed), generator=torch.Generator().manual_seed(0))[:batch]

    def one() -> None:
        with record_function("batching"):
            labelled = work().data.batch(rows)
        step(model, descent, labelled)

    with marked():
        return {"batch": batch, **profiled(one, repeats)}


def profile_inference(batch: int, repeats: int) -> dict[str, Any]:
    """One forward pass, batching included."""
    import torch
    from torch.profiler import record_function

    from benchmarks.speed.gad import similar, work

    model = work().model().eval()
    packed = work().packed
    several = [graphs for graphs, _ in similar(packed, batch)]
    graphs = several[len(several) // 2]

    def one() -> None:
        with record_function("batching"):
            molecules = packed.batch(graphs)
        with torch.no_grad():
            model(**molecules.inputs())

    with marked():
        return {"batch": batch, **profiled(one, repeats)}


def profile_prediction(count: int, batch: int, repeats: int) -> dict[str, Any]:
    """From SMILES to values, stage by stage; ``other`` is what the whole takes beyond these."""
    import torch

    from benchmarks.speed.gad import BUDGET, similar, smiles
    from gad.chem.fast import arrays
    from gad.chem.fast.descriptors import quick_descriptors_of
    from gad.chem.molecule import parse_all
    from gad.data.store.molecules import pack, read_molecules
    from gad.settings.model import build_model, inputs_of, preparation_of
    from gad.settings.recipe import Recipe

    recipe = Recipe.of(width=0, budget=BUDGET)
    preparation = preparation_of(recipe)
    model = build_model(recipe, inputs_of(preparation), 1).eval()
    texts = smiles(count)
    stages: dict[str, list[float]] = defaultdict(list)

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        stages[name].append(time.perf_counter() - start)

    for _ in range(repeats):
        with stage("parse"):
            molecules = list(parse_all(texts)[0].values())
        with stage("featurise"):
            graphs = preparation.featurizer.graphs(molecules)
        if recipe.molecules.descriptors:
            read = arrays.read(molecules)
            with stage("descriptors"):
                quick_descriptors_of(read)
        with stage("decompose and pack"):
            pack(graphs, preparation)
        with stage("whole preparation"):
            packed = read_molecules(texts, preparation)
        with stage("batching"):
            batches = [b for _, b in similar(packed, batch)]
        with stage("model"), torch.no_grad():
            for molecules_of in batches:
                model(**molecules_of.inputs())
    found = {name: middle(times) for name, times in stages.items()}
    whole = found.pop("whole preparation") + found["batching"] + found["model"]
    found["other"] = max(0.0, whole - sum(found.values()))
    return {
        "molecules": count,
        "batch": batch,
        "microseconds_per_molecule": {k: 1e6 * v / count for k, v in found.items()},
        "shares": {k: v / whole for k, v in found.items()},
        "molecules_per_second": count / whole,
    }


def show(console: Console, record: dict[str, Any]) -> None:
    """Print the shares."""
    for name in ("training", "inference", "prediction"):
        part = record[name]
        wall = f", {part['wall_ms']:.1f} ms" if "wall_ms" in part else ""
        table = Table("part", "share", title=f"{name}, batch {part['batch']}{wall}")
        for group, share in part["shares"].items():
            table.add_row(group, f"{share:.1%}")
        console.print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="see that it runs; recorded apart")
    parser.add_argument("--output", type=Path, help="the record (results/profile.json)")
    chosen = parser.parse_args(arguments)
    need_data()
    if os.environ.get("OMP_NUM_THREADS") != "1":  # set before PyTorch is imported
        words = [sys.executable, "-m", "benchmarks.speed.profile", *(arguments or sys.argv[1:])]
        sys.exit(subprocess.run(words, cwd=ROOT, env=threads_only(1), check=False).returncode)
    repeats = 2 if chosen.quick else 20
    record = rounded(
        {
            "what": (__doc__ or "").partition("\n")[0],
            "machine": {**machine(), "threads": 1},
            "versions": our_versions(),
            "commit": commit(),
            "when": now(),
            "training": profile_training(64, repeats),
            "inference": profile_inference(256, repeats),
            "prediction": profile_prediction(256 if chosen.quick else 2_048, 256, 3),
        }
    )
    output = chosen.output or (ROOT / "build" / "profile.json" if chosen.quick else OUTPUT)
    save(output, record)
    console = Console(width=100)
    show(console, record)
    console.print(f"written to {output}")


if __name__ == "__main__":
    main()
