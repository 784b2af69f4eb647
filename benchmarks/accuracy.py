"""How accurate the default recipe is: beside chemprop's defaults, a ridge and boosted trees.

ESOL, FreeSolv and AqSol; scaffold splits 80/10/10 of seeds 0, 1, 2; the same rows for every method,
nobody tuned to the set. Each method chooses its model on the validation rows, and the test errors
of all are computed here from their predictions::

    GAD_DATA=... python -m benchmarks.accuracy                      # everything, hours
    GAD_DATA=... python -m benchmarks.accuracy --resume             # what is missing or outdated
    GAD_DATA=... python -m benchmarks.accuracy --resume --methods gad --sets esol

``--suite admet`` is another set of tables, see :mod:`benchmarks.admet`.

Every run has a process and a core to itself. It enters ``results/accuracy.json`` when it ends,
together with what it was made by (versions, and our recipe), so an interrupted comparison goes on,
and a changed recipe repeats our side only.
"""

from __future__ import annotations

import argparse
import csv
import datetime as dt
import gzip
import hashlib
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import ROOT
from benchmarks.contenders import chemprop_python, versions
from gad.chem.featurize import VERSION as FEATURES
from gad.data.atomic import write_atomic
from gad.data.splits import Split
from gad.machine import machine
from gad.prediction.bases import bases
from gad.prediction.metrics import score
from gad.settings.recipe import Recipe, load_recipe

FRACTIONS = (0.8, 0.1, 0.1)
ERRORS = ("mae", "rmse")


