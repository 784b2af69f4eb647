"""Predicting and evaluating files: one streaming core, in order, on all cores, resumable."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from gad.data import known
from gad.data.known.graphset import GraphSet
from gad.data.rows import Source, read_rows
from gad.data.store.graphs import pack_graphs
from gad.data.tables import Chunk, Table, TableError, open_table
from gad.data.tables.columns import choose_columns, numbers
from gad.data.tables.parts import open_parts
from gad.data.tables.writers import Reject, RejectsWriter, forget_rejects
from gad.machine import cores
from gad.prediction.metrics import score
from gad.prediction.predictor import Prediction, Predictor
from gad.reporter import Reporter
from gad.settings.model import preparation_of

_CHUNK = 2048
# A process takes seconds to start: so many chunks pay for it.
_CHUNKS_FOR_PROCESSES = 12


@dataclass(frozen=True)
class Job:
    """What a process needs to predict a chunk of rows."""

    model: str
    stamp: str
    smiles: str | None
    features: tuple[str, ...]
    embeddings: bool


def predict_file(
    model: str | Path,
    data: str | Path,
    output: str | Path,
    *,
    smiles: str | None = None,
    workers: int | None = None,
    uncertainty: bool = False,
    embeddings: bool = False,
    resume: bool = False,
    reporter: Reporter | None = None,
) -> dict[str, Any]:
    """Predict a file of molecules of any length into another file.

    ``output`` gets every input row in input order, the input's own columns first, then
    ``<target>_pred`` and, with ``uncertainty``, ``<target>_std``, ``<target>_lower`` and
    ``<target>_upper``, then ``reject_reason``. It appears whole or not at all; an interrupted run
    goes on with ``resume``. Rejected rows are also listed in ``rejects.csv`` beside it.
    """
    reporter = reporter or Reporter()
    predictor = Predictor.load(model)
    table = open_table(data)
    columns, messages = choose_columns(
        table, smiles=smiles, features=predictor.model.features, need_targets=False
    )
    for text in messages:
        reporter.message(text)
    added = _added_names(predictor, uncertainty, embeddings)
    if clash := [name for name in added if name in table.names]:
        raise TableError(f"{table.path} already has a column {clash[0]!r}: rename or remove it")
    stamp = _digest(model)
    job = Job(str(model), stamp, columns.smiles, columns.features, embeddings)
    identity = {
        "input": table.fingerprint(),
        "model": stamp,
        "settings": repr((columns.smiles, uncertainty, embeddings)),
    }
    parts = open_parts(output, (*table.names, *added), identity, table.types, resume=resume)
    done, unseen = parts.done_rows, 0
    for chunk, prediction in _predictions(job, table, done, workers):
        parts.write(
            {**chunk.columns, **_added_columns(predictor, prediction, uncertainty)},
            rejects=_rejects(chunk, prediction, columns.smiles),
        )
        unseen += len(prediction.unseen)
        done += len(chunk)
        reporter.progress("predicting", done, table.rows)
    rejected = list(parts.rejects())
    parts.commit()
    path = Path(output).parent / "rejects.csv"
    forget_rejects(path)
    if rejected:
        with RejectsWriter(path) as writer:
            for reject in rejected:
                writer.add(*reject)
            writer.commit()
    if unseen:
        reporter.message(f"{unseen} molecules have elements the model has no name for")
    return {
        "output": str(output),
        "rows": done,
        "predicted": done - len(rejected),
        "rejected": len(rejected),
        "rejects": str(path) if rejected else None,
        "unseen_elements": unseen,
        "targets": list(predictor.targets),
        "columns": list(added),
    }


def _predictions(
    job: Job, table: Table, start: int, workers: int | None
) -> Iterator[tuple[Chunk, Prediction]]:
    """Chunks with their predictions, in order; in processes once the file proves long."""
    chunks = table.chunks(_CHUNK, start)
    enough = _CHUNKS_FOR_PROCESSES if workers is None else 3
    first = list(islice(chunks, enough))
    jobs = workers if workers is not None else cores()
    if jobs <= 1 or len(first) < enough:
        for chunk in chain(first, chunks):
            yield predict_chunk(job, chunk)
        return
    from joblib import Parallel, delayed

    tasks = (delayed(predict_chunk)(job, chunk) for chunk in chain(first, chunks))
    yield from Parallel(n_jobs=jobs, return_as="generator", batch_size=1, pre_dispatch="2*n_jobs")(
        tasks
    )


def predict_chunk(job: Job, chunk: Chunk) -> tuple[Chunk, Prediction]:
    """Predict the rows of a chunk; what its reader rejected stays rejected."""
    predictor = _loaded(job.model, job.stamp)
    texts: Sequence[str] = (chunk.blocks or []) if job.smiles is None else chunk.texts(job.smiles)
    features = np.zeros((len(chunk), len(job.features)))
    for place, name in enumerate(job.features):
        features[:, place], _ = numbers(chunk.columns[name], name)
    prediction = predictor.explain(
        texts, features=features, blocks=job.smiles is None, embeddings=job.embeddings
    )
    for row, why in chunk.rejects.items():
        prediction.rejects[row] = why
        for array in (prediction.values, prediction.std, prediction.lower, prediction.upper):
            array[row] = np.nan
    return chunk, prediction


@lru_cache(maxsize=2)
def _loaded(model: str, stamp: str) -> Predictor:
    del stamp  # another file under the same name is another model
    return Predictor.load(model)


def _digest(path: str | Path) -> str:
    with Path(path).open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _added_names(predictor: Predictor, uncertainty: bool, embeddings: bool) -> list[str]:
    names = []
    for target in predictor.targets:
        names.append(f"{target}_pred")
        if uncertainty:
            names.append(f"{target}_std")
        if uncertainty and predictor.model.task.is_regression:
            names += [f"{target}_lower", f"{target}_upper"]
    if embeddings:
        width = predictor.model.members[0].channels + predictor.model.inputs.graph_values
        names += [f"embedding_{i}" for i in range(width)]
    return [*names, "reject_reason"]


def _added_columns(
    predictor: Predictor, prediction: Prediction, uncertainty: bool
) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for place, target in enumerate(predictor.targets):
        columns[f"{target}_pred"] = prediction.values[:, place].astype(np.float32)
        if uncertainty:
            columns[f"{target}_std"] = prediction.std[:, place].astype(np.float32)
        if uncertainty and predictor.model.task.is_regression:
            columns[f"{target}_lower"] = prediction.lower[:, place].astype(np.float32)
            columns[f"{target}_upper"] = prediction.upper[:, place].astype(np.float32)
    if prediction.embeddings is not None:
        for place, column in enumerate(prediction.embeddings.T):
            columns[f"embedding_{place}"] = column.astype(np.float32)
    count = len(prediction.values)
    columns["reject_reason"] = [prediction.rejects.get(row, "") for row in range(count)]
    return columns


def _rejects(chunk: Chunk, prediction: Prediction, smiles: str | None) -> list[Reject]:
    texts = chunk.texts(smiles) if smiles is not None else [""] * len(chunk)
    return [
        Reject(chunk.start + row + 1, texts[row], why)
        for row, why in sorted(prediction.rejects.items())
    ]


def evaluate_file(
    model: str | Path,
    data: str | Path,
    *,
    smiles: str | None = None,
    targets: Sequence[str] | None = None,
    reporter: Reporter | None = None,
) -> dict[str, Any]:
    """Compare a model's predictions with the labels of a file, or of a known set's test part."""
    reporter = reporter or Reporter()
    predictor = Predictor.load(model)
    task = predictor.model.task
    name = str(data)
    if predictor.model.preparation is None:
        graphs = known.load(name)
        if not isinstance(graphs, GraphSet):
            raise ValueError(f"this model was trained on graphs, and {name} has none")
        graphs = graphs.select(*task.names)
        packed = pack_graphs(graphs, preparation_of(predictor.model.recipe))
        values = predictor.run(packed)[0].mean(0).numpy()
        metrics = {
            part: score(task.kind, graphs.targets[rows], values[rows], task.names)
            for part, rows in graphs.split.parts()
        }
        return {"rows": len(graphs), "rejected": 0, "metrics": metrics, "targets": list(task.names)}
    if name.lower() in known.KNOWN and not Path(name).exists():
        table = known.load(name)
        if isinstance(table, GraphSet):
            raise ValueError(f"{name} is a set of graphs without SMILES; this model reads SMILES")
        texts, labels, blocks, rejects = list(table.smiles), table.targets, False, {}
        features = np.zeros((len(texts), 0))
    else:
        wanted = targets if targets else task.names
        rows = read_rows(Source(data, smiles, wanted, None, predictor.model.features))
        for text in rows.messages:
            reporter.message(text)
        texts, labels, blocks = rows.texts, rows.targets, rows.blocks
        rejects, features = rows.rejects, rows.features
    parts = []
    for start in range(0, len(texts), _CHUNK):
        span = slice(start, start + _CHUNK)
        parts.append(predictor.explain(texts[span], features=features[span], blocks=blocks))
        reporter.progress("evaluating", min(start + _CHUNK, len(texts)), len(texts))
        rejects.update({start + row: why for row, why in parts[-1].rejects.items()})
    values = np.concatenate([p.values for p in parts])
    keep = np.ones(len(values), dtype=bool)
    keep[list(rejects)] = False
    result: dict[str, Any] = {
        "rows": len(values),
        "rejected": len(rejects),
        "targets": list(task.names),
        "metrics": {"all": score(task.kind, labels[keep], values[keep], task.names)},
    }
    lower = np.concatenate([p.lower for p in parts])[keep]
    upper = np.concatenate([p.upper for p in parts])[keep]
    there = np.isfinite(labels[keep]) & np.isfinite(lower)
    if there.any():
        inside = (labels[keep] >= lower) & (labels[keep] <= upper)
        result["coverage"] = float(inside[there].mean())
    return result
