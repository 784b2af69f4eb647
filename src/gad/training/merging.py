"""Molecules that are listed several times, as one: their labels averaged, or left out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gad.data.splits import Duplicate, duplicates

Floats = npt.NDArray[np.float64]
Signs = npt.NDArray[np.int8]
WAYS = ("mean", "median", "drop")
# Labels of one molecule contradict one another from this share of the target's deviation on.
TOLERANCE = 0.1


@dataclass(frozen=True, eq=False)
class Merged:
    """What is left of n rows.

    Attributes:
        rows: [m] which of them stand for their molecule.
        targets, bounds, weights: of these.
        dropped: place among the n → why it is left out for good.
        contradictions: molecules whose labels differ by more than the tolerance.
    """

    rows: npt.NDArray[np.int64]
    targets: Floats
    bounds: Signs
    weights: Floats
    dropped: dict[int, str]
    contradictions: list[Duplicate]


def merge(
    keys: Sequence[Hashable],
    targets: Floats,
    bounds: Signs | None,
    weights: Floats,
    how: str,
    *,
    classes: Sequence[Sequence[str]],
    rows_of: Sequence[int],
) -> Merged:
    """One row for each key.

    ``mean`` and ``median`` are those of the labels that are exact; of classes the most frequent one
    counts, and of bounds alone the closest. ``drop`` leaves molecules out whose labels contradict
    one another: classes that differ, or numbers further apart than a tenth of the target's standard
    deviation; the others become their mean.

    Args:
        keys: [n], equal where rows are to be merged: the molecule's name, or a tuple that begins
            with it.
        targets: [n, T] labels.
        bounds: [n, T] where they are bounds.
        weights: [n], of which the mean counts.
        how: mean, median or drop.
        classes: of each target; none where labels are numbers.
        rows_of: the number of each row in its table, from 0.
    """
    if how not in WAYS:
        raise ValueError(f"duplicates are merged by {', '.join(WAYS)}, not {how!r}")
    words = [bool(names) for names in classes]
    sides = np.zeros(targets.shape, np.int8) if bounds is None else bounds
    exact = np.where(sides == 0, targets, np.nan)
    spread = np.array([np.std(c[np.isfinite(c)]) if np.isfinite(c).any() else 0 for c in exact.T])
    tolerances = np.where(np.array(words) | (spread == 0), 1e-6, TOLERANCE * spread)
    place_of = {row: place for place, row in enumerate(rows_of)}
    contradictions, against = [], {}
    for d in duplicates(keys, exact / tolerances, rows_of=rows_of, tolerance=1.0):
        values = tuple(float(exact[place_of[row], d.task]) for row in d.rows)
        name = d.key if isinstance(d.key, str) else next(iter(d.key))  # type: ignore[call-overload]
        contradictions.append(named(Duplicate(name, d.rows, values, d.task), classes))
        if how == "drop":
            against[d.key] = contradictions[-1]
    groups: dict[Hashable, list[int]] = {}
    for place, key in enumerate(keys):
        groups.setdefault(key, []).append(place)
    dropped = {
        place: f"its labels contradict one another: {against[key]}"
        for key, places in groups.items()
        if key in against
        for place in places
    }
    kept = [places for key, places in groups.items() if key not in against]
    rows = np.array([places[0] for places in kept], dtype=np.int64)
    merged, signs = targets[rows].copy(), sides[rows].copy()
    for number, places in enumerate(kept):
        for column in range(targets.shape[1] if len(places) > 1 else 0):
            merged[number, column], signs[number, column] = _one(
                targets[places, column], sides[places, column], how, words[column]
            )
    mass = np.array([weights[places].mean() for places in kept])
    return Merged(rows, merged, signs, mass, dropped, contradictions)


def named(found: Duplicate, classes: Sequence[Sequence[str]]) -> Duplicate:
    """With the names of its classes in place of their numbers."""
    names = classes[found.task]
    told = tuple(names[int(value)] for value in found.values) if names else found.values  # type: ignore[call-overload]
    return replace(found, values=told)


def _one(values: Floats, sides: Signs, how: str, words: bool) -> tuple[float, int]:
    """The label that several rows give together, and its side if it is a bound."""
    there = np.isfinite(values)
    exact = values[there & (sides == 0)]
    if exact.size and words:
        kinds, counts = np.unique(exact, return_counts=True)
        return float(kinds[counts.argmax()]), 0
    if exact.size:
        return float(np.median(exact) if how == "median" else exact.mean()), 0
    above, below = values[there & (sides > 0)], values[there & (sides < 0)]
    if above.size >= below.size and above.size:
        return float(above.max()), 1
    return (float(below.min()), -1) if below.size else (np.nan, 0)
