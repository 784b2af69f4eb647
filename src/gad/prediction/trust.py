"""How far to trust a prediction: what a model keeps to say so, and what it says of molecules.

Three parts of a model file: ``domain`` (:mod:`gad.prediction.domain`), ``neighbours``
(:mod:`gad.prediction.neighbours`) unless the training set is not to be disclosed, and
``calibration``: for every number the half-width of an interval and the difficulty σ that it is
multiplied by (:mod:`gad.prediction.difficulty`), for every class what makes its probability honest
(:mod:`gad.prediction.recalibration`) and when it is in a prediction set
(:mod:`gad.prediction.probabilities`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gad.chem.looks import Looks
from gad.prediction.difficulty import Difficulty
from gad.prediction.domain import Domain
from gad.prediction.model_file import Model, Part
from gad.prediction.neighbours import Near, Neighbours
from gad.prediction.probabilities import Sets
from gad.prediction.recalibration import Recalibration
from gad.settings.task import Task

Floats = npt.NDArray[np.float64]

DOMAIN, NEIGHBOURS, CALIBRATION = "domain", "neighbours", "calibration"
NEAREST = 5
"""Training molecules whose mean similarity says how near they are."""

# Added before logarithms, in standard deviations of the labels.
_LEAST = 1e-3
_HEAVY_ATOMS = 5  # its place among the descriptors


@dataclass(frozen=True)
class Calibrated:
    """What is known of one target: intervals of a number, or probabilities and sets of classes.

    Attributes:
        half: of the interval of one width, in units of what is learned; NaN where unknown.
        scaled: the half-width is this × σ(x).
        difficulty: σ.
        recalibration: of probabilities.
        sets: of classes; None where unknown.
    """

    half: float = np.nan
    scaled: float = np.nan
    difficulty: Difficulty = field(default_factory=Difficulty)
    recalibration: Recalibration = field(default_factory=Recalibration)
    sets: Sets | None = None

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it: what is unknown is left out."""
        told: dict[str, object] = {}
        if np.isfinite(self.half):
            told = {
                "half": self.half,
                "scaled": self.scaled,
                "difficulty": self.difficulty.to_dict(),
            }
        if self.recalibration != Recalibration():
            told["recalibration"] = self.recalibration.to_dict()
        return told if self.sets is None else {**told, "sets": list(self.sets.least)}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Calibrated:
        """Read back :meth:`to_dict`."""
        again, sets = values.get("recalibration"), values.get("sets")
        return Calibrated(
            float(values.get("half", np.nan)),
            float(values.get("scaled", np.nan)),
            Difficulty.from_dict(values["difficulty"]) if "difficulty" in values else Difficulty(),
            Recalibration() if again is None else Recalibration.from_dict(again),
            None if sets is None else Sets(tuple(float(least) for least in sets)),
        )


