"""Predicting on a cluster: Ray Data reads the tables, its actors score them and write Parquet.

The rows of every table are cut into units, numbered as they stand. Each unit becomes one file of
the output, named by the number of its table and its own: a unit that is scored twice, because a
worker died before it could say so, writes the same file again, and nothing is lost or doubled. The
file tells, in its footer, how many rows it has and which were rejected, so that a run that was
interrupted goes on with the units that are missing.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import pickle
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gad.data.tables import Chunk, Table, TableError
from gad.data.tables.columns import SAMPLE
from gad.data.tables.encode import ParquetFormat, filled
from gad.data.tables.parquet import values_of
from gad.data.tables.writers import Reject
from gad.prediction.engines.base import PredictionSummary, Request, Scorer, scorer_for
from gad.prediction.engines.local import CHUNK
from gad.prediction.engines.places import Place, opened, tables_of
from gad.prediction.model_file import Model
from gad.reporter import Reporter

if TYPE_CHECKING:
    from ray.data import Dataset

_FILE, _ROW = "source_file", "source_row"
_MANIFEST, _REJECTS = "_gad.json", "_rejects.csv"
_PART = re.compile(r"part-(\d{6})-(\d{6})\.parquet")
# Of the cores of an actor a tenth is left to the tasks that read.
_ACTOR_CORES, _READER_CORES = 0.9, 0.1


@dataclass(frozen=True)
class RayEngine:
    """A cluster, or this machine as one.

    Attributes:
        address: of the cluster, ``auto`` for the one that this machine belongs to; None starts one
            here, unless the environment variable ``RAY_ADDRESS`` or Python names one.
        workers: actors that score, each with the model; None for all cores of the cluster.
        num_gpus: graphics cards of each actor; None is one where the networks run on such.
        accelerator: where the networks run in :meth:`predict_dataset`.
        rows: of a unit; a multiple of 2,048.
    """

    address: str | None = None
    workers: int | None = None
    num_gpus: float | None = None
    accelerator: str = "cpu"
    rows: int = 16 * CHUNK

    def predict(self, request: Request, reporter: Reporter | None = None) -> PredictionSummary:
        """Predict a table, a folder or a pattern of tables into a folder of Parquet files."""
        reporter = reporter or Reporter()
        if request.part:
            raise ValueError("--part is for machines without a cluster: leave it out")
        tables = tables_of(str(request.data))
        with opened(tables[0][0]) as table:
            # Text files have texts, in the files of the output too, whatever the first rows hold.
            names, types = table.names, dict.fromkeys(table.names, "string") | dict(table.types)
            scorer = scorer_for(request, table, reporter, (_FILE, _ROW))
        identity = {
            "input": hashlib.sha256(repr([(str(p), s) for p, s in tables]).encode()).hexdigest(),
            **scorer.identity(),
            "rows": str(self.rows),
        }
        folder = Folder(Place(str(request.output)), identity)
        if (told := folder.begin(request.resume)) is not None:
            reporter.message(f"{request.output} is finished already: there is nothing to do")
            return replace(PredictionSummary(**told), output=str(request.output))
        places = [place for place, _ in tables]
        read = partial(_units, names=names, rows=self.rows, done=folder.parts())
        score = _Writer(
            scorer, folder.place, ParquetFormat((*names, *scorer.names.values()), types)
        )
        with self._cluster(request.accelerator) as strategy:
            import ray

            dataset = ray.data.from_items(
                [{"table": k, "place": str(place)} for k, place in enumerate(places)],
                override_num_blocks=len(places),
            ).flat_map(read, num_cpus=_READER_CORES)
            results = dataset.map_batches(
                _Actor,
                batch_size=1,
                batch_format="numpy",
                fn_constructor_args=(score, Path(request.model).read_bytes()),
                **strategy,
            )
            units = _gathered(results.iter_rows(), len(places), reporter)
        rejected = sum(unit.rejected for unit in units)
        summary = PredictionSummary(
            output=str(request.output),
            rows=sum(unit.rows for unit in units),
            predicted=sum(unit.rows for unit in units) - rejected,
            rejected=rejected,
            rejects=str(folder.place / _REJECTS) if rejected else None,
            unseen_elements=sum(unit.unseen for unit in units),
            targets=list(scorer.predictor.targets),
            columns=list(scorer.names.values()),
        )
        folder.finish(units, places, summary)
        return summary

    def predict_dataset(
        self,
        model: Model,
        dataset: Dataset,
        *,
        smiles: str | None = None,
        uncertainty: bool = False,
        embeddings: bool = False,
        reporter: Reporter | None = None,
    ) -> Dataset:
        """A data set with predictions added, as :meth:`gad.Predictor.predict_dataset` says."""
        content = model.to_bytes()
        with tempfile.TemporaryDirectory(prefix="gad-") as folder:
            path = Path(folder) / "model.gad"
            path.write_bytes(content)
            request = Request(path, "", "", smiles, uncertainty, embeddings)
            table = _Sample(dataset)
            scorer = scorer_for(request, table, reporter or Reporter())
        with self._cluster(self.accelerator, keep=True) as strategy:
            return dataset.map_batches(
                _Actor,
                batch_size=CHUNK,
                batch_format="pyarrow",
                fn_constructor_args=(replace(scorer, accelerator=self.accelerator), content),
                **strategy,
            )

    @contextmanager
    def _cluster(self, accelerator: str, keep: bool = False) -> Iterator[dict[str, Any]]:
        """A cluster, and how actors are spread over it."""
        ray = _ray()
        ours = not ray.is_initialized()
        if ours:
            ray.init(self.address, log_to_driver=False, logging_level=logging.ERROR)
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        context = ray.data.DataContext.get_current()
        before = (context.target_max_block_size, context.enable_progress_bars)
        if not keep:
            # A unit is a block of its own, lest all units of a table go to one actor.
            context.target_max_block_size, context.enable_progress_bars = 1, False
        try:
            cards = self.num_gpus if self.num_gpus is not None else float(accelerator == "gpu")
            there = ray.cluster_resources()
            room = there.get("GPU", 0) // cards if cards else there.get("CPU", 1)
            size = self.workers or max(1, int(room))
            yield {
                "compute": ray.data.ActorPoolStrategy(size=size),
                "num_cpus": _ACTOR_CORES,
                "num_gpus": cards or None,
            }
        finally:
            context.target_max_block_size, context.enable_progress_bars = before
            if ours and not keep:
                ray.shutdown()


def _ray() -> Any:
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ValueError(
            "a cluster needs Ray: pip install 'graph-anisotropic-diffusion[ray]'"
        ) from error
    return ray


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


def _units(
    row: Mapping[str, Any], names: tuple[str, ...], rows: int, done: frozenset[str]
) -> Iterator[dict[str, Any]]:
    """Read a table, and give its rows by units; those which are done come without their rows."""
    number, place = int(row["table"]), Place(row["place"])
    unit = Unit(number, 0, last=True)

    def given(unit: Unit, chunks: list[Chunk]) -> dict[str, Any]:
        data = b"" if unit.name in done else pickle.dumps(chunks)
        return {**asdict(unit), "place": str(place), "chunks": data}

    try:
        with opened(place) as table:
            reader = _same(table, names, place).chunks(CHUNK)
            chunks = list(islice(reader, rows // CHUNK))
            while True:
                following = list(islice(reader, rows // CHUNK))
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
class _Writer:
    """Scores units and writes them."""

    scorer: Scorer
    folder: Place
    form: ParquetFormat

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Score one unit; what is told of it."""
        fields = {name: batch[name][0].item() for name in ("table", "unit", "last")}
        unit = Unit(**fields, error=str(batch["error"][0]))
        data = bytes(batch["chunks"][0])
        place = str(batch["place"][0])
        if not unit.error:
            try:
                notes = (
                    self._write(unit, place, data) if data else read_notes(self.folder / unit.name)
                )
                told = {"rows": notes["rows"], "unseen": notes["unseen"]}
                unit = replace(unit, rejected=len(notes["rejects"]), **told)
            except TableError as error:
                unit = replace(unit, error=f"{place}: {error}")
        return {name: np.array([value]) for name, value in asdict(unit).items()}

    def _write(self, unit: Unit, place: str, data: bytes) -> dict[str, Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        tables, rejects, unseen = [], list[Reject](), 0
        names = self.scorer.names
        for chunk in pickle.loads(data):  # noqa: S301  # by our own reader, through Ray
            scored = self.scorer(chunk)
            numbers = np.arange(chunk.start, chunk.start + len(chunk), dtype=np.int64) + 1
            columns = scored.columns
            columns |= {names[_FILE]: [place] * len(chunk), names[_ROW]: numbers}
            tables.append(self.form.arrow([columns[name] for name in self.form.names]))
            rejects += scored.rejects
            unseen += scored.unseen
        table = pa.concat_tables(tables or [self.form.arrow([[] for _ in self.form.names])])
        notes = {"rows": len(table), "rejects": rejects, "unseen": unseen}
        schema = filled(table.schema).with_metadata({"gad": json.dumps(notes)})
        out = io.BytesIO()
        pq.write_table(table.cast(schema), out)
        (self.folder / unit.name).write(out.getvalue())
        return notes


def read_notes(part: Place) -> dict[str, Any]:
    """What a file of the output says of itself: rows, rejects, unseen."""
    import pyarrow.parquet as pq

    with part.local() as path:
        return dict(json.loads(pq.read_schema(path).metadata[b"gad"]))


class _Actor:
    """Holds the model, loaded once, and does the work batch by batch."""

    def __init__(self, work: _Writer | Scorer, model: bytes) -> None:
        with tempfile.TemporaryDirectory(prefix="gad-") as folder:
            path = Path(folder) / "model.gad"
            path.write_bytes(model)
            scorer = work if isinstance(work, Scorer) else work.scorer
            scorer = replace(scorer, model=str(path))
            _ = scorer.predictor  # it stays in memory when the file is gone
        self._work = scorer if isinstance(work, Scorer) else replace(work, scorer=scorer)

    def __call__(self, batch: Any) -> Any:
        """Score a unit, or the rows of a data set."""
        if isinstance(self._work, _Writer):
            return self._work(batch)
        columns = dict(zip(batch.column_names, map(_cells, batch.columns), strict=True))
        if not len(batch):
            return batch
        scored = self._work(Chunk(0, columns)).columns
        names = list(self._work.names.values())
        added = ParquetFormat(names, {}).arrow([scored[name] for name in names])
        added = added.cast(filled(added.schema))
        for name in names:
            batch = batch.append_column(name, added[name])
        return batch


def _cells(column: Any) -> list[Any]:
    return [cell for chunk in column.chunks for cell in values_of(chunk)]


class _Sample(Table):
    """The first rows of a data set, as a table whose columns are looked for."""

    format = "parquet"

    def __init__(self, dataset: Dataset) -> None:
        schema = dataset.schema()
        self.path = Path("the data set")
        self.names = tuple(schema.names if schema is not None else ())
        self.types = {}
        self._dataset = dataset

    def _chunks(self, size: int, start: int) -> Iterator[Chunk]:
        rows = self._dataset.take(min(size, SAMPLE))[start:]
        if rows:
            yield Chunk(start, {name: [row[name] for row in rows] for name in self.names})


def _gathered(rows: Iterable[Mapping[str, Any]], tables: int, reporter: Reporter) -> list[Unit]:
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

    def begin(self, resume: bool) -> dict[str, Any] | None:
        """Make room for a run, or go on with one; the summary of one that is finished."""
        files = {file.name: file for file, _ in self.place.files()}
        ours = [n for n in files if _PART.fullmatch(n) or n in {_MANIFEST, _REJECTS}]
        if len(ours) < len(files):
            other = min(set(files) - set(ours))
            raise TableError(
                f"{self.place}: holds other things than predictions ({other}); choose another."
            )
        manifest = json.loads(files[_MANIFEST].read()) if resume and _MANIFEST in files else {}
        if manifest.get("identity") == self.identity:
            return manifest.get("summary")
        for name in sorted(ours):  # the manifest goes first, lest it stand for others' parts
            files[name].remove()
        self._note(None)
        return None

    def parts(self) -> frozenset[str]:
        """The names of the parts that are there."""
        return frozenset(f.name for f, _ in self.place.files() if _PART.fullmatch(f.name))

    def finish(self, units: list[Unit], places: list[Place], summary: PredictionSummary) -> None:
        """Write the rejects, in the order of the input, and the summary."""
        from gad.data.tables.writers import open_writer

        if summary.rejected:
            with tempfile.TemporaryDirectory(prefix="gad-") as name:
                path = Path(name) / _REJECTS
                with open_writer(path, (*Reject._fields, _FILE)) as out:
                    for unit in (unit for unit in units if unit.rejected):
                        rejects = read_notes(self.place / unit.name)["rejects"]
                        rows, smiles, why = map(list, zip(*rejects, strict=True))
                        source = [str(places[unit.table])] * len(rows)
                        out.write({"row": rows, "smiles": smiles, "reason": why, _FILE: source})
                    out.commit()
                (self.place / _REJECTS).write(path.read_bytes())
        self._note(summary.to_dict())

    def _note(self, summary: dict[str, Any] | None) -> None:
        notes = {"identity": self.identity, "summary": summary}
        (self.place / _MANIFEST).write(json.dumps(notes, indent=1).encode())
