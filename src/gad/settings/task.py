"""What is learned, in the user's terms; and the scales by which a model learns it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

Floats = npt.NDArray[np.float64]
KINDS = ("regression", "binary")
# Standardised values of whole molecules are held within this: an outlier must not run away with a
# linear head.
_CLIP = 10.0


@dataclass(frozen=True)
class Target:
    """One column that is learned: real numbers with a unit ("" where unknown), or 0 and 1."""

    name: str
    kind: str = "regression"
    unit: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a target is one of {', '.join(KINDS)}, not {self.kind!r}")


@dataclass(frozen=True)
class Task:
    """The T targets of a model, and the loss of its regressions: l1, mse or huber.

    A regression model works on (y − mean)/std of its training labels (:class:`Scale`); a
    classifier's outputs are logits, and users see probabilities.
    """

    targets: tuple[Target, ...]
    loss: str = "l1"

    @staticmethod
    def of(
        kind: str | None, names: Sequence[str], units: Sequence[str], labels: Floats, loss: str
    ) -> Task:
        """The task that labels [n, T] describe; ``kind`` None lets the labels decide."""
        known = labels[np.isfinite(labels)]
        other = known[~np.isin(known, (0.0, 1.0))]
        if kind is None:
            kind = "classification" if known.size and not other.size else "regression"
        if kind == "classification" and (other.size or not known.size):
            there = float(other[0]) if other.size else "none"
            raise ValueError(f"classification wants labels 0 and 1, but there is {there}")
        each = "regression" if kind == "regression" else "binary"
        return Task(tuple(Target(n, each, u) for n, u in zip(names, units, strict=True)), loss)

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
        """What the targets are together: regression or classification."""
        return "regression" if self.is_regression else "classification"

    @property
    def is_regression(self) -> bool:
        """Whether real numbers are learned."""
        return all(target.kind == "regression" for target in self.targets)

    @property
    def outputs(self) -> int:
        """How many numbers the head of a model gives."""
        return len(self.targets)

    def to_user(self, outputs: Tensor, scale: Scale) -> Tensor:
        """Outputs of a model → values in the user's units, or probabilities; float64 [n, T]."""
        outputs = outputs.detach().to("cpu", torch.float64)
        mean, std = scale.labels
        return outputs * std + mean if self.is_regression else outputs.sigmoid()

    def losses(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The summed loss over labels that are there, and the sum of their weights."""
        there = torch.isfinite(targets)
        clean = torch.where(there, targets, torch.zeros_like(targets))
        if not self.is_regression:
            each = F.binary_cross_entropy_with_logits(outputs, clean, reduction="none")
        elif self.loss == "l1":
            each = (outputs - clean).abs()
        elif self.loss == "mse":
            each = (outputs - clean).square()
        else:
            each = F.huber_loss(outputs, clean, reduction="none")
        weight = there.to(outputs.dtype) * weights[:, None].to(outputs.dtype)
        return (each * weight).sum(), weight.sum()

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "kind": self.kind,
            "names": list(self.names),
            "units": list(self.units),
            "targets": [asdict(target) for target in self.targets],
            "loss": self.loss,
        }

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Task:
        """Read back :meth:`to_dict`."""
        return Task(tuple(Target(**given) for given in values["targets"]), str(values["loss"]))


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
        for target, column in zip(task.targets, labels.T, strict=True):
            if target.kind != "regression":
                pairs.append((0.0, 1.0))
                continue
            there = np.isfinite(column) & (weights > 0)
            if not there.any():
                raise ValueError(f"target {target.name!r} has no label among the training rows")
            centre = float(np.average(column[there], weights=weights[there]))
            spread = np.average((column[there] - centre) ** 2, weights=weights[there])
            pairs.append((centre, float(np.sqrt(spread)) or 1.0))
        return Scale(torch.tensor(pairs, dtype=torch.float64).T.contiguous(), _spread(values))

    def to_model(self, labels: Floats) -> Tensor:
        """Labels in the user's units → what the model learns, float32 [n, T]."""
        mean, std = self.labels
        return torch.from_numpy(labels).sub(mean).div(std).float()

    def standardise(self, values: Tensor) -> Tensor:
        """Whole-molecule values as the model sees them: (v − mean)/std, held within ±10."""
        mean, std = self.values.to(values.device)
        return values.sub(mean).div(std).clamp(-_CLIP, _CLIP)


def _spread(values: Tensor) -> Tensor:
    if not values.numel():
        return torch.stack([torch.zeros(values.shape[1]), torch.ones(values.shape[1])])
    std, mean = torch.std_mean(values.to(torch.float64), dim=0, correction=0)
    return torch.stack([mean, torch.where(std > 1e-9, std, torch.ones_like(std))]).float()
