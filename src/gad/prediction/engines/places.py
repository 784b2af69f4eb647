"""Files and folders anywhere: on this machine's disks, or on a file system of Arrow by its URL."""

from __future__ import annotations

import fnmatch
import glob
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from gad.data.atomic import write_atomic
from gad.data.tables import Table, TableError, open_table

_PARQUET = (".parquet", ".pq")
_ENDINGS = (".csv", ".tsv", ".tab", ".txt", ".smi", ".smiles", ".sdf", ".sd", *_PARQUET)


@dataclass(frozen=True)
class Place:
    """A file or folder: a path of this machine, or a URL such as ``s3://bucket/folder``.

    Example:
        >>> place = Place("s3://bucket/out") / "part.parquet"
        >>> str(place), place.is_remote
        ('s3://bucket/out/part.parquet', True)
    """

    text: str

    def __str__(self) -> str:
        return self.text

    def __truediv__(self, name: str) -> Place:
        path, mark, query = self._parted()
        return Place(f"{path.rstrip('/')}/{name}{mark}{query}")

    def __contains__(self, other: Place) -> bool:
        return f"{other._arrow()[1]}/".startswith(f"{self._arrow()[1].rstrip('/')}/")

    def absolute(self) -> Place:
        """The same place for a process with another working directory."""
        return self if self.is_remote else Place(str(Path(self.text).absolute()))

    @property
    def is_remote(self) -> bool:
        """Whether it is named by a URL."""
        return "://" in self.text

    @property
    def name(self) -> str:
        """The last part of the path."""
        return PurePosixPath(self._parted()[0]).name

    @property
    def is_parquet(self) -> bool:
        """Whether its name says that it is a Parquet file."""
        return self.name.lower().endswith(_PARQUET)

    def files(self) -> list[tuple[Place, str]]:
        """The files in this folder and below, sorted, with a word that changes when they do."""
        from pyarrow import fs

        system, path = self._arrow()
        found = system.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
        return sorted(
            (self / info.path[len(path.rstrip("/")) + 1 :], f"{info.size}-{info.mtime_ns}")
            for info in found
            if info.is_file
        )

    def state(self) -> str | None:
        """A word that changes when the file does; None where there is no file."""
        system, path = self._arrow()
        info = system.get_file_info(path)
        return f"{info.size}-{info.mtime_ns}" if info.is_file else None

    def read(self) -> bytes:
        """The content of the file."""
        system, path = self._arrow()
        with system.open_input_stream(path) as stream:
            return bytes(stream.read())

    def write(self, data: bytes) -> None:
        """Make the file, whole or not at all."""
        system, path = self._arrow()
        if not self.is_remote:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, data)
            return
        # What is put into a store of objects appears when it is complete; elsewhere it is renamed.
        at_once = system.type_name in {"s3", "gcs", "abfs"}
        folder, _, name = path.rpartition("/")
        system.create_dir(folder, recursive=True)
        target = path if at_once else f"{folder}/.{name}.tmp"
        with system.open_output_stream(target) as stream:
            stream.write(data)
        if not at_once:
            system.move(target, path)

    def remove(self) -> None:
        """Delete the file."""
        system, path = self._arrow()
        system.delete_file(path)

    @contextmanager
    def local(self) -> Iterator[Path]:
        """The file on this machine: itself, or a copy as long as it is needed."""
        if not self.is_remote:
            yield Path(self.text)
            return
        system, path = self._arrow()
        with tempfile.TemporaryDirectory(prefix="gad-") as folder:
            copy = Path(folder) / self.name
            with system.open_input_stream(path, compression=None) as source, copy.open("wb") as out:
                shutil.copyfileobj(source, out)
            yield copy

    def _parted(self) -> tuple[str, str, str]:
        """The path, and the options that a URL may have behind a question mark."""
        return self.text.partition("?") if self.is_remote else (self.text, "", "")

    def _arrow(self) -> tuple[Any, str]:
        """Arrow's file system, and the path in it."""
        from pyarrow import fs

        if self.is_remote:
            return fs.FileSystem.from_uri(self.text)  # type: ignore[no-any-return]
        return fs.LocalFileSystem(), str(Path(self.text).absolute())

    def __lt__(self, other: Place) -> bool:
        return self.text < other.text


def tables_of(data: str) -> list[tuple[Place, str]]:
    """The tables that a path, a folder, a pattern or a URL stands for, sorted, with their state.

    Raises:
        TableError: there is none.
    """
    place = Place(data)
    if place.is_remote and "*" in data:
        path, mark, query = data.partition("?")
        base = Place(path.split("*")[0].rpartition("/")[0] + mark + query)
        found = [pair for pair in base.files() if fnmatch.fnmatch(str(pair[0]), data)]
    elif (state := place.state()) is not None:
        return [(place, state)]
    elif not place.is_remote and glob.has_magic(data):
        paths = [Place(path) for path in sorted(glob.glob(data, recursive=True))]  # noqa: PTH207
        found = [(path, state) for path in paths if (state := path.state()) is not None]
    else:
        found = place.files()
    tables = [(path, state) for path, state in found if _is_table(path.name)]
    if not tables:
        raise TableError(f"{data}: there is no table (CSV, TSV, SMI, SDF or Parquet).")
    return tables


def _is_table(name: str) -> bool:
    plain = name.lower().removesuffix(".gz")
    return plain.endswith(_ENDINGS) and not name.startswith((".", "_"))


@contextmanager
def opened(place: Place) -> Iterator[Table]:
    """A table, wherever it is; messages name it as the user did."""
    with place.local() as path:
        try:
            yield open_table(path)
        except TableError as error:
            raise TableError(str(error).replace(str(path), str(place))) from error
