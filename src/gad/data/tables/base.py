"""What every table of molecules has in common, whatever its file format."""

from __future__ import annotations

import contextlib
import hashlib
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

LIMIT = 1 << 24
"""Characters a single row may have: where it is longer, a quote or a ``$$$$`` is missing."""


CONTROL = re.compile(r"[\0-\b\x0e-\x1f]")
"""Control characters, without tabs and line ends: in a header line they are a sign of no table."""


class TableError(ValueError):
    """A table that cannot be used; the message says what is wrong, where, and what to do."""


@dataclass
class Chunk:
    """Some consecutive rows of a table.

    Attributes:
        start: 0-based index, in the file, of the first row.
        columns: the file's own columns, in its order. Text formats give ``str``. Parquet gives
            ``str``, numbers, ``bool`` or ``None``, and Arrow scalars for richer types, so that
            ``TableWriter(path, names, table.types)`` writes back exactly what was read.
        blocks: SDF only: the mol block of each row.
        rejects: position in the chunk → why that row cannot be used. The row stays in ``columns``,
            with what there is of it.
    """

    start: int
    columns: dict[str, list[Any]]
    blocks: list[str] | None = None
    rejects: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def texts(self, name: str) -> list[str]:
        """The cells of a column as text, whatever their type; nothing is ``""``."""
        return [cell_text(cell) for cell in self.columns[name]]


class Table(ABC):
    """A file of molecules, read in chunks: memory does not grow with the file.

    Attributes:
        path: the file.
        format: ``csv``, ``tsv``, ``smi``, ``sdf`` or ``parquet``.
        names: its columns.
        rows: how many rows it has, if that is known without reading them.
        types: Parquet only: column → Arrow type.
        may_have_commas: whether a comma inside a cell may be a decimal comma: the file separates
            its columns otherwise, as spreadsheets do where ``1,5`` is one and a half.
    """

    path: Path
    format: str
    names: tuple[str, ...]
    rows: int | None = None
    types: Mapping[str, Any]
    may_have_commas: bool = False

    def chunks(self, size: int = 4096, start: int = 0) -> Iterator[Chunk]:
        """Yield the rows from ``start`` on, at most ``size`` at a time."""
        if size < 1 or start < 0:
            raise ValueError(
                f"size must be at least 1 and start at least 0, not {size} and {start}"
            )
        return self._chunks(size, start)

    @abstractmethod
    def _chunks(self, size: int, start: int) -> Iterator[Chunk]: ...

    def fingerprint(self) -> str:
        """SHA-256 of the file's bytes: equal fingerprints, equal tables."""
        with reading(self.path):
            return digest(self.path)


class Record(NamedTuple):
    """One row: its cells, why it is rejected if it is, its mol block if it has one."""

    cells: list[str]
    reason: str | None = None
    block: str = ""


class RecordTable(Table):
    """A table read one row after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.types = {}

    @abstractmethod
    def records(self) -> Iterator[Record]:
        """Yield all rows, each with as many cells as the table has columns."""

    def _chunks(self, size: int, start: int) -> Iterator[Chunk]:
        records = islice(self.records(), start, None)
        while batch := list(islice(records, size)):
            cells, reasons, blocks = zip(*batch, strict=True)
            columns = map(list, zip(*cells, strict=True))
            yield Chunk(
                start=start,
                columns=dict(zip(self.names, columns, strict=True)),
                blocks=list(blocks) if self.format == "sdf" else None,
                rejects={i: reason for i, reason in enumerate(reasons) if reason},
            )
            start += len(batch)


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    return found.hexdigest()


def cell_text(cell: Any) -> str:
    """A cell as it is written in a text file.

    >>> [cell_text(cell) for cell in ("CCO", None, float("nan"), 0.1, True)]
    ['CCO', '', '', '0.1', 'True']
    """
    if isinstance(cell, str):
        return cell
    if cell is None or cell != cell:  # noqa: PLR0124  # NaN is what differs from itself
        return ""
    try:
        return str(cell)
    except ValueError:  # an Arrow time finer than Python's
        import pyarrow as pa

        return str(cell.cast(pa.string()))


def clean_name(name: str) -> str:
    """A name without blanks around it and without control characters, which no header line has."""
    return CONTROL.sub("", name).strip()


def check_names(path: Path, names: list[str]) -> tuple[str, ...]:
    """Column names as used: stripped, the nameless numbered; two alike are an error.

    >>> from pathlib import Path
    >>> check_names(Path("a.csv"), ["", " smiles "])
    ('column 1', 'smiles')
    """
    clean = tuple(clean_name(name) or f"column {i}" for i, name in enumerate(names, start=1))
    for i, name in enumerate(clean):
        if name in clean[:i]:
            raise TableError(
                f"{path}: columns {clean.index(name) + 1} and {i + 1} are both called {name!r}; "
                "rename one of them."
            )
    return clean


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever the system says while ``path`` is read into a :class:`TableError`."""
    try:
        yield
    except FileNotFoundError:
        raise TableError(f"{path}: there is no such file.") from None
    except EOFError:
        raise TableError(
            f"{path}: the compressed data ends too early, the file is truncated; fetch it again."
        ) from None
    except zlib.error as error:
        raise TableError(
            f"{path}: the compressed data is damaged ({error}); fetch it again."
        ) from None
    except UnicodeError as error:
        raise TableError(f"{path}: cannot be read as text ({error}); save it as UTF-8.") from None
    except OSError as error:
        raise TableError(f"{path}: cannot be read ({error.strerror or error}).") from None
