"""Units of work: rows of tables, each of which becomes one Parquet file of a folder.

The rows of every table are cut into units, numbered as they stand. The file of a unit is named by
the number of its table and its own: a unit that is scored twice, because a worker died before it
could say so, writes the same file again, and nothing is lost or doubled. The file tells, in its
footer, how many rows it has and which were rejected, so that a run that was interrupted goes on
with the units that are missing.
"""

from __future__ import annotations

import io
import json
import pickle
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gad.data.tables import Chunk, Table, TableError
from gad.data.tables.encode import ParquetFormat, filled
from gad.data.tables.writers import Reject, TableWriter
from gad.prediction.engines.base import PredictionSummary, Scorer
from gad.prediction.engines.local import CHUNK
from gad.prediction.engines.places import Place, opened
from gad.reporter import Reporter

FILE, ROW = "source_file", "source_row"
_MANIFEST, _REJECTS = "_gad.json", "_rejects.csv"
_PART = re.compile(r"part-\d{6}-\d{6}\.parquet")


@dataclass(frozen=True)
class Unit:
    """What is told of a unit: of which table it is, its number there, and its rows.

    Attributes:
        last: whether the table has no further unit.
        error: why the table cannot be used, if it cannot.
    """

    table: int
    unit: int
    last: bool
    rows: int = 0
    rejected: int = 0
    unseen: int = 0
    error: str = ""

    @property
    def name(self) -> str:
        """Its file in the output."""
        return f"part-{self.table:06d}-{self.unit:06d}.parquet"


@dataclass(frozen=True)
class Notes:
    """What the file of a unit says of itself."""

    rows: int
    rejects: list[Reject]
    unseen: int


