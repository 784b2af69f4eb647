"""Whether intervals and sets keep their promise, and how narrow they are.

One model for each set and split. The rows it was not trained on (validation and test together)
are divided anew, twenty times by seed: one half is to be covered, of the other one part chooses
the difficulty and one calibrates. Reported are means over the divisions: the share of truths
within the nominal 90 %, overall and in each third of the test rows by similarity to the training
set, and the mean width beside that of an interval of one width at equal coverage.

    python -m benchmarks.trust --out results/trust.json
    python -m benchmarks.trust --only esol --only freesolv --set epochs=40

Needs the folder GAD_DATA for all but ``esol``. With ``--runs DIR`` models are kept there, and one
that is there is not trained again.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gad.chem import canonical, parse
from gad.chem.looks import look
from gad.data.atomic import write_atomic
from gad.data.rows import Source, read_rows
from gad.machine import machine
from gad.prediction.difficulty import CANDIDATES, choose_difficulty
from gad.prediction.intervals import quantile
from gad.prediction.predictor import Predictor
from gad.prediction.probabilities import Sets, calibration_error
from gad.prediction.recalibration import Recalibration
from gad.prediction.trust import CALIBRATION, NEAREST
from gad.settings.recipe import parse_setting
from gad.training.folder import code_commit
from gad.training.run import train

LEVEL, DIVISIONS = 0.9, 20
# At which the interval of one width is calibrated too, to read off its width at any coverage.
_LEVELS = (0.8, 0.84, 0.86, 0.88, 0.9, 0.92, 0.94, 0.96)


@dataclass(frozen=True)
class Set:
    """A table under GAD_DATA, how it is split, and how long a model of it is trained."""

    file: str
    target: str
    split: str = "random"
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1)
    epochs: int = 20


# Of small sets more is held out: with 64 rows to calibrate by, the luck of the draw is ± 4 %.
SETS = {
    "esol": Set("moleculenet/delaney.csv.gz", "logp", fractions=(0.6, 0.2, 0.2), epochs=60),
    "freesolv": Set(
        "moleculenet/freesolv.csv.gz", "freesolv", fractions=(0.6, 0.2, 0.2), epochs=80
    ),
    "aqsol": Set("aqsol/aqsol.csv.gz", "logS"),
    "aqsol-scaffold": Set("aqsol/aqsol.csv.gz", "logS", split="scaffold"),
    "bbbp": Set("moleculenet/BBBP.csv.gz", "p_np", fractions=(0.6, 0.2, 0.2)),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", action="append", choices=list(SETS))
    options.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options.add_argument("--ensemble", type=int, default=1)
    options.add_argument("--runs", type=Path)
    options.add_argument("--out", type=Path, default=Path("results/trust.json"))
    given = options.parse_args()
    torch.set_num_threads(1)
    told: dict[str, Any] = {
        "what": f"means over {DIVISIONS} divisions of held-out rows; nominal {LEVEL:.0%}",
        "commit": code_commit(),
        "machine": machine(),
        "sets": {},
    }
    if given.only and given.out.exists():
        told["sets"] = json.loads(given.out.read_text())["sets"]
    with tempfile.TemporaryDirectory() as folder:
        runs = given.runs or Path(folder)
        for name in given.only or SETS:
            settings = dict(parse_setting(text) for text in given.set)
            told["sets"][name] = measured(name, runs / name, settings, given.ensemble)
            print(name, json.dumps(told["sets"][name], indent=1), flush=True)
            given.out.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(given.out, (json.dumps(told, indent=1) + "\n").encode())


def measured(name: str, folder: Path, settings: dict[str, Any], ensemble: int) -> dict[str, Any]:
    """Train a model, unless it is there, and divide the rows that it has not seen."""
    which = SETS[name]
    path = Path(os.environ.get("GAD_DATA", "data")) / which.file
    settings = {"epochs": which.epochs, **settings}
    spent = folder / "seconds.txt"
    if not (folder / "model.gad").exists():
        began = time.process_time()
        train(
            path, target=which.target, split=which.split, fractions=which.fractions,
            settings=settings, ensemble=ensemble, out=folder, baselines=False,
        )  # fmt: skip
        spent.write_text(f"{time.process_time() - began:.1f}")
    summary = json.loads((folder / "summary.json").read_text())
    held = _held(Predictor.load(folder / "model.gad"), path, which.target, folder)
    kind = "regression" if held.residuals is not None else "classification"
    scores = summary["metrics"]["test"]["mean"]
    return {
        "split": which.split,
        "fractions": which.fractions,
        "settings": settings,
        "recipe": {key: summary["recipe"].get(key) for key in ("start", "blend", "seed")},
        "model_commit": summary["commit"],
        "members": summary["members"],
        "train_seconds": float(spent.read_text()),
        "held_out": len(held.similarity),
        "test": {key: scores[key] for key in (("mae",) if kind == "regression" else ("roc_auc",))},
        **(intervals(held) if kind == "regression" else classes(held)),
    }


@dataclass(frozen=True, eq=False)
class Held:
    """Rows that a model has not seen: errors or probabilities, and what is known without labels."""

    evidence: dict[str, np.ndarray]
    similarity: np.ndarray
    residuals: np.ndarray | None
    probabilities: np.ndarray
    labels: np.ndarray


def _held(model: Predictor, path: Path, target: str, folder: Path) -> Held:
    rows = read_rows(Source(path, targets=[target]))
    trust, task = model.trust, model.model.task
    # As the model gave it: calibration is what is measured here.
    parts = {name: p for name, p in model.model.parts.items() if name != CALIBRATION}
    plain = Predictor(replace(model.model, parts=parts))
    # A split counts the rows that could be used.
    listed, rejected = folder / "rejects.csv", set()
    if listed.exists():
        with listed.open(newline="", encoding="utf-8") as file:
            rejected = {int(row["row"]) - 1 for row in csv.DictReader(file)}
    usable = np.array([row for row in range(len(rows.texts)) if row not in rejected])
    split = json.loads((folder / "split.json").read_text())
    at = usable[[*split["val"], *split["test"]]]
    told = plain.predict_detailed([rows.texts[row] for row in at])
    looks = look([canonical(parse(rows.texts[row])) for row in at])
    assert trust.neighbours is not None
    near = trust.neighbours.near(looks.bits, NEAREST)
    # No target here is transformed: units of what is learned are those of the table.
    (known,) = trust.evidence(looks, near, told.values, told.std)
    labels = rows.targets[at]
    regression = task.kind == "regression"
    return Held(
        known,
        near.similarity[:, 0],
        task.residuals(labels, told.values)[:, 0] if regression else None,
        told.values[:, 0],
        labels[:, 0],
    )


def _divisions(rows: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Rows that choose (a quarter), that calibrate (a quarter), and that are to be covered."""
    quarter = rows // 4
    orders = [np.random.default_rng(seed).permutation(rows) for seed in range(DIVISIONS)]
    return [(o[:quarter], o[quarter : 2 * quarter], o[2 * quarter :]) for o in orders]


