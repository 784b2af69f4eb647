"""The training molecules that a model keeps, and which of them are nearest to a new one.

Of each molecule 128 bytes of fingerprint, its SMILES and its measured values are kept. Similarity
is Tanimoto's on the bits: with a and b the numbers of surroundings of two molecules and c of
those they share, s = c / (a + b − c), from 0 to 1. How large the model's errors were on training
molecules of that kind, Σ s³ e / Σ s³ over all of them, tells how large they may be on the new
one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gad.prediction.model_file import Part
from gad.settings.task import Signs, Task

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

KEPT = 20_000
"""Of more training molecules so many, drawn at random, are kept."""

# Queries whose similarities to all molecules are held at once.
_BLOCK = 512
# Subtracted for each place in the list, so that of equally similar molecules the first comes first:
# two similarities that differ do so by at least 1/2048².
_LATER = 1e-12
# Of a molecule that shares nothing; so that there is always a mean.
_LEAST_WEIGHT = 0.01


@dataclass(frozen=True)
class Neighbour:
    """A training molecule that is near to another: what it is, how near, and what was measured.

    A value is a number, a class by its name, a bound such as ``">10"``, or None where missing.
    """

    smiles: str
    similarity: float
    values: tuple[float | str | None, ...]


@dataclass(frozen=True, eq=False)
class Near:
    """What is near to each of G molecules.

    Attributes:
        places: int64 [G, k], the nearest first.
        similarity: [G, k].
        errors: [G, T], the mean error nearby; NaN where none is known.
    """

    places: Indices
    similarity: Floats
    errors: Floats


@dataclass(frozen=True, eq=False)
class Neighbours:
    """n training molecules.

    Attributes:
        bits: uint8 [n, 128], their fingerprints.
        smiles: as the user wrote them.
        values: [n, T] as measured, NaN where missing; numbers of classes where there are classes.
        bounds: [n, T], 1 where the truth is above the value, −1 below.
        errors: [n, T], sizes of the model's errors on them, in units of what is learned; NaN where
            there is none.
    """

    bits: Bytes
    smiles: tuple[str, ...]
    values: Floats
    bounds: Signs
    errors: Floats

    def __len__(self) -> int:
        return len(self.bits)

    def near(
        self,
        bits: Bytes,
        count: int,
        among: npt.NDArray[np.bool_] | None = None,
        errors: Floats | None = None,
    ) -> Near:
        """The k ≤ count nearest to molecules [G, 128].

        Args:
            bits: fingerprints to compare with.
            count: how many.
            among: [n], those that may be found, if not all.
            errors: [n, T] in place of the kept ones.

        Example:
            >>> from gad.chem.looks import look
            >>> smiles, zero = ("CCO", "CCCO", "c1ccccc1"), np.zeros((3, 1))
            >>> near = Neighbours(look(smiles).bits, smiles, zero, zero, zero).near(
            ...     look(["OCCC"]).bits, 2
            ... )
            >>> near.places.tolist(), near.similarity.round(2).tolist()
            ([[1, 0]], [[1.0, 0.56]])
        """
        rows = np.arange(len(self)) if among is None else np.flatnonzero(among)
        errors = (self.errors if errors is None else errors)[rows]
        known = torch.from_numpy(np.isfinite(errors).astype(np.float32))
        sizes = torch.from_numpy(np.nan_to_num(errors).astype(np.float32))
        count = min(count, len(rows))
        near = Near(
            np.zeros((len(bits), count), dtype=np.int64),
            np.zeros((len(bits), count)),
            np.full((len(bits), errors.shape[1]), np.nan),
        )
        if not count:
            return near
        own = _unpacked(self.bits[rows])
        surroundings = own.sum(1)
        later = torch.arange(len(rows), dtype=torch.float64) * _LATER
        for start in range(0, len(bits), _BLOCK):
            span = slice(start, start + _BLOCK)
            asked = _unpacked(bits[span])
            shared = asked @ own.T
            either = (asked.sum(1)[:, None] + surroundings - shared).clamp_min_(1)
            best, at = (shared.double() / either - later).topk(count, dim=1)
            near.places[span] = rows[at.numpy()]
            near.similarity[span] = (best + at * _LATER).numpy()
            weight = (shared / either + _LEAST_WEIGHT).pow_(3)
            near.errors[span] = ((weight @ sizes) / (weight @ known)).numpy()
        return near

    def told(self, task: Task, place: int, similarity: float) -> Neighbour:
        """One of them, for people."""
        pairs = zip(task.targets, self.values[place], self.bounds[place], strict=True)
        values = tuple(
            None
            if np.isnan(value)
            else target.classes[int(value)]
            if target.classes
            else f"{'>' if bound > 0 else '<'}{value:g}"
            if bound
            else float(value)
            for target, value, bound in pairs
        )
        return Neighbour(self.smiles[place], round(similarity, 6), values)

    def as_text(self, task: Task) -> tuple[bool, ...]:
        """Of which targets measured values are words or, for some, bounds."""
        bounded = (self.bounds != 0).any(0)
        return tuple(
            bool(target.classes) or bool(some)
            for target, some in zip(task.targets, bounded, strict=True)
        )

    def to_part(self) -> Part:
        """As a model file keeps it: a file has no NaN, so what is missing is marked apart."""
        texts = "\n".join(self.smiles).encode("utf-8", "surrogatepass")
        missing = np.isnan(self.values)
        return Part(
            {"molecules": len(self)},
            {
                "bits": torch.from_numpy(self.bits),
                "smiles": torch.from_numpy(np.frombuffer(texts, np.uint8).copy()),
                "values": torch.from_numpy(np.where(missing, 0.0, self.values)),
                "missing": torch.from_numpy(missing.astype(np.uint8)),
                "bounds": torch.from_numpy(self.bounds.astype(np.int8)),
                "errors": torch.from_numpy(np.nan_to_num(self.errors, nan=-1.0)).float(),
            },
        )

    @staticmethod
    def from_part(part: Part, task: Task) -> Neighbours:
        """Read back :meth:`to_part`; ValueError where its pieces do not fit."""
        tensors = {name: tensor.numpy() for name, tensor in part.tensors.items()}
        count = int(part.settings["molecules"])
        text = tensors["smiles"].tobytes().decode("utf-8", "surrogatepass")
        smiles = tuple(text.split("\n")) if count else ()
        shape = (count, len(task.targets))
        shapes = {tensors[name].shape for name in ("values", "missing", "bounds", "errors")}
        if shapes != {shape} or len(smiles) != count or tensors["bits"].shape != (count, 128):
            raise ValueError("its training molecules and their values do not fit")
        values = np.where(tensors["missing"] > 0, np.nan, tensors["values"])
        errors = np.where(tensors["errors"] < 0, np.nan, tensors["errors"].astype(np.float64))
        return Neighbours(tensors["bits"], smiles, values, tensors["bounds"], errors)


def _unpacked(bits: Bytes) -> Tensor:
    """Bits as numbers 0 and 1, whose products count what is shared: float32 [n, 1024]."""
    return torch.from_numpy(np.unpackbits(bits, axis=1)).float()
