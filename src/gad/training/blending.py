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
from gad.prediction.blend import (
    ORIGIN,
    PART,
    Blend,
    Kernel,
    Trees,
    columns,
    near,
    origin_part,
    to_part,
)
from gad.prediction.model_file import Model
from gad.prediction.predictor import Predictor
from gad.reporter import Reporter
from gad.settings.task import Scale, Target, Task
from gad.training.dataset import Dataset

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

# Fewer labels teach trees nothing, and fewer held-out ones say nothing of the shares.
_LEAST, _LEAST_HELD_OUT = 20, 8
_STEPS, _DEPTH = 300, 8
# How far about a threshold rows go both ways, in standard deviations of the column: thousands of
# times what rounding moves them.
_SOFT = 0.02
# Training molecules that the kernel is centred on; how little its logistic weights are held back.
_CENTRES, _FREE = 1024, 5.0
# Shares that are chosen without evidence: network, trees, kernel.
_PRIOR = np.array([0.4, 0.3, 0.3])
_FIRM = 3.0
# Fewer training molecules than this teach a network little and say nothing of most columns: trees
# leave out what the origin reads, and the kernel is wide, its descriptors counting half.
_FEW, _PRIOR_OF_FEW, _NARROW_OF_FEW = 300, np.array([0.3, 0.35, 0.35]), 0.3
_GRID = [
    np.array([a, b, 10 - a - b]) / 10
    for a, b in itertools.product(range(11), repeat=2)
    if a + b <= 10
]
# A column in which fewer training molecules have anything is noise.
_SEEN = 3


@dataclass(frozen=True, eq=False)
class _Labels:
    """One target's labels among some rows.

    Of a bound trees and kernel learn what the network says, within what the bound allows.

    Attributes:
        rows: [n] their places.
        learned: [n] what is learned.
        weights: [n].
        ends: [n, 2], the least and the greatest value that a label allows; None without bounds.
    """

    rows: Indices
    learned: Floats
    weights: Floats
    ends: Tensor | None = None

    @property
    def enough(self) -> bool:
        return len(self.rows) >= _LEAST and len(np.unique(self.learned)) > 1


def with_blend(
    model: Model,
    origin: Model | None,
    dataset: Dataset,
    splits: list[Split],
    folds: list[int],
    reporter: Reporter,
    *,
    kernel: bool = True,
) -> Model:
    """The model with a blend for each member, if its recipe wants one.

    Graphs of a known set have none: nothing but the graph is known of them.

    Args:
        model: its networks.
        origin: what they started from; trees and kernel then read molecules by it too.
        dataset: the molecules.
        splits: into training and validation rows.
        folds: which split each member was trained on.
        reporter: is told.
        kernel: whether the file may keep what it is centred on, numbers of training molecules.
    """
    if not model.recipe.training.blend or dataset.preparation is None:
        return model
    reporter.message("fitting trees and a kernel machine beside the network")
    if origin is not None:
        model = replace(model, parts={**model.parts, ORIGIN: origin_part(origin.members[0])})
    said = Predictor(model).listen(dataset.packed)
    counts, values = dataset.packed.counts, dataset.packed.graph_values
    x = columns(counts, values, said.read)
    # Trees with and without what the origin reads are averaged; the kernel looks at that alone.
    first, last = counts.shape[1], counts.shape[1] + values.shape[1]
    every: Indices = np.arange(x.shape[1])
    looks = (every if origin is None else every[first:])[: None if kernel else 0]
    fitted: dict[int, tuple[Trees, Kernel]] = {}
    blends = []
    for number, (fold, scale) in enumerate(zip(folds, model.scales, strict=True)):
        split = splits[fold]
        if fold not in fitted:  # members of one split differ by their networks only
            taught = [
                _labels(model.task, dataset, split.train, scale, place, said.outputs[number])
                for place in range(len(model.task.targets))
            ]
            alone = origin is None or len(split.train) < _FEW
            views = [every[:last]] if alone else [every[:last], every]
            fitted[fold] = (
                _trees(model.task, taught, x, split, views),
                _kernel(model.task, taught, x, split, looks, range(first, last)),
            )
        trees, machine = fitted[fold]
        held = x[torch.from_numpy(np.sort(split.val))]
        beside = torch.stack([trees(held).double(), machine(held).double()])
        shares = _shares(model.task, dataset, split, scale, said.outputs[number], beside, kernel)
        blends.append(Blend(trees, machine, shares))
    return replace(model, parts={**model.parts, PART: to_part(blends, x.shape[1])})


