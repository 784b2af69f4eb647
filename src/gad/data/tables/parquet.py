"""Tables in Parquet files: the columns keep their types."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gad.data.tables.base import Chunk, Table, TableError, check_names
from gad.data.tables.text import FALLBACK


class ParquetTable(Table):
    """A Parquet file, one batch of rows after the other."""

    format = "parquet"

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self.path = path
        with self._open() as file:
            schema = file.schema_arrow
            self.names = check_names(path, schema.names)
            self.rows = file.metadata.num_rows
            self._groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            self.types = {
                name: kind.value_type if pa.types.is_dictionary(kind) else kind
                for name, kind in zip(self.names, schema.types, strict=True)
            }
        if not self.names:
            raise TableError(f"{path}: has no columns.")

    def _chunks(self, size: int, start: int) -> Iterator[Chunk]:
        first, skip = 0, start
        while first < len(self._groups) and skip >= self._groups[first]:  # whole groups unread
            skip -= self._groups[first]
            first += 1
        with self._open() as file:
            for batch in file.iter_batches(size, range(first, len(self._groups))):
                rows = batch.slice(skip)
                skip = max(0, skip - len(batch))
                if len(rows):
                    columns = map(values_of, rows.columns)
                    yield Chunk(start, dict(zip(self.names, columns, strict=True)))
                    start += len(rows)

    @contextlib.contextmanager
    def _open(self) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(str(self.path), pre_buffer=False) as file:
                yield file
        except FileNotFoundError:
            raise TableError(f"{self.path}: there is no such file.") from None
        except (pa.ArrowException, OSError, UnicodeError) as error:
            what = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
            raise TableError(
                f"{self.path}: cannot be read as Parquet ({what}); is it complete, and Parquet?"
            ) from None


def values_of(array: Any) -> list[Any]:
    """An Arrow array as Python values; richer types stay Arrow scalars, so nothing is lost."""
    import pyarrow as pa

    kind = array.type
    if pa.types.is_dictionary(kind):
        return values_of(array.dictionary_decode())
    if pa.types.is_float32(kind):  # numpy remembers that these have 7 digits, not 17
        return [None if value is None else np.float32(value) for value in array.to_pylist()]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        try:
            return array.to_pylist()  # type: ignore[no-any-return]
        except UnicodeDecodeError:
            raw = array.cast(pa.binary() if pa.types.is_string(kind) else pa.large_binary())
            return [
                None if cell is None else cell.decode("utf-8", FALLBACK) for cell in raw.to_pylist()
            ]
    plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
    if any(test(kind) for test in plain):
        return array.to_pylist()  # type: ignore[no-any-return]
    return [cell if cell.is_valid else None for cell in array]
