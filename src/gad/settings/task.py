"""What is learned, in the user's terms; and the scales by which a model learns it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

Floats = npt.NDArray[np.float64]
Signs = npt.NDArray[np.int8]
KINDS = ("regression", "binary", "multiclass")
TASKS = ("regression", "classification", "multiclass")
TRANSFORMS = ("none", "log10")
# Standardised values of whole molecules are held within this: an outlier must not run away with a
# linear head.
_CLIP = 10.0
# `auto` takes the logarithm of labels whose middle nine tenths span so many times the smallest, if
# that makes them less lopsided.
_ORDERS = 10.0


class TargetCard(TypedDict):
    """A target in the card of a model file: the fields of :class:`Target`."""

    name: str
    kind: str
    unit: str
    classes: list[str]
    transform: str


class TaskCard(TypedDict):
    """A task there; names and units are those of the targets once more, for people."""

    kind: str
    names: list[str]
    units: list[str]
    targets: list[TargetCard]
    loss: str


@dataclass(frozen=True)
class Target:
    """One column that is learned.

    Attributes:
        name: of the column.
        kind: regression, binary or multiclass.
        unit: of a regression, "" where unknown.
        classes: their names; none for labels that are 0 and 1.
        transform: log10 if the logarithm of a regression's labels is what is learned, else none.
    """

    name: str
    kind: str = "regression"
    unit: str = ""
    classes: tuple[str, ...] = ()
    transform: str = "none"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a target is one of {', '.join(KINDS)}, not {self.kind!r}")
        if self.transform not in TRANSFORMS:
            raise ValueError(f"a transform is {' or '.join(TRANSFORMS)}, not {self.transform!r}")

    def to_dict(self) -> TargetCard:
        """As JSON can hold it."""
        return {
            "name": self.name,
            "kind": self.kind,
            "unit": self.unit,
            "classes": list(self.classes),
            "transform": self.transform,
        }

    @property
    def outputs(self) -> int:
        """How many numbers a model gives for it: one, or one a class."""
        return len(self.classes) if self.kind == "multiclass" else 1

    def forward(self, values: Floats) -> Floats:
        """The user's numbers → those that are learned."""
        if self.transform == "none":
            return values
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log10(values)

    def backward(self, values: Floats) -> Floats:
        """The inverse of :meth:`forward`."""
        with np.errstate(over="ignore"):
            return values if self.transform == "none" else np.power(10.0, values)


