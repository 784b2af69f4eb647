"""Rows that belong together, and how whole groups of them fill the three parts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from gad.data.splits.split import IntArray, Split

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

Fractions: TypeAlias = tuple[float, float, float]


def number(labels: Iterable[Hashable]) -> IntArray:
    """Number equal labels alike, in order of first appearance: [n] → group of each row."""
    index: dict[Hashable, int] = {}
    return np.array([index.setdefault(label, len(index)) for label in labels], np.int64)


def group_sizes(groups: IntArray) -> IntArray:
    """Rows in each group."""
    return np.bincount(groups).astype(np.int64)


def scaffold_groups(keys: Sequence[Hashable], scaffolds: Sequence[str]) -> IntArray:
    """Number scaffolds; a molecule without one is alone. The key decides, should they disagree."""
    if len(keys) != len(scaffolds):
        raise ValueError(f"{len(keys)} keys but {len(scaffolds)} scaffolds")
    group_of: dict[Hashable, tuple[str, Hashable]] = {}
    for key, scaffold in zip(keys, scaffolds, strict=True):
        group_of.setdefault(key, ("scaffold", scaffold) if scaffold else ("molecule", key))
    return number(group_of[key] for key in keys)


def random_order(count: int, seed: int) -> IntArray:
    """A random order of ``range(count)``."""
    rng = np.random.Generator(np.random.PCG64(seed))
    return np.argsort(rng.random(count), kind="stable").astype(np.int64)


def checked_fractions(fractions: Sequence[float]) -> Fractions:
    """Three fractions that sum to 1, train above 0; an error says what is wrong otherwise."""
    given = tuple(float(f) for f in fractions)
    if len(given) == 3 and given[0] > 0 and min(given) >= 0 and math.isclose(sum(given), 1):
        return given[0], given[1], given[2]
    raise ValueError(
        "the fractions of train, val and test must be three numbers that sum to 1, train above 0; "
        f"got {', '.join(map(str, given))}"
    )


def part_sizes(rows: int, fractions: Fractions) -> tuple[int, int, int]:
    """How many rows each part should have; a positive fraction is at least one row."""
    _, val, test = (max(1, round(f * rows)) if f > 0 else 0 for f in checked_fractions(fractions))
    return max(0, rows - val - test), val, test


def divide(
    groups: IntArray, order: IntArray, fractions: Fractions, what: str = "molecule"
) -> Split:
    """Put each group into the first part with room for it, else where there is most room left."""
    sizes = group_sizes(groups)
    room = np.array(part_sizes(len(groups), fractions))
    wanted = np.array(fractions) > 0
    require_groups(sizes, wanted, what)
    part = np.empty(sizes.size, np.int64)
    for group in order:
        fits = room >= sizes[group]
        part[group] = np.argmax(fits if fits.any() else np.where(wanted, room, -np.inf))
        room[part[group]] -= sizes[group]
    return as_split(groups, fill_empty_parts(part, order, sizes, wanted))


def require_groups(sizes: IntArray, wanted: npt.NDArray[np.bool_], what: str) -> None:
    """Refuse data with fewer groups than parts."""
    if sizes.size < wanted.sum():
        raise ValueError(
            f"the data have {sizes.size} different {what}{'s' * (sizes.size != 1)}: too few for "
            f"{wanted.sum()} parts, since one {what} is never on two sides"
        )


def fill_empty_parts(
    part: IntArray, order: IntArray, sizes: IntArray, wanted: npt.NDArray[np.bool_]
) -> IntArray:
    """Give an empty part the smallest group of the part that has most groups."""
    for empty in np.flatnonzero(wanted):
        held = np.bincount(part, minlength=3)
        if held[empty] == 0:
            candidates = order[part[order] == np.argmax(held)]
            part[candidates[np.argmin(sizes[candidates])]] = empty
    return part


def as_split(groups: IntArray, part: IntArray) -> Split:
    """Parts of groups → parts of rows."""
    return Split(*(np.flatnonzero(part[groups] == p) for p in range(3)))


def take_validation(
    rows: IntArray, groups: IntArray, fraction: float, seed: int
) -> tuple[IntArray, IntArray]:
    """Divide ``rows`` into train and validation, whole groups."""
    inner = number(groups[rows].tolist())
    split = divide(
        inner, random_order(group_sizes(inner).size, seed), (1 - fraction, fraction, 0.0)
    )
    return rows[split.train], rows[split.val]
