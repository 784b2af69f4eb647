"""Our side of the comparison, in a process of its own (see ``workers``)."""

from __future__ import annotations

import csv
import gc
import gzip
import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.speed.products import record_products, replay
from benchmarks.speed.workers import Goes, serve, steady
from gad import native
from gad.data import known
from gad.data.known.graphset import GraphSet
from gad.data.store.graphs import pack_graphs
from gad.data.store.molecules import PackedMolecules, read_molecules
from gad.nn import GAD, count_parameters, decay_groups, mean_log_degree
from gad.operators import GraphOperators
from gad.settings.model import Inputs, build_model, preparation_of
from gad.settings.recipe import Recipe
from gad.settings.task import Scale, Target, Task
from gad.training.batches import Batches, Labelled
from gad.training.fit import fit

# Of the 10,000 molecules to train on; enough for a few seconds at any speed.
MOLECULES = 6_000
BUDGET = 100_000
TASK = Task((Target("logP"),))
# Named one by one: the comparison stays what it is when the defaults change.
RECIPE = Recipe.of(
    width=0, budget=BUDGET, epochs=1, layers=4, towers=5, edges=True, edge_channels=16,
    aggregators=("mean", "max", "min", "dx"), readout="mean", k=0, random_walk=0,
    scalers=("identity", "amplification", "attenuation"), batch_norm=True, graph_norm=True,
    residual=True, dropout=0.0, ema=0.0,
)  # fmt: skip
GOES = Goes()


def settings() -> dict[str, Any]:
    """What the model is, for the record."""
    keys = ("layers", "towers", "aggregators", "scalers", "edges", "edge_channels", "readout")
    return {"budget": BUDGET, **{key: RECIPE.to_dict()[key] for key in keys}}


@lru_cache
def zinc() -> GraphSet:
    """The benchmark's graphs."""
    graphs = known.load("zinc")
    assert isinstance(graphs, GraphSet)
    return graphs


def first_graphs(count: int) -> GraphSet:
    """The first so many molecules of the training part (which comes first)."""
    return zinc().take(np.arange(count))


def smiles(count: int) -> list[str]:
    """The same molecules as SMILES; all 12,000 again and again if more are wanted."""
    folder = os.environ.get("GAD_DATA")
    if not folder:
        raise RuntimeError("set GAD_DATA to the folder with zinc12k/")
    path = Path(folder) / "zinc12k" / "zinc12k_smiles.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        texts = [row["smiles"] for row in csv.DictReader(file)]
    return list(itertools.islice(itertools.cycle(texts), count))


@dataclass(frozen=True)
class Work:
    """The workload: labelled molecules, and the models that learn them."""

    data: Labelled

    @staticmethod
    def of(graphs: GraphSet) -> Work:
        """Pack graphs once."""
        packed = pack_graphs(graphs, preparation_of(RECIPE))
        ones = np.ones(len(graphs))
        scale = Scale.of(TASK, graphs.targets, ones, packed.graph_values)
        targets = TASK.to_model(graphs.targets, scale)
        return Work(Labelled(packed, targets, torch.ones(len(graphs))))

    def model(self, recipe: Recipe = RECIPE) -> GAD:
        """A new model for these graphs."""
        torch.manual_seed(0)
        inputs = Inputs(zinc().atom_cardinalities, 0, zinc().bond_cardinalities, 0)
        delta = mean_log_degree(self.data.molecules.operators)
        return build_model(recipe, inputs, 1, delta=delta)

    @property
    def packed(self) -> PackedMolecules:
        """The molecules alone."""
        return self.data.molecules

    def batches(self, batch: int) -> Iterator[Any]:
        """Shuffled batches, epoch after epoch."""
        rows = torch.arange(len(self.packed))
        loader = Batches(self.data, rows, batch, seed=0)
        for epoch in itertools.count():
            loader.set_epoch(epoch)
            yield from loader


@lru_cache
def work() -> Work:
    """The workload of this process."""
    return Work.of(first_graphs(MOLECULES))


def optimiser(model: GAD) -> torch.optim.Optimizer:
    """As training has it."""
    groups = decay_groups(model, RECIPE.training.weight_decay)
    return torch.optim.AdamW(groups, lr=RECIPE.training.learning_rate, fused=True)