@dataclass(frozen=True)
class Task:
    """The T targets of a model, and the loss of its regressions: l1, mse or huber.

    A regression model works on (y − mean)/std of its training labels (:class:`Scale`); a
    classifier's outputs are logits, and users see probabilities. A label that is only a bound,
    such as ``>10``, costs nothing on its own side: the loss is that of the distance from the
    output to the nearest value that the label allows.
    """

    targets: tuple[Target, ...]
    loss: str = "l1"

    @staticmethod
    def of(
        kind: str | None,
        names: Sequence[str],
        units: Sequence[str],
        labels: Floats,
        loss: str,
        classes: Sequence[Sequence[str]] = (),
        transform: str = "none",
    ) -> Task:
        """The task that labels [n, T] describe; ``kind`` None lets each target's labels decide.

        Args:
            kind: regression, classification, multiclass or None.
            names: of the targets.
            units: of the targets, "" where unknown.
            labels: numbers, or numbers of classes.
            loss: of the regressions.
            classes: of each target; none where labels are numbers.
            transform: none, log10, or auto: log10 where labels are positive and span orders.
        """
        if kind is not None and kind not in TASKS:
            raise ValueError(f"unknown task {kind!r}: choose from {', '.join(TASKS)}")
        named = classes or [()] * len(names)
        return Task(
            tuple(
                _target(kind, name, unit, column[np.isfinite(column)], tuple(words), transform)
                for name, unit, column, words in zip(names, units, labels.T, named, strict=True)
            ),
            loss,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Of the targets."""
        return tuple(target.name for target in self.targets)

    @property
    def units(self) -> tuple[str, ...]:
        """Of the targets, "" where unknown."""
        return tuple(target.unit for target in self.targets)

    @property
    def kind(self) -> str:
        """What the targets are together: regression, classification, multiclass or mixed.

        A base has none: its task is ``embedding``.
        """
        kinds = {target.kind for target in self.targets}
        if not kinds:
            return "embedding"
        if "regression" in kinds:
            return "regression" if len(kinds) == 1 else "mixed"
        return "multiclass" if "multiclass" in kinds else "classification"

    @property
    def is_regression(self) -> bool:
        """Whether real numbers are learned, and nothing else."""
        return self.kind == "regression"

    @property
    def outputs(self) -> int:
        """How many numbers the head of a model gives."""
        return sum(target.outputs for target in self.targets)

    @cached_property
    def spans(self) -> tuple[slice, ...]:
        """Which of the outputs belong to each target."""
        ends = np.cumsum([target.outputs for target in self.targets]).tolist()
        return tuple(slice(a, b) for a, b in zip([0, *ends][:-1], ends, strict=True))

    def each(self, outputs: Floats) -> Iterator[tuple[Target, Floats]]:
        """Every target with its columns of outputs: [n], or [n, K] for K classes."""
        for target, span in zip(self.targets, self.spans, strict=True):
            columns = outputs[:, span]
            yield target, columns if target.kind == "multiclass" else columns[:, 0]

    def to_model(self, labels: Floats, scale: Scale, bounds: Signs | None = None) -> Tensor:
        """Labels in the user's units → what the model learns, float32 [n, T].

        With bounds (1: the truth is above, −1: below) the lowest and the highest value that each
        label allows, [n, T, 2].
        """
        mean, std = scale.labels
        learned = torch.from_numpy(self.forward(labels)).sub(mean).div(std).float()
        if bounds is None or not bounds.any():
            return learned
        above, below = torch.from_numpy(bounds > 0), torch.from_numpy(bounds < 0)
        ends = learned.masked_fill(below, -torch.inf), learned.masked_fill(above, torch.inf)
        return torch.stack(ends, dim=2)

    def forward(self, labels: Floats) -> Floats:
        """The user's numbers → those that are learned, [n, T] both."""
        columns = zip(self.targets, labels.T, strict=True)
        return np.stack([target.forward(column) for target, column in columns], axis=1)

    def backward(self, labels: Floats) -> Floats:
        """The inverse of :meth:`forward`."""
        columns = zip(self.targets, labels.T, strict=True)
        return np.stack([target.backward(column) for target, column in columns], axis=1)

    def to_user(self, outputs: Tensor, scale: Scale) -> Tensor:
        """Outputs of a model → values in the user's units, or probabilities; float64 [n, W]."""
        outputs = outputs.detach().to("cpu", torch.float64)
        told = [outputs[:, :0]]
        for target, span, (mean, std) in zip(self.targets, self.spans, scale.labels.T, strict=True):
            own = outputs[:, span]
            if target.kind == "multiclass":
                told.append(own.softmax(1))
            elif target.kind == "binary":
                told.append(own.sigmoid())
            else:
                told.append(torch.from_numpy(target.backward((own * std + mean).numpy())))
        return torch.cat(told, dim=1)

    def decide(self, values: Floats) -> list[npt.NDArray[Any]]:
        """For each target its value, its probability of 1, or the likeliest class by its name.

        >>> task = Task((Target("hit", "binary", classes=("no", "yes")), Target("logS")))
        >>> [told.tolist() for told in task.decide(np.array([[0.8, -2.0], [np.nan, np.nan]]))]
        [['yes', None], [-2.0, nan]]
        """
        told: list[npt.NDArray[Any]] = []
        for target, own in self.each(values):
            if not target.classes:
                told.append(own)
                continue
            there = np.isfinite(own if own.ndim == 1 else own[:, 0])
            likeliest = own > 0.5 if own.ndim == 1 else np.nan_to_num(own).argmax(1)
            names = np.array(target.classes, dtype=object)[likeliest.astype(int)]
            names[~there] = None
            told.append(names)
        return told

    def around(self, values: Floats, half: Floats) -> tuple[Floats, Floats]:
        """The ends [n, T] of intervals ± half [T] or [n, T], in units of what is learned."""
        lower, upper = (np.full((len(values), len(self.targets)), np.nan) for _ in range(2))
        for place, (target, own) in enumerate(self.each(values)):
            if target.kind == "regression":
                centre = target.forward(own)
                lower[:, place] = target.backward(centre - half[..., place])
                upper[:, place] = target.backward(centre + half[..., place])
        return lower, upper

    def residuals(self, labels: Floats, values: Floats, bounds: Signs | None = None) -> Floats:
        """Value − label in units of what is learned, [n, T]; NaN for classes and for bounds."""
        found = np.full(labels.shape, np.nan)
        for place, (target, own) in enumerate(self.each(values)):
            if target.kind == "regression":
                found[:, place] = target.forward(own) - target.forward(labels[:, place])
        if bounds is not None:
            found[bounds != 0] = np.nan
        return found

    def losses(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The summed loss over labels that are there, and the sum of their weights.

        Args:
            outputs: [n, W] of the model.
            targets: [n, T] or, with bounds, [n, T, 2], as :meth:`to_model` gives them.
            weights: of the rows [n], or of the labels [n, T].
        """
        ends = targets if targets.dim() == 3 else None
        there = ~torch.isnan(targets if ends is None else targets[..., 0])
        kinds = {target.kind for target in self.targets}
        if kinds == {"regression"}:
            each = self._distance(outputs, targets, there)
        elif kinds == {"binary"} and ends is None:
            clean = torch.where(there, targets, torch.zeros_like(targets))
            each = F.binary_cross_entropy_with_logits(outputs, clean, reduction="none")
        else:
            each = torch.stack(
                [
                    self._own(target, outputs[:, span], targets[:, place], there[:, place])
                    for place, (target, span) in enumerate(
                        zip(self.targets, self.spans, strict=True)
                    )
                ],
                dim=1,
            )
        weights = weights if weights.dim() == 2 else weights[:, None]
        weight = there.to(outputs.dtype) * weights.to(outputs.dtype)
        return (each * weight).sum(), weight.sum()

    def _own(self, target: Target, outputs: Tensor, labels: Tensor, there: Tensor) -> Tensor:
        """The loss of one target among several kinds, [n]."""
        if target.kind == "regression":
            return self._distance(outputs[:, 0], labels, there)
        labels = labels if labels.dim() == 1 else labels[:, 0]
        clean = torch.where(there, labels, torch.zeros_like(labels))
        if target.kind == "multiclass":
            return F.cross_entropy(outputs, clean.long(), reduction="none")
        return F.binary_cross_entropy_with_logits(outputs[:, 0], clean, reduction="none")

    def _distance(self, outputs: Tensor, labels: Tensor, there: Tensor) -> Tensor:
        """The loss of the distance to the nearest value that a label allows."""
        if labels.dim() == outputs.dim():
            clean = torch.where(there, labels, torch.zeros_like(labels))
        else:  # the ends of what is allowed; in between there is nothing to pay
            inside = outputs.detach().clamp(labels[..., 0], labels[..., 1])
            clean = torch.where(there, inside, torch.zeros_like(inside))
        if self.loss == "l1":
            return (outputs - clean).abs()
        if self.loss == "mse":
            return (outputs - clean).square()
        return F.huber_loss(outputs, clean, reduction="none")

    def to_dict(self) -> TaskCard:
        """As JSON can hold it."""
        return {
            "kind": self.kind,
            "names": list(self.names),
            "units": list(self.units),
            "targets": [target.to_dict() for target in self.targets],
            "loss": self.loss,
        }

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Task:
        """Read back :meth:`to_dict`."""
        targets = tuple(
            Target(**{**given, "classes": tuple(given.get("classes", ()))})
            for given in values["targets"]
        )
        return Task(targets, str(values["loss"]))


def _target(
    kind: str | None, name: str, unit: str, known: Floats, classes: tuple[str, ...], transform: str
) -> Target:
    """The target that its labels describe."""
    if classes:
        return Target(name, "binary" if len(classes) == 2 else "multiclass", "", classes)
    other = known[~np.isin(known, (0.0, 1.0))]
    if kind == "classification" and (other.size or not known.size):
        there = f"{other[0]:g}: for more than two classes use --task multiclass"
        raise ValueError(
            f"classification wants labels 0 and 1, or words, but {name!r} has "
            f"{there if other.size else 'none'}"
        )
    if kind == "classification" or (kind is None and known.size and not other.size):
        return Target(name, "binary", unit)
    if transform == "auto":
        transform = "log10" if _spans_orders(known) else "none"
    return Target(name, "regression", unit, transform=transform)


def _spans_orders(labels: npt.NDArray[np.float64]) -> bool:
    """Whether labels are better seen on a logarithmic scale: most lie far below the rest."""
    if not labels.size or labels.min() <= 0:
        return False
    low, high = np.quantile(labels, [0.05, 0.95])
    return bool(
        high >= _ORDERS * low and 2 * abs(_skewness(np.log(labels))) < abs(_skewness(labels))
    )


def _skewness(values: npt.NDArray[np.float64]) -> float:
    """The mean cube of standardised values: 0 for symmetric ones."""
    return float((((values - values.mean()) / values.std()) ** 3).mean())


@dataclass(frozen=True, eq=False)
class Scale:
    """Means and standard deviations of one member's training rows: what it sees is divided by them.

    Attributes:
        labels: [2, T] float64, 0 and 1 for classes.
        values: [2, D] float32, of whole-molecule values; a constant column counts as it is.
    """

    labels: Tensor
    values: Tensor

    @staticmethod
    def of(task: Task, labels: Floats, weights: Floats, values: Tensor) -> Scale:
        """From the training rows: labels [n, T], weights [n], whole-molecule values [n, D].

        Labels count as their rows weigh: one of weight 0 has no say.
        """
        pairs = []
        for target, given in zip(task.targets, labels.T, strict=True):
            if target.kind != "regression":
                pairs.append((0.0, 1.0))
                continue
            column = target.forward(given)
            there = np.isfinite(column) & (weights > 0)
            if not there.any():
                raise ValueError(f"target {target.name!r} has no label among the training rows")
            centre = float(np.average(column[there], weights=weights[there]))
            spread = np.average((column[there] - centre) ** 2, weights=weights[there])
            pairs.append((centre, float(np.sqrt(spread)) or 1.0))
        return Scale(torch.tensor(pairs, dtype=torch.float64).T.contiguous(), _spread(values))

    def standardise(self, values: Tensor) -> Tensor:
        """Whole-molecule values as the model sees them: (v − mean)/std, held within ±10."""
        mean, std = self.values.to(values.device)
        return values.sub(mean).div(std).clamp(-_CLIP, _CLIP)


def _spread(values: Tensor) -> Tensor:
    if not values.numel():
        return torch.stack([torch.zeros(values.shape[1]), torch.ones(values.shape[1])])
    std, mean = torch.std_mean(values.to(torch.float64), dim=0, correction=0)
    return torch.stack([mean, torch.where(std > 1e-9, std, torch.ones_like(std))]).float()
