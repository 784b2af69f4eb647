"""How rows become the bytes of a CSV, TSV or Parquet file, and parts become one file."""

from __future__ import annotations

import csv
import gzip
import io
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from gad.data.tables.base import TableError, cell_text

Column: TypeAlias = "Sequence[Any] | np.ndarray[Any, Any]"

Format: TypeAlias = "TextFormat | ParquetFormat"
"""Has an encoder of tables, one of parts of them, and joins finished parts, in little memory."""

_GROUP = 1 << 16
"""Rows of a Parquet row group: many enough to compress well, few enough to hold in memory."""


def format_of(path: Path, names: Sequence[str], types: Mapping[str, Any]) -> Format:
    """The format that the ending of a file name asks for."""
    name = path.name.lower()
    plain = name.removesuffix(".gz")
    if plain.endswith((".csv", ".tsv", ".tab")):
        return TextFormat(names, "," if plain.endswith(".csv") else "\t", plain != name)
    if name.endswith((".parquet", ".pq")):
        return ParquetFormat(names, types)
    raise TableError(
        f"{path}: tables are written as .csv, .tsv (each also with .gz) or .parquet; "
        "give the output one of these endings."
    )


class TextFormat:
    """CSV or TSV, compressed or not. Parts have no header: joined, they follow each other."""

    def __init__(self, names: Sequence[str], delimiter: str, compressed: bool) -> None:
        self.names, self.delimiter, self.compressed = names, delimiter, compressed

    def encoder(self, file: BinaryIO) -> _TextEncoder:
        """Begin a table with its header."""
        encoder = _TextEncoder(file, self.delimiter, self.compressed)
        encoder.write([[name] for name in self.names])
        return encoder

    def part_encoder(self, file: BinaryIO) -> _TextEncoder:
        """Begin a table without a header."""
        return _TextEncoder(file, self.delimiter, self.compressed)

    def join(self, parts: Sequence[Path], file: BinaryIO) -> None:
        """Copy header and parts; compressed files may follow each other in one file."""
        self.encoder(file).close()
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, file)


class _TextEncoder:
    def __init__(self, file: BinaryIO, delimiter: str, compressed: bool) -> None:
        # No time stamp: equal tables are equal files.
        self._zip = gzip.GzipFile("", "wb", 6, file, mtime=0) if compressed else None
        self._text = io.TextIOWrapper(self._zip or file, encoding="utf-8", newline="")
        self._rows = csv.writer(self._text, delimiter=delimiter, lineterminator="\n")

    def write(self, columns: Sequence[Column]) -> None:
        self._rows.writerows(zip(*map(_texts, columns), strict=True))

    def close(self) -> None:
        self._text.detach()
        if self._zip:
            self._zip.close()


def _texts(values: Column) -> list[str]:
    """The cells of a column as they are written."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return ["" if text == "nan" else text for text in values.astype(str).tolist()]
    cells = [value if type(value) is str else cell_text(value) for value in values]
    # The csv module of older Pythons leaves a lone \r without quotes.
    return [re.sub("\r\n?", "\n", cell) if "\r" in cell else cell for cell in cells]


class ParquetFormat:
    """Parquet. The type of a column is the one given, else that of its first rows.

    A column of texts takes anything, as it is written in a text file.
    """

    def __init__(self, names: Sequence[str], types: Mapping[str, Any]) -> None:
        self.names, self.types = names, types

    def encoder(self, file: BinaryIO) -> _ParquetEncoder:
        """Begin a table."""
        return _ParquetEncoder(self, file)

    part_encoder = encoder

    def arrow(self, columns: Sequence[Column]) -> Any:
        """Columns as an Arrow table."""
        import pyarrow as pa

        arrays = []
        for name, values in zip(self.names, columns, strict=True):
            kind = self.types.get(name)
            kind = pa.type_for_alias(kind) if isinstance(kind, str) else kind
            # New numbers have NaN for nothing; columns of the input come back as they were.
            nothing = kind is None or isinstance(values, np.ndarray)
            given = values
            if kind == pa.string() and not isinstance(values, np.ndarray):
                given = [cell if cell is None else cell_text(cell) for cell in values]
            try:
                arrays.append(pa.array(given, type=kind, from_pandas=nothing))
            except (pa.ArrowException, TypeError, ValueError) as error:
                raise TableError(
                    f"column {name!r} cannot be written to Parquet: {error}"
                ) from error
        return pa.table(arrays, names=list(self.names))

    def join(self, parts: Sequence[Path], file: BinaryIO) -> None:
        """Read the parts one by one and write them in groups of good size."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not parts:
            return self.encoder(file).close()
        schemas = [pq.read_schema(part) for part in parts]
        schema = filled(pa.unify_schemas(schemas, promote_options="permissive"))
        with pq.ParquetWriter(file, schema) as out:
            for group in _groups(parts):
                out.write_table(pa.concat_tables([table.cast(schema) for table in group]))
        return None


class _ParquetEncoder:
    def __init__(self, form: ParquetFormat, file: BinaryIO) -> None:
        self._form, self._file = form, file
        self._out: Any = None

    def write(self, columns: Sequence[Column]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = self._form.arrow(columns)
        if self._out is None:
            self._out = pq.ParquetWriter(self._file, filled(table.schema))
        try:
            table = table.cast(self._out.schema)
        except pa.ArrowException as error:
            raise TableError(f"rows differ in type from those before them: {error}") from error
        self._out.write_table(table)

    def close(self) -> None:
        if self._out is None:
            self.write([[] for _ in self._form.names])
        self._out.close()


def _groups(parts: Sequence[Path]) -> Iterator[list[Any]]:
    """The tables of the parts, some at a time."""
    import pyarrow.parquet as pq

    group: list[Any] = []
    for part in parts:
        group.append(pq.read_table(part))
        if sum(map(len, group)) >= _GROUP:
            yield group
            group = []
    if group:
        yield group


def filled(schema: Any) -> Any:
    """A schema in which columns of nothing are text."""
    import pyarrow as pa

    fields = [f.with_type(pa.string()) if pa.types.is_null(f.type) else f for f in schema]
    return pa.schema(fields)
