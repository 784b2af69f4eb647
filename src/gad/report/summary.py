"""What a training run has to say: typed, and as JSON can hold it (``summary.json``)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, TypeAlias

from gad.prediction.metrics import Scores

PARTS = {"test": "test", "val": "validation", "train": "training"}
ByPart: TypeAlias = dict[str, Scores]
Curve: TypeAlias = list[dict[str, float]]


@dataclass(frozen=True)
class Rows:
    """How many rows of the table were read, used and rejected, and went into each part."""

    read: int = 0
    used: int = 0
    rejected: int = 0
    train: int = 0
    val: int = 0
    test: int = 0


@dataclass(frozen=True)
class RejectedRow:
    """A row that could not be used; rows are counted as people do, from 1."""

    row: int
    smiles: str
    reason: str


@dataclass(frozen=True)
class LargeError:
    """A molecule on which the model is far off."""

    smiles: str
    target: str
    true: float | None
    pred: float | None


@dataclass(frozen=True)
class Parity:
    """True and predicted values of a target on the test part.

    Attributes:
        true: values, or numbers of classes.
        pred: values, probabilities of 1, or of every one of several classes.
        kind: regression, binary or multiclass; "" where the task says it.
        classes: names of several classes.
        error: sizes of the errors: in units of what is learned, or 1 − probability of the truth.
    """

    true: list[float | None]
    pred: list[Any]
    kind: str = ""
    classes: list[str] = field(default_factory=list)
    error: list[float | None] = field(default_factory=list)


@dataclass(frozen=True)
class FoldScores:
    """One metric on the test parts of a cross-validation."""

    mean: float | None = None
    std: float | None = None
    folds: list[float | None] = field(default_factory=list)


@dataclass(frozen=True)
class ClassTrust:
    """Probabilities and prediction sets of a target that has classes, on the test rows.

    Attributes:
        calibration_error, before: the expected one, and what it was without recalibrating.
        recalibration: of logits: none, line or steps.
        coverage, size: the share of sets that hold the truth, and their mean size.
        classes: the share of each class's molecules that have it in their set.
    """

    calibration_error: float | None = None
    before: float | None = None
    recalibration: str = "none"
    coverage: float | None = None
    size: float | None = None
    classes: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Uncertainty:
    """Conformal intervals and sets, and what they covered.

    Attributes:
        q: target → half-width of the interval of one width, of what is learned.
        difficulty: target → what makes the width differ from molecule to molecule.
        width: target → mean width of such intervals, as a share of that of one width.
        candidates: target → the same of all that were tried, on the rows that chose.
        classes: what is known of targets with classes.
    """

    level: float = 0.9
    partitions: int = 0
    coverage: float | None = None
    coverage_min: float | None = None
    coverage_max: float | None = None
    targets: list[float | None] = field(default_factory=list)
    q: dict[str, float] = field(default_factory=dict)
    difficulty: dict[str, str] = field(default_factory=dict)
    width: dict[str, float] = field(default_factory=dict)
    candidates: dict[str, dict[str, float]] = field(default_factory=dict)
    classes: dict[str, ClassTrust] = field(default_factory=dict)
    split: str = ""
    calibrated_on: str = ""


@dataclass(frozen=True)
class Bootstrap:
    """Where each target's metric would lie on other test rows: [low, high].

    ``metric`` is "" where targets of several kinds have their own.
    """

    metric: str
    level: float
    targets: dict[str, list[float]]


@dataclass(frozen=True)
class Baselines:
    """Scores of the mean predictor and of the linear model on descriptors."""

    mean: ByPart = field(default_factory=dict)
    ridge: ByPart = field(default_factory=dict)


@dataclass(frozen=True)
class RunSummary(Mapping[str, Any]):
    """A training run: what it was about, how good the model is, and how it was made.

    It also reads like the dictionary in ``summary.json``: ``run.summary["metrics"]["test"]``.

    Attributes:
        title: the name of the data set.
        task: regression, classification, multiclass, or mixed.
        metric: by which the run is judged; None for what is usual.
        targets, units: of the T targets; a unit is "" where unknown.
        logarithms: those of them that are learned as logarithms to the base of ten, if any.
        split: the kind of split.
        options: what else was asked for, where it is not the usual.
        metrics: part → scores of the model.
        parameters, members: of one model; how many models.
        recipe: every setting.
        rejects: the first of the rejected rows.
        messages: what was guessed, and anything else to know about the data.
        curves, best_epochs: one a model.
        reach: √t in bonds, of every channel of every layer.
        fingerprint: of the data.
        parity: target → test rows.
        similarity: of the same rows to the nearest training molecule, where it is known.
        model, report, paths: where they were written, and what else there is.

    Example:
        >>> summary = RunSummary(title="esol", targets=["logS"], rows=Rows(read=3, used=2))
        >>> summary["rows"]["read"], RunSummary.from_dict(summary.to_dict()) == summary
        (3, True)
    """

    title: str = ""
    task: str = "regression"
    targets: list[str] = field(default_factory=list)
    units: list[str] = field(default_factory=list)
    logarithms: list[str] | None = None
    metric: str | None = None
    split: str | None = None
    options: dict[str, object] = field(default_factory=dict)
    metrics: ByPart = field(default_factory=dict)
    parameters: int | None = None
    members: int | None = None
    recipe: dict[str, object] = field(default_factory=dict)
    seed: int | None = None
    rows: Rows = field(default_factory=Rows)
    rejects: list[RejectedRow] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    best_epochs: list[int] = field(default_factory=list)
    reach: list[list[float]] = field(default_factory=list)
    fingerprint: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    commit: str | None = None
    machine: str | None = None
    parity: dict[str, Parity] = field(default_factory=dict)
    similarity: list[float | None] | None = None
    folds: dict[str, FoldScores] | None = None
    worst: list[LargeError] | None = None
    uncertainty: Uncertainty | None = None
    bootstrap: Bootstrap | None = None
    baselines: Baselines | None = None
    minutes: float | None = None
    model: str | None = None
    report: str | None = None
    paths: dict[str, str] | None = None

    def unit(self, target: str) -> str:
        """The unit of a target, "" if unknown."""
        return dict(zip(self.targets, self.units, strict=False)).get(target, "")

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it; what a run does not have is left out, what is not finite is None."""
        values = {k: v for k, v in asdict(self).items() if v is not None or k == "commit"}
        values["data"] = {"title": self.title, "fingerprint": self.fingerprint}
        for key, many in (
            ("curve", values.pop("curves")),
            ("best_epoch", values.pop("best_epochs")),
        ):
            values[key] = many[0] if len(many) == 1 else many
        cleaned: dict[str, object] = _finite(values)
        return cleaned

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> RunSummary:
        """Read back :meth:`to_dict`, or the notes of a model file; unknown keys are ignored."""
        known = {key: value for key, value in values.items() if value is not None}
        known = {**known.get("data", {}), **known}
        curve, best = known.get("curve", []), known.get("best_epoch", [])
        known["curves"] = [curve] if curve and isinstance(curve[0], Mapping) else curve
        known["best_epochs"] = [best] if isinstance(best, int) else best
        for key in _ONE.keys() & known.keys():
            known[key] = _made(_ONE[key], known[key])
        for key in _MANY.keys() & known.keys():
            kind, items = _MANY[key], known[key]
            known[key] = (
                {name: _made(kind, item) for name, item in items.items()}
                if isinstance(items, Mapping)
                else [_made(kind, item) for item in items]
            )
        summary: RunSummary = _made(RunSummary, known)
        return summary

    def notes(self) -> dict[str, object]:
        """What a model file keeps of it."""
        keep = (
            "split", "options", "metric", "metrics", "folds", "bootstrap", "uncertainty", "rows",
            "data", "versions", "commit", "best_epoch",
        )  # fmt: skip
        return {key: self[key] for key in keep if key in self}

    @cached_property
    def _json(self) -> dict[str, object]:
        return self.to_dict()

    def __getitem__(self, key: str) -> Any:
        return self._json[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._json)

    def __len__(self) -> int:
        return len(self._json)


_ONE: dict[str, type[Any]] = {
    "rows": Rows, "uncertainty": Uncertainty, "bootstrap": Bootstrap, "baselines": Baselines,
}  # fmt: skip
_MANY: dict[str, type[Any]] = {
    "rejects": RejectedRow, "worst": LargeError, "parity": Parity, "folds": FoldScores,
}  # fmt: skip


def _made(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """A dataclass from those of its fields that are there."""
    names = {f.name for f in fields(kind)}
    if kind is Uncertainty:
        classes = values.get("classes") or {}
        values = {**values, "classes": {k: _made(ClassTrust, v) for k, v in classes.items()}}
    return kind(**{key: value for key, value in values.items() if key in names})


def _finite(value: Any) -> Any:
    """What JSON can hold: None in place of NaN and infinities, lists in place of tuples."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