def _trees(
    task: Task, taught: list[_Labels], x: Tensor, split: Split, views: list[Indices]
) -> Trees:
    """Trees of every target, one behind the other, averaged over what they are shown."""
    train = x[torch.from_numpy(split.train)]
    seen = ((train != 0).sum(0) >= _SEEN).numpy()
    grown: list[list[_Grown]] = [[] for _ in task.targets]
    for view in views:
        used = view[seen[view]]
        table = x[:, torch.from_numpy(used)].numpy()
        for own, labels, target in zip(grown, taught, task.targets, strict=True):
            own.append(_grow(target, table[labels.rows], labels, used))
    return _planted(grown, _SOFT * train.std(0, correction=0))


def _kernel(
    task: Task, taught: list[_Labels], x: Tensor, split: Split, used: Indices, described: range
) -> Kernel:
    """A kernel machine of every target: ridge and logistic regression on its own features.

    With K = V Λ Vᵀ of the centres, k V Λ^{-½} are features whose products are the kernel (those of
    its projection, where there are more molecules than centres). ``described`` are the columns of
    descriptors.
    """
    z = x[:, torch.from_numpy(used)]
    train = z[torch.from_numpy(split.train)]
    mean = train.mean(0)
    std = (train - mean).square().mean(0).sqrt()
    rate = torch.where(std > 1e-6, 1 / std, torch.zeros_like(std))
    scale = torch.ones_like(rate)
    if len(train) < _FEW:
        rate *= (train != 0).sum(0) >= _SEEN
        scale = _halves(rate > 0, torch.from_numpy(np.isin(used, described)))
    z = z.sub(mean).mul(rate).clamp(-5, 5).mul(scale)
    chosen = np.random.default_rng(0).permutation(split.train)[: _CENTRES if len(used) else 0]
    centres = z[torch.from_numpy(np.sort(chosen))].half()
    values, vectors = torch.linalg.eigh(near(centres.double(), centres))
    kept = values > 1e-6 * values.max() if len(values) else values > 0
    features = vectors[:, kept] / values[kept].sqrt()
    lines = [
        _draw(target, (near(z[torch.from_numpy(own.rows)].double(), centres) @ features), own)
        for target, own in zip(task.targets, taught, strict=True)
    ]
    weight, bias = (torch.from_numpy(np.concatenate(parts)) for parts in zip(*lines, strict=True))
    return Kernel(
        torch.from_numpy(used), mean, rate, scale, centres, (weight @ features.T).float(),
        bias.float(),
    )  # fmt: skip


def _halves(read: Tensor, described: Tensor) -> Tensor:
    """How much each column counts among few molecules: descriptors as much as all others.

    >>> _halves(torch.tensor([True] * 4), torch.tensor([True, False, False, False])).square()
    tensor([0.6000, 0.2000, 0.2000, 0.2000])
    """
    one, other = (int((read & kind).sum()) for kind in (described, ~described))
    share = torch.where(described, 1 / max(one, 1), 1 / max(other, 1)) / (2 if one and other else 1)
    return (_NARROW_OF_FEW * len(read) * share).sqrt()


def _labels(
    task: Task, dataset: Dataset, rows: Indices, scale: Scale, place: int, network: Tensor
) -> _Labels:
    """The labels of some rows; ``network`` [N, W] is what it says of all."""
    learned, ends = task.to_model(dataset.targets, scale, dataset.bounds)[:, place].double(), None
    if learned.dim() == 2:
        ends = learned
        learned = network[:, task.spans[place].start].double().clamp(ends[:, 0], ends[:, 1])
    told = learned.numpy()
    kept = np.sort(rows[np.isfinite(told[rows]) & (dataset.weights[rows] > 0)])
    return _Labels(kept, told[kept], dataset.weights[kept], None if ends is None else ends[kept])


@dataclass(frozen=True, eq=False)
class _Grown:
    """Trees of one target: nodes by scikit-learn, the output of each, and what they add to."""

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


