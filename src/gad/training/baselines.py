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
from gad.prediction.metrics import METRICS, Scores, score

if TYPE_CHECKING:
    from pathlib import Path

Array: TypeAlias = NDArray[np.float64]
Progress: TypeAlias = Callable[[int], None]

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
    table = _table(targets)
    present = np.isfinite(table)
    weight = present * _weights(weights, len(table))[:, None]
    total = weight.sum(axis=0)
    sums = (np.where(present, table, 0.0) * weight).sum(axis=0)
    return np.where(total > 0, sums, np.nan) / np.where(total > 0, total, 1.0)


def ridge_baseline(
    smiles: Sequence[str],
    targets: ArrayLike,
    others: Sequence[Sequence[str]],
    task: str,
    *,
    weights: ArrayLike | None = None,
    progress: Progress | None = None,
) -> list[Array]:
    """Fit a linear model to descriptors of the training molecules and predict others.

    Descriptors are standardised on the training molecules and clipped to ±10 σ; one that a molecule
    does not have is set to the mean. A regression is a ridge whose strength is chosen by
    leave-one-out error, a classification a logistic regression whose strength is chosen by
    cross-validated log loss. Each target uses the rows where it has a label.

    Args:
        smiles: of the n training molecules.
        targets: [n, T] with NaN where missing.
        others: several lists of SMILES to predict.
        task: ``"regression"`` or ``"classification"``.
        weights: [n], 1 for every row if not given.
        progress: called with the number of distinct molecules whose descriptors are done.

    Returns:
        For each list, predictions [m, T]: values, or probabilities of 1.
    """
    if task not in METRICS:
        raise ValueError(f"the task must be one of {', '.join(METRICS)}, not {task!r}")
    table = _table(targets)
    sizes = [len(smiles), *map(len, others)]
    everything = descriptor_table([*smiles, *(s for other in others for s in other)], progress)
    train, *rest = _standardise(np.split(everything.astype(np.float64), np.cumsum(sizes)[:-1]))
    weight = _weights(weights, len(table))
    fit = _fit_ridge if task == "regression" else _fit_logistic
    predictions = [np.full((len(x), table.shape[1]), np.nan) for x in rest]
    for column, fallback in enumerate(mean_baseline(table, weight)):
        used = np.isfinite(table[:, column]) & (weight > 0)
        model = fit(train[used], table[used, column], weight[used])
        for x, out in zip(rest, predictions, strict=True):
            out[:, column] = fallback if model is None or not len(x) else model(x)
    return predictions


def fit_baselines(
    smiles_by_part: Mapping[str, Sequence[str]],
    targets_by_part: Mapping[str, ArrayLike],
    task: str,
    names: Sequence[str],
    progress: Progress | None = None,
    weights_by_part: Mapping[str, ArrayLike] | None = None,
) -> dict[str, dict[str, Scores]]:
    """Fit both baselines on the part ``"train"`` and score them on every part.

    Args:
        smiles_by_part: part → SMILES.
        targets_by_part: part → labels [n, T], NaN where missing.
        task: ``"regression"`` or ``"classification"``.
        names: of the targets.
        progress: called with the number of distinct molecules whose descriptors are done.
        weights_by_part: part → weights [n].

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
    tables = {part: _table(targets) for part, targets in targets_by_part.items()}
    weights = weights_by_part or {}
    mean = mean_baseline(tables["train"], weights.get("train"))
    predicted = ridge_baseline(
        smiles_by_part["train"],
        tables["train"],
        list(smiles_by_part.values()),
        task,
        weights=weights.get("train"),
        progress=progress,
    )
    found: dict[str, dict[str, Scores]] = {"mean": {}, "ridge": {}}
    for part, ridge in zip(smiles_by_part, predicted, strict=True):
        constant = np.broadcast_to(mean, ridge.shape)
        for kind, prediction in (("mean", constant), ("ridge", ridge)):
            weight = weights.get(part)
            found[kind][part] = score(task, tables[part], prediction, list(names), weight)
    return found


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
    from joblib import Parallel, delayed

    jobs = cores() if len(smiles) > _WORTH_PROCESSES else 1
    chunks = (smiles[first : first + CHUNK] for first in range(0, len(smiles), CHUNK))
    table = np.empty((len(smiles), width), np.float32)
    done = 0
    for part in Parallel(n_jobs=jobs, return_as="generator")(map(delayed(_describe), chunks)):
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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, file.getvalue())
    except OSError:  # a cache that cannot be written costs time, not the run
        return


def _standardise(parts: list[Array]) -> list[Array]:
    """Every part in standard deviations of the first; what is unknown is at the mean."""
    train = parts[0]
    known = np.isfinite(train)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, train, 0.0).sum(axis=0) / count
    spread = np.sqrt((np.where(known, train - mean, 0.0) ** 2).sum(axis=0) / count)
    # A descriptor that is constant on the training molecules, up to rounding, can teach nothing.
    constant = spread <= 1e-7 * np.abs(mean)
    spread[constant] = np.inf
    return [
        np.clip(np.nan_to_num((x - mean) / spread, nan=0.0), -_FARTHEST, _FARTHEST) for x in parts
    ]


def _fit_ridge(x: Array, y: Array, w: Array) -> Callable[[Array], Array] | None:
    """A ridge with the strength of least leave-one-out error; None if the mean has to do."""
    from sklearn.linear_model import RidgeCV

    if len(y) < 3 or y.min() == y.max():
        return None
    model = RidgeCV(alphas=_ALPHAS).fit(x, y, sample_weight=w)
    predict: Callable[[Array], Array] = model.predict
    return predict


def _fit_logistic(x: Array, y: Array, w: Array) -> Callable[[Array], Array] | None:
    """A logistic regression with the strength of least log loss; None if the mean has to do."""
    rare = min(int((y == 0).sum()), int((y == 1).sum()))
    if rare == 0:
        return None
    strength = _STRENGTHS[2] if rare < _FOLDS else _best_strength(x, y, w)
    model = _logistic(strength, x, y, w)
    return lambda rows: np.asarray(model.predict_proba(rows)[:, 1])


def _best_strength(x: Array, y: Array, w: Array) -> float:
    from sklearn.model_selection import StratifiedKFold

    folds = list(StratifiedKFold(_FOLDS, shuffle=True, random_state=0).split(x, y))
    losses = []
    for strength in _STRENGTHS:
        probability = np.empty(len(y))
        for inside, outside in folds:
            model = _logistic(strength, x[inside], y[inside], w[inside])
            probability[outside] = model.predict_proba(x[outside])[:, 1]
        losses.append(score("classification", y, probability, ["y"], w)["mean"]["log_loss"])
    return float(_STRENGTHS[int(np.argmin(losses))])


def _logistic(strength: float, x: Array, y: Array, w: Array) -> Any:
    from sklearn.linear_model import LogisticRegression

    # Newton steps: with a few hundred descriptors each is cheap, and half a dozen are enough.
    model = LogisticRegression(C=strength, solver="newton-cholesky", max_iter=100)
    with warnings.catch_warnings():
        # Weights are at the minimum to within any use of a baseline, warned about or not.
        warnings.simplefilter("ignore")
        return model.fit(x, y, sample_weight=w)


def _weights(weights: ArrayLike | None, rows: int) -> Array:
    return np.ones(rows) if weights is None else np.asarray(weights, dtype=np.float64)


def _table(targets: ArrayLike) -> Array:
    table = np.asarray(targets, dtype=np.float64)
    return table[:, None] if table.ndim == 1 else table
