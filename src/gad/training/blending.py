"""Fitting what stands beside a network, and choosing how much each of them counts."""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gad.data.splits import Split
from gad.prediction.blend import PART, Blend, Line, Trees, columns, to_part
from gad.prediction.model_file import Model
from gad.prediction.predictor import Predictor
from gad.reporter import Reporter
from gad.settings.task import Scale, Target, Task
from gad.training.dataset import Dataset

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

# Fewer labels teach trees nothing, and fewer held-out ones choose no weights.
_LEAST, _LEAST_HELD_OUT = 20, 8
_STEPS, _DEPTH = 300, 8
# Shares that are chosen without evidence: network, trees, line.
_PRIOR = np.array([0.5, 0.35, 0.15])
_FIRM = 3.0
_GRID = [
    np.array([a, b, 10 - a - b]) / 10
    for a, b in itertools.product(range(11), repeat=2)
    if a + b <= 10
]
# A column in which fewer training molecules have anything is noise.
_SEEN = 3


@dataclass(frozen=True, eq=False)
class _Labels:
    """One target's exact labels among some rows: places, what is learned, weights."""

    rows: Indices
    learned: Floats
    weights: Floats

    @property
    def enough(self) -> bool:
        return len(self.rows) >= _LEAST and len(np.unique(self.learned)) > 1


def with_blend(
    model: Model, dataset: Dataset, splits: list[Split], folds: list[int], reporter: Reporter
) -> Model:
    """The model with a blend for each member, if its recipe wants one.

    ``folds`` says which split each member was trained on. Graphs of a known set have none: nothing
    but the graph is known of them.
    """
    if not model.recipe.training.blend or dataset.preparation is None:
        return model
    reporter.message("fitting trees and a linear model beside the network")
    network = Predictor(model).outputs(dataset.packed)[0]
    packed = dataset.packed
    fitted: dict[int, tuple[Trees, Line]] = {}
    blends = []
    for number, (fold, scale) in enumerate(zip(folds, model.scales, strict=True)):
        split = splits[fold]
        if fold not in fitted:  # members of one split differ by their networks only
            x = columns(packed.counts, packed.graph_values)
            fitted[fold] = _fit(model.task, dataset, split, scale, x)
        trees, line = fitted[fold]
        rows = torch.from_numpy(split.val)
        x = columns(packed.counts[rows], packed.graph_values[rows])
        outputs = [network[number, rows], trees(x).double(), line(x).double()]
        shares = _shares(model.task, dataset, split, scale, torch.stack(outputs))
        blends.append(Blend(trees, line, shares))
    return replace(model, parts={**model.parts, PART: to_part(blends)})


def _fit(task: Task, dataset: Dataset, split: Split, scale: Scale, x: Tensor) -> tuple[Trees, Line]:
    """Trees and line of every target, one behind the other."""
    train = torch.from_numpy(split.train)
    seen = (x[train] != 0).sum(0) >= _SEEN
    used = seen.nonzero().flatten()
    table = x[:, used].numpy()
    grown: list[_Grown] = []
    lines: list[tuple[Floats, Floats]] = []
    mean, std = x[train].mean(0), x[train].std(0, correction=0)
    rate = torch.where(std > 1e-6, 1 / std, torch.zeros_like(std))
    straight = x[train].sub(mean).mul(rate).clamp(-10, 10).numpy()
    for place, target in enumerate(task.targets):
        own = _labels(task, dataset, split.train, scale, place)
        where = np.searchsorted(split.train, own.rows)
        grown.append(_grow(target, table[own.rows], own, used.numpy()))
        lines.append(_draw(target, straight[where], own))
    weight, bias = (np.concatenate(parts) for parts in zip(*lines, strict=True))
    line = Line(mean, rate, torch.from_numpy(weight).float(), torch.from_numpy(bias).float())
    return _planted(grown), line


def _labels(task: Task, dataset: Dataset, rows: Indices, scale: Scale, place: int) -> _Labels:
    learned = task.to_model(dataset.targets, scale)[:, place].double().numpy()[rows]
    there = np.isfinite(learned) & (dataset.weights[rows] > 0)
    if dataset.bounds is not None:
        there &= dataset.bounds[rows, place] == 0
    order = np.argsort(rows[there])
    kept = rows[there][order]
    return _Labels(kept, learned[there][order], dataset.weights[kept])


@dataclass(frozen=True, eq=False)
class _Grown:
    """Trees of one target: their nodes by scikit-learn, and what they are added to."""

    trees: list[tuple[Any, int]]
    start: Floats
    columns: Indices


