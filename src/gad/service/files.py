"""A table up, the same table with its predictions streamed back, as ``gad predict`` writes it."""

from __future__ import annotations

import asyncio
import io
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from gad.data.tables import Chunk, Table, TableError, open_table
from gad.data.tables.encode import format_of
from gad.data.tables.writers import ordered
from gad.prediction.engines.base import Request as Prediction
from gad.prediction.engines.base import Scored, Scorer, scorer_for
from gad.prediction.engines.local import CHUNK
from gad.reporter import Reporter
from gad.service.limits import Limits, Refusal, atoms_in, too_large
from gad.service.metrics import Metrics
from gad.service.models import Served

# What a table may be, by the ending of its name or the type that is told of it. Nothing that is
# compressed as a whole: a small file must not become a large one.
ENDINGS = ("csv", "tsv", "smi", "sdf", "parquet")
MEDIA = {
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "chemical/x-daylight-smiles": "smi",
    "chemical/x-mdl-sdfile": "sdf",
    "application/vnd.apache.parquet": "parquet",
    "application/x-parquet": "parquet",
}
_TYPES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


@dataclass(frozen=True)
class Wish:
    """How a table is to be predicted.

    Attributes:
        model: by which model.
        uncertainty: as in :class:`gad.prediction.engines.base.Request`.
        smiles: the column of the molecules; None to guess it.
        form: csv or parquet; None for that of the table.
    """

    model: Served
    uncertainty: bool
    smiles: str | None
    form: str | None


class Files:
    """Tables are predicted by threads of their own, a chunk of rows at a time."""

    def __init__(self, limits: Limits, metrics: Metrics, threads: int = 2) -> None:
        self._limits, self._metrics = limits, metrics
        self._threads = ThreadPoolExecutor(threads, "gad-file")

    async def predict(self, request: Request, wish: Wish) -> StreamingResponse:
        """Receive a table; its first rows are predicted before anything is answered."""
        with ExitStack() as stack:
            name = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="gad-upload-", ignore_cleanup_errors=True)
            )
            path = await _received(request, Path(name))
            _refuse_packed(path)
            form = wish.form or ("parquet" if path.suffix == ".parquet" else "csv")
            pieces = self._pieces(path, wish, form)
            try:
                first = await self._next(pieces)
            except TableError as error:
                # Without the name that the file has here; a column is chosen by the query.
                told = str(error).replace(str(path), "the table").replace("--smiles", "?smiles=")
                raise Refusal(422, told) from None
            return _Stream(self._rest(first, pieces), form, stack.pop_all())

    def stop(self) -> None:
        """Let no further chunk begin."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _next(self, pieces: Iterator[bytes]) -> bytes | None:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, next, pieces, None)

    async def _rest(self, first: bytes | None, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        piece = first
        while piece is not None:
            yield piece
            piece = await self._next(pieces)

    def _pieces(self, path: Path, wish: Wish, form: str) -> Iterator[bytes]:
        """The bytes of the answer, chunk by chunk."""
        table = open_table(path)
        if table.rows is not None and table.rows > self._limits.rows:
            raise Refusal(413, self._too_many())
        scorer = _scorer(table, wish)
        names = (*table.names, *scorer.names.values())
        out = _Outbox()
        encoder = format_of(Path(f"out.{form}"), names, table.types).encoder(cast(BinaryIO, out))
        for chunk in table.chunks(CHUNK):
            if chunk.start + len(chunk) > self._limits.rows:
                raise Refusal(413, self._too_many())
            scored = self._scored(scorer, chunk)
            encoder.write(ordered(scored.columns, names))
            rejected = len(scored.rejects)
            self._metrics.molecules(wish.model.name, len(chunk) - rejected, rejected)
            yield out.emptied()
        encoder.close()
        yield out.emptied()

    def _scored(self, scorer: Scorer, chunk: Chunk) -> Scored:
        """Score a chunk; molecules that are too large are not even read."""
        column = scorer.columns.smiles
        texts = chunk.texts(column) if column is not None else chunk.blocks or []
        sizes = [atoms_in(text) if column is not None else text.count("\n") for text in texts]
        large = {k: size for k, size in enumerate(sizes) if size > 3 * self._limits.atoms} | {
            k: size
            for k, size in enumerate(sizes)
            if column is not None and size > self._limits.atoms
        }
        if not large:
            return scorer(chunk)
        kept = ["" if k in large else text for k, text in enumerate(texts)]
        rejects = {k: too_large(size, self._limits) for k, size in large.items()} | chunk.rejects
        if column is None:
            return scorer(replace(chunk, blocks=kept, rejects=rejects))
        columns = {**chunk.columns, column: kept}
        scored = scorer(replace(chunk, columns=columns, rejects=rejects))
        return replace(scored, columns={**scored.columns, column: chunk.columns[column]})

    def _too_many(self) -> str:
        return f"the table has more than {self._limits.rows:,} rows: send it in parts"


def _scorer(table: Table, wish: Wish) -> Scorer:
    asked = Prediction(wish.model.name, "", "", wish.smiles, wish.uncertainty)
    return scorer_for(asked, table, Reporter(), loaded=wish.model.predictor)


async def _received(request: Request, folder: Path) -> Path:
    """Write the body down. Its name here is ours; of the sender's only the ending counts."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        path = folder / f"table.{_ending('', kind)}"
        with path.open("wb") as file:
            async for piece in request.stream():
                file.write(piece)
        return path
    async with request.form(max_files=1, max_fields=0) as form:
        given = next((part for part in form.values() if isinstance(part, UploadFile)), None)
        if given is None:
            raise Refusal(422, "the form has no file: send the table as the part 'file'")
        path = folder / f"table.{_ending(given.filename or '', given.content_type or '')}"
        with path.open("wb") as file:
            await asyncio.to_thread(shutil.copyfileobj, given.file, file, 1 << 20)
    return path


def _refuse_packed(path: Path) -> None:
    """The readers of tables unpack gzip, whatever the name says; here that could be any size."""
    with path.open("rb") as file:
        if file.read(2) == b"\x1f\x8b":
            raise Refusal(415, "the table is compressed: send it as it is")


def _ending(name: str, kind: str) -> str:
    ending = name.rpartition(".")[2].lower()
    found = ending if ending in ENDINGS else MEDIA.get(kind.partition(";")[0].strip().lower())
    if found is None:
        raise Refusal(
            415,
            f"tables are read as {', '.join(ENDINGS)}: say which by the ending of the file's name, "
            "or by a Content-Type such as text/csv or application/vnd.apache.parquet",
        )
    return found


class _Outbox(io.BufferedIOBase):
    """A file to write to, from which the bytes are taken away as they come."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._length += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._length

    def emptied(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


class _Stream(StreamingResponse):
    """The answer; what it was made from is removed when it is over, however it ends."""

    def __init__(self, pieces: AsyncIterator[bytes], form: str, kept: ExitStack) -> None:
        name = f'attachment; filename="predictions.{form}"'
        super().__init__(pieces, media_type=_TYPES[form], headers={"Content-Disposition": name})
        self._kept = kept

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._kept:
            await super().__call__(scope, receive, send)
