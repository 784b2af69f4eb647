"""Predicting on a cluster: Ray Data reads the tables, its actors score them and write Parquet."""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gad.data.tables import Chunk, Table, TableError
from gad.data.tables.columns import SAMPLE
from gad.data.tables.encode import ParquetFormat, filled
from gad.data.tables.parquet import values_of
from gad.prediction.engines.base import PredictionSummary, Request, Scorer, scorer_for
from gad.prediction.engines.local import CHUNK
from gad.prediction.engines.places import Place, opened, tables_of
from gad.prediction.engines.units import FILE, ROW, Folder, UnitWriter, gathered, read_units
from gad.prediction.model_file import Model
from gad.prediction.predictor import device_of
from gad.reporter import Reporter

if TYPE_CHECKING:
    from ray.data import Dataset

# Of the cores of an actor a tenth is left to the tasks that read.
_ACTOR_CORES, _READER_CORES = 0.9, 0.1
# Seconds.
_PATIENCE = 20
_TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz")


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
        device_of(request.accelerator)
        tables = tables_of(str(request.data))
        with opened(tables[0][0]) as table:
            # Text files have texts, in the files of the output too, whatever the first rows hold;
            # so have Parquet files beside them.
            names, types = table.names, dict.fromkeys(table.names, "string")
            if all(place.is_parquet for place, _ in tables):
                types |= dict(table.types)
            plain = replace(request, accelerator="cpu")  # graphics cards are for the actors
            scorer = scorer_for(plain, table, reporter, (FILE, ROW))
        identity = {
            "input": hashlib.sha256(repr([(str(p), s) for p, s in tables]).encode()).hexdigest(),
            **scorer.identity(),
            "rows": str(self.rows),
        }
        places = [place for place, _ in tables]
        folder = Folder(Place(str(request.output)), identity)
        if folder.place.name.lower().endswith(_TEXT):
            raise TableError(
                f"{request.output}: on a cluster the output is a folder of Parquet files; leave "
                "the ending out."
            )
        if any(place in folder.place for place in places):
            raise TableError(f"{request.output}: holds what is to be predicted; choose another.")
        told = folder.finished()
        if told is not None and request.resume:
            reporter.message(f"{request.output} is finished already: there is nothing to do")
            return replace(PredictionSummary(**told), output=str(request.output))
        score = UnitWriter(
            replace(scorer, accelerator=request.accelerator),
            folder.place.absolute(),
            ParquetFormat((*names, *scorer.names.values()), types),
        )
        with self._cluster(request.accelerator) as strategy:
            import ray

            folder.begin(request.resume)
            read = partial(read_units, names=names, rows=self.rows, done=folder.parts())
            dataset = ray.data.from_items(
                [
                    {"table": k, "name": str(place), "place": str(place.absolute())}
                    for k, place in enumerate(places)
                ],
                override_num_blocks=len(places),
            ).flat_map(read, num_cpus=_READER_CORES)
            results = dataset.map_batches(
                _Actor,
                batch_size=1,
                batch_format="numpy",
                fn_constructor_args=(score, Path(request.model).read_bytes()),
                **strategy,
            )
            units = gathered(results.iter_rows(), len(places), reporter)
        done = folder.finish(
            units, places, list(scorer.predictor.targets), list(scorer.names.values())
        )
        return done.told(reporter)

    def predict_dataset(
        self,
        model: Model,
        dataset: Dataset,
        *,
        smiles: str | None = None,
        uncertainty: bool = False,
        neighbours: int = 0,
        embeddings: bool = False,
        reporter: Reporter | None = None,
    ) -> Dataset:
        """A data set with predictions added; see the predictor's method of that name."""
        content = model.to_bytes()
        with tempfile.TemporaryDirectory(prefix="gad-") as folder:
            path = Path(folder) / "model.gad"
            path.write_bytes(content)
            request = Request(path, "", "", smiles, uncertainty, embeddings, neighbours=neighbours)
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
        handler = signal.getsignal(signal.SIGTERM)  # Ray has one of its own
        try:
            _knock(self.address or os.environ.get("RAY_ADDRESS", ""))
            if ours:
                ray.init(self.address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError) as error:
            where = self.address or "RAY_ADDRESS"
            raise ValueError(f"no Ray cluster answers at {where!r}: {error}") from error
        with suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGTERM, handler)
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        context = ray.data.DataContext.get_current()
        before = (context.target_max_block_size, context.enable_progress_bars)
        if not keep:
            # A unit is a block of its own, lest all units of a table go to one actor.
            context.target_max_block_size, context.enable_progress_bars = 1, False
        try:
            usual = float(accelerator in {"gpu", "cuda"})
            cards = usual if self.num_gpus is None else self.num_gpus
            there = ray.cluster_resources()
            room = there.get("GPU", 0) // cards if cards else there.get("CPU", 1)
            if room < 1:
                raise ValueError(f"the cluster has no room for a worker with {cards:g} cards")
            size = self.workers or int(room)
            yield {
                "compute": ray.data.ActorPoolStrategy(size=size),
                "num_cpus": _ACTOR_CORES,
                "num_gpus": cards or None,
            }
        finally:
            context.target_max_block_size, context.enable_progress_bars = before
            if ours and not keep:
                ray.shutdown()


def _knock(address: str) -> None:
    """See whether anybody is at ``host:port``; Ray itself asks for a quarter of an hour."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()


def _ray() -> Any:
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ValueError(
            "a cluster needs Ray: pip install 'graph-anisotropic-diffusion[ray]'"
        ) from error
    return ray


class _Actor:
    """Holds the model, loaded once, and does the work batch by batch."""

    def __init__(self, work: UnitWriter | Scorer, model: bytes) -> None:
        with tempfile.TemporaryDirectory(prefix="gad-") as folder:
            path = Path(folder) / "model.gad"
            path.write_bytes(model)
            scorer = work if isinstance(work, Scorer) else work.scorer
            scorer = replace(scorer, model=str(path))
            _ = scorer.predictor  # it stays in memory when the file is gone
        self._work = scorer if isinstance(work, Scorer) else replace(work, scorer=scorer)

    def __call__(self, batch: Any) -> Any:
        """Score a unit, or the rows of a data set."""
        if isinstance(self._work, UnitWriter):
            return self._work(batch)
        read = self._work.columns
        columns = {name: _cells(batch[name]) for name in (str(read.smiles), *read.features)}
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
