"""The parts that ``gad predict --part I/N`` made, put together again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from gad.data.tables import Chunk, TableError, open_table
from gad.data.tables.parts import PartsWriter, read_record
from gad.data.tables.writers import Reject
from gad.prediction.engines.base import PredictionSummary
from gad.prediction.engines.local import finish
from gad.reporter import Reporter


@dataclass(frozen=True)
class _Part:
    path: Path
    number: int
    count: int
    identity: dict[str, Any]
    summary: PredictionSummary


def join_parts(
    paths: Sequence[str | Path], output: str | Path, reporter: Reporter | None = None
) -> PredictionSummary:
    """Put the parts of a prediction together: the very file that one run would have written.

    Args:
        paths: the outputs of all parts, in any order. Each has a hidden record beside it, which
            says what it was made from and which part it is.
        output: the whole, with the same ending as the parts.
        reporter: hears how it goes.

    Raises:
        TableError: a part is missing, there twice, changed, or of another run.
    """
    reporter = reporter or Reporter()
    parts = _in_order([_read(Path(path)) for path in paths])
    first = parts[0]
    if first.path.suffixes[-1:] != Path(output).suffixes[-1:]:
        raise TableError(f"{output}: give the whole the same ending as its parts have.")
    tables = [open_table(part.path) for part in parts]
    smiles = json.loads(first.identity["settings"])[0]
    *_, warning, reject = first.summary.columns
    block = int(first.identity.pop("block"))
    names = ("input", "model", "settings")
    whole = PartsWriter(
        output, tables[0].names, {name: first.identity[name] for name in names}, tables[0].types
    )
    total = sum(part.summary.rows for part in parts)
    for chunk in _interleaved([table.chunks(block) for table in tables]):
        texts = chunk.texts(smiles) if smiles is not None else [""] * len(chunk)
        rejects = [
            Reject(whole.done_rows + i + 1, texts[i], why)
            for i, why in enumerate(chunk.texts(reject))
            if why
        ]
        whole.write(chunk.columns, rejects, {"unseen": sum(map(bool, chunk.texts(warning)))})
        reporter.progress("joining", whole.done_rows, total)
    return finish(
        whole, output, "rejects.csv", first.summary.targets, first.summary.columns, reporter
    )


def _read(path: Path) -> _Part:
    try:
        identity, summary = read_record(path)
        number, count = map(int, identity.pop("part").split("/"))
    except (TableError, KeyError) as error:
        raise TableError(
            f"{path}: is not a part of a prediction, as `gad predict --part` leaves it with a "
            f"hidden file beside it ({error})"
        ) from error
    return _Part(path, number, count, identity, PredictionSummary(**summary))


def _in_order(parts: list[_Part]) -> list[_Part]:
    """The parts from 1 to N, each there once and of the same run."""
    first, found = parts[0], dict[int, _Part]()
    for part in parts:
        if other := [k for k, v in part.identity.items() if v != first.identity.get(k)]:
            raise TableError(
                f"{part.path} and {first.path} are parts of different runs: another "
                f"{' and '.join(other)}"
            )
        if part.count != first.count:
            raise TableError(
                f"{part.path} is one of {part.count} parts, {first.path} one of {first.count}"
            )
        if twice := found.get(part.number):
            raise TableError(f"{twice.path} and {part.path} are both part {part.number}")
        found[part.number] = part
    if missing := [str(i) for i in range(1, first.count + 1) if i not in found]:
        raise TableError(f"of {first.count} parts there is no part {', '.join(missing)}")
    return [found[number] for number in sorted(found)]


def _interleaved(parts: list[Iterator[Chunk]]) -> Iterator[Chunk]:
    """The first block of every part, then the second, and so on."""
    rounds = zip_longest(*parts)
    return (chunk for chunk in chain.from_iterable(rounds) if chunk is not None)