def _grow(target: Target, x: npt.NDArray[np.float32], own: _Labels, used: Indices) -> _Grown:
    if not own.enough:
        return _Grown([], _constant(target, own), used)
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    regression = target.kind == "regression"
    kind = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    grower = kind(
        max_iter=_STEPS, learning_rate=0.05, max_depth=_DEPTH, max_leaf_nodes=31,
        min_samples_leaf=max(3, min(20, len(x) // 50)), l2_regularization=1.0,
        max_features=0.3, early_stopping=False, random_state=0,
    )  # fmt: skip
    grower.fit(x, own.learned, own.weights)
    outputs = _outputs_of(target, own)
    start = np.full(target.outputs, -20.0) if len(outputs) < target.outputs else np.zeros(1)
    start = np.resize(start, target.outputs)
    start[outputs] = np.ravel(grower._baseline_prediction)
    trees = [
        (tree.nodes, int(outputs[k])) for step in grower._predictors for k, tree in enumerate(step)
    ]
    return _Grown(trees, start, used)


def _outputs_of(target: Target, own: _Labels) -> Indices:
    """Which outputs scikit-learn's columns are: classes that no label has get none."""
    if target.kind != "multiclass":
        return np.array([0])
    kinds = np.unique(own.learned).astype(np.int64)
    return kinds if len(kinds) > 2 else kinds[1:]


def _constant(target: Target, own: _Labels) -> Floats:
    """What is said where there is nothing to learn from: the mean, or the shares of classes."""
    if target.kind == "regression":
        return np.array([own.learned.mean() if len(own.rows) else 0.0])
    if target.kind == "binary":
        share = (own.learned.sum() + 0.5) / (len(own.rows) + 1)
        return np.array([np.log(share / (1 - share))])
    counts = np.bincount(own.learned.astype(np.int64), minlength=target.outputs) + 0.5
    return np.asarray(np.log(counts / counts.sum()))


def _planted(grown: list[_Grown]) -> Trees:
    """All trees of all targets as one set of arrays."""
    parts: dict[str, list[npt.NDArray[Any]]] = {
        name: [np.zeros(1, kind)]
        for name, kind in (
            ("column", np.int64), ("left", np.int64), ("right", np.int64),
            ("threshold", np.float32), ("value", np.float32),
        )
    }  # fmt: skip
    roots, outputs, deepest, first, before = [0], [0], 0, 1, 0
    for own in grown:
        for nodes, output in own.trees:
            leaf = nodes["is_leaf"].astype(bool)
            here = np.arange(len(nodes))
            parts["column"].append(np.where(leaf, 0, own.columns[nodes["feature_idx"] * ~leaf]))
            parts["threshold"].append(np.where(leaf, 0, nodes["num_threshold"]))
            parts["left"].append(first + np.where(leaf, here, nodes["left"]))
            parts["right"].append(first + np.where(leaf, here, nodes["right"]))
            parts["value"].append(np.where(leaf, nodes["value"], 0))
            roots.append(first)
            outputs.append(before + output)
            deepest = max(deepest, int(nodes["depth"].max()))
            first += len(nodes)
        before += len(own.start)
    joined = {name: torch.from_numpy(np.concatenate(own)) for name, own in parts.items()}
    return Trees(
        joined["column"].long(), joined["left"].long(), joined["right"].long(),
        joined["threshold"].float(), joined["value"].float(),
        torch.tensor(roots), torch.tensor(outputs),
        torch.from_numpy(np.concatenate([own.start for own in grown])).float(),
        torch.tensor(deepest),
    )  # fmt: skip


def _draw(target: Target, x: npt.NDArray[np.float32], own: _Labels) -> tuple[Floats, Floats]:
    """Weights [W, D] and biases [W] of a linear model."""
    nothing = np.zeros((target.outputs, x.shape[1])), _constant(target, own)
    if not own.enough:
        return nothing
    from sklearn.linear_model import LogisticRegression, RidgeCV

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if target.kind == "regression":
            ridge = RidgeCV(np.logspace(1, 5, 9)).fit(x, own.learned, own.weights)
            return ridge.coef_.reshape(1, -1), np.array([ridge.intercept_])
        made = LogisticRegression(C=1e-3, max_iter=200).fit(x, own.learned, own.weights)
    outputs = _outputs_of(target, own)
    weight, bias = nothing[0], np.full(target.outputs, 0.0 if len(outputs) == 1 else -20.0)
    weight[outputs], bias[outputs] = made.coef_, made.intercept_
    return weight, bias


def _shares(task: Task, dataset: Dataset, split: Split, scale: Scale, outputs: Tensor) -> Tensor:
    """The shares [3, W] with the least loss of the n rows of validation.

    ``outputs`` [3, n, W] are those of network, trees and line for these rows.
    """
    shares = np.tile(np.array([1.0, 0, 0])[:, None], (1, task.outputs))
    order = np.argsort(split.val)
    for place, (target, span) in enumerate(zip(task.targets, task.spans, strict=True)):
        own = _labels(task, dataset, split.val, scale, place)
        taught = _labels(task, dataset, split.train, scale, place).enough
        if taught and len(own.rows) >= _LEAST_HELD_OUT:
            at = order[np.searchsorted(split.val[order], own.rows)]
            given = outputs[:, torch.from_numpy(at)][:, :, span]
            judge = _Judge(Task((target,), task.loss), given, own)
            shares[:, span] = min(_GRID, key=judge)[:, None]
    return torch.from_numpy(shares)


@dataclass(frozen=True, eq=False)
class _Judge:
    """The loss of shares w, times 1 + 3 |w − w₀|² / √n: without evidence they are w₀."""

    task: Task
    outputs: Tensor
    labels: _Labels

    def __call__(self, shares: Floats) -> float:
        mixed = (torch.from_numpy(shares)[:, None, None] * self.outputs).sum(0)
        learned, weights = (torch.from_numpy(a) for a in (self.labels.learned, self.labels.weights))
        total, weight = self.task.losses(mixed, learned[:, None], weights)
        away = float(((shares - _PRIOR) ** 2).sum())
        return float(total / weight) * (1 + _FIRM * away / math.sqrt(len(learned)))
