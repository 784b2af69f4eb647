"""A model's predictions compared with labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from gad.data import known
from gad.data.known.graphset import GraphSet
from gad.data.rows import Rows, Source, read_rows, rows_of_known
from gad.data.store.graphs import pack_graphs
from gad.prediction.metrics import Scores, score_task
from gad.prediction.predictor import Predictor
from gad.reporter import Reporter
from gad.settings.model import preparation_of

_CHUNK = 2048


@dataclass(frozen=True)
class Evaluation:
    """How good a model is on labelled rows.

    Attributes:
        rows, rejected: how many there are.
        targets: what is predicted.
        metrics: part of the data → its scores; ``all`` where there are no parts.
        coverage: the share of labels within their interval; None where there are no intervals.
    """

    rows: int
    rejected: int
    targets: list[str]
    metrics: dict[str, Scores]
    coverage: float | None = None

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it; what there is not is left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def evaluate_file(
    model: str | Path,
    data: str | Path,
    *,
    smiles: str | None = None,
    targets: Sequence[str] | None = None,
    reporter: Reporter | None = None,
) -> Evaluation:
    """Compare a model's predictions with the labels of a file, or of a known set's test part."""
    reporter = reporter or Reporter()
    predictor = Predictor.load(model)
    task = predictor.model.task
    name = str(data)
    if predictor.model.preparation is None:
        return _of_graphs(predictor, name)
    if name.lower() in known.KNOWN and not Path(name).exists():
        table = known.load(name)
        if isinstance(table, GraphSet):
            raise ValueError(f"{name} is a set of graphs without SMILES; this model reads SMILES")
        rows = rows_of_known(table)
    else:
        rows = read_rows(
            Source(data, smiles, targets or task.names, None, predictor.model.features),
            classes=[target.classes for target in task.targets],
        )
    for text in rows.messages:
        reporter.message(text)
    return _of_rows(predictor, rows, reporter)


def _of_graphs(predictor: Predictor, name: str) -> Evaluation:
    """The parts of a known set, whose own graphs the model was trained on."""
    task = predictor.model.task
    graphs = known.load(name)
    if not isinstance(graphs, GraphSet):
        raise ValueError(f"this model was trained on graphs, and {name} has none")
    graphs = graphs.select(*task.names)
    packed = pack_graphs(graphs, preparation_of(predictor.model.recipe))
    values = predictor.trust.recalibrated(predictor.run(packed)[0].mean(0).numpy())
    metrics = {
        part: score_task(task, graphs.targets[rows], values[rows])
        for part, rows in graphs.split.parts()
    }
    return Evaluation(len(graphs), 0, list(task.names), metrics)


def _of_rows(predictor: Predictor, rows: Rows, reporter: Reporter) -> Evaluation:
    task, rejects = predictor.model.task, dict(rows.rejects)
    parts = []
    for start in range(0, len(rows.texts), _CHUNK):
        span = slice(start, start + _CHUNK)
        parts.append(
            predictor.predict_detailed(
                rows.texts[span],
                features=rows.features[span],
                blocks=rows.blocks,
                uncertainty=True,
            )
        )
        reporter.progress("evaluating", min(start + _CHUNK, len(rows.texts)), len(rows.texts))
        rejects.update({start + row: why for row, why in parts[-1].rejects.items()})
    keep = np.ones(len(rows.texts), dtype=bool)
    keep[list(rejects)] = False
    values, lower, upper = (
        np.concatenate([getattr(part, name) for part in parts])[keep]
        for name in ("values", "lower", "upper")
    )
    labels = rows.targets[keep]
    there = np.isfinite(labels) & np.isfinite(lower)
    bounds = np.zeros(labels.shape, np.int8) if rows.bounds is None else rows.bounds[keep]
    # A bound is covered where the interval reaches what it allows.
    inside = ((labels >= lower) | (bounds < 0)) & ((labels <= upper) | (bounds > 0))
    return Evaluation(
        rows=len(rows.texts),
        rejected=len(rejects),
        targets=list(task.names),
        metrics={"all": score_task(task, labels, values, bounds=bounds)},
        coverage=float(inside[there].mean()) if there.any() else None,
    )
