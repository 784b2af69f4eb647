"""Predicting a file of any length on this machine: streaming, in order, on all cores, resumable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from gad.data.tables import Chunk, open_table
from gad.data.tables.parts import open_parts
from gad.data.tables.writers import RejectsWriter, forget_rejects
from gad.machine import cores
from gad.prediction.engines.base import PredictionSummary, Request, Scored, Scorer, scorer_for
from gad.reporter import Reporter

CHUNK = 2048
# A process takes seconds to start: so many chunks pay for it.
_CHUNKS_FOR_PROCESSES = 12


@dataclass(frozen=True)
class LocalEngine:
    """Processes of this machine; memory does not grow with the file.

    Attributes:
        workers: how many processes; None for all cores where the file is long enough.
    """

    workers: int | None = None

    def predict(self, request: Request, reporter: Reporter | None = None) -> PredictionSummary:
        """Predict a file into another; rejected rows are also listed in ``rejects.csv`` beside."""
        reporter = reporter or Reporter()
        table = open_table(request.data)
        scorer = scorer_for(request, table, reporter)
        added = list(scorer.names.values())
        parts = open_parts(
            request.output,
            (*table.names, *added),
            {"input": table.fingerprint(), **scorer.identity()},
            table.types,
            resume=request.resume,
        )
        path = Path(request.output).parent / "rejects.csv"
        if parts.finished is not None:
            reporter.message(f"{request.output} is finished already: there is nothing to do")
            return replace(PredictionSummary(**parts.finished), output=str(request.output))
        for scored in self._scored(scorer, table.chunks(CHUNK, parts.done_rows)):
            parts.write(scored.columns, scored.rejects, {"unseen": scored.unseen})
            reporter.progress("predicting", parts.done_rows, table.rows)
        rejected = list(parts.rejects())
        summary = PredictionSummary(
            output=str(request.output),
            rows=parts.done_rows,
            predicted=parts.done_rows - len(rejected),
            rejected=len(rejected),
            rejects=str(path) if rejected else None,
            unseen_elements=parts.counts()["unseen"],
            targets=list(scorer.predictor.targets),
            columns=added,
        )
        forget_rejects(path)
        if rejected:
            with RejectsWriter(path) as writer:
                for reject in rejected:
                    writer.add(*reject)
                writer.commit()
        parts.commit(summary.to_dict())
        if summary.unseen_elements:
            reporter.message(
                f"{summary.unseen_elements} molecules have elements the model has no name for"
            )
        return summary

    def _scored(self, scorer: Scorer, chunks: Iterator[Chunk]) -> Iterator[Scored]:
        """Chunks with their predictions, in order; in processes once the file proves long."""
        enough = _CHUNKS_FOR_PROCESSES if self.workers is None else 3
        first = list(islice(chunks, enough))
        jobs = self.workers if self.workers is not None else cores()
        if jobs <= 1 or len(first) < enough:
            yield from map(scorer, chain(first, chunks))
            return
        from joblib import Parallel, delayed

        tasks = (delayed(scorer)(chunk) for chunk in chain(first, chunks))
        yield from Parallel(
            n_jobs=jobs, return_as="generator", batch_size=1, pre_dispatch="2*n_jobs"
        )(tasks)
