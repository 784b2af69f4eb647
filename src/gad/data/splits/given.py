"""Splits given by the user, kept as they are; what they leak or leave out is reported."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gad.data.splits.groups import number, take_validation
from gad.data.splits.report import leakage
from gad.data.splits.split import PARTS, WORDS, Split, by_part, read_indices, some

if TYPE_CHECKING:
    import os


def column_split(
    values: Sequence[str],
    keys: Sequence[Hashable] | None = None,
    *,
    rows_of: Sequence[int] | None = None,
    seed: int = 0,
    val_fraction: float = 0.1,
) -> tuple[Split, list[str]]:
    """Read the split from a column of words: train, val (or valid, validation) and test.

    Args:
        values: one word per row, in any case.
        keys: given, molecules on two sides are reported.
        rows_of: the data row of each value, from 0, where some rows are missing; shown from 1.
        seed: for the validation rows, when the column names none.
        val_fraction: share of train that becomes validation in that case.

    Returns:
        The split, and messages for the user (empty when there is nothing to say).

    Example:
        >>> split, messages = column_split(["Train", "train", "valid", "TEST"])
        >>> split.train.tolist(), split.val.tolist(), messages
        ([0, 1], [2], [])
    """
    given: dict[str, list[int]] = {name: [] for name in PARTS}
    data_row = range(len(values)) if rows_of is None else rows_of
    for row, value in enumerate(values):
        word = str(value).strip().lower()
        if word not in WORDS:
            what = f"{str(value)!r} is no part" if word else "the part is missing"
            raise ValueError(
                f"split column, data row {data_row[row] + 1}: {what}; "
                "write train, val or test in every row"
            )
        given[WORDS[word]].append(row)
    return _complete(given, len(values), keys, seed, val_fraction, data_row)


def index_split(
    source: str | os.PathLike[str] | Mapping[str, npt.ArrayLike],
    rows: int,
    keys: Sequence[Hashable] | None = None,
    *,
    seed: int = 0,
    val_fraction: float = 0.1,
) -> tuple[Split, list[str]]:
    """Read the split as lists of row positions (the first row is 0).

    Args:
        source: a mapping ``{"train": [...], "val": [...], "test": [...]}``, or a file with one:
            ``.json``, ``.npz`` with these arrays, or ``.csv`` with the columns ``row,split``.
        rows: how many rows the data have; positions beyond are an error.
        keys: given, molecules on two sides are reported.
        seed: for the validation rows, when none are given.
        val_fraction: share of train that becomes validation in that case.

    Returns:
        The split, and messages for the user: leaked molecules, unused rows.
    """
    if isinstance(source, Mapping):
        return _complete(by_part(source, "split"), rows, keys, seed, val_fraction)
    path = Path(source)
    try:
        return _complete(read_indices(path), rows, keys, seed, val_fraction)
    except ValueError as error:
        text = str(error)
        raise ValueError(text if str(path) in text else f"{path}: {text}") from error


def _complete(
    given: Mapping[str, npt.ArrayLike],
    rows: int,
    keys: Sequence[Hashable] | None,
    seed: int,
    val_fraction: float,
    rows_of: Sequence[int] | None = None,
) -> tuple[Split, list[str]]:
    """Check a user's split against the data, add what is missing, and report."""
    if keys is not None and len(keys) != rows:
        raise ValueError(f"{len(keys)} keys for {rows} rows")
    split = Split(*(np.asarray(given.get(name, ()), np.int64) for name in PARTS))
    for name, listed in split.parts():
        beyond = listed[listed >= rows]
        if beyond.size:
            raise ValueError(
                f"{name} holds {some(beyond, 'position')}, beyond the last, {rows - 1} "
                "(the first is 0)"
            )
    if not split.train.size:
        raise ValueError("the split has no training rows")
    messages = [] if keys is None else leakage(split, keys, rows_of=rows_of)
    unused = rows - sum(listed.size for _, listed in split.parts())
    if unused:
        messages.append(f"{unused} of {rows} rows are in no part of the split and stay unused")
    if not split.test.size:
        messages.append("the split has no test rows: there will be no test score")
    if not split.val.size:
        groups = np.arange(rows) if keys is None else number(keys)
        train, val = take_validation(split.train, groups, val_fraction, seed)
        split = Split(train, val, split.test)
        messages.append(
            f"the split has no validation rows: {val.size} of {val.size + train.size} training "
            f"rows were taken for validation (seed {seed})"
        )
    return split, messages
