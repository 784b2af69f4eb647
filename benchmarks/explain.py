"""What explanations are worth: a model of Crippen's logP, and his contributions of atoms.

A model is trained on the logP of ESOL's molecules after Wildman and Crippen, which is a sum of
contributions of atoms, and never sees those. On held-out molecules the contributions that
``explain`` gives are compared with Crippen's own (hydrogens added to their atom). Then drug-like
molecules of ZINC-12k are explained, and processor seconds counted.

    python -m benchmarks.explain --out results/explain.json
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from rdkit import Chem
from rdkit.Chem import Crippen

import gad
from benchmarks.attributions import Encoded, deleting_from_the_truth
from gad.data.atomic import write_atomic
from gad.data.known import load_esol
from gad.machine import machine
from gad.training.folder import code_commit
from tests.reference.crippen import contributions

MOLECULES = 100


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--epochs", type=int, default=30)
    options.add_argument("--out", type=Path, default=Path("results/explain.json"))
    given = options.parse_args()
    torch.set_num_threads(1)
    smiles = list(load_esol().smiles)
    with tempfile.TemporaryDirectory() as folder:
        labels = np.array([Crippen.MolLogP(Chem.MolFromSmiles(text)) for text in smiles])
        run = gad.train(
            (smiles, labels), out=f"{folder}/run", baselines=False,
            settings={"descriptors": False, "seed": given.seed, "epochs": given.epochs},
        )  # fmt: skip
        split = json.loads((run.directory / "split.json").read_text())
        run.model.model.save(f"{folder}/model.gad")
        told = {
            "what": "contributions of atoms to Crippen's logP, on ESOL's held-out molecules",
            "seed": given.seed,
            "epochs": given.epochs,
            "test_mae": run.summary["metrics"]["test"]["mean"]["mae"],
            **compare(run.model, [smiles[row] for row in split["test"]]),
            "mean_pearson_r_of_others": others(
                run.model, *([smiles[row] for row in split[part]] for part in ("test", "train"))
            ),
            **cost(f"{folder}/model.gad"),
            "commit": code_commit(),
            "machine": machine(),
        }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(given.out, (json.dumps(told, indent=1) + "\n").encode())
    print(json.dumps(told, indent=1))


def compare(model: gad.prediction.predictor.Predictor, texts: list[str]) -> dict[str, float]:
    """Correlations with Crippen's own contributions, and how exactly contributions add up."""
    scale, whys = float(model.model.scales[0].labels[1, 0]), model.explain(texts)
    sums = np.array([why.baseline + why.atoms.sum(0) + why.whole - why.prediction for why in whys])
    before = np.array([why.remainder for why in whys])
    found = correlations(texts, [why.atoms[:, 0] for why in whys])
    return {
        "molecules": len(found),
        "mean_pearson_r": float(np.mean(found)),
        "median_pearson_r": float(np.median(found)),
        "fidelity": float(model.contributions.fidelity[0]),
        "largest_remainder_before_correction_in_scales": float(abs(before).max() / scale),
        "largest_remainder_in_scales": float(abs(sums).max() / scale),
        "mean_particular_in_scales": float(np.mean([abs(w.particular[0]) for w in whys]) / scale),
    }


def others(
    model: gad.prediction.predictor.Predictor, texts: list[str], training: list[str]
) -> dict[str, float]:
    """The same correlation of other methods."""
    encoded = Encoded(model, texts, training)
    found = {
        "integrated gradients from the mean atom": encoded.integrated_gradients(),
        "gradient at the middle": encoded.integrated_gradients(steps=1),
        "replacing an atom by the mean atom": encoded.replacing(),
        "deleting atoms, Crippen's own function": deleting_from_the_truth(texts),
    }
    return {name: float(np.mean(correlations(texts, own))) for name, own in found.items()}


def correlations(texts: list[str], found: list[np.ndarray]) -> list[float]:
    """Of each molecule with more than two atoms, not all of them alike; 0 for a constant."""
    told = []
    for text, own in zip(texts, found, strict=True):
        truth = contributions(text)
        if len(truth) > 2 and truth.std() > 1e-6:
            told.append(float(np.corrcoef(own, truth)[0, 1]) if own.std() > 1e-9 else 0.0)
    return told


def cost(path: str) -> dict[str, float]:
    """Processor seconds for a hundred drug-like molecules, the model's opening included."""
    table = Path(os.environ["GAD_DATA"]) / "zinc12k" / "zinc12k_smiles.csv.gz"
    with gzip.open(table, "rt", newline="") as file:
        rows = [row["smiles"] for _, row in zip(range(MOLECULES), csv.DictReader(file))]  # noqa: B905
    began = time.process_time()
    found = gad.load(path).explain(rows)
    seconds = time.process_time() - began
    assert all(why is not None for why in found)
    return {"drug_like": len(rows), "cpu_seconds": seconds}


if __name__ == "__main__":
    main()
