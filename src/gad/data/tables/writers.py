"""Molecule tables out: CSV, TSV and Parquet files that appear whole or not at all.

A column is a list or a numpy array. In text files a float has as few digits as give the same number
back in its own precision (7 or so for float32), and NaN is an empty cell. Parquet keeps types.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gad.data.atomic import AtomicFile, Uncommitted
from gad.data.tables.base import TableError
from gad.data.tables.encode import Column, format_of


class Reject(NamedTuple):
    """A row that could not be used: its number as people count, from 1, and why."""

    row: int
    smiles: str
    reason: str


class TableWriter(Uncommitted):
    """A table being written; nothing is seen at ``path`` until :meth:`commit`.

    Args:
        path: its ending says the format: ``.csv``, ``.tsv`` (each also with ``.gz``), ``.parquet``.
        names: the columns, in order.
        types: Parquet only: column → Arrow type or its name (``"float32"``); with ``table.types``
            an input's columns come back as they were.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "out.csv")
        >>> with TableWriter(path, ["smiles", "logS"]) as out:
        ...     out.write({"smiles": ["CCO", "C"], "logS": [0.5, float("nan")]})
        ...     out.commit()
        >>> print(path.read_text(), end="")
        smiles,logS
        CCO,0.5
        C,
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        names: Sequence[str],
        types: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = checked_output(path)
        self.names = tuple(names)
        form = format_of(self.path, self.names, types or {})
        with writing(self.path):
            self._file = AtomicFile(self.path)
        self._encoder = form.encoder(self._file.file)

    def write(self, columns: Mapping[str, Column]) -> None:
        """Append rows, given by column."""
        with writing(self.path):
            self._encoder.write(ordered(columns, self.names))

    def commit(self) -> None:
        """Finish: the file appears at its path."""
        with writing(self.path):
            self._encoder.close()
            self._file.commit()

    def discard(self) -> None:
        """Forget what was written; after a commit there is nothing to forget."""
        with contextlib.suppress(OSError, ValueError):  # closed already, or the disk is full
            self._encoder.close()
        self._file.discard()


class RejectsWriter(TableWriter):
    """The rows that could not be used, for people to look through: ``row,smiles,reason``."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, Reject._fields)
        self.count = 0

    def add(self, row: int, smiles: str, reason: str) -> None:
        """Append a row, numbered from 1."""
        self.write({"row": [row], "smiles": [smiles], "reason": [reason]})
        self.count += 1


def forget_rejects(path: Path, names: Sequence[str] = Reject._fields) -> None:
    """Remove the rejects of an earlier run, so that nobody takes them for this one's.

    A file of that name which is not ours (by its first line) is left alone.
    """
    try:
        with path.open(encoding="utf-8") as file:
            ours = file.readline().strip() == ",".join(names)
    except (OSError, UnicodeError):
        return
    if ours:
        path.unlink()


def ordered(columns: Mapping[str, Column], names: tuple[str, ...]) -> list[Column]:
    """The columns in the order of ``names``, all there and equally long."""
    if set(columns) != set(names):
        raise ValueError(f"the table has columns {list(names)}, these rows have {list(columns)}")
    if len({len(values) for values in columns.values()}) > 1:
        lengths = {name: len(values) for name, values in columns.items()}
        raise ValueError(f"columns differ in length: {lengths}")
    return [columns[name] for name in names]


def checked_output(path: str | os.PathLike[str]) -> Path:
    """A path that can be written to; said before the work, not after it."""
    path = Path(os.path.realpath(path))
    if path.is_dir():
        raise TableError(f"{path}: is a folder; give the output a file name.")
    if not path.parent.is_dir():
        raise TableError(f"{path}: there is no folder {path.parent}; make it first.")
    return path


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the system says while ``path`` is written into a :class:`TableError`."""
    try:
        yield
    except OSError as error:
        raise TableError(f"{path}: cannot be written ({error.strerror or error}).") from error
