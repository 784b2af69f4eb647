"""Predictions as rows of JSON."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gad.prediction.explanation.explain import Explanation as Why
from gad.prediction.predictor import Prediction
from gad.service.models import Served
from gad.service.schemas import Explanation, ModelCard, Neighbour, Row, TargetInfo
from gad.settings.task import Task

Floats = npt.NDArray[np.float64]


def rows_of(
    model: Served,
    texts: Sequence[str],
    features: Floats | None,
    uncertainty: bool,
    explain: bool,
    neighbours: int,
) -> list[Row]:
    """Predict molecules; each row has its values or, in its own place, why there are none."""
    predictor = model.predictor
    kept = predictor.trust.neighbours is not None
    prediction = predictor.predict_detailed(
        texts,
        features=features,
        uncertainty=uncertainty,
        neighbours=neighbours if kept else 0,
    )
    task = predictor.model.task
    decided = [column.tolist() for column in task.decide(prediction.values)]
    rows = [
        Row.model_construct(
            smiles=text,
            values=dict(zip(task.names, values, strict=True)),
            warning=prediction.warnings.get(place),
            error=prediction.rejects.get(place),
        )
        for place, (text, *values) in enumerate(zip(texts, *decided, strict=True))
    ]
    _add_probabilities(rows, task, prediction)
    if uncertainty:
        _add_uncertainty(rows, task, prediction)
    if neighbours:
        _add_neighbours(rows, task, prediction)
    if explain:
        for row, found in zip(rows, predictor.explain(texts, features=features), strict=True):
            row.explanation = None if found is None or row.error else _explanation(found)
    return rows


def _add_probabilities(rows: list[Row], task: Task, prediction: Prediction) -> None:
    """Of the classes that have names; a target of 0 and 1 has its probability as its value."""
    for target, own in task.each(prediction.values):
        if target.classes:
            each = own if own.ndim == 2 else np.stack([1 - own, own], axis=1)
            for row, shares in zip(rows, each.tolist(), strict=True):
                row.probabilities = row.probabilities or {}
                row.probabilities[target.name] = dict(zip(target.classes, shares, strict=True))


def _add_uncertainty(rows: list[Row], task: Task, prediction: Prediction) -> None:
    names = task.names
    for place, row in enumerate(rows):
        row.lower = dict(zip(names, prediction.lower[place].tolist(), strict=True))
        row.upper = dict(zip(names, prediction.upper[place].tolist(), strict=True))
        if prediction.std is not None:
            firsts = (prediction.std[place, span.start].item() for span in task.spans)
            row.std = dict(zip(names, firsts, strict=True))
        if prediction.domain is not None:
            row.domain = prediction.domain[place] or None
        if prediction.similarity is not None:
            row.similarity = prediction.similarity[place].item()
        if prediction.sets is not None:
            sets = zip(names, prediction.sets[place], strict=True)
            row.sets = {name: list(found) for name, found in sets if found is not None}


def _add_neighbours(rows: list[Row], task: Task, prediction: Prediction) -> None:
    for row, near in zip(rows, prediction.neighbours or [[]] * len(rows), strict=True):
        row.neighbours = [
            Neighbour.model_construct(
                smiles=one.smiles,
                similarity=one.similarity,
                values=dict(zip(task.names, one.values, strict=True)),
            )
            for one in near
        ]


def _explanation(found: Why) -> Explanation:
    return Explanation.model_construct(
        prediction=found.prediction.tolist(),
        baseline=found.baseline.tolist(),
        atoms=found.atoms.tolist(),
        bonds=None if found.bonds is None else found.bonds.tolist(),
        whole=found.whole.tolist(),
    )


def targets_of(task: Task) -> list[TargetInfo]:
    """What is predicted."""
    return [
        TargetInfo.model_construct(
            name=target.name, kind=target.kind, unit=target.unit, classes=list(target.classes)
        )
        for target in task.targets
    ]


def card_of(model: Served) -> ModelCard:
    """A model as GET /v1/models tells of it."""
    inner = model.predictor.model
    return ModelCard.model_construct(
        name=model.name,
        targets=targets_of(inner.task),
        features=list(inner.features),
        card=model.card,
    )
