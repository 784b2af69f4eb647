"""Tables in text files: delimited columns (CSV, TSV) and SMILES files, plain or compressed."""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from gad.data.tables.base import (
    CONTROL,
    LIMIT,
    Record,
    RecordTable,
    TableError,
    check_names,
    reading,
)

FALLBACK = "gad.windows"
"""Error handler of ``bytes.decode``: what is not UTF-8 is read as old Windows programs wrote it."""

_NOT_TEXT = {b"PK\x03\x04": "a zip archive or an Excel workbook", b"PAR1": "a Parquet file"}
_NUL = "has a NUL byte, which no text has"
_LONG = f"is longer than {LIMIT:,} characters"


def _windows(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


codecs.register_error(FALLBACK, _windows)


@contextlib.contextmanager
def open_text(path: Path) -> Iterator[io.TextIOWrapper]:
    """Open ``path`` as text, compressed or not; its line ends come untouched.

    It is UTF-8, or UTF-16 if a byte order mark says so; other bytes are Windows' Latin-1.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(reading(path))
        raw: io.BufferedIOBase = stack.enter_context(path.open("rb"))
        magic = cast("io.BufferedReader", raw).peek(4)[:4]
        if magic.startswith(b"\x1f\x8b"):
            raw = stack.enter_context(gzip.GzipFile(fileobj=raw))
            magic = raw.peek(4)[:4]
        elif path.suffix.lower() == ".gz" and magic:
            raise TableError(
                f"{path}: is not gzip data; decompressed already? Then drop the '.gz'."
            )
        if magic in _NOT_TEXT:
            raise TableError(f"{path}: is {_NOT_TEXT[magic]}, not text; save the table as CSV.")
        wide = magic.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        yield io.TextIOWrapper(
            cast("io.BufferedReader", raw),
            encoding="utf-16" if wide else "utf-8-sig",
            errors="strict" if wide else FALLBACK,
            newline="",
        )


class _Lines:
    """The lines of a text, numbered from 1; lines read too far can be handed back."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        self.number = 0
        self._stream = stream
        self._back: deque[str] = deque()

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        self.number += 1
        if self._back:
            return self._back.popleft()
        rest = line = self._stream.readline(LIMIT)
        while len(rest) == LIMIT and rest[-1] not in "\r\n":  # endless: let the rest go
            rest = self._stream.readline(LIMIT)
        if not line:
            raise StopIteration
        return line

    def back(self, lines: list[str]) -> None:
        self._back.extendleft(reversed(lines))
        self.number -= len(lines)


def _rows(lines: _Lines, delimiter: str) -> Iterator[tuple[int, list[str], str | None]]:
    """Split lines into cells: line number, cells, what is wrong with them if anything is."""
    csv.field_size_limit(max(LIMIT, csv.field_size_limit()))
    strict = csv.reader((), delimiter=delimiter, strict=True).dialect
    for line in lines:
        number, reason = lines.number, None
        if len(line) >= LIMIT:
            yield number, [""], _LONG
            continue
        if '"' not in line and "\0" not in line:
            cells = line.rstrip("\r\n").split(delimiter)
        elif (found := _closed(line, strict)) is not None:
            cells = found
        else:
            cells, reason = _quoted(line, lines, delimiter)
        if len(cells) > 1 or cells[0].strip(" ") or '"' in line:  # else the line is blank
            yield number, cells, reason


def _closed(line: str, strict: type[csv.Dialect] | Any) -> list[str] | None:
    """The cells of a line with proper quotes, which most are; the others take longer."""
    try:
        return None if "\0" in line else next(csv.reader((line,), strict))
    except csv.Error:
        return None


def _quoted(first: str, lines: _Lines, delimiter: str) -> tuple[list[str], str | None]:
    """One row with quotes (or NUL bytes), which may go on over several lines.

    A quote that never closes costs its own line, not the rest of the file: what was read beyond
    it is handed back.
    """
    taken = [first]
    closed = True

    def more() -> Iterator[str]:  # csv asks for another line only inside an open quote
        nonlocal closed
        size = len(first)
        yield first.replace("\0", "")
        for line in lines:
            taken.append(line)
            size += len(line)
            if size > LIMIT:
                break
            yield line.replace("\0", "")
        closed = False

    cells = next(csv.reader(more(), delimiter=delimiter), [])
    if not closed:
        lines.back(taken[1:])
        cells = first.replace("\0", "").rstrip("\r\n").split(delimiter)
        return cells, "opens a quote and never closes it"
    return cells or [""], _NUL if any("\0" in line for line in taken) else None


def sniff_delimiter(path: Path, candidates: str) -> str | None:
    """The candidate that occurs most often, outside quotes, in the first line; None without any."""
    with open_text(path) as stream:
        first = next((line for line in _Lines(stream) if line.strip()), "")
    header = re.sub(r'"[^"]*"', "", first)
    best = max(candidates, key=header.count)
    return best if best in header else None


def _empty(path: Path) -> TableError:
    return TableError(f"{path}: is empty; a table needs a header line and rows below it.")


class DelimitedTable(RecordTable):
    """CSV and its relatives: a header line, then a row for each molecule."""

    def __init__(self, path: Path, delimiter: str) -> None:
        super().__init__(path)
        self.format = "tsv" if delimiter == "\t" else "csv"
        self.delimiter = delimiter
        self.may_have_commas = delimiter != ","
        with open_text(path) as stream:
            _, names, reason = next(_rows(_Lines(stream), delimiter), (0, None, None))
        if names is None:
            raise _empty(path)
        if reason or CONTROL.search("".join(names)):
            raise TableError(
                f"{path}: its header line {reason or 'has control characters'}; "
                "is it a table, and saved as UTF-8 text?"
            )
        self.names = check_names(path, names)

    def records(self) -> Iterator[Record]:
        """Yield all rows; one with too many or too few cells is rejected, padded or cut."""
        width = len(self.names)
        with open_text(self.path) as stream:
            rows = _rows(_Lines(stream), self.delimiter)
            next(rows)
            for number, cells, reason in rows:
                if len(cells) == width and reason is None:
                    yield Record(cells)
                    continue
                why = reason or f"has {len(cells)} fields where the header has {width}"
                padded = cells[:width] + [""] * (width - len(cells))
                yield Record(padded, f"line {number} {why}")


class SmilesTable(RecordTable):
    """SMILES files: a SMILES, white space, a name; the name, and a header line, may be missing.

    A header, recognised by its first word (``smiles``), may name further columns.
    """

    format = "smi"
    may_have_commas = True

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with open_text(path) as stream:
            words = next(filter(None, (line.split() for line in _Lines(stream))), None)
        if words is None:
            raise _empty(path)
        self._header = re.search(r"smiles|^smi$", words[0], re.IGNORECASE) is not None
        self.names = check_names(path, words) if self._header else ("smiles", "name")
        if "\0" in words[0]:
            raise TableError(f"{path}: its first line {_NUL}; is it saved as UTF-8 text?")

    def records(self) -> Iterator[Record]:
        """Yield all rows; the last column takes the rest of its line."""
        width = len(self.names)
        header = self._header
        with open_text(self.path) as stream:
            lines = _Lines(stream)
            for line in lines:
                cells = line.replace("\0", "").rstrip().split(None, width - 1)
                if not cells or header:
                    header = header and not cells
                    continue
                reason = None
                if len(line) >= LIMIT:
                    cells, reason = [], _LONG
                elif "\0" in line:
                    reason = _NUL
                elif len(cells) < width and width > 2:
                    reason = f"has {len(cells)} fields where the header has {width}"
                cells += [""] * (width - len(cells))
                yield Record(cells, reason and f"line {lines.number} {reason}")
