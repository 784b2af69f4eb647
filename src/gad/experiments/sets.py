"""The graphs of an experiment: a known set, one property of it, or its first molecules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gad.data import known
from gad.data.known.graphset import GraphSet
from gad.data.splits import Split

if TYPE_CHECKING:
    from gad.settings.model import Inputs
    from gad.settings.recipe import Recipe


def load_graphs(name: str, prop: str | None, limit: int) -> GraphSet:
    """A known set with one target and at most ``limit`` molecules of each part (0: all)."""
    graphs = known.load(name)
    assert isinstance(graphs, GraphSet)
    if prop is not None:
        graphs = graphs.select(prop)
    return first(graphs, limit) if limit else graphs


def first(graphs: GraphSet, limit: int) -> GraphSet:
    """The first molecules of each part, under a name that says so: it is another set."""
    parts = [rows[:limit] for _, rows in graphs.split.parts()]
    ends = np.cumsum([len(part) for part in parts])
    split = Split(*np.split(np.arange(ends[-1]), ends[:-1]))
    return graphs.take(np.concatenate(parts), split, f"{graphs.name}-{limit}")


def inputs_of(graphs: GraphSet, recipe: Recipe) -> Inputs:
    """What these graphs feed a model, found out on two of them."""
    from gad.data.rows import Source
    from gad.training.dataset import load_dataset

    return load_dataset(Source(first(graphs, 1)), recipe).inputs