@dataclass(frozen=True, eq=False)
class Trust:
    """What a model keeps to say how far to trust it.

    Attributes:
        task: what the model predicts.
        targets: what is known of each.
        scale: [2, T], mean and standard deviation of the training labels.
        domain: what the training set looked like; None for graphs without SMILES.
        neighbours: the training molecules; None where they are not kept.
        level: the share of truths that intervals and sets shall hold.
    """

    task: Task
    targets: tuple[Calibrated, ...]
    scale: Floats
    domain: Domain | None = None
    neighbours: Neighbours | None = None
    level: float = 0.9

    @staticmethod
    def of(model: Model) -> Trust:
        """What a model has; of older files only intervals of one width.

        Raises:
            ValueError, KeyError: its parts do not fit.
        """
        task, parts = model.task, model.parts
        scale = np.mean([scale.labels.numpy() for scale in model.scales], axis=0)
        if CALIBRATION in parts:
            told = parts[CALIBRATION].settings
            each = [told["targets"].get(name, {}) for name in task.names]
            targets = tuple(Calibrated.from_dict(values) for values in each)
            level = float(told["level"])
        else:
            noted = model.notes.get("uncertainty") or {}
            half = noted.get("q", {})
            known = [float(half.get(name, np.nan)) for name in task.names]
            targets = tuple(Calibrated(half=q, scaled=q) for q in known)
            level = float(noted.get("level", 0.9))
        if any(
            c.sets is not None and len(c.sets.least) != max(t.outputs, 2)
            for c, t in zip(targets, task.targets, strict=True)
        ):
            raise ValueError("its prediction sets do not fit its classes")
        return Trust(
            task, targets, scale,
            Domain.from_part(parts[DOMAIN]) if DOMAIN in parts else None,
            Neighbours.from_part(parts[NEIGHBOURS], task) if NEIGHBOURS in parts else None,
            level,
        )  # fmt: skip

    def parts(self) -> dict[str, Part]:
        """As a model file keeps it."""
        told = {
            name: known
            for name, target in zip(self.task.names, self.targets, strict=True)
            if (known := target.to_dict())
        }
        parts = {CALIBRATION: Part({"level": self.level, "targets": told})}
        if self.domain is not None:
            parts[DOMAIN] = self.domain.to_part()
        if self.neighbours is not None:
            parts[NEIGHBOURS] = self.neighbours.to_part()
        return parts

    @cached_property
    def half(self) -> Floats:
        """[T], of intervals of one width."""
        return np.array([target.half for target in self.targets])

    @property
    def without_interval(self) -> list[str]:
        """Names of the numbers of which no interval is known."""
        pairs = zip(self.task.targets, self.half, strict=True)
        return [t.name for t, half in pairs if t.kind == "regression" and not np.isfinite(half)]

    def recalibrated(self, values: Floats) -> Floats:
        """Outputs [n, W] with honest probabilities."""
        if all(target.recalibration == Recalibration() for target in self.targets):
            return values
        told: Floats = values.copy()
        for target, span, (_, own) in zip(
            self.targets, self.task.spans, self.task.each(values), strict=True
        ):
            honest = target.recalibration(own)
            told[:, span] = honest if honest.ndim == 2 else honest[:, None]
        return told

    def evidence(
        self, looks: Looks, near: Near | None, values: Floats, spread: Floats | None
    ) -> list[dict[str, Floats]]:
        """What is known of G molecules without their labels, target by target: name → [G].

        Args:
            looks: the molecules from outside.
            near: the training molecules that are near, where they are kept.
            values: [G, W] predictions in the user's units.
            spread: [G, T] standard deviation over an ensemble, in units of what is learned.
        """
        shared = {"size": np.log1p(looks.values[:, _HEAVY_ATOMS])}
        if self.domain is not None:
            shared["distance"] = np.log(self.domain.distance(looks) + 0.1)
        if near is not None and near.similarity.shape[1]:
            shared["similarity"] = near.similarity[:, :NEAREST].mean(1)
        found = []
        for place, (target, own) in enumerate(self.task.each(values)):
            mean, std = self.scale[:, place]
            known = dict(shared)
            if target.kind == "regression":
                known["extremeness"] = np.abs(target.forward(own) - mean) / std
                if spread is not None:
                    known["spread"] = np.log(spread[:, place] / std + _LEAST)
                if near is not None and not np.isnan(near.errors[:, place]).any():
                    known["nearby_error"] = np.log(near.errors[:, place] / std + _LEAST)
            found.append(known)
        return found

    def widths(self, evidence: Sequence[Mapping[str, Floats]], rows: int) -> Floats:
        """Half-widths [G, T] in units of what is learned."""
        columns = [
            target.scaled * target.difficulty(known, rows)
            for target, known in zip(self.targets, evidence, strict=True)
        ]
        return np.stack(columns, axis=1)

    def sets(self, values: Floats) -> list[tuple[tuple[str, ...] | None, ...]] | None:
        """Prediction sets by the names of the classes, row by row; None if there are no classes.

        Within a row there is one for each target; None for one that is a number, has no sets, or
        for a row without a prediction.
        """
        if all(target.sets is None for target in self.targets):
            return None
        columns: list[list[tuple[str, ...] | None]] = []
        for calibrated, (target, own) in zip(self.targets, self.task.each(values), strict=True):
            if calibrated.sets is None:
                columns.append([None] * len(values))
                continue
            names = target.classes or ("0", "1")
            there = np.isfinite(own if own.ndim == 1 else own[:, 0])
            held = calibrated.sets(np.nan_to_num(own))
            columns.append(
                [
                    tuple(n for n, inside in zip(names, row, strict=True) if inside)
                    if known
                    else None
                    for row, known in zip(held.tolist(), there.tolist(), strict=True)
                ]
            )
        return list(zip(*columns, strict=True))


def spread_of(task: Task, outputs: Floats) -> Floats | None:
    """The standard deviation over an ensemble [G, T] in units of what is learned.

    Args:
        task: what is predicted.
        outputs: [members, G, W] in the user's units.
    """
    if len(outputs) < 2:
        return None
    columns = [
        np.stack([target.forward(each[:, span.start]) for each in outputs]).std(0)
        for target, span in zip(task.targets, task.spans, strict=True)
    ]
    return np.stack(columns, axis=1)
