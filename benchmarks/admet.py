"""The 22 tasks of TDC's ADMET group by its protocol: the default recipe beside boosted trees.

The part ``test`` is fixed; ``train_val`` is divided anew for each seed by a scaffold split, 12.5 %
for validation. Both methods choose on the validation rows alone::

    GAD_DATA=... python -m benchmarks accuracy --suite admet                 # five seeds, hours
    GAD_DATA=... python -m benchmarks accuracy --suite admet --resume        # what is missing
    GAD_DATA=... python -m benchmarks accuracy --suite admet --tasks herg --seeds 1
    GAD_DATA=... python -m benchmarks accuracy --suite admet --variant "blend=false" --seeds 1
    GAD_DATA=... python -m benchmarks accuracy --suite admet --ablation      # base, blend, ensemble

The trees are what a careful user would do instead: scikit-learn's histogram gradient boosting on
RDKit's descriptors and 1,024 Morgan counts, the best of eight settings on validation. A variant is
the default recipe with settings changed, judged on rows held out of ``train_val``; the test rows
are not looked at. Its rows go to ``results/admet_variants.json``. The ablation is those of
``ABLATION``, one seed: the default, without its base, without its blend, and three of it together.
The first of the three members is the default's, so one training shows all three that start from the
base; probabilities are compared before they are recalibrated.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks import ROOT
from gad.chem import MoleculeError, canonical, parse, quiet
from gad.data.atomic import write_atomic
from gad.data.splits import Split, scaffold_split
from gad.data.store.cache import scaffolds
from gad.machine import machine
from gad.prediction.blend import ORIGIN, PART, to_part
from gad.prediction.predictor import Predictor
from gad.settings.recipe import parse_setting
from gad.training.folder import code_commit

VALIDATION = 0.125
METHODS = ("gad", "trees")
# Learning rate, leaves, L2: what the trees choose from.
SETTINGS = [(rate, leaves, l2) for rate in (0.03, 0.1) for leaves in (8, 31) for l2 in (0.0, 10.0)]
STEPS = 400
HIGHER = {"AUROC", "AUPRC", "Spearman"}
# Training → the variants that are read off it.
ABLATION = {
    "ensemble=3": ("start=base", "blend=false", "ensemble=3"),
    "start=scratch": ("start=scratch",),
}


@dataclass(frozen=True)
class Task:
    """One table: SMILES and labels of all rows, and which are the test rows."""

    name: str
    kind: str
    metric: str
    published: list[float | None] | None
    smiles: list[str]
    labels: np.ndarray
    test: np.ndarray

    @cached_property
    def molecules(self) -> list[Any]:
        """The molecules; None for a row that cannot be read, which nothing is trained on."""
        with quiet:
            return [_read(text) for text in self.smiles]

    def split(self, seed: int, inner: bool = False) -> Split:
        """The rows of each part for a seed; ``inner`` leaves the test rows out altogether.

        Epochs and shares are chosen on validation rows, so these flatter whatever chooses the most.
        Choices between recipes are made on a third part of the rest, which then stands for test.
        """
        readable = [row for row, mol in enumerate(self.molecules) if mol is not None]
        rest = np.setdiff1d(readable, self.test)
        keys = [canonical(self.molecules[row]) for row in rest]
        held = VALIDATION if inner else 0.0
        shares = (1 - VALIDATION - held, VALIDATION, held)
        drawn = scaffold_split(keys, scaffolds(keys, workers=1), shares, seed=seed)
        if inner:
            return Split(rest[drawn.train], rest[drawn.val], rest[drawn.test])
        return Split(rest[drawn.train], np.concatenate([rest[drawn.val], rest[drawn.test]]),
                     self.test)  # fmt: skip

    def score(self, rows: np.ndarray, predicted: np.ndarray) -> float:
        """The task's metric."""
        from scipy.stats import spearmanr
        from sklearn.metrics import average_precision_score, mean_absolute_error, roc_auc_score

        truth = self.labels[rows]
        of = {
            "MAE": lambda: mean_absolute_error(truth, predicted),
            "Spearman": lambda: spearmanr(truth, predicted)[0],
            "AUROC": lambda: roc_auc_score(truth, predicted),
            "AUPRC": lambda: average_precision_score(truth, predicted),
        }
        return round(float(of[self.metric]()), 5)


def _read(text: str) -> Any:
    try:
        return parse(text)
    except MoleculeError:
        return None


def tasks() -> dict[str, dict[str, Any]]:
    """What the suite says of each task."""
    folder = Path(os.environ.get("GAD_DATA") or sys.exit("set GAD_DATA")) / "tdc_admet"
    return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["tasks"]


