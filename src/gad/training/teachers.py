"""Distillation: labels mixed with what models say that were trained on the same rows.

A model learns y' = (1 − s) y + s ȳ, with y the label and ȳ the mean prediction of its teachers, on
training rows only; validation and test rows keep their labels. What the teachers disagree about
averages out in ȳ, so one model learns what several together know.

A teacher that had been trained on rows which are validation or test rows here would hand them on.
So teachers are taken for data only that come with their own split, and by models of just these.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from gad.data import known
from gad.data.known.graphset import GraphSet
from gad.data.splits import Split
from gad.data.store.graphs import pack_graphs
from gad.prediction.predictor import Predictor
from gad.settings.model import preparation_of
from gad.settings.recipe import Recipe
from gad.training.dataset import Dataset

Floats = npt.NDArray[np.float64]


def taught(recipe: Recipe, dataset: Dataset, split: Split) -> Floats:
    """The labels to learn from [G, T]: those of training rows mixed with what teachers say."""
    where, share = recipe.training.teachers, recipe.training.teacher_share
    if not where:
        return dataset.targets
    graphs = _graphs(dataset)
    some = graphs.take(split.train)
    said = np.mean([_said(file, some, dataset) for file in _files(where)], axis=0)
    targets: Floats = dataset.targets.copy()
    targets[split.train] = (1 - share) * targets[split.train] + share * said
    return targets


def _files(where: str) -> list[Path]:
    """A model file, or all of a folder."""
    path = Path(where)
    files = sorted(path.glob("*.gad")) if path.is_dir() else [path]
    if not files or not all(file.is_file() for file in files):
        raise ValueError(f"teachers = {where!r} is neither a model file nor a folder with some")
    return files


def _graphs(dataset: Dataset) -> GraphSet:
    """The graphs of a known set, with its own split."""
    data = dataset.source.data
    graphs = known.load(data) if isinstance(data, str) and dataset.fixed_split else data
    if not isinstance(graphs, GraphSet):
        raise ValueError(
            "teachers need graphs that come with their own split (zinc, qm9): of other data nobody "
            "can tell which rows a teacher has seen"
        )
    return graphs


def _said(file: Path, graphs: GraphSet, dataset: Dataset) -> Floats:
    """The predictions of one teacher, in units of the labels [n, T]."""
    teacher = Predictor.load(file)
    model = teacher.model
    seen = model.notes.get("data", {}).get("fingerprint")
    if seen != dataset.fingerprint or model.task.names != dataset.target_names:
        raise ValueError(f"{file} was not trained on {dataset.title} as it is here")
    packed = pack_graphs(graphs, preparation_of(model.recipe))
    values: Floats = teacher.trust.recalibrated(teacher.run(packed)[0].mean(0).numpy())
    return values
