"""What bounds are worth: ESOL with its outer labels turned into ``>`` and ``<``.

Labels of training and validation rows above the 85th percentile become ">" that percentile, those
below the 15th "<"; the test rows keep what was measured. A model that learns from the bounds is
compared with one that never sees those rows, seed by seed.

    python -m benchmarks.censored --seeds 5 --out results/censored.json
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from pathlib import Path

import numpy as np
import torch

from gad.data.atomic import write_atomic
from gad.data.known import load_esol
from gad.data.splits import random_split
from gad.machine import machine
from gad.training.folder import code_commit
from gad.training.run import train

LOW, HIGH = 0.15, 0.85


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--epochs", type=int, default=60)
    options.add_argument("--out", type=Path, default=Path("results/censored.json"))
    given = options.parse_args()
    torch.set_num_threads(1)
    runs = [compare(seed, given.epochs) for seed in range(given.seeds)]
    gain = np.array([run["dropped"] - run["bounds"] for run in runs])
    told = {
        "what": "test MAE on ESOL (log mol/L), outer labels as bounds or left out",
        "epochs": given.epochs,
        "runs": runs,
        "mean_difference": float(gain.mean()),
        "standard_error": float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else None,
        "commit": code_commit(),
        "machine": machine(),
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(given.out, (json.dumps(told, indent=1) + "\n").encode())
    print(json.dumps(told, indent=1))


def compare(seed: int, epochs: int) -> dict[str, float]:
    """The test errors of both models on one split."""
    table = load_esol()
    values = table.targets[:, 0]
    low, high = np.quantile(values, [LOW, HIGH])
    split = random_split(list(table.smiles), (0.8, 0.1, 0.1), seed=seed)
    part = {int(row): name for name, rows in split.parts() for row in rows}
    outer = (values > high) | (values < low)
    rows = [
        (smiles, _label(values[i], low, high, part[i]), part[i], bool(outer[i]))
        for i, smiles in enumerate(table.smiles)
    ]
    found = {"seed": seed}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("bounds", "dropped"):
            path = Path(folder) / f"{name}.csv"
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(["smiles", "logS", "part"])
                writer.writerows(
                    row[:3] for row in rows if name == "bounds" or row[2] == "test" or not row[3]
                )
            run = train(
                path, target="logS", split_column="part", out=Path(folder) / name, baselines=False,
                settings={"seed": seed, "epochs": epochs},
            )  # fmt: skip
            found[name] = run.summary["metrics"]["test"]["mean"]["mae"]
    print(found, flush=True)
    return found


def _label(value: float, low: float, high: float, part: str) -> str:
    if part != "test" and value > high:
        return f">{high:.4f}"
    return f"<{low:.4f}" if part != "test" and value < low else f"{value:.4f}"


if __name__ == "__main__":
    main()