def _planted(grown: list[list[_Grown]], soft: Tensor) -> Trees:
    """The trees of each target, averaged, of all targets as one set of arrays."""
    parts: dict[str, list[npt.NDArray[Any]]] = {
        name: [np.zeros(1, kind)]
        for name, kind in (
            ("column", np.int64), ("left", np.int64), ("right", np.int64),
            ("threshold", np.float32), ("value", np.float32),
        )
    }  # fmt: skip
    start: list[Floats] = []
    roots, outputs, deepest, first, before = [0], [0], 0, 1, 0
    for averaged in grown:
        for nodes, output, read in ((*tree, own.columns) for own in averaged for tree in own.trees):
            leaf = nodes["is_leaf"].astype(bool)
            here = np.arange(len(nodes))
            parts["column"].append(np.where(leaf, 0, read[nodes["feature_idx"] * ~leaf]))
            parts["threshold"].append(np.where(leaf, 0, nodes["num_threshold"]))
            parts["left"].append(first + np.where(leaf, here, nodes["left"]))
            parts["right"].append(first + np.where(leaf, here, nodes["right"]))
            parts["value"].append(np.where(leaf, nodes["value"] / len(averaged), 0))
            roots.append(first)
            outputs.append(before + output)
            deepest = max(deepest, int(nodes["depth"].max()))
            first += len(nodes)
        start.append(np.mean([own.start for own in averaged], axis=0))
        before += len(start[-1])
    joined = {name: torch.from_numpy(np.concatenate(own)) for name, own in parts.items()}
    return Trees(
        joined["column"].long(), joined["left"].long(), joined["right"].long(),
        joined["threshold"].float(), joined["value"].float(),
        torch.tensor(roots), torch.tensor(outputs),
        torch.from_numpy(np.concatenate(start)).float(),
        torch.tensor(deepest), soft,
    )  # fmt: skip


def _draw(target: Target, x: Tensor, own: _Labels) -> tuple[Floats, Floats]:
    """Weights [W, D] and biases [W] of a linear model of features x [n, D]."""
    nothing = np.zeros((target.outputs, x.shape[1])), _constant(target, own)
    if not own.enough or not x.shape[1]:
        return nothing
    from sklearn.linear_model import LogisticRegression, RidgeCV

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if target.kind == "regression":
            ridge = RidgeCV(np.logspace(-2, 2, 9)).fit(x.numpy(), own.learned, own.weights)
            return ridge.coef_.reshape(1, -1), np.array([ridge.intercept_])
        made = LogisticRegression(C=_FREE, max_iter=300).fit(x.numpy(), own.learned, own.weights)
    outputs = _outputs_of(target, own)
    weight, bias = nothing[0], np.full(target.outputs, 0.0 if len(outputs) == 1 else -20.0)
    weight[outputs], bias[outputs] = made.coef_, made.intercept_
    return weight, bias


def _shares(
    task: Task,
    dataset: Dataset,
    split: Split,
    scale: Scale,
    network: Tensor,
    beside: Tensor,
    kernel: bool,
) -> Tensor:
    """The shares [3, W] with the least loss of the n rows of validation.

    ``network`` [N, W] is what it says of all rows, ``beside`` [2, n, W] what trees and kernel say
    of these, by their number; the latter counts nothing without ``kernel``.
    """
    held = np.sort(split.val)
    choice = _GRID if kernel else [shares for shares in _GRID if not shares[2]]
    prior = (_PRIOR_OF_FEW if len(split.train) < _FEW else _PRIOR) * [1, 1, kernel]
    prior /= prior.sum()
    shares = np.tile(np.array([1.0, 0, 0])[:, None], (1, task.outputs))
    for place, (target, span) in enumerate(zip(task.targets, task.spans, strict=True)):
        own = _labels(task, dataset, split.val, scale, place, network)
        if not _labels(task, dataset, split.train, scale, place, network).enough:
            continue
        shares[:, span] = prior[:, None]
        if len(own.rows) >= _LEAST_HELD_OUT:
            at = torch.from_numpy(np.searchsorted(held, own.rows))
            given = torch.cat([network[own.rows][None], beside[:, at]])[:, :, span]
            judge = _Judge(Task((target,), task.loss), given, own, prior)
            shares[:, span] = min(choice, key=judge)[:, None]
    return torch.from_numpy(shares)


@dataclass(frozen=True, eq=False)
class _Judge:
    """The loss of shares w, times 1 + 3 |w − w₀|² / √n: without evidence they are w₀."""

    task: Task
    outputs: Tensor
    labels: _Labels
    prior: Floats

    def __call__(self, shares: Floats) -> float:
        mixed = (torch.from_numpy(shares)[:, None, None] * self.outputs).sum(0)
        ends, weights = self.labels.ends, torch.from_numpy(self.labels.weights)
        allowed = torch.from_numpy(self.labels.learned) if ends is None else ends
        total, weight = self.task.losses(mixed, allowed[:, None], weights)
        away = float(((shares - self.prior) ** 2).sum())
        return float(total / weight) * (1 + _FIRM * away / math.sqrt(len(weights)))
