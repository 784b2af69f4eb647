"""Tables that take long to compute: written in parts, resumed after an interruption."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gad.data.atomic import AtomicFile, write_atomic
from gad.data.tables.base import TableError, digest
from gad.data.tables.encode import Column, format_of
from gad.data.tables.writers import Reject, checked_output, ordered, writing


class PartsWriter:
    """A table written in parts that outlive a crash.

    Every :meth:`write` leaves one more file in ``OUT.partial/``, named by the input rows it stands
    for, beside a manifest that says what they were computed from. A part is there whole or not at
    all, so the names alone tell how far the work has come. :meth:`commit` joins the parts.

    Args:
        path: the table to be; as in :class:`TableWriter`.
        names: its columns.
        identity: what the rows depend on, and its fingerprint: ``{"input": ..., "model": ...}``.
            Parts made from anything else are not continued.
        types: as in :class:`TableWriter`.
        resume: continue with the parts that are there; otherwise they are thrown away.

    Attributes:
        done_rows: rows accounted for; continue with ``table.chunks(start=done_rows)``.
        finished: the summary of a run that is over, where it was to be resumed; there is nothing
            to write then. None otherwise.
    """

    _OURS = re.compile(r"manifest\.json|\d{12}-\d{12}\.(part|notes|rejects)|\..+\.tmp")

    def __init__(
        self,
        path: str | os.PathLike[str],
        names: Sequence[str],
        identity: Mapping[str, str],
        types: Mapping[str, Any] | None = None,
        *,
        resume: bool = False,
    ) -> None:
        self.path = checked_output(path)
        self.names = tuple(names)
        self.folder = self.path.with_name(self.path.name + ".partial")
        self._format = format_of(self.path, self.names, types or {})
        self._parts: list[Path] = []
        self.done_rows = 0
        self._identity = {"version": 2, "columns": list(self.names), **identity}
        self.finished = self._summary() if resume else None
        if self.finished is not None:
            return
        with writing(self.folder):
            self._check_folder()
            if resume and self._manifest.exists():
                self._compare()
                self._collect()
            else:
                self.discard()
                self.folder.mkdir(exist_ok=True)
                write_atomic(self._manifest, json.dumps(self._identity, indent=1).encode())

    def write(
        self,
        columns: Mapping[str, Column],
        rejects: Iterable[Reject] = (),
        counts: Mapping[str, int] | None = None,
    ) -> None:
        """Add a part, durably.

        Args:
            columns: the output rows.
            rejects: those of them that could not be used.
            counts: what :meth:`counts` shall add up.
        """
        cells = ordered(columns, self.names)
        stop = self.done_rows + len(cells[0])
        part = self.folder / f"{self.done_rows:012d}-{stop:012d}.part"
        with writing(part):
            notes = {"rejects": list(rejects), "counts": dict(counts or {})}
            if notes["rejects"] or any((counts or {}).values()):
                write_atomic(part.with_suffix(".notes"), json.dumps(notes).encode())
            with AtomicFile(part) as out:  # last, for it is this file that counts
                encoder = self._format.part_encoder(out.file)
                try:
                    encoder.write(cells)
                finally:
                    encoder.close()
                out.commit()
        self._parts.append(part)
        self.done_rows = stop

    def rejects(self) -> Iterator[Reject]:
        """Yield the rejects of all parts, also those written before an interruption."""
        yield from (Reject(*reject) for notes in self._notes() for reject in notes["rejects"])

    def counts(self) -> Counter[str]:
        """The counts of all parts, added up."""
        return sum((Counter(notes["counts"]) for notes in self._notes()), Counter())

    def commit(self, summary: Mapping[str, Any] | None = None) -> None:
        """Join the parts: the file appears at its path, the folder of parts is gone.

        With a ``summary`` (of what JSON can hold) a record of it stays beside the file, hidden, by
        which a later run knows that it is finished.
        """
        with writing(self.path), AtomicFile(self.path, self.folder) as out:
            self._format.join(self._parts, out.file)
            out.commit()
            if summary is not None:
                record = {
                    "identity": self._identity,
                    "output": digest(self.path),
                    "summary": dict(summary),
                }
                write_atomic(_record(self.path), json.dumps(record, indent=1).encode())
        self.discard()

    def discard(self) -> None:
        """Remove the folder of parts."""
        if self.folder.exists():
            self._remove(keep={self._manifest})
            self._manifest.unlink(missing_ok=True)  # last, lest parts remain of unknown origin
            with contextlib.suppress(OSError):  # somebody put a file of their own into it
                self.folder.rmdir()

    @property
    def _manifest(self) -> Path:
        return self.folder / "manifest.json"

    def _check_folder(self) -> None:
        """Never delete what another program has put there."""
        if self.folder.exists() and not (
            self.folder.is_dir()
            and all(self._OURS.fullmatch(p.name) for p in self.folder.iterdir())
        ):
            raise TableError(
                f"{self.folder}: holds other things than parts of {self.path.name}; "
                "move it, or choose another output."
            )

    def _summary(self) -> dict[str, Any] | None:
        """What was said of a finished file, if it is there, unchanged and made from the same."""
        try:
            identity, summary = read_record(self.path)
        except TableError:
            return None
        return summary if identity == self._identity else None

    def _compare(self) -> None:
        manifest = self._identity
        try:
            found = dict(json.loads(self._manifest.read_bytes()))
        except ValueError:
            raise TableError(
                f"{self._manifest}: is damaged; start again without resuming."
            ) from None
        keys = [*manifest, *found]
        if other := [key for key in dict.fromkeys(keys) if manifest.get(key) != found.get(key)]:
            raise TableError(
                f"{self.folder}: these parts belong to a run with another {' and '.join(other)}; "
                "continue with what that run had, or start again without resuming."
            )

    def _collect(self) -> None:
        """Take the parts that follow each other from row 0 on, and drop what does not."""
        for part in sorted(self.folder.glob("*.part")):
            start, stop = map(int, part.stem.split("-"))
            if start != self.done_rows:
                break
            self._parts.append(part)
            self.done_rows = stop
        self._remove(keep={self._manifest, *self._parts, *self._note_files()})

    def _note_files(self) -> list[Path]:
        return [part.with_suffix(".notes") for part in self._parts]

    def _notes(self) -> Iterator[dict[str, Any]]:
        return (json.loads(file.read_bytes()) for file in self._note_files() if file.exists())

    def _remove(self, keep: set[Path]) -> None:
        for file in set(self.folder.iterdir()) - keep:
            if self._OURS.fullmatch(file.name):
                file.unlink()


def _record(path: Path) -> Path:
    return path.with_name(f".{path.name}.done")


def read_record(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a finished table was made from, and its summary.

    Raises:
        TableError: there is no such table or no record of it, or it was changed since.
    """
    record = _record(path)
    try:
        found = json.loads(record.read_bytes())
        identity, summary = dict(found["identity"]), dict(found["summary"])
        same = found["output"] == digest(path)
    except FileNotFoundError as error:
        raise TableError(f"{path}: there is no {Path(error.filename).name} (any more).") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TableError(f"{record}: is damaged ({error}).") from None
    if not same:
        raise TableError(f"{path}: was changed after it was written.")
    return identity, summary
