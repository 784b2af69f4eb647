"""Splits drawn by chance, by class, by scaffold or in folds; no molecule is on two sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from gad.data.splits.groups import (
    Fractions,
    as_split,
    checked_fractions,
    divide,
    fill_empty_parts,
    group_sizes,
    number,
    part_sizes,
    random_order,
    require_groups,
    scaffold_groups,
    take_validation,
)
from gad.data.splits.split import IntArray, Split

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

FloatArray: TypeAlias = npt.NDArray[np.float64]

EIGHTY_TEN_TEN: Fractions = (0.8, 0.1, 0.1)


def random_split(
    keys: Sequence[Hashable], fractions: Fractions = EIGHTY_TEN_TEN, *, seed: int
) -> Split:
    """Divide the molecules by chance.

    Args:
        keys: one per row; rows with equal keys stay together.
        fractions: of train, val and test, summing to 1. A part with a positive fraction is never
            empty; val and test may be 0.
        seed: the same seed gives the same rows.
    """
    groups = number(keys)
    return divide(groups, random_order(group_sizes(groups).size, seed), fractions)


def stratified_split(
    keys: Sequence[Hashable],
    labels: npt.ArrayLike,
    fractions: Fractions = EIGHTY_TEN_TEN,
    *,
    seed: int,
    bins: int = 10,
) -> Split:
    """Divide the molecules so that every part has its share of every class, or range of values.

    A column with at most ``bins`` different values is stratified by value (classes), any other by
    quantiles. With several columns a molecule belongs to the stratum of the *rarest* label that it
    carries, so that the few positives of a rare task are spread first; missing labels (NaN) count
    for nothing, and molecules without any label are a stratum of their own.

    Args:
        keys: one per row.
        labels: [n] or [n, T] numbers, NaN where missing. Of a molecule written several times, the
            first label counts.
        fractions: as in :func:`random_split`.
        seed: decides the order within and among the strata.
        bins: number of quantile ranges.

    Example:
        >>> labels = [0.0] * 90 + [1.0] * 10
        >>> split = stratified_split(range(100), labels, seed=0)
        >>> [sum(labels[row] for row in rows) for _, rows in split.parts()]
        [8.0, 1.0, 1.0]
    """
    groups = number(keys)
    sizes = group_sizes(groups)
    share = np.asarray(checked_fractions(fractions))
    require_groups(sizes, share > 0, "molecule")
    strata = _strata(_first_labels(groups, _as_labels(labels, len(groups))), bins)
    # Molecules in random order within their stratum, the strata as they first appear in that order.
    order = random_order(sizes.size, seed)
    order = order[np.argsort(number(strata[order].tolist()), kind="stable")]

    # Deal along this order, each molecule to the part that lags most behind its share: any run of
    # neighbours, hence every stratum, is shared out in the proportions asked for.
    part = np.empty(sizes.size, np.int64)
    dealt, total = np.zeros(3), 0
    for group in order:
        total += sizes[group]
        behind = np.where(share > 0, share * total - dealt, -np.inf)
        part[group] = np.argmax(behind)
        dealt[part[group]] += sizes[group]
    return as_split(groups, fill_empty_parts(part, order, sizes, share > 0))


def scaffold_split(
    keys: Sequence[Hashable],
    scaffolds: Sequence[str],
    fractions: Fractions = EIGHTY_TEN_TEN,
    *,
    seed: int,
) -> Split:
    """Divide so that no ring system (Bemis–Murcko scaffold) is on two sides.

    Scaffolds with more rows than half of val or test go to train first, in random order; the
    others follow in random order and fill train, val and test in turn ("balanced"). A test molecule
    then has a skeleton that training never saw, which is nearer to how a model is used.

    Molecules without rings have the empty scaffold, and each is a group of its own: having no ring
    system is nothing that they share, and one group of all chains (a quarter of a solubility table)
    would send every one of them to train.

    Args:
        keys: one per row.
        scaffolds: one per row, ``""`` for a molecule without rings.
        fractions: as in :func:`random_split`.
        seed: different seeds give different splits.

    Example:
        >>> scaffolds = ["c1ccccc1"] * 6 + ["C1CC1", ""]
        >>> split = scaffold_split(range(8), scaffolds, (0.6, 0.2, 0.2), seed=1)
        >>> split.train.tolist()
        [0, 1, 2, 3, 4, 5]
    """
    groups = scaffold_groups(keys, scaffolds)
    sizes = group_sizes(groups)
    order = random_order(sizes.size, seed)
    wanted = [count for count in part_sizes(len(groups), fractions)[1:] if count > 0]
    small = sizes[order] <= min(wanted, default=len(groups)) / 2
    return divide(groups, order[np.argsort(small, kind="stable")], fractions, what="scaffold")


def k_fold(
    keys: Sequence[Hashable],
    folds: int,
    *,
    seed: int,
    scaffolds: Sequence[str] | None = None,
    val_fraction: float | None = None,
) -> list[Split]:
    """Cross-validation: every row is tested exactly once.

    Args:
        keys: one per row.
        folds: how many, at least 2.
        seed: decides the folds.
        scaffolds: given, no scaffold is in two folds (see :func:`scaffold_split`).
        val_fraction: of the rows that are not tested. By default validation is the next fold, or a
            tenth of the rest when there are only two folds.

    Example:
        >>> [split.test.size for split in k_fold("abcdefg", 3, seed=0)]
        [3, 2, 2]
    """
    if folds < 2:
        raise ValueError(f"cross-validation needs at least 2 folds, not {folds}")
    groups = number(keys) if scaffolds is None else scaffold_groups(keys, scaffolds)
    sizes = group_sizes(groups)
    what = "molecule" if scaffolds is None else "scaffold"
    if sizes.size < folds:
        raise ValueError(f"{folds} folds need as many different {what}s, not {sizes.size}")
    # Big groups first, each to the fold that is smallest so far; equals in random order.
    order = random_order(sizes.size, seed)
    fold_of = np.empty(sizes.size, np.int64)
    filled = np.zeros(folds, np.int64)
    for group in order[np.argsort(-sizes[order], kind="stable")]:
        fold_of[group] = np.argmin(filled)
        filled[fold_of[group]] += sizes[group]

    fold = fold_of[groups]
    splits = []
    for k in range(folds):
        test, rest = np.flatnonzero(fold == k), np.flatnonzero(fold != k)
        if val_fraction is None and folds > 2:
            following = fold[rest] == (k + 1) % folds
            splits.append(Split(rest[~following], rest[following], test))
        elif np.unique(groups[rest]).size < 2:
            raise ValueError(
                f"outside fold {k + 1} there is a single {what}, too few for train and validation; "
                "use more folds or more data"
            )
        else:
            fraction = 0.1 if val_fraction is None else val_fraction
            splits.append(Split(*take_validation(rest, groups, fraction, seed), test))
    return splits


def _as_labels(labels: npt.ArrayLike, rows: int) -> FloatArray:
    table = np.asarray(labels, np.float64)
    if table.shape[:1] != (rows,) or table.ndim > 2:
        raise ValueError(f"labels of shape {table.shape} do not belong to {rows} rows")
    return table.reshape(rows, -1)


def _first_labels(groups: IntArray, labels: FloatArray) -> FloatArray:
    """[n, T] → [G, T]: for each molecule and column the first label that is not missing."""
    first = np.full((int(groups.max(initial=-1)) + 1, labels.shape[1]), np.nan)
    for task in range(labels.shape[1]):
        rows = np.flatnonzero(~np.isnan(labels[:, task]))[::-1]
        first[groups[rows], task] = labels[rows, task]  # the last assignment is the first row
    return first


def _strata(labels: FloatArray, bins: int) -> IntArray:
    """[G, T] → stratum of each molecule: the rarest class or range among its labels."""
    stratum = np.zeros(len(labels), np.int64)  # 0: no label at all
    rarity = np.full(len(labels), np.inf)
    taken = 1
    for column in labels.T:
        known = np.flatnonzero(~np.isnan(column))
        values, binned = np.unique(column[known], return_inverse=True)
        if values.size > bins:
            edges = np.quantile(column[known], np.linspace(0, 1, bins + 1)[1:-1])
            binned = np.searchsorted(edges, column[known], side="right")
        frequency = np.bincount(binned)[binned]
        rarer = frequency < rarity[known]
        stratum[known[rarer]] = taken + binned[rarer]
        rarity[known[rarer]] = frequency[rarer]
        taken += int(binned.max(initial=-1)) + 1
    return stratum
