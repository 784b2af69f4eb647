"""From the rows that were held out: how far to trust the model that was trained.

Validation rows choose what needs choosing (the difficulty σ of intervals, how probabilities are
recalibrated), test rows calibrate: the promise of an interval or a set rests on rows that nothing
was chosen by. With folds every row is a test row once, predicted by the models that have not seen
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gad.chem.looks import Looks, look
from gad.data.splits import Split
from gad.machine import as_many_threads
from gad.prediction.difficulty import choose_difficulty
from gad.prediction.domain import Domain
from gad.prediction.intervals import coverage_of_partitions, enough, quantile
from gad.prediction.model_file import Model
from gad.prediction.neighbours import KEPT, Neighbours
from gad.prediction.probabilities import Sets, calibration_error, coverage_of_sets
from gad.prediction.recalibration import Recalibration
from gad.prediction.trust import NEAREST, Calibrated, Trust, spread_of
from gad.report.summary import ClassTrust, Uncertainty
from gad.reporter import Reporter
from gad.settings.task import Task
from gad.training.dataset import Dataset
from gad.training.member import label_weights

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

LEVEL = 0.9
"""The share of truths that intervals and sets shall hold."""

# So many training molecules are enough to know how near they are to one another.
_SAMPLED = 2000
_CLEAN = "test rows: used neither for training nor for selection"
_FOLDED = "test rows of the folds: each predicted by models that have not seen it"
_HALVED = "half of the {} rows, as there are no others; the other half chose the difficulty"


@dataclass(frozen=True, eq=False)
class Held:
    """m rows that were not trained on: what was measured, predicted, and known of them.

    Attributes:
        rows: int64 [m] of the data set.
        values: [m, W] predictions in the user's units, as the networks gave them.
        evidence: for each target, features [m] by name.
        similarity: [m] to the nearest training molecule; NaN where unknown.
    """

    rows: Indices
    values: Floats
    evidence: list[dict[str, Floats]]
    similarity: Floats

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, places: Indices) -> Held:
        """Some of them."""
        return Held(
            self.rows[places],
            self.values[places],
            [{name: c[places] for name, c in known.items()} for known in self.evidence],
            self.similarity[places],
        )

    @staticmethod
    def joined(parts: list[Held]) -> Held:
        """Those of all folds."""
        return Held(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.values for part in parts]),
            [
                {n: np.concatenate([part.evidence[t][n] for part in parts]) for n in known}
                for t, known in enumerate(parts[0].evidence)
            ],
            np.concatenate([part.similarity for part in parts]),
        )


@dataclass(frozen=True, eq=False)
class Trusted:
    """A model's trust, what is told of it, and the test rows as the model predicts them.

    ``held.values`` are recalibrated.
    """

    trust: Trust
    uncertainty: Uncertainty | None
    held: Held


def measure_trust(
    model: Model,
    dataset: Dataset,
    splits: list[Split],
    folds: list[int],
    outputs: Floats,
    *,
    kind: str = "",
    neighbours: bool = True,
    reporter: Reporter | None = None,
) -> Trusted:
    """Everything that held-out rows tell of a model.

    Args:
        model: trained.
        dataset: its data, G molecules.
        splits: one, or one for each fold.
        folds: to which of them each member belongs.
        outputs: [members, G, W] of all molecules in the user's units.
        kind: of the split.
        neighbours: whether the model may keep its training molecules.
        reporter: hears what is not kept.
    """
    kind = "own" if dataset.fixed_split is not None else kind
    with as_many_threads(1):
        seen = np.zeros((len(splits), len(dataset)), dtype=np.bool_)
        for fold, split in enumerate(splits):
            seen[fold, split.train] = True
        trust, looks, kept = _looked(model, dataset, seen, folds, outputs, neighbours)
        parts = [
            _held(trust, dataset, looks, kept, splits, seen, fold, outputs[np.equal(folds, fold)])
            for fold in range(len(splits))
        ]
    if (said := _said(trust, int(seen.any(0).sum()))) and reporter is not None:
        reporter.message(said)
    val, test = (Held.joined([each[k] for each in parts]) for k in (0, 1))
    chosen, calibrating, told = _divided(val, test, len(splits))
    weights = label_weights(model.recipe, model.task, dataset, splits[0]).numpy()
    known, uncertainty = _calibrated(dataset, model.task, weights, chosen, calibrating)
    trust = replace(trust, targets=known)
    shown = replace(test, values=trust.recalibrated(test.values))
    return Trusted(
        trust,
        None if uncertainty is None else replace(uncertainty, split=kind, calibrated_on=told),
        shown,
    )


def _said(trust: Trust, trained: int) -> str:
    """What people should know of what the model file holds; "" where there is nothing."""
    if trust.domain is None:
        return ""
    if trust.neighbours is None:
        return "the model file keeps no training molecules: domain goes by descriptors alone"
    kept = len(trust.neighbours)
    return (
        f"of {trained:,} training molecules {kept:,} are kept, at random" if kept < trained else ""
    )


def _looked(
    model: Model,
    dataset: Dataset,
    seen: npt.NDArray[np.bool_],
    folds: list[int],
    outputs: Floats,
    neighbours: bool,
) -> tuple[Trust, Looks | None, Indices]:
    """Domain and neighbours, the looks of all molecules, and which training rows are kept."""
    task = model.task
    scale = np.mean([scale.labels.numpy() for scale in model.scales], axis=0)
    trust = Trust(task, (Calibrated(),) * len(task.targets), scale, level=LEVEL)
    if dataset.preparation is None:
        return trust, None, np.zeros(0, dtype=np.int64)
    looks = look(dataset.packed.keys)
    trained = np.flatnonzero(seen.any(0))
    _, first = np.unique(np.array(dataset.packed.keys, dtype=object)[trained], return_index=True)
    rng = np.random.default_rng(0)
    distinct = rng.permutation(trained[np.sort(first)])[:KEPT]
    kept = trained if len(trained) <= KEPT else np.sort(rng.permutation(trained)[:KEPT])
    every = Looks(looks.bits[trained], looks.values[trained], looks.elements[trained])
    if not neighbours:
        return replace(trust, domain=Domain.of(every, None)), looks, kept[:0]
    bounds = dataset.bounds
    store = Neighbours(
        looks.bits[kept],
        tuple(dataset.smiles[row].replace("\n", " ") for row in kept.tolist()),
        dataset.targets[kept],
        np.zeros((len(kept), len(task.targets)), np.int8) if bounds is None else bounds[kept],
        _errors(task, dataset, outputs, folds, seen)[kept],
    )
    others = replace(store, bits=looks.bits[distinct], errors=np.zeros((len(distinct), 0)))
    # The nearest of all is the molecule itself.
    nearest = others.near(looks.bits[distinct[:_SAMPLED]], 2).similarity
    apart = nearest[:, -1] if nearest.shape[1] > 1 else np.zeros(len(nearest))
    return replace(trust, domain=Domain.of(every, apart), neighbours=store), looks, kept


def _errors(
    task: Task, dataset: Dataset, outputs: Floats, folds: list[int], seen: npt.NDArray[np.bool_]
) -> Floats:
    """Sizes of the errors on training rows [G, T]: the mean over the models that have seen them."""
    total, count = np.zeros(dataset.targets.shape), np.zeros(dataset.targets.shape)
    for fold in sorted(set(folds)):
        values = outputs[np.equal(folds, fold)].mean(0)
        sizes = np.abs(task.residuals(dataset.targets, values, dataset.bounds))
        there = np.isfinite(sizes) & seen[fold][:, None]
        total += np.where(there, sizes, 0.0)
        count += there
    means: Floats = np.where(count > 0, total, np.nan) / np.maximum(count, 1)
    return means


def _held(
    trust: Trust,
    dataset: Dataset,
    looks: Looks | None,
    kept: Indices,
    splits: list[Split],
    seen: npt.NDArray[np.bool_],
    fold: int,
    outputs: Floats,
) -> tuple[Held, Held]:
    """Validation and test rows of a fold, by its own members and its own training molecules."""
    split, values, store = splits[fold], outputs.mean(0), trust.neighbours
    # The spread over the members of one fold is not that over all of them.
    spread = spread_of(trust.task, outputs) if len(splits) == 1 else None
    own = _errors(trust.task, dataset, outputs, [fold] * len(outputs), seen)[kept]
    found = []
    for rows in (split.val, split.test):
        unknown = np.full(len(rows), np.nan)
        if looks is None:
            nothing: list[dict[str, Floats]] = [{} for _ in trust.targets]
            found.append(Held(rows, values[rows], nothing, unknown))
            continue
        these = Looks(looks.bits[rows], looks.values[rows], looks.elements[rows])
        near = None if store is None else store.near(these.bits, NEAREST, seen[fold, kept], own)
        known = trust.evidence(these, near, values[rows], None if spread is None else spread[rows])
        nearest = unknown if near is None else near.similarity[:, :1].max(1, initial=0.0)
        found.append(Held(rows, values[rows], known, nearest))
    return found[0], found[1]


def _divided(val: Held, test: Held, splits: int) -> tuple[Held, Held, str]:
    """The rows that choose, those that calibrate, and what is said of that."""
    if len(val) and len(test):
        return val, test, _CLEAN if splits == 1 else _FOLDED
    rows, name = (val, "validation") if len(val) else (test, "test")
    order = np.random.default_rng(0).permutation(len(rows))
    first, second = np.split(order, [len(order) // 2])
    return rows.take(first), rows.take(second), _HALVED.format(name)


def _calibrated(
    dataset: Dataset, task: Task, weights: Floats, chosen: Held, calibrating: Held
) -> tuple[tuple[Calibrated, ...], Uncertainty | None]:
    """What is known of each target, and what is told of it."""
    known: list[Calibrated] = []
    scaled = np.full((len(calibrating), len(task.targets)), np.nan)
    told: dict[str, Any] = {"q": {}, "difficulty": {}, "width": {}, "candidates": {}, "classes": {}}
    for place, target in enumerate(task.targets):
        if target.kind == "regression":
            first, second = (
                _residuals(task, dataset, held, place) for held in (chosen, calibrating)
            )
            found, widths = _interval(chosen.evidence[place], first, calibrating, second, place)
            known.append(found)
            if not np.isfinite(found.half):
                continue
            sigma = found.difficulty(calibrating.evidence[place], len(calibrating))
            scaled[:, place] = second / sigma
            told["q"][target.name] = found.half
            told["difficulty"][target.name] = found.difficulty.kind
            told["width"][target.name] = float(found.scaled * sigma.mean() / found.half)
            told["candidates"][target.name] = widths
        else:
            found, summary = _classes(task, dataset, weights, chosen, calibrating, place)
            known.append(found)
            told["classes"] |= {} if summary is None else {target.name: summary}
    if not told["q"] and not told["classes"]:
        return tuple(known), None
    shares = coverage_of_partitions(scaled, LEVEL)
    return tuple(known), Uncertainty(**shares, **told)


def _residuals(task: Task, dataset: Dataset, held: Held, place: int) -> Floats:
    bounds = None if dataset.bounds is None else dataset.bounds[held.rows]
    found: Floats = task.residuals(dataset.targets[held.rows], held.values, bounds)[:, place]
    return found


def _interval(
    known: Mapping[str, Floats], first: Floats, calibrating: Held, second: Floats, place: int
) -> tuple[Calibrated, dict[str, float]]:
    """The interval of a number: σ by the rows that choose, its width by those that calibrate."""
    if np.isfinite(second).sum() < enough(LEVEL):
        return Calibrated(), {}
    difficulty, widths = choose_difficulty(known, first, LEVEL)
    sigma = difficulty(calibrating.evidence[place], len(calibrating))
    return Calibrated(quantile(second, LEVEL), quantile(second / sigma, LEVEL), difficulty), widths


def _classes(
    task: Task, dataset: Dataset, weights: Floats, chosen: Held, calibrating: Held, place: int
) -> tuple[Calibrated, ClassTrust | None]:
    """Honest probabilities by the rows that choose, prediction sets by those that calibrate."""
    target, count = task.targets[place], max(task.targets[place].outputs, 2)

    def of(held: Held) -> tuple[Floats, Floats, Indices]:
        labels = dataset.targets[held.rows, place]
        there = np.isfinite(labels)
        own = [own for _, own in task.each(held.values)][place]
        return own[there], labels[there], held.rows[there]

    first, labels, rows = of(chosen)
    counted = weights[rows] if weights.ndim == 1 else weights[rows, place]
    again = Recalibration.fit(first, labels, counted.astype(np.float64))
    raw, labels, _ = of(calibrating)
    if len(labels) < enough(LEVEL):
        return Calibrated(recalibration=again), None
    honest = again(raw)
    names = target.classes or ("0", "1")
    told = coverage_of_sets(honest, labels, LEVEL, count)
    summary = ClassTrust(
        calibration_error(honest, labels),
        calibration_error(raw, labels),
        again.kind,
        told["coverage"],
        told["size"],
        dict(zip(names, told["classes"], strict=True)),
    )
    return Calibrated(recalibration=again, sets=Sets.of(honest, labels, LEVEL, count)), summary
