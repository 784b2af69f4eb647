"""Requests that come together are predicted together, by one thread.

A network is nearly as quick with a hundred molecules as with ten, so requests wait a few
milliseconds for each other. A large request is worked off in pieces, between which others have
their turn: nobody waits behind four thousand molecules of somebody else.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Condition, Thread

import numpy as np
import numpy.typing as npt

from gad.service.answers import rows_of
from gad.service.limits import Limits, Refusal
from gad.service.metrics import Metrics
from gad.service.models import Served
from gad.service.schemas import Row

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Wants:
    """What shall be told of every molecule."""

    uncertainty: bool = True
    explain: bool = False
    neighbours: int = 0


@dataclass(eq=False)
class Job:
    """A request on its way: which of its molecules are done, and until when it waits.

    Attributes:
        model, wants: jobs that agree in both are predicted together.
        texts: the molecules, with the number of atoms of each.
        features: the user's own columns [n, F], if the model wants any.
        deadline: by ``time.monotonic``; nobody waits for it any longer.
    """

    model: Served
    wants: Wants
    texts: list[str]
    atoms: list[int]
    features: Floats | None
    deadline: float
    rows: list[Row] = field(default_factory=list)
    answer: Future[list[Row]] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> int:
        """Molecules that are not predicted yet."""
        return len(self.texts) - len(self.rows)

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for the answer."""
        return self.answer.cancelled() or time.monotonic() > self.deadline


@dataclass(frozen=True, eq=False)
class Piece:
    """The part of a job that is predicted in one batch."""

    job: Job
    rows: slice


class Batcher:
    """The queue, and the thread that empties it.

    Args:
        limits: how much may wait, and how long.
        metrics: is told of every batch.
        full: molecules of a batch.
        atoms: of a batch; a molecule that is larger is alone.
        patience: seconds for which the first request waits for others.
    """

    def __init__(
        self,
        limits: Limits,
        metrics: Metrics,
        *,
        full: int = 256,
        atoms: int = 16_384,
        patience: float = 0.003,
    ) -> None:
        self._limits, self._metrics = limits, metrics
        self._full, self._atoms, self._patience = full, atoms, patience
        self._jobs: deque[Job] = deque()
        self._there = Condition()
        self._open = True
        self._thread = Thread(target=self._work, name="gad-predict", daemon=True)
        self._thread.start()

    async def predict(
        self,
        model: Served,
        wants: Wants,
        texts: list[str],
        atoms: list[int],
        features: Floats | None = None,
    ) -> list[Row]:
        """The rows of these molecules, once their turn has come."""
        if not texts:
            return []
        seconds = self._limits.seconds
        job = Job(model, wants, texts, atoms, features, time.monotonic() + seconds)
        self._submit(job)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(job.answer), seconds)
        except asyncio.TimeoutError:
            raise Refusal(
                408,
                f"{len(texts):,} molecules were not predicted within {seconds:g} seconds: "
                "send fewer at a time, or a file to /v1/predict/file",
            ) from None

    def stop(self) -> None:
        """Finish what is in the queue, then end the thread."""
        with self._there:
            self._open = False
            self._there.notify()
        self._thread.join(self._limits.seconds)

    def _submit(self, job: Job) -> None:
        with self._there:
            if not self._open:
                raise Refusal(503, "the service is stopping")
            waiting = sum(other.left for other in self._jobs)
            if waiting and waiting + job.left > self._limits.waiting:
                raise Refusal(
                    429,
                    f"{waiting:,} molecules are waiting already: try again in a moment",
                    headers={"Retry-After": "1"},
                )
            self._jobs.append(job)
            self._there.notify()

    def _work(self) -> None:
        while (pieces := self._next()) is not None:
            if not pieces:
                continue
            failure: Exception | None = None
            try:
                _predict(pieces, self._metrics)
            except Exception as error:  # noqa: BLE001  # whatever it is, the thread goes on
                failure = error
            for piece in pieces:
                _settle(piece.job, failure)
            with self._there:
                self._jobs.extend(p.job for p in pieces if not p.job.answer.done())

    def _next(self) -> list[Piece] | None:
        """Pieces of jobs that agree, taken from the queue; None when all is over."""
        with self._there:
            while not self._jobs:
                if not self._open:
                    return None
                self._there.wait()
            oldest = self._jobs[0].since
            while self._open and sum(job.left for job in self._jobs) < self._full:
                rest = oldest + self._patience - time.monotonic()
                if rest <= 0 or not self._there.wait(rest):
                    break
            return self._taken()

    def _taken(self) -> list[Piece]:
        """Of the jobs that agree with the oldest, as much as fits into a batch."""
        alive = [job for job in self._jobs if not job.abandoned]
        pieces, kept = list[Piece](), deque[Job]()
        room, atoms = self._full, self._atoms
        for job in alive:
            start = stop = len(job.rows)
            if (job.model, job.wants) == (alive[0].model, alive[0].wants):
                for size in job.atoms[start : start + room]:
                    if size > atoms and (pieces or stop > start):
                        break
                    stop, atoms = stop + 1, atoms - size
            if stop > start:
                pieces.append(Piece(job, slice(start, stop)))
                room -= stop - start
            else:
                kept.append(job)
        self._jobs = kept
        self._metrics.waiting = sum(job.left for job in kept)
        return pieces


def _predict(pieces: list[Piece], metrics: Metrics) -> None:
    """Predict the pieces together, and give each job its rows."""
    first = pieces[0].job
    texts = [text for piece in pieces for text in piece.job.texts[piece.rows]]
    features = None
    if first.features is not None:
        features = np.concatenate(
            [piece.job.features[piece.rows] for piece in pieces if piece.job.features is not None]
        )
    wants = first.wants
    rows = rows_of(first.model, texts, features, wants.uncertainty, wants.explain, wants.neighbours)
    metrics.batch(len(rows))
    rejected = sum(row.error is not None for row in rows)
    metrics.molecules(first.model.name, len(rows) - rejected, rejected)
    start = 0
    for piece in pieces:
        stop = start + piece.rows.stop - piece.rows.start
        piece.job.rows += rows[start:stop]
        start = stop


def _settle(job: Job, error: Exception | None = None) -> None:
    """Answer, unless the one who asked has given up in the meantime."""
    with suppress(InvalidStateError):
        if error is not None:
            job.answer.set_exception(error)
        elif not job.left:
            job.answer.set_result(job.rows)
