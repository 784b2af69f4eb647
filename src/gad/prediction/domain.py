"""Whether a model can know a molecule: inside, at the edge of, or outside what it has learned from.

Three things are looked at, and the worst counts.

- Nearness: the similarity to the nearest training molecule (:mod:`gad.prediction.neighbours`).
  Of the training molecules themselves, each without itself, 95 % are at least as near as the
  first limit and 99 % as the second: ``inside`` and ``edge``. A model that keeps no molecules
  measures how far the sixteen descriptors v are from the training set's mean m, √((v − m)ᵀ C⁻¹
  (v − m) / 16) with their covariance C, which discloses no single molecule.
- Elements: one that no training molecule has is outside.
- Ranges: a descriptor beyond the training set's by a tenth of its range is at the edge, by half
  of it outside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from gad.chem.looks import ELEMENTS, Looks
from gad.prediction.model_file import Part

Floats = npt.NDArray[np.float64]

WORDS = ("inside", "edge", "outside")
_SHARES = (0.95, 0.99)
_BEYOND = (0.1, 0.5)
# A range is at least so wide: a single charge is no reason to be outside where there was none.
_LEAST_RANGE = 2.0
# Added to the variances, as a share of them: descriptors are nearly dependent.
_RIDGE = 1e-3


@dataclass(frozen=True, eq=False)
class Domain:
    """What a training set looked like, D = 16 descriptors.

    Attributes:
        elements: bool [119], which occur.
        ranges: [2, D], the smallest and the largest value of each descriptor.
        mean: [D] of the descriptors.
        whitening: [D, D] W with WWᵀ = C⁻¹.
        limits: of similarity, or of distance; for ``inside`` and for ``edge``.
        similar: whether nearness is similarity, which is good, or distance, which is bad.
    """

    elements: npt.NDArray[np.bool_]
    ranges: Floats
    mean: Floats
    whitening: Floats
    limits: tuple[float, float]
    similar: bool

    @staticmethod
    def of(looks: Looks, similarity: Floats | None) -> Domain:
        """Of training molecules; their similarities to the nearest other one, if that is kept."""
        values = looks.values
        covariance = np.atleast_2d(np.cov(values.T)) if len(looks) > 1 else np.zeros((16, 16))
        covariance += np.diag(_RIDGE * np.diag(covariance) + 1e-6)
        whitening = np.linalg.cholesky(np.linalg.inv(covariance))
        domain = Domain(
            np.asarray(looks.elements.any(0)), np.stack([values.min(0), values.max(0)]),
            values.mean(0),
            whitening, (0.0, 0.0), similarity is not None,
        )  # fmt: skip
        nearness = domain.distance(looks) if similarity is None else -similarity
        inside, edge = np.abs(np.quantile(nearness, _SHARES)).tolist()
        return replace(domain, limits=(inside, edge))

    def distance(self, looks: Looks) -> Floats:
        """How far molecules are from the mean of the training set, about 1 for one of it: [G]."""
        found: Floats = np.sqrt((((looks.values - self.mean) @ self.whitening) ** 2).mean(1))
        return found

    def judge(self, looks: Looks, similarity: Floats | None) -> list[str]:
        """Inside, edge or outside, molecule by molecule."""
        if self.similar:
            assert similarity is not None
            far = np.searchsorted([-s for s in self.limits], -similarity, side="left")
        else:
            far = np.searchsorted(self.limits, self.distance(looks), side="left")
        low, high = self.ranges
        width = np.maximum(high - low, _LEAST_RANGE)
        beyond = (np.maximum(low - looks.values, looks.values - high) / width).max(1)
        out = np.searchsorted(_BEYOND, beyond, side="left")
        strange = 2 * (looks.elements & ~self.elements).any(1)
        return [WORDS[k] for k in np.maximum(np.maximum(far, out), strange).tolist()]

    def to_part(self) -> Part:
        """As a model file keeps it."""
        arrays = {"ranges": self.ranges, "mean": self.mean, "whitening": self.whitening}
        settings = {
            "by": "similarity" if self.similar else "distance",
            "inside": self.limits[0],
            "edge": self.limits[1],
            "elements": np.flatnonzero(self.elements).tolist(),
        }
        return Part(settings, {name: torch.from_numpy(array) for name, array in arrays.items()})

    @staticmethod
    def from_part(part: Part) -> Domain:
        """Read back :meth:`to_part`; ValueError where its pieces do not fit."""
        elements = np.zeros(ELEMENTS, dtype=np.bool_)
        elements[np.array(part.settings["elements"], dtype=np.int64)] = True
        ranges, mean, whitening = (
            part.tensors[name].numpy() for name in ("ranges", "mean", "whitening")
        )
        count = len(mean)
        if ranges.shape != (2, count) or whitening.shape != (count, count):
            raise ValueError("the numbers of its domain do not fit")
        limits = (float(part.settings["inside"]), float(part.settings["edge"]))
        similar = part.settings["by"] == "similarity"
        return Domain(elements, ranges, mean, whitening, limits, similar)
