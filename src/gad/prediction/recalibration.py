"""Probabilities that mean what they say.

A network is often too sure of itself. Its logits z are recalibrated on rows it was not trained on:

- by a *line*, slope · z + shift (Platt's scaling for two classes; for more, the slope alone, which
  is a temperature);
- of two classes with many rows also by *steps*: isotonic regression, the rising function of z that
  makes the labels likeliest, with straight lines between its steps, so that it rises everywhere and
  the order of molecules stays (Zadrozny and Elkan 2002).

Which of them, or neither, is decided by how likely they make rows that they were not fitted to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# As close to 0 and 1 as a probability may come before its logarithm is taken, and the least that
# counts as the probability of what was true.
_CLOSEST, _LEAST_LIKELY = 1e-15, 1e-6
# In rows: so many would have to speak against leaving probabilities as they are.
_STRENGTH = 5.0
_FOLDS, _LEAST_ROWS = 5, 30
# Steps have many values to choose: rows of each class that there must be.
_LEAST_FOR_STEPS = 100
# Rows that are added to each step, divided as all rows are: no step is certain.
_ADDED = 2.0


@dataclass(frozen=True)
class Recalibration:
    """Logits z → slope · z + shift, or by steps; as they are unless fitted.

    Attributes:
        slope, shift: the line.
        steps: (logit, calibrated logit) of two classes, both rising; none for a line.

    Example:
        >>> Recalibration(slope=0.5)(np.array([0.9])).round(3)
        array([0.75])
    """

    slope: float = 1.0
    shift: float = 0.0
    steps: tuple[tuple[float, float], ...] = ()

    @property
    def kind(self) -> str:
        """Of what is done: none, line or steps."""
        if self.steps:
            return "steps"
        return "none" if self == Recalibration() else "line"

    def __call__(self, probabilities: Floats) -> Floats:
        """Probabilities of 1 [n], or of K classes [n, K], calibrated."""
        if self == Recalibration():
            return probabilities
        logits = _logits(probabilities)
        if not self.steps:
            return _likely(self.slope * logits + self.shift)
        x, y = np.array(self.steps).T
        # Beyond the first and the last step as before, only moved.
        beyond = np.minimum(logits - x[0], 0) + np.maximum(logits - x[-1], 0)
        return _likely(np.interp(logits, x, y) + beyond)

    @staticmethod
    def fit(probabilities: Floats, labels: Floats, weights: Floats | None = None) -> Recalibration:
        """What makes labels likeliest on rows that were not used to find it; maybe nothing.

        Args:
            probabilities: of 1 [n], or of K classes [n, K].
            labels: the numbers of the classes [n], complete.
            weights: of the rows [n].
        """
        counts = np.ones(len(labels), dtype=np.bool_) if weights is None else weights > 0
        weights = np.ones(len(labels)) if weights is None else weights
        probabilities, labels, weights = probabilities[counts], labels[counts], weights[counts]
        count = len(labels)
        there, sizes = np.unique(labels, return_counts=True)
        if count < _LEAST_ROWS or len(there) < 2:
            return Recalibration()
        ways: list[Callable[[Floats, Floats, Floats], Recalibration]] = [
            lambda *_: Recalibration(),
            _line,
        ]
        if probabilities.ndim == 1 and sizes.min() >= _LEAST_FOR_STEPS:
            ways.append(_steps)
        costs = np.zeros(len(ways))
        for part in np.array_split(np.random.default_rng(0).permutation(count), _FOLDS):
            rest = np.setdiff1d(np.arange(count), part)
            for k, way in enumerate(ways):
                found = way(probabilities[rest], labels[rest], weights[rest])
                costs[k] += _surprise(found(probabilities[part]), labels[part], weights[part])
        return ways[int(costs.argmin())](probabilities, labels, weights)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        told: dict[str, Any] = {"slope": self.slope, "shift": self.shift}
        return {**told, "steps": [list(step) for step in self.steps]} if self.steps else told

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Recalibration:
        """Read back :meth:`to_dict`."""
        steps = tuple((float(x), float(y)) for x, y in values.get("steps", ()))
        return Recalibration(float(values["slope"]), float(values["shift"]), steps)


def each_class(probabilities: Floats) -> Floats:
    """Probabilities of every class [n, K], also where only that of 1 is given."""
    if probabilities.ndim == 2:
        return probabilities
    return np.stack([1 - probabilities, probabilities], axis=1)


def _line(probabilities: Floats, labels: Floats, weights: Floats) -> Recalibration:
    from scipy.optimize import minimize

    logits, two = _logits(probabilities), probabilities.ndim == 1
    total = max(float(weights.sum()), 1e-12)

    def cost(w: Floats) -> float:
        slope, shift = math.exp(w[0]), w[1] if two else 0.0
        surprise = _surprise(_likely(slope * logits + shift), labels, weights)
        return (surprise + _STRENGTH * float((w**2).sum())) / total

    found = minimize(cost, np.zeros(2 if two else 1), method="L-BFGS-B").x
    return Recalibration(math.exp(float(found[0])), float(found[1]) if two else 0.0)


def _steps(probabilities: Floats, labels: Floats, weights: Floats) -> Recalibration:
    x, place = np.unique(_logits(probabilities), return_inverse=True)
    weight, ones = np.bincount(place, weights), np.bincount(place, weights * labels)
    share = float(ones.sum() / weight.sum())
    found = list(zip(weight.tolist(), ones.tolist(), (weight * x).tolist(), strict=True))
    for added in (0.0, _ADDED):  # isotonic regression; then no step is certain, and all rise still
        found = _pooled(found, added, share)
    at = [moment / total for total, _, moment in found]
    heights = _logits(np.array([_height(step, _ADDED, share) for step in found])).tolist()
    return Recalibration(steps=tuple(zip(at, heights, strict=True)))


_Step = tuple[float, float, float]
"""Of its rows the weight, that of the ones, and weight × logit."""


def _pooled(steps: Sequence[_Step], added: float, share: float) -> list[_Step]:
    """From the lowest logit on, two steps that do not rise become one."""
    found: list[_Step] = []
    for step in steps:
        found.append(step)
        while len(found) > 1 and _height(found[-2], added, share) >= _height(
            found[-1], added, share
        ):
            last, before = found.pop(), found.pop()
            found.append((before[0] + last[0], before[1] + last[1], before[2] + last[2]))
    return found


def _height(step: _Step, added: float, share: float) -> float:
    """The share of ones, with so many rows added that have the share of all."""
    return (step[1] + added * share) / (step[0] + added)


def _logits(probabilities: Floats) -> Floats:
    p = np.clip(probabilities, _CLOSEST, 1 - _CLOSEST)
    found: Floats = np.log(p) if p.ndim == 2 else np.log(p) - np.log1p(-p)
    return found


def _likely(logits: Floats) -> Floats:
    from scipy.special import expit, softmax

    found: Floats = expit(logits) if logits.ndim == 1 else softmax(logits, axis=1)
    return found


def _surprise(probabilities: Floats, labels: Floats, weights: Floats) -> float:
    """The sum of −log p of what was true."""
    true = each_class(probabilities)[np.arange(len(labels)), labels.astype(np.int64)]
    return float(-(weights * np.log(np.maximum(true, _LEAST_LIKELY))).sum())