def load(name: str) -> Task:
    """Read a task."""
    told = tasks()[name]
    path = Path(os.environ["GAD_DATA"]) / "tdc_admet" / f"{name}.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return Task(
        name, told["kind"], told["metric"], told["published"],
        [row["smiles"] for row in rows], np.array([float(row["y"]) for row in rows]),
        np.array([k for k, row in enumerate(rows) if row["part"] == "test"]),
    )  # fmt: skip


def trained(task: Task, split: Split, seed: int, changes: dict[str, str]) -> Predictor:
    """The default recipe, nothing set but the seed and what a variant changes."""
    import torch

    import gad

    torch.set_num_threads(1)
    changes = dict(changes)
    members = int(changes.pop("ensemble", 1))
    with tempfile.TemporaryDirectory() as folder:
        parts = Path(folder) / "split.json"
        split.save(parts)
        table = Path(folder) / "table.csv"
        with table.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["smiles", "y"])
            writer.writerows(zip(task.smiles, task.labels.tolist(), strict=True))
        run = gad.train(
            table, smiles="smiles", target="y", split_file=parts, task=task.kind,
            settings={**changes, "seed": seed}, ensemble=members, workers=1, baselines=False,
            out=Path(folder) / "run",
        )  # fmt: skip
    return run.model


def predicted(model: Predictor, task: Task, split: Split) -> dict[str, np.ndarray]:
    """What it says of the rows that it was not trained on."""
    told = {
        part: model.predict([task.smiles[row] for row in rows])
        for part, rows in split.parts()
        if part != "train"
    }
    # A test row that cannot be read counts like the others: what is usual is said of it.
    usual = np.median(task.labels[split.train])
    return {part: np.where(np.isnan(values), usual, values) for part, values in told.items()}


def by_gad(task: Task, split: Split, seed: int, changes: dict[str, str]) -> dict[str, np.ndarray]:
    """Train and predict."""
    return predicted(trained(task, split, seed, changes), task, split)


def part_of(model: Predictor, variant: str) -> Predictor:
    """One of the variants that a training of the ablation shows, without its recalibration."""
    own, blends = model.model, model.blends
    members = len(own.members) if variant.startswith("ensemble") else 1
    kept = [blend for blend in blends[:members] if blend is not None]
    parts = {name: own.parts[name] for name in (ORIGIN,) if name in own.parts}
    if kept and variant != "blend=false":
        parts[PART] = to_part(kept, own.parts[PART].settings["columns"])
    return Predictor(
        replace(own, members=own.members[:members], scales=own.scales[:members], parts=parts)
    )