def read_units(
    row: Mapping[str, Any], names: tuple[str, ...], rows: int, done: frozenset[str]
) -> Iterator[dict[str, object]]:
    """Read a table, and give its rows by units; those which are done come without their rows."""
    number, place = int(row["table"]), Place(row["place"])
    unit, size = Unit(number, 0, last=True), max(1, rows // CHUNK)

    def given(unit: Unit, chunks: list[Chunk]) -> dict[str, object]:
        data = b"" if unit.name in done else pickle.dumps(chunks)
        return {**asdict(unit), "name": row["name"], "chunks": data}

    try:
        with opened(place) as table:
            reader = _same(table, names, place).chunks(CHUNK)
            chunks = list(islice(reader, size))
            while True:
                following = list(islice(reader, size))
                yield given(replace(unit, last=not following), chunks)
                if not following:
                    return
                unit, chunks = replace(unit, unit=unit.unit + 1), following
    except TableError as error:
        yield given(replace(unit, error=str(error)), [])


def _same(table: Table, names: tuple[str, ...], place: Place) -> Table:
    if table.names != names:
        raise TableError(
            f"{place}: its columns ({', '.join(table.names)}) are not those of the first table "
            f"({', '.join(names)})."
        )
    return table


@dataclass(frozen=True)
class UnitWriter:
    """Scores units and writes them."""

    scorer: Scorer
    folder: Place
    form: ParquetFormat

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
        """Score one unit; what is told of it."""
        fields = {name: batch[name][0].item() for name in ("table", "unit", "last")}
        unit = Unit(**fields, error=str(batch["error"][0]))
        data = bytes(batch["chunks"][0])
        place = str(batch["name"][0])
        if not unit.error:
            try:
                notes = (
                    self._write(unit, place, data) if data else read_notes(self.folder / unit.name)
                )
                rejected = len(notes.rejects)
                unit = replace(unit, rows=notes.rows, rejected=rejected, unseen=notes.unseen)
            except TableError as error:
                unit = replace(unit, error=f"{place}: {error}")
        return {name: np.array([value]) for name, value in asdict(unit).items()}

    def _write(self, unit: Unit, place: str, data: bytes) -> Notes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        tables, rejects, unseen = [], list[Reject](), 0
        names = self.scorer.names
        for chunk in pickle.loads(data):  # noqa: S301  # by our own reader, through Ray
            scored = self.scorer(chunk)
            numbers = np.arange(chunk.start, chunk.start + len(chunk), dtype=np.int64) + 1
            columns = scored.columns
            columns |= {names[FILE]: [place] * len(chunk), names[ROW]: numbers}
            tables.append(self.form.arrow([columns[name] for name in self.form.names]))
            rejects += scored.rejects
            unseen += scored.unseen
        table = pa.concat_tables(tables or [self.form.arrow([[] for _ in self.form.names])])
        notes = Notes(len(table), rejects, unseen)
        schema = filled(table.schema).with_metadata({"gad": json.dumps(vars(notes))})
        out = io.BytesIO()
        pq.write_table(table.cast(schema), out)
        (self.folder / unit.name).write(out.getvalue())
        return notes


def read_notes(part: Place) -> Notes:
    """What a file of the output says of itself."""
    import pyarrow.parquet as pq

    with part.local() as path:
        found = json.loads(pq.read_schema(path).metadata[b"gad"])
    return Notes(found["rows"], [Reject(*each) for each in found["rejects"]], found["unseen"])


def gathered(rows: Iterable[Mapping[str, Any]], tables: int, reporter: Reporter) -> list[Unit]:
    """All units in order; one that is missing is an error, as is a table that cannot be used."""
    found: dict[tuple[int, int], Unit] = {}
    done = 0
    for row in rows:
        unit = Unit(**row)
        if unit.error:
            raise TableError(unit.error)
        if (unit.table, unit.unit) not in found:
            done += unit.rows
        found[unit.table, unit.unit] = unit
        reporter.progress("predicting", done, None)
    units = [found[key] for key in sorted(found)]
    last = {unit.table: unit.unit for unit in units if unit.last}
    wanted = {(table, k) for table in range(tables) for k in range(last.get(table, 0) + 1)}
    if len(last) != tables or wanted != set(found):
        raise RuntimeError("Ray has lost a part of the work: go on with --resume")
    return units


@dataclass(frozen=True)
class Folder:
    """The output: Parquet files, and what is known of the run in ``_gad.json``.

    Readers of Parquet folders pass over names that begin with an underscore.
    """

    place: Place
    identity: Mapping[str, str]

    def finished(self) -> dict[str, Any] | None:
        """The summary of a run that is over and made from the same; refuse others' folders."""
        manifest = self._same_run(self._files())
        return manifest["summary"] if manifest.get("parts") == len(self.parts()) else None

    def begin(self, resume: bool) -> None:
        """Make room for a run, or go on with the one that is there."""
        files = self._files()
        if not (resume and self._same_run(files)):
            for name in sorted(files):  # the manifest goes first, lest it stand for others' parts
                files[name].remove()
            self._note(None)

    def _files(self) -> dict[str, Place]:
        if self.place.state() is not None:
            raise TableError(f"{self.place}: is a file; on a cluster the output is a folder.")
        skip = len(str(self.place).rstrip("/")) + 1
        files = {str(file)[skip:]: file for file, _ in self.place.files()}
        ours = {_MANIFEST, _REJECTS}
        if other := [name for name in files if name not in ours and not _PART.fullmatch(name)]:
            raise TableError(
                f"{self.place}: holds other things than predictions ({other[0]}); choose another."
            )
        return files

    def _same_run(self, files: Mapping[str, Place]) -> dict[str, Any]:
        """What is noted of the run, if it was made from the same; a damaged note is none."""
        with suppress(KeyError, ValueError, TypeError):
            found = dict(json.loads(files[_MANIFEST].read()))
            return found if found["identity"] == self.identity else {}
        return {}

    def parts(self) -> frozenset[str]:
        """The names of the parts that are there."""
        return frozenset(f.name for f, _ in self.place.files() if _PART.fullmatch(f.name))

    def finish(
        self, units: list[Unit], places: list[Place], targets: list[str], columns: list[str]
    ) -> PredictionSummary:
        """Write the rejects, in the order of the input, and what became of the rows."""
        rows, rejected, unseen = (
            sum(getattr(unit, name) for unit in units) for name in ("rows", "rejected", "unseen")
        )
        listed = str(self.place / _REJECTS) if rejected else None
        summary = PredictionSummary(
            str(self.place), rows, rows - rejected, rejected, listed, unseen, targets, columns
        )
        if rejected:
            with tempfile.TemporaryDirectory(prefix="gad-") as name:
                path = Path(name) / _REJECTS
                with TableWriter(path, (*Reject._fields, FILE)) as out:
                    for unit in (unit for unit in units if unit.rejected):
                        rejects = read_notes(self.place / unit.name).rejects
                        numbers, smiles, why = map(list, zip(*rejects, strict=True))
                        source = [str(places[unit.table])] * len(numbers)
                        out.write({"row": numbers, "smiles": smiles, "reason": why, FILE: source})
                    out.commit()
                (self.place / _REJECTS).write(path.read_bytes())
        self._note(summary.to_dict())
        return summary

    def _note(self, summary: dict[str, object] | None) -> None:
        notes = {"identity": self.identity, "summary": summary, "parts": len(self.parts())}
        (self.place / _MANIFEST).write(json.dumps(notes, indent=1).encode())
