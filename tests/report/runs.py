"""Summaries of runs that never were, for the tests of the report."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from gad.prediction.intervals import coverage_of_partitions, quantiles
from gad.prediction.metrics import score
from gad.report.summary import RunSummary

NAN = math.nan


def regression(better: float = 0.5, **changes) -> RunSummary:
    """A run whose error is ``better`` times that of its ridge."""
    rng = np.random.default_rng(0)
    y = rng.normal(-3, 2, 300)
    noise = rng.normal(size=300)
    parts = {"train": slice(0, 200), "val": slice(200, 240), "test": slice(240, 300)}

    def scores(p):
        return {k: score("regression", y[s], p[s], ["logS"]) for k, s in parts.items()}

    p = y + 0.8 * better * noise
    residuals = p[240:] - y[240:]
    told = {
        "title": "solubility.csv",
        "task": "regression",
        "targets": ["logS"],
        "units": ["log mol/L"],
        "metrics": scores(p),
        "baselines": {
            "mean": scores(np.full(300, y[:200].mean())),
            "ridge": scores(y + 0.8 * noise),
        },
        "parity": {"logS": {"true": y[240:].tolist(), "pred": p[240:].tolist()}},
        "curve": [
            {
                "epoch": e,
                "train_loss": 2 / (e + 1),
                "val_loss": 2.2 / (e + 1) + 0.01 * e,
                "lr": 1e-3,
            }
            for e in range(30)
        ],
        "best_epoch": 13,
        "reach": [[0.0, 0.5, 1.0, 3.0], [1.0, 2.0, 4.0, 8.0]],
        "worst": [{"smiles": "CCO", "target": "logS", "true": 1.0, "pred": -2.5}],
        "rows": {"read": 302, "used": 300, "rejected": 2, "train": 200, "val": 40, "test": 60},
        "rejects": [
            {"row": 17, "smiles": "CF(C)C", "reason": "Explicit valence for atom # 1 F, 3"},
            {"row": 90, "smiles": "C(", "reason": "unclosed parenthesis"},
        ],
        "messages": ["The column 'smiles' was taken for the molecules."],
        "recipe": {
            "layers": 4,
            "aggregators": ["mean", "dx"],
            "edges": True,
            "learning_rate": 1e-3,
        },
        "seed": 7,
        "fingerprint": "0123abcd",
        "versions": {"torch": "2.13.0"},
        "commit": "abc123",
        "machine": "Linux, 2 cores",
        "minutes": 12.34,
        "parameters": 101234,
        "uncertainty": {
            **coverage_of_partitions(residuals),
            "q": {"logS": float(quantiles(residuals)[0])},
            "split": "scaffold",
        },
        "split": "scaffold",
        "bootstrap": {"metric": "mae", "level": 0.95, "targets": {"logS": [0.28, 0.4]}},
        "model": "runs/1/model.gad",
        "report": "runs/1/report.html",
    }
    return RunSummary.from_dict({**told, **changes})


def classification(targets: int = 8, **changes) -> RunSummary:
    return RunSummary.from_dict({**_classification(targets), **changes})


@cache
def _classification(targets: int) -> dict[str, object]:
    rng = np.random.default_rng(1)
    names = [f"assay {k}" for k in range(targets)]
    y = (rng.random((200, targets)) < 0.3).astype(float)
    p = 1 / (1 + np.exp(-(2 * y - 1 + rng.normal(size=y.shape))))
    y[rng.random(y.shape) < 0.2] = NAN

    def scores(p):
        return {"test": score("classification", y, p, names)}

    return {
        "title": "tox.csv",
        "task": "classification",
        "targets": names,
        "metrics": scores(p),
        "baselines": {
            "mean": scores(np.full_like(p, 0.3)),
            "ridge": scores(np.sqrt(p) * 0.5 + 0.2),
        },
        "parity": {
            name: {"true": y[:, k].tolist(), "pred": p[:, k].tolist()}
            for k, name in enumerate(names)
        },
    }
