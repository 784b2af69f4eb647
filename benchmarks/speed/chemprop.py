"""chemprop's side: a D-MPNN in chemprop's own training loop, run by chemprop's own environment.

The parts and settings are those of ``chemprop train``; only the width is chosen, so that the model
has as many parameters as ours. Molecules are featurised once and kept, as chemprop does by default.
"""

from __future__ import annotations

import csv
import gzip
import logging
import os
import time
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from chemprop.data import MoleculeDatapoint, MoleculeDataset, build_dataloader
from chemprop.models import MPNN, save_model
from chemprop.nn import BondMessagePassing, NormAggregation, RegressionFFN
from lightning import pytorch as pl

from benchmarks.speed.workers import serve, steady

TARGET = "logP_SA_cycle_normalized"
DEFAULT_WIDTH = 300


@lru_cache
def molecules(count: int) -> MoleculeDataset:
    """The first molecules of the training part, featurised."""
    path = Path(os.environ["GAD_DATA"]) / "zinc12k" / "zinc12k_smiles.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == "train"][:count]
    points = [MoleculeDatapoint.from_smi(r["smiles"], [float(r[TARGET])]) for r in rows]
    dataset = MoleculeDataset(points)
    dataset.normalize_targets()
    dataset.cache = True
    return dataset


def of_width(width: int) -> MPNN:
    """A D-MPNN as the command line builds it, of any hidden width (300 by default)."""
    return MPNN(
        BondMessagePassing(d_h=width),
        NormAggregation(),
        RegressionFFN(input_dim=width, hidden_dim=width),
    )


def size(model: MPNN) -> int:
    """Trainable parameters."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


@lru_cache
def model_of(parameters: int, compiled: bool = False) -> MPNN:
    """The D-MPNN whose number of parameters is the nearest; its message passing compiled or not."""
    torch.manual_seed(0)
    width = 1
    while size(of_width(width)) < parameters:
        width += 1
    found = [of_width(w) for w in (width - 1, width)]
    model = min(found, key=lambda m: abs(size(m) - parameters))
    if compiled:
        model.message_passing.compile(dynamic=True)
    return model


class Stamps(pl.Callback):
    """Remembers when each batch was done."""

    def __init__(self) -> None:
        self.stamps: list[float] = []

    def on_train_batch_end(self, *_: Any) -> None:
        self.stamps.append(time.perf_counter())


def answer_info(parameters: int, molecules_used: int) -> dict[str, Any]:
    model = model_of(parameters)
    molecules(molecules_used)
    return {"parameters": size(model), "width": model.message_passing.output_dim}


def answer_fit(
    batch: int, batches: int, parameters: int, molecules_used: int, compiled: bool = False
) -> dict[str, Any]:
    """The speed of its training loop, once it runs steadily."""
    stamps = Stamps()
    trainer = pl.Trainer(
        accelerator="cpu", max_epochs=1, limit_train_batches=min(batches, molecules_used // batch),
        logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[stamps],
    )  # fmt: skip
    loader = build_dataloader(molecules(molecules_used), batch, num_workers=0)
    trainer.fit(model_of(parameters, compiled), loader)
    return {"rate": steady(stamps.stamps, batch)}


def answer_model(path: str, parameters: int | None) -> dict[str, Any]:
    """A model file for ``chemprop predict``, of its default width where no size is given."""
    model = of_width(DEFAULT_WIDTH) if parameters is None else model_of(parameters)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    save_model(path, model, [TARGET])
    return {"parameters": size(model)}


def main() -> None:
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    warnings.filterwarnings("ignore")
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    serve({"info": answer_info, "fit": answer_fit, "model": answer_model})


if __name__ == "__main__":
    main()