def intervals(held: Held) -> dict[str, Any]:
    """Coverage and width of intervals that adapt, beside those of one width."""
    errors = held.residuals
    assert errors is not None
    covered, widths, thirds, flat_thirds, kinds = [], [], [], [], []
    flat: list[list[tuple[float, float]]] = []
    tried: list[dict[str, float]] = []
    for first, second, test in _divisions(len(errors)):
        known = {name: column[first] for name, column in held.evidence.items()}
        difficulty, candidates = choose_difficulty(known, errors[first], LEVEL)
        sigma = difficulty(held.evidence, len(errors))
        half = quantile(errors[second] / sigma[second], LEVEL) * sigma[test]
        sizes = np.abs(errors[test])
        covered.append(np.mean(sizes <= half))
        widths.append(2 * half.mean())
        kinds.append(difficulty.kind)
        tried.append(candidates)
        q = {level: quantile(errors[second], level) for level in _LEVELS}
        flat.append([(np.mean(sizes <= q[level]), 2 * q[level]) for level in _LEVELS])
        parts = np.array_split(np.argsort(held.similarity[test], kind="stable"), 3)
        thirds.append([np.mean((sizes <= half)[part]) for part in parts])
        flat_thirds.append([np.mean((sizes <= q[LEVEL])[part]) for part in parts])
    reached, wide = np.mean(flat, axis=0).T
    coverage, width = float(np.mean(covered)), float(np.mean(widths))
    constant = float(np.interp(coverage, reached, wide))
    return {
        "coverage": round(coverage, 4),
        "coverage_by_similarity": np.mean(thirds, axis=0).round(4).tolist(),
        "width": round(width, 4),
        "constant_width_at_equal_coverage": round(constant, 4),
        "width_ratio": round(width / constant, 4),
        "constant_coverage": round(float(reached[_LEVELS.index(LEVEL)]), 4),
        "constant_coverage_by_similarity": np.mean(flat_thirds, axis=0).round(4).tolist(),
        "chosen": {kind: kinds.count(kind) for kind in CANDIDATES if kind in kinds},
        "candidate_widths": {
            kind: round(float(np.mean([each[kind] for each in tried])), 4) for kind in tried[0]
        },
    }


def classes(held: Held) -> dict[str, Any]:
    """Coverage and size of prediction sets class by class, and the calibration error."""
    p, labels = held.probabilities, held.labels
    rows = []
    for first, second, test in _divisions(len(labels)):
        again = Recalibration.fit(p[first], labels[first])
        honest, truth = again(p), labels[test].astype(int)
        sets = Sets.of(honest[second], labels[second], LEVEL, 2)(honest[test])
        right = sets[np.arange(len(test)), truth]
        rows.append(
            [
                right.mean(),
                *(right[truth == k].mean() for k in (0, 1)),
                sets.sum(1).mean(),
                calibration_error(p[test], labels[test]),
                calibration_error(honest[test], labels[test]),
            ]
        )
    mean = np.mean(rows, axis=0).round(4).tolist()
    return {
        "coverage": mean[0],
        "coverage_by_class": mean[1:3],
        "set_size": mean[3],
        "calibration_error_before": mean[4],
        "calibration_error": mean[5],
    }


if __name__ == "__main__":
    main()