def step(model: GAD, descent: torch.optim.Optimizer, labelled: Any) -> None:
    """Forward, backward, optimiser."""
    molecules, targets, weights = labelled
    loss, weight = TASK.losses(model(**molecules.inputs()), targets, weights)
    (loss / weight).backward()
    descent.step()
    descent.zero_grad()


@contextmanager
def kernels(compiled: bool) -> Iterator[None]:
    """With the compiled kernels, as everybody has it who has a compiler, or by PyTorch alone."""
    with nullcontext() if compiled else native.plain():
        yield


@lru_cache
def called(scheme: str) -> GAD:
    """The model of a scheme."""
    return work().model(RECIPE.override({"scheme": scheme}))


def training(batch: int, scheme: str) -> Iterator[int]:
    """Train for ever; a number of molecules after each step."""
    model = called(scheme)
    descent = optimiser(model)
    # As our training does.
    gc.collect()
    gc.freeze()
    for labelled in work().batches(batch):
        step(model.train(), descent, labelled)
        yield len(labelled[1])


def similar(packed: PackedMolecules, batch: int) -> Iterator[tuple[torch.Tensor, Any]]:
    """All molecules, similar sizes together, so many at a time: (numbers, batch)."""
    for graphs in packed.operators.graph_sizes.argsort(stable=True).split(batch):
        yield graphs, packed.batch(graphs)


def inference(batch: int, forward_only: bool) -> Iterator[int]:
    """Predict all molecules again and again, similar sizes together as ``gad predict`` does."""
    model = called("implicit")
    packed = work().packed
    kept = list(similar(packed, batch)) if forward_only else None
    while True:
        for graphs, molecules in kept or similar(packed, batch):
            model.eval()
            with torch.no_grad():
                model(**molecules.inputs())
            yield graphs.numel()


# ------------------------------------------------------------------------ what can be asked


def answer_info() -> dict[str, Any]:
    model = work().model()
    return {"parameters": count_parameters(model), "width": model.channels, **settings()}


def answer_train(batch: int, seconds: float, compiled: bool = False) -> dict[str, Any]:
    def make() -> Iterator[int]:
        return training(batch, "implicit")

    with kernels(compiled):
        return GOES(("train", batch, compiled), make, seconds)


@lru_cache
def going(batch: int, scheme: str, compiled: bool) -> Iterator[int]:
    """A training that goes on where it was left, after its first steps."""
    del compiled
    steps = training(batch, scheme)
    for _ in range(3):
        next(steps)
    return steps


def answer_schemes(batch: int, seconds: float, compiled: bool = False) -> dict[str, Any]:
    """Both schemes, a step of one and a step of the other in turn: molecules per second."""
    spent, done = {"implicit": 0.0, "spectral": 0.0}, dict.fromkeys(("implicit", "spectral"), 0)
    with kernels(compiled):
        several = {scheme: going(batch, scheme, compiled) for scheme in spent}
        while sum(spent.values()) < 2 * seconds:
            for scheme, steps in several.items():
                start = time.perf_counter()
                done[scheme] += next(steps)
                spent[scheme] += time.perf_counter() - start
    return {scheme: done[scheme] / spent[scheme] for scheme in spent}


def answer_infer(
    batch: int, seconds: float, compiled: bool = False, forward_only: bool = False
) -> dict[str, Any]:
    def make() -> Iterator[int]:
        return inference(batch, forward_only)

    with kernels(compiled):
        return GOES(("infer", batch, compiled, forward_only), make, seconds)


@dataclass(frozen=True, eq=False)
class Stamped(Labelled):
    """Labelled molecules that remember when a training loop took each of its batches."""

    stamps: list[float] = field(default_factory=list)

    def batch(self, graphs: torch.Tensor) -> Any:
        """Take down the time, then as ever."""
        self.stamps.append(time.perf_counter())
        return super().batch(graphs)


