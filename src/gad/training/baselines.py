"""What a model must beat: the mean of the training labels, and a linear model on descriptors.

A network that does not do better than a ridge regression on RDKit's descriptors is not worth its
electricity, and the report says so. Descriptors take milliseconds per molecule: they are worked out
once per distinct SMILES, on all cores, and kept on disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gad.machine import cores
from gad.parallel import in_order
from gad.prediction.metrics import TASKS, Scores, as_table, as_weights, score
from gad.settings.task import Task

if TYPE_CHECKING:
    from pathlib import Path

Array: TypeAlias = NDArray[np.float64]
Progress: TypeAlias = Callable[[int], None]
Molecules: TypeAlias = "Sequence[str] | NDArray[np.floating[Any]]"

CHUNK = 256
# Starting processes, each with an RDKit of its own, costs seconds; a few molecules cost less than
# a file.
_WORTH_PROCESSES = 1000
_WORTH_A_FILE = 50
# A descriptor so many standard deviations from its mean says nothing more than "far".
_FARTHEST = 10.0
_ALPHAS = np.logspace(-2, 5, 15)
_STRENGTHS = np.logspace(-4, 0, 5)
_FOLDS = 3


def mean_baseline(targets: ArrayLike, weights: ArrayLike | None = None) -> Array:
    """The mean of each target's labels, [n, T] → [T]; of labels 0 and 1 it is the share of ones.

    A label that is not finite is missing, and a target without labels has no mean: NaN.

    Example:
        >>> mean_baseline([[1.0, np.nan], [3.0, np.nan]]).tolist()
        [2.0, nan]
    """
    table = as_table(targets)
    weight = np.isfinite(table) * as_weights(weights, len(table))[:, None]
    total = weight.sum(axis=0)
    sums = (np.where(weight > 0, table, 0.0) * weight).sum(axis=0)
    means: Array = np.where(total > 0, sums, np.nan) / np.where(total > 0, total, 1.0)
    return means


class DescriptorModel:
    """A linear model on RDKit's descriptors: what a network has to beat, and use if it does not.

    Descriptors are standardised on the training molecules and clipped to ±10 σ; one that a molecule
    does not have is set to the mean. A regression is a ridge whose strength is chosen by
    leave-one-out error, a classification a logistic regression whose strength is chosen by
    cross-validated log loss. Each target uses the rows where it has a label; where there are too
    few, or all are equal, their mean is predicted.

    Args:
        task: ``"regression"``, ``"classification"`` into 0 and 1, or ``"multiclass"``: one target
            of K classes, numbered from 0.

    Example:
        >>> model = DescriptorModel("regression").fit(["C", "CC", "CCC", "CCCC"], [1, 2, 3, 4])
        >>> model.predict(["CCCCC"]).round().tolist()
        [[5.0]]
    """

    def __init__(self, task: str) -> None:
        known = (*TASKS, "multiclass")
        if task not in known:
            raise ValueError(f"the task must be one of {', '.join(known)}, not {task!r}")
        self.task = task

    def fit(
        self, molecules: Molecules, targets: ArrayLike, weights: ArrayLike | None = None
    ) -> DescriptorModel:
        """Learn from n SMILES, or their descriptors, with labels [n, T], NaN where missing."""
        table, x = as_table(targets), described(molecules)
        weight = as_weights(weights, len(table))
        known = np.isfinite(x)
        count = np.maximum(known.sum(axis=0), 1)
        self.mean = np.where(known, x, 0.0).sum(axis=0) / count
        self.spread = np.sqrt((np.where(known, x - self.mean, 0.0) ** 2).sum(axis=0) / count)
        # A descriptor that is constant on the training molecules, up to rounding, teaches nothing.
        self.spread[self.spread <= 1e-7 * np.abs(self.mean)] = np.inf
        x = self._standardise(x)
        self.fallback = mean_baseline(table, weight)
        if self.task == "multiclass":
            self.shares = class_shares(table[:, 0], weight)
        fit = _ridge if self.task == "regression" else _logistic
        used = np.isfinite(table) & (weight > 0)[:, None]
        self.models = [
            fit(x[rows], y[rows], weight[rows]) for y, rows in zip(table.T, used.T, strict=True)
        ]
        return self

    def predict(self, molecules: Molecules) -> Array:
        """Values, or probabilities of 1, of m SMILES or their descriptors: [m, T].

        Of several classes the probability of each: [m, K].
        """
        x = self._standardise(described(molecules))
        if self.task == "multiclass":
            return self._classes(x)
        values = np.tile(self.fallback, (len(x), 1))
        for column, model in enumerate(self.models if len(x) else []):
            if model is not None:
                found = model.predict if self.task == "regression" else model.predict_proba
                values[:, column] = found(x).reshape(len(x), -1)[:, -1]
        return values

    def _classes(self, x: Array) -> Array:
        """Probabilities of the classes; their shares where there was too little to learn from."""
        (model,) = self.models
        values = np.tile(self.shares, (len(x), 1))
        if model is not None and len(x):
            values[:] = 0.0
            values[:, model.classes_.astype(np.int64)] = model.predict_proba(x)
        return values

    def _standardise(self, x: Array) -> Array:
        far: Array = np.nan_to_num((x - self.mean) / self.spread, nan=0.0)
        return far.clip(-_FARTHEST, _FARTHEST)


def class_shares(labels: Array, weights: Array, classes: int | None = None) -> Array:
    """The share of each class among labels [n], numbers from 0: [K].

    >>> class_shares(np.array([0.0, 2.0, 2.0, np.nan]), np.ones(4)).round(2).tolist()
    [0.33, 0.0, 0.67]
    """
    there = np.isfinite(labels)
    counts = np.bincount(labels[there].astype(np.int64), weights[there], classes or 0)
    return counts / max(float(counts.sum()), 1e-300)


def fit_baselines(
    smiles_by_part: Mapping[str, Sequence[str]],
    targets_by_part: Mapping[str, ArrayLike],
    task: str | Task,
    names: Sequence[str],
    progress: Progress | None = None,
    weights_by_part: Mapping[str, ArrayLike] | None = None,
    judge: Callable[[str, Array], Scores] | None = None,
) -> dict[str, dict[str, Scores]]:
    """Fit both baselines on the part ``"train"`` and score them on every part.

    Args:
        smiles_by_part: part → SMILES.
        targets_by_part: part → labels [n, T], NaN where missing.
        task: ``"regression"`` or ``"classification"``; or targets of several kinds, whose
            predictions only ``judge`` can compare.
        names: of the targets.
        progress: called with the number of distinct molecules whose descriptors are done.
        weights_by_part: part → weights [n].
        judge: what predictions [n, T] of a part are worth; by the labels if left out.

    Returns:
        ``{"mean": {part: scores}, "ridge": {part: scores}}``; scores are those of
        :func:`gad.prediction.metrics.score`.

    Example:
        >>> smiles = {"train": ["C", "CC", "CCC", "CCCC"], "test": ["CCCCC"]}
        >>> targets = {"train": [[1.0], [2.0], [3.0], [4.0]], "test": [[5.0]]}
        >>> found = fit_baselines(smiles, targets, "regression", ["carbons"])
        >>> found["mean"]["test"]["mean"]["mae"]
        2.5
        >>> found["ridge"]["test"]["mean"]["mae"] < 1
        True
    """
    weights = weights_by_part or {}
    every = descriptor_table([s for part in smiles_by_part.values() for s in part], progress)
    sizes = np.cumsum([len(part) for part in smiles_by_part.values()])
    tables = dict(zip(smiles_by_part, np.split(every, sizes[:-1]), strict=True))
    labels = as_table(targets_by_part["train"])
    weight = as_weights(weights.get("train"), len(labels))
    models, means = _fitted(task, tables["train"], labels, weight)
    found: dict[str, dict[str, Scores]] = {"mean": {}, "ridge": {}}
    for part, table in tables.items():
        ridge = np.concatenate([model.predict(table) for model in models], axis=1)
        for kind, guess in (("mean", np.tile(means, (len(table), 1))), ("ridge", ridge)):
            if judge is not None:
                found[kind][part] = judge(part, guess)
            else:
                assert isinstance(task, str)
                truth = targets_by_part[part]
                found[kind][part] = score(task, truth, guess, names, weights.get(part))
    return found


def _fitted(
    task: str | Task, table: NDArray[np.float32], labels: Array, weight: Array
) -> tuple[list[DescriptorModel], Array]:
    """Linear models, and what is predicted without any molecule: [W]."""
    if isinstance(task, str):
        return [DescriptorModel(task).fit(table, labels, weight)], mean_baseline(labels, weight)
    models, means = [], []
    for target, own in zip(task.targets, labels.T, strict=True):
        kind = "classification" if target.kind == "binary" else target.kind
        if kind == "multiclass":
            # Every class is there, if only with a weight of 0: a model gives as many numbers.
            means.append(class_shares(own, weight, target.outputs))
        else:
            means.append(mean_baseline(own, weight))
        models.append(DescriptorModel(kind).fit(table, own, weight))
        if kind == "multiclass":
            models[-1].shares = means[-1]
    return models, np.concatenate(means)


def descriptor_table(
    smiles: Sequence[str], progress: Progress | None = None
) -> NDArray[np.float32]:
    """RDKit's descriptors [n, D] of n molecules, NaN for one that cannot be read.

    Each distinct SMILES is worked out once, and the whole is kept in the cache folder under a name
    that is the hash of everything it depends on.
    """
    from gad.chem import DESCRIPTOR_NAMES
    from gad.data.known.places import cache_folder

    distinct = sorted(set(smiles))
    path = cache_folder() / "descriptors" / f"{_fingerprint(distinct, DESCRIPTOR_NAMES)}.npy"
    table = _read(path, (len(distinct), len(DESCRIPTOR_NAMES)))
    if table is None:
        table = _describe_all(distinct, len(DESCRIPTOR_NAMES), progress)
        if len(distinct) >= _WORTH_A_FILE:
            _write(path, table)
    elif progress:
        progress(len(distinct))
    row = {text: k for k, text in enumerate(distinct)}
    return table[[row[text] for text in smiles]]


def _describe_all(smiles: list[str], width: int, progress: Progress | None) -> NDArray[np.float32]:
    jobs = cores() if len(smiles) > _WORTH_PROCESSES else 1
    chunks = (smiles[first : first + CHUNK] for first in range(0, len(smiles), CHUNK))
    table = np.empty((len(smiles), width), np.float32)
    done = 0
    for part in in_order(_describe, chunks, jobs):
        table[done : done + len(part)] = part
        done += len(part)
        if progress:
            progress(done)
    return table


def _describe(smiles: list[str]) -> NDArray[np.float32]:
    from gad.chem import DESCRIPTOR_NAMES, MoleculeError, descriptors, parse

    table = np.full((len(smiles), len(DESCRIPTOR_NAMES)), np.nan, np.float32)
    for row, text in enumerate(smiles):
        # A molecule that cannot be read stays NaN: a baseline is no reason to lose a run.
        with contextlib.suppress(MoleculeError):
            table[row] = descriptors(parse(text))
    return table


def _fingerprint(smiles: list[str], names: Sequence[str]) -> str:
    try:
        toolkit = version("rdkit")
    except PackageNotFoundError:  # some distributions of RDKit carry no metadata
        toolkit = "unknown"
    digest = hashlib.sha256("\x00".join([toolkit, *names, ""]).encode())
    digest.update("\x00".join(smiles).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _read(path: Path, shape: tuple[int, int]) -> NDArray[np.float32] | None:
    try:
        with path.open("rb") as file:
            table = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):  # absent or damaged: made again
        return None
    return table if table.shape == shape and table.dtype == np.float32 else None


def _write(path: Path, table: NDArray[np.float32]) -> None:
    from gad.data.atomic import write_atomic

    file = io.BytesIO()
    np.save(file, table, allow_pickle=False)
    # A cache that cannot be written costs time, not the run.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, file.getvalue())


def described(molecules: Molecules) -> Array:
    """Descriptors of molecules, or those that are given already: float64 [m, D]."""
    table = molecules if isinstance(molecules, np.ndarray) else descriptor_table(molecules)
    return table.astype(np.float64)


def _ridge(x: Array, y: Array, w: Array) -> Any:
    """A ridge with the strength of least leave-one-out error; None if the mean has to do."""
    from sklearn.linear_model import RidgeCV

    if len(y) < 3 or y.min() == y.max():
        return None
    return RidgeCV(alphas=_ALPHAS).fit(x, y, sample_weight=w)


def _logistic(x: Array, y: Array, w: Array) -> Any:
    """A logistic regression with the strength of least log loss; None if the mean has to do."""
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
    from sklearn.model_selection import StratifiedKFold

    counts = np.unique(y, return_counts=True)[1]
    rare = int(counts.min(initial=0))
    if len(counts) < 2:
        return None
    # Newton steps: with a few hundred descriptors each is cheap, and half a dozen are enough.
    options: dict[str, Any] = {"solver": "newton-cholesky", "max_iter": 100}
    if rare < _FOLDS:
        model = LogisticRegression(C=_STRENGTHS[2], **options)
    else:
        folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=0)
        options |= {"Cs": _STRENGTHS, "cv": folds, "scoring": "neg_log_loss"}
        model = LogisticRegressionCV(**options)
    with warnings.catch_warnings():
        # Weights are at the minimum to within any use of a baseline, warned about or not.
        warnings.simplefilter("ignore")
        return model.fit(x, y, sample_weight=w)
