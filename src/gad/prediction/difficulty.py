"""How hard a molecule is for a model: the size of the error that is to be expected.

An interval of one width is too wide for a molecule like those the model has learned from and too
narrow for one unlike any. So its width is made proportional to σ(x), a scale that is learned from
errors r on rows which were not trained on:

    log σ(x) = w₀ + w · φ(x),    w minimises Σ |r| / σ(x) + log σ(x) + λ ‖w‖²

(the likelihood of Laplace's distribution, convex in w). φ is what is known of a molecule without
its label: how near the training molecules are, how large the model's errors were on those that
are near, how much the members of an ensemble differ, how large the molecule is. A weight has the
sign that it must have: nearness never makes a molecule harder. Several choices of φ compete, the
empty one among them, and the one with the narrowest intervals at equal coverage is taken. Whether
σ is any good decides how wide intervals are, never how many truths they hold: that is calibrated
afterwards on other rows (:mod:`gad.prediction.intervals`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gad.prediction.intervals import quantile

Floats = npt.NDArray[np.float64]

SIGNS = {
    "similarity": -1, "distance": 1, "nearby_error": 1, "spread": 1, "size": 1, "extremeness": 1,
}  # fmt: skip
"""What may be known of a molecule, and whether more of it is harder (1) or easier (−1)."""

CANDIDATES: dict[str, tuple[str, ...]] = {
    "constant": (),
    "ensemble spread": ("spread",),
    "distance to the training set": ("similarity", "distance"),
    "errors nearby": ("nearby_error",),
    "learned": tuple(SIGNS),
}
"""What σ may depend on; the first is an interval of one width."""

# Standard deviations from the mean beyond which a feature says nothing more than "far".
_FARTHEST = 3.0
# λ in rows: so many rows would have to speak against a weight of 0.
_STRENGTHS = (100.0, 300.0)
_FOLDS, _ROUNDS = 5, 2
# Widths are compared at several coverages about the wanted one: a single rank depends on few rows.
_AROUND = (-0.1, -0.05, 0.0, 0.05)
_LEAST_ROWS = 30


@dataclass(frozen=True)
class Difficulty:
    """σ(x) of one target: features by name, their mean and spread, and a weight for each.

    Attributes:
        kind: the name of the candidate.
        features: names out of :data:`SIGNS`.
        mean, std, weights: one a feature.
        offset: w₀.
    """

    kind: str = "constant"
    features: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()
    offset: float = 0.0

    def __call__(self, known: Mapping[str, Floats], rows: int) -> Floats:
        """σ of so many rows [n] > 0, from their features [n] by name."""
        x = _standardised(_columns(known, self.features, rows), self.mean, self.std)
        sigma: Floats = np.exp(self.offset + x @ np.array(self.weights))
        return sigma

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it."""
        return asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Difficulty:
        """Read back :meth:`to_dict`."""
        lists = {name: tuple(float(v) for v in values[name]) for name in ("mean", "std", "weights")}
        features = tuple(str(name) for name in values["features"])
        if {len(found) for found in lists.values()} != {len(features)}:
            raise ValueError("the weights of its difficulty do not fit")
        return Difficulty(str(values["kind"]), features, **lists, offset=float(values["offset"]))


