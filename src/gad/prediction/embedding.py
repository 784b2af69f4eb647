"""Embeddings of a table of molecules, for other people's models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gad.data.known.places import cache_folder
from gad.data.tables.base import digest
from gad.nn.model import NoHead
from gad.prediction.bases import model_path
from gad.prediction.engines import LocalEngine, Request
from gad.prediction.engines.base import PredictionSummary
from gad.prediction.model_file import Model, load_model
from gad.reporter import Reporter
from gad.settings.task import Scale, Task


def headless(model: Model) -> Model:
    """The same encoder, with nothing to predict: as a base is."""
    members = list(model.members)
    for member in members:
        member.head = NoHead()
    scales = [Scale(scale.labels[:, :0], scale.values) for scale in model.scales]
    return replace(model, members=members, scales=scales, task=Task(()), parts={})


def embed_file(
    data: str | Path,
    output: str | Path,
    *,
    model: str | Path = "base",
    smiles: str | None = None,
    workers: int | None = None,
    resume: bool = False,
    accelerator: str = "cpu",
    reporter: Reporter | None = None,
) -> PredictionSummary:
    """Write every row of a table with its embedding, ``embedding_0`` and so on.

    Args:
        data: a table of molecules.
        output: where the rows go, in order; CSV, TSV or Parquet.
        model: ``base``, or a model file.
        smiles: the column of the molecules, guessed if left out.
        workers: processes.
        resume: go on with an interrupted run; one that is finished stays as it is.
        accelerator: where the network runs.
        reporter: is told how it goes.
    """
    path = _encoder(model_path(model))
    request = Request(
        path, data, output, smiles, embeddings=True, resume=resume, accelerator=accelerator
    )
    return LocalEngine(workers).predict(request, reporter or Reporter())


def _encoder(path: Path) -> Path:
    """The file of a model's encoder: its own if it is a base, else one in the cache folder.

    It is written once, since a run that is to go on looks at its bytes.
    """
    model = load_model(path)
    if not model.task.targets:
        return path
    kept = cache_folder() / "encoders" / f"{digest(path)}.gad"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        headless(model).save(kept)
    return kept