@dataclass(frozen=True)
class Set:
    """A table of molecules: its file below $GAD_DATA, and the column to learn."""

    title: str
    file: str
    target: str

    @property
    def path(self) -> Path:
        """Where it lies."""
        folder = os.environ.get("GAD_DATA")
        if not folder:
            sys.exit("set GAD_DATA to the folder with moleculenet/ and aqsol/")
        return Path(folder) / self.file

    def read(self) -> tuple[list[str], np.ndarray]:
        """SMILES and values of all rows."""
        with gzip.open(self.path, "rt", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return [row["smiles"] for row in rows], np.array([float(row[self.target]) for row in rows])


SETS = {
    "esol": Set("ESOL", "moleculenet/delaney.csv.gz", "logp"),  # the measured logS, by its header
    "freesolv": Set("FreeSolv", "moleculenet/freesolv.csv.gz", "freesolv"),
    "aqsol": Set("AqSol", "aqsol/aqsol.csv.gz", "logS"),
}


@dataclass(frozen=True)
class Run:
    """One method on one split of one set, with a folder for what it leaves."""

    set: str
    seed: int
    method: str
    work: Path

    @property
    def split_file(self) -> Path:
        """Rows of the table by part, the same for every method."""
        return self.work / f"{self.set}-{self.seed}-split.json"

    def folder(self, made_by: str) -> Path:
        """Where this run, of this recipe and version, works."""
        digest = hashlib.sha256(made_by.encode()).hexdigest()[:8]
        return self.work / f"{self.set}-{self.seed}-{self.method}-{digest}"


def save_split(run: Run) -> None:
    """Draw the scaffold split of a seed, once, over the rows that can be read."""
    from gad.data.rows import Source
    from gad.training.dataset import Splitting, load_dataset, split_dataset

    if run.split_file.exists():
        return
    table = SETS[run.set]
    data = load_dataset(Source(str(table.path), "smiles", [table.target]), load_recipe("default"))
    (split,), _ = split_dataset(data, Splitting("scaffold", fractions=FRACTIONS), seed=run.seed)
    rows = data.packed.rows.numpy()
    run.work.mkdir(parents=True, exist_ok=True)
    Split(*(rows[part] for _, part in split.parts())).save(run.split_file)


# ------------------------------------------------------------------------ the methods


def by_gad(run: Run, folder: Path) -> dict[str, list[float]]:
    """The default recipe, nothing set but the seed."""
    import torch

    import gad

    torch.set_num_threads(1)
    table = SETS[run.set]
    trained = gad.train(
        str(table.path), smiles="smiles", target=table.target, split_file=run.split_file,
        settings={"seed": run.seed}, out=folder, resume=True, workers=1, baselines=False,
    )  # fmt: skip
    smiles, _ = table.read()
    return {
        part: trained.model.predict([smiles[row] for row in rows]).tolist()
        for part, rows in Split.load(run.split_file).parts()
        if part != "train"
    }


def chemprop(run: Run, folder: Path) -> dict[str, list[float]]:
    """On the rows of a run."""
    smiles, values = SETS[run.set].read()
    return by_chemprop(smiles, values, Split.load(run.split_file), run.seed, folder)


def by_chemprop(
    smiles: list[str], values: np.ndarray, split: Split, seed: int, folder: Path
) -> dict[str, list[float]]:
    """Its command line with its defaults, which keep the weights of least validation loss."""
    shutil.rmtree(folder, ignore_errors=True)  # it cannot go on from the middle
    folder.mkdir(parents=True)
    for part, rows in split.parts():
        write_csv(folder / f"{part}.csv", {"smiles": smiles, "y": values}, rows)
    chemprop = chemprop_python().with_name("chemprop")
    common = ("--smiles-columns", "smiles", "--accelerator", "cpu", "--num-workers", 0)
    call(
        chemprop, "train", *common, "--task-type", "regression", "--target-columns", "y",
        "--data-path", *(folder / f"{part}.csv" for part, _ in split.parts()),
        "--pytorch-seed", seed, "--output-dir", folder, log=folder / "train.log",
    )  # fmt: skip
    held = np.concatenate([split.val, split.test])
    write_csv(folder / "held.csv", {"smiles": smiles}, held)
    (model,) = folder.glob("**/best.pt")
    out = folder / "predictions.csv"
    call(
        chemprop, "predict", *common, "--test-path", folder / "held.csv", "--model-paths", model,
        "--preds-path", out, log=folder / "predict.log",
    )  # fmt: skip
    with out.open(encoding="utf-8", newline="") as file:
        predicted = {row["smiles"]: float(row["y"]) for row in csv.DictReader(file)}
    return {
        part: [predicted[smiles[row]] for row in rows]
        for part, rows in split.parts()
        if part != "train"
    }


def write_csv(path: Path, columns: dict[str, Any], rows: Any) -> None:
    """Some rows of a table in memory."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([column[row] for column in columns.values()] for row in rows)


def by_ridge(run: Run, folder: Path) -> dict[str, list[float]]:
    """A ridge on RDKit's descriptors, its strength chosen by leave-one-out error."""
    from gad.training.baselines import DescriptorModel

    del folder
    smiles, values = SETS[run.set].read()
    texts = {
        part: [smiles[row] for row in rows] for part, rows in Split.load(run.split_file).parts()
    }
    train = values[Split.load(run.split_file).train]
    model = DescriptorModel("regression").fit(texts["train"], train)
    return {part: model.predict(texts[part])[:, 0].tolist() for part in ("val", "test")}


def by_trees(run: Run, folder: Path) -> dict[str, list[float]]:
    """Boosted trees on descriptors and counts, chosen on validation, as in the ADMET suite."""
    from benchmarks.admet import Task
    from benchmarks.admet import by_trees as grown

    del folder
    smiles, values = SETS[run.set].read()
    split = Split.load(run.split_file)
    task = Task(run.set, "regression", "MAE", None, list(smiles), np.asarray(values), split.test)
    return {part: told.tolist() for part, told in grown(task, split, run.seed).items()}


METHODS: dict[str, Callable[[Run, Path], dict[str, list[float]]]] = {
    "gad": by_gad,
    "chemprop": chemprop,
    "ridge": by_ridge,
    "trees": by_trees,
}


def call(*words: object, log: Path) -> None:
    """Run a command, its talk into a file."""
    with log.open("a", encoding="utf-8") as file:
        done = subprocess.run([str(w) for w in words], stdout=file, stderr=file, check=False)
    if done.returncode:
        sys.exit(f"{words[0]} {words[1]} failed; the end of {log}:\n{log.read_text()[-2000:]}")


def made_by(method: str) -> str:
    """What a result depends on; a row made by anything else is out of date."""
    if method == "chemprop":
        return f"chemprop {versions(chemprop_python(), 'chemprop')['chemprop']}, defaults"
    if method in ("ridge", "trees"):
        return f"RDKit {version('rdkit')}, scikit-learn {version('scikit-learn')}"
    package = version("graph-anisotropic-diffusion")
    return f"gad {package}, features {FEATURES}, default recipe {default_digest()}"


def default_digest(variant: str = "") -> str:
    """What stands for the default recipe, the bases it may start from, and what a variant sets."""
    parts = [recipe_text(), variant]
    parts += [hashlib.sha256(path.read_bytes()).hexdigest() for path in bases().values()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def recipe_text() -> str:
    """The default recipe where it says something: a setting that is new and unused changes nothing.

    >>> "blend" in recipe_text(), "bond" in recipe_text()
    (True, False)
    """
    said, silent = load_recipe("default").to_dict(), Recipe().to_dict()
    return json.dumps({k: v for k, v in said.items() if v != silent[k]}, sort_keys=True)


# ------------------------------------------------------------------------ one after another


def measure(run: Run, maker: str) -> dict[str, Any]:
    """Train and predict in a process of its own; score the predictions here."""
    save_split(run)
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}
    command = [sys.executable, "-m", "benchmarks.accuracy", "--work", str(run.work), "--one"]
    before, start = processor_seconds(), time.monotonic()
    done = subprocess.run(
        [*command, run.set, str(run.seed), run.method],
        cwd=ROOT, env={**os.environ, **threads}, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    seconds, busy = time.monotonic() - start, processor_seconds() - before
    predicted = json.loads(done.stdout.splitlines()[-1])
    _, values = SETS[run.set].read()
    split = Split.load(run.split_file)
    found = {
        part: score("regression", values[rows], predicted[part], ["y"])["targets"]["y"]
        for part, rows in split.parts()
        if part != "train"
    }
    rejected = sum(part["rejected"] for part in found.values())
    if rejected:
        sys.exit(f"{run.method} left {rejected} molecules of {run.set} without a prediction")
    return {
        "set": run.set,
        "seed": run.seed,
        "method": run.method,
        **{error: round(found["test"][error], 5) for error in ERRORS},
        "val_mae": round(found["val"]["mae"], 5),
        "seconds": round(seconds, 1),
        "processor_seconds": round(busy, 1),
        "made_by": maker,
        "split": hashlib.sha256(run.split_file.read_bytes()).hexdigest()[:12],
        "rows": {part: len(rows) for part, rows in split.parts()},
    }


def processor_seconds() -> float:
    """Processor time of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compare(record: dict[str, Any]) -> dict[str, Any]:
    """Mean errors of each set and method, and ours as a share of the others'."""
    rows = record["rows"]
    errors: dict[str, Any] = {}
    for name in SETS:
        for method in METHODS:
            mine = [r for r in rows if (r["set"], r["method"]) == (name, method)]
            if mine:
                errors.setdefault(name, {})[method] = {
                    "seeds": len(mine),
                    **{e: float(np.mean([r[e] for r in mine])) for e in (*ERRORS, "val_mae")},
                    "mae_std": float(np.std([r["mae"] for r in mine])),
                }
    ratios = {
        error: {
            other: {
                name: round(by["gad"][error] / by[other][error], 4)
                for name, by in errors.items()
                if {"gad", other} <= set(by) and by["gad"]["seeds"] == by[other]["seeds"]
            }
            for other in METHODS
            if other != "gad"
        }
        for error in ERRORS
    }

    def mean(error: str, other: str) -> float | None:
        of = ratios[error][other]
        return round(float(np.mean(list(of.values()))), 4) if set(of) == set(SETS) else None

    return {
        "errors": errors,
        "ratios": ratios,
        "mean_ratio": mean("mae", "chemprop"),
        "mean_ratios": {
            error: {other: mean(error, other) for other in METHODS if other != "gad"}
            for error in ERRORS
        },
    }


def show(console: Console, record: dict[str, Any]) -> None:
    """The table, with the winner of every line by name."""
    table = Table(title="Test error, scaffold split: mean over seeds (± standard deviation)")
    table.add_column("set")
    for column in ("error", *METHODS, "gad / chemprop", "lowest"):
        table.add_column(column, justify="right")
    for name, by in record["errors"].items():
        for error in ERRORS:
            cells = [
                (f"{by[m][error]:.3f}" + (f" ± {by[m]['mae_std']:.3f}" if error == "mae" else ""))
                if m in by
                else "–"
                for m in METHODS
            ]
            ratio = record["ratios"][error]["chemprop"].get(name)
            lowest = min(by, key=lambda m, e=error, b=by: b[m][e])
            table.add_row(
                SETS[name].title if error == "mae" else "",
                error.upper(),
                *cells,
                f"{ratio:.3f}" if ratio else "–",
                lowest if len(by) == len(METHODS) else "–",
                end_section=error == "rmse",
            )
    console.print(table)
    for error in ERRORS:
        for other, ratio in record["mean_ratios"][error].items():
            if ratio is not None:
                verdict = "as accurate or better" if ratio <= 1 else f"{other} is more accurate"
                console.print(
                    f"mean ratio of the three {error.upper()}s, gad / {other}: {ratio:.3f} "
                    f"({verdict})"
                )
    for name, by in record["errors"].items():
        better = [m for m in by if "gad" in by and by[m]["mae"] < by["gad"]["mae"]]
        if better:
            console.print(f"{SETS[name].title}: {' and '.join(better)} beat gad")


def all_versions() -> dict[str, str]:
    ours = ("graph-anisotropic-diffusion", "torch", "rdkit", "scikit-learn", "numpy")
    theirs = versions(chemprop_python(), "chemprop", "torch", "rdkit")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in ours},
        **{f"{k} (chemprop's environment)" if k != "chemprop" else k: v for k, v in theirs.items()},
    }