def fit_difficulty(
    known: Mapping[str, Floats],
    residuals: Floats,
    features: Sequence[str],
    kind: str = "learned",
    strength: float = 100.0,
) -> Difficulty:
    """Fit σ to residuals [n] (of either sign, finite), with these features of ``known``.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> similarity = rng.random(500)
        >>> errors = rng.laplace(size=500) * np.exp(-2 * similarity)
        >>> known = {"similarity": similarity}
        >>> sigma = fit_difficulty(known, errors, ["similarity"], strength=10)
        >>> near, far = sigma({"similarity": np.array([0.9, 0.1])}, 2)
        >>> bool(3 < far / near < 6)
        True
    """
    from scipy.optimize import minimize

    sizes = np.abs(residuals)
    sizes = np.maximum(sizes, 1e-9 * max(float(sizes.max(initial=0.0)), 1e-300))
    table = _columns(known, features, len(sizes))
    mean, std = table.mean(0), table.std(0)
    std = np.where(std > 1e-9, std, 1.0)
    x = np.column_stack([np.ones(len(sizes)), _standardised(table, mean.tolist(), std.tolist())])
    penalty = strength / len(sizes) * np.r_[0.0, np.ones(len(features))]

    def cost(w: Floats) -> tuple[float, Floats]:
        with np.errstate(over="ignore"):
            scaled = sizes * np.exp(-np.clip(x @ w, -700, 700))
        value = (scaled + x @ w).mean() + (penalty * w**2).sum()
        return float(value), x.T @ (1 - scaled) / len(sizes) + 2 * penalty * w

    ends = {-1: (None, 0.0), 0: (None, None), 1: (0.0, None)}
    start = np.r_[np.log(sizes.mean()), np.zeros(len(features))]
    limits = [ends[0], *(ends[SIGNS[name]] for name in features)]
    found = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=limits).x
    return Difficulty(
        kind, tuple(features), tuple(mean.tolist()), tuple(std.tolist()),
        tuple(found[1:].tolist()), float(found[0]),
    )  # fmt: skip


def choose_difficulty(
    known: Mapping[str, Floats], residuals: Floats, level: float, seed: int = 0
) -> tuple[Difficulty, dict[str, float]]:
    """The candidate with the narrowest intervals at equal coverage, and the widths of all.

    Every candidate is fitted on four fifths of the rows and looked at on the other, in turn and
    several times; the q that makes ``± q σ`` hold so many of all truths then tells its width.

    Args:
        known: features [n] by name; candidates whose features are not there do not compete.
        residuals: [n]; NaN is missing.
        level: the share of truths that intervals shall hold; widths are compared around it.
        seed: of the division into fifths.

    Returns:
        The best, fitted on all rows; and candidate → mean width, as a share of the constant's.
    """
    there = np.isfinite(residuals)
    known = {name: column[there] for name, column in known.items()}
    sizes = np.abs(residuals[there])
    if len(sizes) < _LEAST_ROWS or not sizes.max() > 0:
        return Difficulty(), {"constant": 1.0}
    tried: dict[tuple[str, float], float] = {}
    for kind, wanted in CANDIDATES.items():
        features = [name for name in wanted if name in known]
        if wanted and not features:
            continue
        for strength in _STRENGTHS if len(features) > 1 else _STRENGTHS[:1]:
            tried[kind, strength] = _width(known, sizes, features, strength, level, seed)
    constant = tried["constant", _STRENGTHS[0]]
    best, strength = min(tried, key=lambda key: tried[key])
    widths = {
        kind: min(width for (other, _), width in tried.items() if other == kind) / constant
        for kind, _ in tried
    }
    features = [name for name in CANDIDATES[best] if name in known]
    return fit_difficulty(known, sizes, features, best, strength), widths


def _width(
    known: Mapping[str, Floats],
    sizes: Floats,
    features: Sequence[str],
    strength: float,
    level: float,
    seed: int,
) -> float:
    """The mean width of intervals whose σ was fitted on other rows."""
    rng, widths = np.random.default_rng(seed), []
    for _ in range(_ROUNDS if features else 1):
        sigma = np.ones(len(sizes))
        for part in np.array_split(rng.permutation(len(sizes)), _FOLDS) if features else ():
            rest = np.setdiff1d(np.arange(len(sizes)), part)
            fitted = fit_difficulty(
                {name: known[name][rest] for name in features}, sizes[rest], features,
                strength=strength,
            )  # fmt: skip
            sigma[part] = fitted({name: known[name][part] for name in features}, len(part))
        levels = [min(max(level + shift, 0.01), 0.99) for shift in _AROUND]
        widths.append([quantile(sizes / sigma, one) * sigma.mean() for one in levels])
    return float(np.mean(widths))


def _columns(known: Mapping[str, Floats], features: Sequence[str], rows: int) -> Floats:
    columns = [known[name] for name in features]
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0))


def _standardised(table: Floats, mean: Sequence[float], std: Sequence[float]) -> Floats:
    found: Floats = np.clip((table - np.array(mean)) / np.array(std), -_FARTHEST, _FARTHEST)
    return found
