"""Predicting a file of any length on this machine: streaming, in order, on all cores, resumable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from gad.data.tables import Chunk, open_table
from gad.data.tables.parts import PartsWriter
from gad.data.tables.writers import RejectsWriter, forget_rejects
from gad.machine import cores
from gad.parallel import in_order
from gad.prediction.engines.base import PredictionSummary, Request, Scored, Scorer, scorer_for
from gad.reporter import Reporter

CHUNK = 2048


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
        number, count = request.part or (1, 1)
        identity = {"input": table.fingerprint(), **scorer.identity()}
        if request.part:
            identity |= {"part": f"{number}/{count}", "block": str(CHUNK)}
        parts = PartsWriter(
            request.output,
            (*table.names, *added),
            identity,
            table.types,
            resume=request.resume,
        )
        if parts.finished is not None:
            reporter.message(f"{request.output} is finished already: there is nothing to do")
            return replace(PredictionSummary(**parts.finished), output=str(request.output))
        if request.part:  # blocks of this part that are done, and those of other parts, are skipped
            first = number - 1 + -(-parts.done_rows // CHUNK) * count
            chunks: Iterable[Chunk] = islice(table.chunks(CHUNK), first, None, count)
        else:
            chunks = table.chunks(CHUNK, parts.done_rows)
        total = table.rows if request.part is None else None
        for scored in self._scored(scorer, iter(chunks)):
            parts.write(scored.columns, scored.rejects, {"unseen": scored.unseen})
            reporter.progress("predicting", parts.done_rows, total)
        name = f"rejects-{number}-of-{count}.csv" if request.part else "rejects.csv"
        return finish(parts, request.output, name, scorer.predictor.targets, added, reporter)

    def _scored(self, scorer: Scorer, chunks: Iterator[Chunk]) -> Iterator[Scored]:
        """Chunks with their predictions, in order; in processes if there are several chunks."""
        first = list(islice(chunks, 2))
        workers = self.workers if self.workers is not None else cores()
        return in_order(scorer, chain(first, chunks), workers if len(first) > 1 else 1)


def finish(
    parts: PartsWriter,
    output: str | Path,
    rejects_name: str,
    targets: Iterable[str],
    added: list[str],
    reporter: Reporter,
) -> PredictionSummary:
    """Write the rejects, let the output appear, and tell what became of the rows."""
    path = Path(output).parent / rejects_name
    forget_rejects(path)
    rejected = 0
    with RejectsWriter(path) as writer:
        for reject in parts.rejects():
            writer.add(*reject)
            rejected += 1
        if rejected:
            writer.commit()
    summary = PredictionSummary(
        output=str(output),
        rows=parts.done_rows,
        predicted=parts.done_rows - rejected,
        rejected=rejected,
        rejects=str(path) if rejected else None,
        unseen_elements=parts.counts()["unseen"],
        targets=list(targets),
        columns=added,
    )
    parts.commit(summary.to_dict())
    return summary.told(reporter)
