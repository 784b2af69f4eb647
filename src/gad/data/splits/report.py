"""What a user should know about repeated molecules: leaks across a split, contradicting labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gad.data.splits.split import Split, some

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


def leakage(
    split: Split,
    keys: Sequence[Hashable],
    *,
    rows_of: Sequence[int] | None = None,
    show: int = 5,
) -> list[str]:
    """Say which molecules are on more than one side of a split.

    Args:
        split: positions among the keys.
        keys: one per molecule.
        rows_of: the data row of each, from 0, where some rows are missing; shown from 1.
        show: how many to name.

    Example:
        >>> leakage(Split([0, 1], [2], [3]), ["CCO", "CC", "CCO", "C"])
        ["1 molecule is in more than one part of the split: 'CCO' in train (row 1) and val (row 3)"]
    """
    number = range(len(keys)) if rows_of is None else rows_of
    sides: dict[Hashable, dict[str, list[int]]] = {}
    for name, rows in split.parts():
        for row in rows.tolist():
            sides.setdefault(keys[row], {}).setdefault(name, []).append(number[row] + 1)
    leaked = [(key, parts) for key, parts in sides.items() if len(parts) > 1]
    if not leaked:
        return []
    told = "; ".join(
        f"{key!r} in " + " and ".join(f"{p} ({some(rows, 'row')})" for p, rows in parts.items())
        for key, parts in leaked[:show]
    )
    more = f"; and {len(leaked) - show} more" if len(leaked) > show else ""
    many = "1 molecule is" if len(leaked) == 1 else f"{len(leaked)} molecules are"
    return [f"{many} in more than one part of the split: {told}{more}"]


@dataclass(frozen=True)
class Duplicate:
    """One molecule with labels that contradict each other; rows count from 0, and show from 1."""

    key: Hashable
    rows: tuple[int, ...]
    values: tuple[object, ...]
    task: int

    def __str__(self) -> str:
        told = ", ".join(
            f"{value} (row {row + 1})" for row, value in zip(self.rows, self.values, strict=True)
        )
        return f"{self.key!r} has different labels: {told}"


def duplicates(
    keys: Sequence[Hashable],
    labels: npt.ArrayLike,
    *,
    rows_of: Sequence[int] | None = None,
    tolerance: float = 1e-6,
) -> list[Duplicate]:
    """Molecules that are listed several times with labels that disagree.

    Args:
        keys: one per row.
        labels: [n] or [n, T]; numbers (NaN is missing) or words (``""`` and None are missing).
        rows_of: the data row of each key, from 0, where some rows are missing.
        tolerance: numbers within it agree; words agree when they are equal.

    Returns:
        One report per molecule and column, with the labelled rows only.

    Example:
        >>> [str(d) for d in duplicates(["CC", "C", "CC"], [1.0, 0.0, 2.0])]
        ["'CC' has different labels: 1.0 (row 1), 2.0 (row 3)"]
    """
    table = np.asarray(labels)
    if table.dtype.kind not in "biuf":
        table = table.astype(object)
    table = table.reshape(len(keys), -1)
    number = range(len(keys)) if rows_of is None else rows_of
    places: dict[Hashable, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    found = []
    for key, rows in places.items():
        for task in range(table.shape[1] if len(rows) > 1 else 0):
            column = table[rows, task].tolist()
            told = {number[r]: v for r, v in zip(rows, column, strict=True) if not _missing(v)}
            if _disagree(list(told.values()), tolerance):
                found.append(Duplicate(key, tuple(told), tuple(told.values()), task))
    return found


def _missing(value: object) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _disagree(values: Sequence[object], tolerance: float) -> bool:
    numbers = [v for v in values if isinstance(v, (int, float))]
    if len(numbers) == len(values):
        return bool(numbers) and max(numbers) - min(numbers) > tolerance
    return len(set(values)) > 1
