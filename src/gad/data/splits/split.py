"""The split itself: three lists of rows, on disk and in memory."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from gad.data.atomic import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

IntArray: TypeAlias = npt.NDArray[np.int64]

PARTS = ("train", "val", "test")
WORDS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
}


@dataclass(frozen=True, eq=False)
class Split:
    """Row positions of the three parts: int64, ascending, no row twice.

    Example:
        >>> Split(train=[2, 0], val=[1], test=[])
        Split(train=array([0, 2]), val=array([1]), test=array([], dtype=int64))
    """

    train: IntArray
    val: IntArray
    test: IntArray

    def __post_init__(self) -> None:
        for name in PARTS:
            object.__setattr__(self, name, _as_rows(getattr(self, name), name))
        rows, counts = np.unique(np.concatenate([r for _, r in self.parts()]), return_counts=True)
        if (counts > 1).any():
            twice = rows[counts > 1]
            raise ValueError(f"a split names {some(twice, 'position')} (from 0) more than once")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Split):
            return NotImplemented
        return all(np.array_equal(getattr(self, p), getattr(other, p)) for p in PARTS)

    def __hash__(self) -> int:
        return hash(tuple(rows.tobytes() for _, rows in self.parts()))

    def parts(self) -> Iterator[tuple[str, IntArray]]:
        """The three names with their rows, in the order train, val, test."""
        return ((name, getattr(self, name)) for name in PARTS)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``{"train": [...], "val": [...], "test": [...]}``, whole or not at all."""
        text = json.dumps({name: rows.tolist() for name, rows in self.parts()})
        write_atomic(path, f"{text}\n".encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Split:
        """Read what :meth:`save` wrote."""
        given = read_indices(Path(path))
        missing = [name for name in PARTS if name not in given]
        if missing:
            raise ValueError(f"{path}: no list named {', '.join(missing)}")
        return cls(**given)


def read_indices(path: Path) -> dict[str, IntArray]:
    """Lists of rows from a .json, .npz or .csv file."""
    suffix = path.suffix.lower()
    if suffix == ".json":
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise ValueError(f"{path} is not JSON: {error}") from error
        if not isinstance(content, dict):
            raise ValueError(f'{path}: expected {{"train": [...], "val": [...], "test": [...]}}')
        return by_part(content, str(path))
    if suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return by_part({name: arrays[name] for name in arrays.files}, str(path))
    if suffix == ".csv":
        lists: dict[str, list[int]] = {}
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            if not {"row", "split"} <= set(reader.fieldnames or ()):
                raise ValueError(f"{path}: the columns must be named row and split")
            for line, record in enumerate(reader, start=2):
                try:
                    row = int(record["row"])
                except (TypeError, ValueError):
                    raise ValueError(
                        f"{path}, line {line}: {record['row']!r} is not a row number"
                    ) from None
                word = str(record["split"]).strip().lower()
                lists.setdefault(WORDS.get(word, word), []).append(row)
        return by_part(lists, str(path))
    raise ValueError(f"{path}: a split file is .json, .npz or .csv")


def by_part(given: Mapping[str, npt.ArrayLike], where: str) -> dict[str, IntArray]:
    """Translate the names of the parts (valid → val) and check that each holds whole numbers."""
    parts: dict[str, IntArray] = {}
    for name, rows in given.items():
        part = WORDS.get(str(name).strip().lower())
        if part is None:
            raise ValueError(f"{where}: {name!r} is no part; the parts are train, val and test")
        if part in parts:
            raise ValueError(f"{where}: the part {part} is given twice")
        parts[part] = _as_rows(rows, part)
    return parts


def _as_rows(rows: npt.ArrayLike, part: str) -> IntArray:
    """Row positions, sorted; whole numbers ≥ 0."""
    array = np.asarray(rows)
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{part} must be a list of whole numbers (row positions)")
    if array.min() < 0:
        raise ValueError(f"{part} holds the row {array.min()}; the first row is 0")
    return np.sort(array.astype(np.int64))


def some(rows: Iterable[int], noun: str, show: int = 5) -> str:
    """``row 3`` or ``rows 3, 4, 5``, the first few of many."""
    listed = [int(row) for row in rows]
    more = f" and {len(listed) - show} more" if len(listed) > show else ""
    return f"{noun}{'s' * (len(listed) > 1)} " + ", ".join(map(str, listed[:show])) + more