def by_trees(task: Task, split: Split, seed: int) -> dict[str, np.ndarray]:
    """Boosted trees on descriptors and counts, the best of the settings on validation."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    from gad.chem.fingerprints import SIZE, morgan_counts
    from gad.training.baselines import descriptor_table

    x = np.zeros((len(task.smiles), SIZE), np.float32)
    readable = [row for row, mol in enumerate(task.molecules) if mol is not None]
    x[readable] = morgan_counts([task.molecules[row] for row in readable])
    x = np.concatenate([descriptor_table(task.smiles), x], axis=1)
    best: tuple[float, dict[str, np.ndarray]] | None = None
    for rate, leaves, l2 in SETTINGS:
        common = {
            "learning_rate": rate, "max_leaf_nodes": leaves, "l2_regularization": l2,
            "max_iter": STEPS, "early_stopping": False, "random_state": seed,
        }  # fmt: skip
        if task.kind == "regression":
            loss = "absolute_error" if task.metric == "MAE" else "squared_error"
            model: Any = HistGradientBoostingRegressor(loss=loss, **common)
        else:
            model = HistGradientBoostingClassifier(**common)
        model.fit(x[split.train], task.labels[split.train])
        predict = model.predict if task.kind == "regression" else _second(model)
        told = {part: predict(x[getattr(split, part)]) for part in ("val", "test")}
        score = task.score(split.val, told["val"])
        error = -score if task.metric in HIGHER else score
        if best is None or error < best[0]:
            best = error, told
    assert best is not None
    return best[1]


def _second(model: Any) -> Any:
    return lambda x: model.predict_proba(x)[:, 1]


def made_by(method: str, variant: str) -> str:
    """What a result depends on; a row made by anything else is out of date."""
    if method == "trees":
        return f"RDKit {version('rdkit')}, scikit-learn {version('scikit-learn')}"
    from benchmarks.accuracy import default_digest

    return f"default recipe {default_digest(variant)}"


def measure(name: str, seed: int, method: str, variant: str) -> dict[str, Any]:
    """One method on one task by one seed; a variant does not see the test rows."""
    task = load(name)
    split, start = task.split(seed, inner=bool(variant)), time.process_time()
    changes = dict(map(parse_setting, variant.split()))
    told = by_gad(task, split, seed, changes) if method == "gad" else by_trees(task, split, seed)
    return _row(task, split, told, seed, method, variant, start)


def ablate(name: str, training: str) -> list[dict[str, Any]]:
    """The variants of one training on one task, each with the minutes of all."""
    task = load(name)
    split, start = task.split(1, inner=True), time.process_time()
    model = trained(task, split, 1, dict([parse_setting(training)]))
    return [
        _row(task, split, predicted(part_of(model, variant), task, split), 1, "gad", variant, start)
        for variant in ABLATION[training]
    ]


def _row(
    task: Task,
    split: Split,
    told: dict[str, np.ndarray],
    seed: int,
    method: str,
    variant: str,
    start: float,
) -> dict[str, Any]:
    return {
        "task": task.name, "seed": seed, "method": method, "variant": variant,
        "metric": task.metric, "val": task.score(split.val, told["val"]),
        "minutes": round((time.process_time() - start) / 60, 3),
        "rows": {part: len(rows) for part, rows in split.parts()},
        "made_by": made_by(method, variant), "commit": code_commit(),
        "held" if variant else "test": task.score(split.test, told["test"]),
    }  # fmt: skip


def collected(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The rows by task: what each method has on test, ours on validation, and what it took."""
    told: dict[str, Any] = {}
    for name, about in tasks().items():
        own = {
            method: sorted((r for r in rows if (r["task"], r["method"]) == (name, method)),
                           key=lambda r: r["seed"])
            for method in METHODS
        }  # fmt: skip
        if any(own.values()):
            told[name] = {
                "metric": about["metric"],
                "published": about["published"],
                **{method: [r["test"] for r in found] for method, found in own.items()},
                "val": [r["val"] for r in own["gad"]],
                "trees_val": [r["val"] for r in own["trees"]],
                "minutes": [r["minutes"] for r in own["gad"]],
            }
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--suite", default="admet", choices=["admet"])
    parser.add_argument("--tasks", default="", help="separated by commas; all if left out")
    parser.add_argument("--methods", default=",".join(METHODS), help="separated by commas")
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 1")
    parser.add_argument("--variant", default="", help="settings of ours that differ, by blanks")
    parser.add_argument("--ablation", action="store_true", help="base, blend, ensemble; one seed")
    parser.add_argument("--resume", action="store_true", help="keep the rows that are up to date")
    parser.add_argument("--output", type=Path, help="where the record is kept")
    arguments = parser.parse_args()
    varied = arguments.ablation or bool(arguments.variant)
    output = arguments.output or ROOT / "results" / f"admet{'_variants' * varied}.json"
    names = arguments.tasks.split(",") if arguments.tasks else list(tasks())
    kept: list[dict[str, Any]] = []
    if output.exists() and (arguments.resume or varied):
        kept = json.loads(output.read_text(encoding="utf-8"))["rows"]
        kept = [r for r in kept if r["made_by"] == made_by(r["method"], r["variant"])]
    done = {(r["task"], r["seed"], r["method"], r["variant"]) for r in kept}
    console = Console(width=120)
    for rows in _measured(arguments, names, done):
        kept += rows
        for row in rows:
            console.print(
                f"{row['task']}, seed {row['seed']}, {row['method']} {row['variant']}: "
                f"{row['metric']} {row['val']:.3f} on validation, "
                f"{row.get('test', row.get('held')):.3f} held out, {row['minutes']:.1f} min"
            )
        _write(output, kept, varied)
    _write(output, kept, varied)


def _measured(
    arguments: argparse.Namespace, names: list[str], done: set[tuple[str, int, str, str]]
) -> Iterator[list[dict[str, Any]]]:
    """The rows that are asked for and not done, training by training."""
    if arguments.ablation:
        for name, (training, variants) in product(names, ABLATION.items()):
            if not all((name, 1, "gad", variant) in done for variant in variants):
                yield ablate(name, training)
        return
    methods = ["gad"] if arguments.variant else arguments.methods.split(",")
    for seed, name, method in product(range(1, arguments.seeds + 1), names, methods):
        if (name, seed, method, arguments.variant) not in done:
            yield [measure(name, seed, method, arguments.variant)]


def _write(output: Path, rows: list[dict[str, Any]], variant: bool) -> None:
    record = {
        "what": (__doc__ or "").strip().partition("\n")[0],
        "machine": machine(),
        "tasks": {} if variant else collected(rows),
        "missing": []
        if variant
        else sorted(set(tasks()) - {r["task"] for r in rows if r["method"] == "gad"}),
        "rows": rows,
    }
    write_atomic(output, (json.dumps(record, indent=1) + "\n").encode())
