"""What is learned: regression in the user's units, or binary classification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """Targets with their units and scaling; the only place where model units meet user units.

    A regression model works on (y − mean)/std of the training labels; a classifier's outputs are
    logits, and users see probabilities.

    Attributes:
        kind: "regression" or "classification".
        names: of the T targets.
        units: of the targets, "" where unknown.
        mean, std: of each target's training labels.
        loss: l1, mse or huber (regression).
    """

    kind: str
    names: tuple[str, ...]
    units: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    loss: str = "l1"
    _scale: tuple[Tensor, Tensor] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        count = len(self.names)
        mean = torch.tensor(self.mean or (0.0,) * count, dtype=torch.float64)
        std = torch.tensor(self.std or (1.0,) * count, dtype=torch.float64)
        object.__setattr__(self, "units", self.units or ("",) * count)
        object.__setattr__(self, "_scale", (mean, std))

    @staticmethod
    def of(
        kind: str | None,
        names: Sequence[str],
        units: Sequence[str],
        labels: Floats,
        loss: str,
        weights: Floats | None = None,
    ) -> Task:
        """The task that training labels [n, T] describe; ``kind`` None lets the labels decide.

        Labels are scaled as their rows weigh: one of weight 0 has no say.
        """
        rows = np.ones(len(labels)) if weights is None else weights
        known = labels[np.isfinite(labels)]
        binary = known.size > 0 and bool(np.isin(known, (0.0, 1.0)).all())
        kind = kind or ("classification" if binary else "regression")
        if kind == "classification":
            if not binary:
                other = known[~np.isin(known, (0.0, 1.0))]
                raise ValueError(
                    "classification wants labels 0 and 1, "
                    f"but there is {float(other[0]) if other.size else 'none'}"
                )
            return Task(kind, tuple(names), tuple(units), loss="log")
        mean, std = [], []
        for name, column in zip(names, labels.T, strict=True):
            there = np.isfinite(column) & (rows > 0)
            if not there.any():
                raise ValueError(f"target {name!r} has no label among the training rows")
            centre = float(np.average(column[there], weights=rows[there]))
            spread = np.average((column[there] - centre) ** 2, weights=rows[there])
            mean.append(centre)
            std.append(float(np.sqrt(spread)) or 1.0)
        return Task(kind, tuple(names), tuple(units), tuple(mean), tuple(std), loss)

    @property
    def is_regression(self) -> bool:
        """Whether real numbers are learned."""
        return self.kind == "regression"

    def to_model(self, labels: Floats) -> Tensor:
        """Labels in the user's units → what the model learns, float32 [n, T]."""
        mean, std = self._scale
        return ((torch.from_numpy(labels) - mean) / std).to(torch.float32)

    def to_user(self, outputs: Tensor) -> Tensor:
        """Outputs of the model → values in the user's units, or probabilities; float64 [n, T]."""
        mean, std = self._scale
        outputs = outputs.detach().to("cpu", torch.float64)
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
            "kind": self.kind, "names": list(self.names), "units": list(self.units),
            "mean": list(self.mean), "std": list(self.std), "loss": self.loss,
        }  # fmt: skip

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Task:
        """Read back :meth:`to_dict`."""
        read: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
        }
        return Task(**read)