def save(path: Path, record: dict[str, Any]) -> None:
    """Write all of the record or nothing, with what follows from its rows."""
    order = {name: number for number, name in enumerate((*SETS, *METHODS))}
    record["rows"].sort(key=lambda r: (order[r["set"]], r["seed"], order[r["method"]]))
    record.update(compare(record))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, (json.dumps(record, indent=1) + "\n").encode())


def main() -> None:
    if any(word.startswith("--suite") for word in sys.argv[1:]):
        from benchmarks.admet import main as admet

        admet()
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", default=",".join(SETS), help="separated by commas")
    parser.add_argument("--methods", default=",".join(METHODS), help="separated by commas")
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0")
    parser.add_argument("--resume", action="store_true", help="keep the rows that are up to date")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "accuracy.json")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "accuracy")
    parser.add_argument("--one", nargs=3, metavar=("SET", "SEED", "METHOD"),
                        help="one run in this process, predictions as JSON")  # fmt: skip
    arguments = parser.parse_args()
    if arguments.one:
        name, seed, method = arguments.one
        run = Run(name, int(seed), method, arguments.work)
        print(json.dumps(METHODS[method](run, run.folder(made_by(method)))))
        return
    for given, known in ((arguments.sets, SETS), (arguments.methods, METHODS)):
        if unknown := set(given.split(",")) - set(known):
            parser.error(f"{', '.join(sorted(unknown))}: choose from {', '.join(known)}")
    console = Console(width=120)
    kept: list[dict[str, Any]] = []
    makers = {method: made_by(method) for method in METHODS}
    if arguments.resume and arguments.output.exists():
        kept = json.loads(arguments.output.read_text(encoding="utf-8"))["rows"]
        kept = [row for row in kept if row["made_by"] == makers[row["method"]]]
    elif not arguments.resume:
        shutil.rmtree(arguments.work, ignore_errors=True)
    record = {
        "what": (__doc__ or "").strip().partition("\n")[0],
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "machine": machine(),
        "versions": all_versions(),
        "settings": {
            "split": "scaffold",
            "fractions": list(FRACTIONS),
            "gad": load_recipe("default").to_dict(),
            "chemprop": "its defaults",
            "ridge": "RDKit's 2-D descriptors, strength by leave-one-out error",
            "trees": "boosted trees on those and Morgan counts, best of eight on validation",
        },
        "rows": kept,
    }
    done = {(row["set"], row["seed"], row["method"]) for row in kept}
    for name in arguments.sets.split(","):
        for seed in range(arguments.seeds):
            for method in arguments.methods.split(","):
                if (name, seed, method) not in done:
                    console.print(f"{name}, seed {seed}, {method} …", style="dim")
                    row = measure(Run(name, seed, method, arguments.work), makers[method])
                    kept.append(row)
                    save(arguments.output, record)
                    console.print(f"  MAE {row['mae']:.3f}, {row['seconds']:.0f} s", style="dim")
    save(arguments.output, record)
    show(console, record)
    console.print(f"written to {arguments.output}")


if __name__ == "__main__":
    main()