def answer_fit(batch: int, batches: int, compiled: bool = False) -> dict[str, Any]:
    """The speed of the training loop that users run, Lightning and all, once it runs steadily."""
    data = work().data
    stamped = Stamped(data.molecules, data.targets, data.weights)
    count = min(batches * batch, len(data.molecules) // batch * batch)
    rows = {"train": torch.arange(count), "val": torch.arange(8)}
    with kernels(compiled):
        fit(work().model(), RECIPE.override({"batch_size": batch}), TASK, stamped, rows)
    # The last one taken is the validation's.
    return {"rate": steady(stamped.stamps[:-1], batch)}


@lru_cache
def products_of(batch: int, count: int) -> Any:
    """Some batches, the model that learns them, and the matrix products of their steps."""
    model = work().model().train()
    descent = optimiser(model)
    numbers = torch.randperm(MOLECULES, generator=torch.Generator().manual_seed(0))
    chosen = torch.split(numbers, batch)[:count]
    # The kernels do their products themselves; PyTorch's twin shows which there are.
    with kernels(False):
        step(model, descent, work().data.batch(chosen[0]))
        products = [
            record_products(partial(step, model, descent, work().data.batch(rows)))
            for rows in chosen
        ]
    return model, descent, chosen, products


def answer_products(batch: int, seconds: float, count: int = 8) -> dict[str, Any]:
    """Whole training steps, and the matrix products of the very same steps timed alone."""
    model, descent, chosen, products = products_of(batch, count)
    whole = alone = 0.0
    passes = 0
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds or not passes:
        for rows, recorded in zip(chosen, products, strict=True):
            start = time.perf_counter()
            step(model, descent, work().data.batch(rows))
            middle = time.perf_counter()
            replay(recorded)
            whole += middle - start
            alone += time.perf_counter() - middle
        passes += 1
    steps = passes * len(chosen)
    return {
        "step_ms": 1e3 * whole / steps,
        "products_ms": 1e3 * alone / steps,
        "products": len(products[0]),
    }


def answer_outside(batch: int, seconds: float) -> dict[str, Any]:
    """Where a step's time goes: making the batch, laying its operators out, and the model."""
    model = work().model().train()
    descent = optimiser(model)
    spent = {"batching": 0.0, "layouts": 0.0, "model": 0.0}
    make = GraphOperators.once  # what operators make on first use is batching, too
    depth = 0

    def timed(self: GraphOperators, name: str, how: Any) -> Any:
        nonlocal depth
        start, depth = time.perf_counter(), depth + 1
        try:
            return make(self, name, how)
        finally:
            depth -= 1
            if depth == 0:
                spent["layouts"] += time.perf_counter() - start

    batches = work().batches(batch)
    step(model, descent, next(batches))
    GraphOperators.once = timed  # type: ignore[assignment,method-assign]
    try:
        begun = time.perf_counter()
        for spent["steps"] in itertools.count(1):
            start = time.perf_counter()
            labelled = next(batches)
            spent["layouts_before"] = spent["layouts"]
            middle = time.perf_counter()
            step(model, descent, labelled)
            end = time.perf_counter()
            spent["batching"] += middle - start
            spent["model"] += end - middle - (spent["layouts"] - spent["layouts_before"])
            if end - begun > seconds:
                break
    finally:
        GraphOperators.once = make  # type: ignore[method-assign]
    whole = spent["batching"] + spent["layouts"] + spent["model"]
    return {
        **{f"{part}_share": spent[part] / whole for part in ("batching", "layouts", "model")},
        "step_ms": 1e3 * whole / spent["steps"],
        "model_ms": 1e3 * spent["model"] / spent["steps"],
    }


@lru_cache
def some_smiles(count: int) -> list[str]:
    return smiles(count)


def answer_prepare(count: int, descriptors: bool) -> dict[str, Any]:
    """Parse, featurise and decompose, as the default recipe has it."""
    preparation = replace(preparation_of(Recipe()), descriptors=descriptors)
    texts = some_smiles(count)
    read_molecules(texts[:64], preparation)
    start = time.perf_counter()
    packed = read_molecules(texts, preparation)
    seconds = time.perf_counter() - start
    assert len(packed) == count
    return {"rate": count / seconds}


def answer_model(folder: str, default: bool, rows: int = 400) -> dict[str, Any]:
    """A model file: the default recipe's, or the network of the other figures.

    The network is hardly trained, since speed does not depend on it; the trees of the default are
    as many as ever.
    """
    import gad

    texts = smiles(rows)
    run = gad.train(
        (texts, [float(len(text)) for text in texts]), out=folder, baselines=False, workers=1,
        recipe="default" if default else RECIPE, settings={"epochs": 1},
    )  # fmt: skip
    return {"parameters": count_parameters(run.model.model.members[0])}


def main() -> None:
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    answers = (
        "info",
        "train",
        "schemes",
        "infer",
        "fit",
        "products",
        "outside",
        "prepare",
        "model",
    )
    serve({name: globals()[f"answer_{name}"] for name in answers})


if __name__ == "__main__":
    main()
