"""Explanations of whole tables: rows in, explanations and rejects out, and a table of atoms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gad.chem import MoleculeError, parse, parse_block
from gad.data import known
from gad.data.known.graphset import GraphSet
from gad.data.rows import Rows, Source, read_rows, rows_of_known
from gad.data.tables import TableError
from gad.data.tables.encode import Column
from gad.data.tables.writers import RejectsWriter, TableWriter, forget_rejects
from gad.prediction.explanation.explain import Explanation, columns_of, explain
from gad.prediction.explanation.kernel import Kernel
from gad.prediction.predictor import Predictor
from gad.reporter import Reporter
from gad.words import did_you_mean

_CHUNK = 1024


@dataclass(frozen=True, eq=False)
class Explained:
    """Molecules with their explanations, in the order of their rows.

    Attributes:
        rows: the number of each, from 0.
        found: their explanations.
        rejects: row → why it could not be used.
        texts: all rows, as they were given.
        blocks: whether these are mol blocks.
        columns: names of the T columns that are shown.
        places: which of the model's outputs these are.
    """

    rows: list[int]
    found: list[Explanation]
    rejects: dict[int, str]
    texts: list[str]
    blocks: bool
    columns: list[str]
    places: list[int]

    def only(self, rows: Sequence[int]) -> Explained:
        """Those at these positions alone."""
        return replace(
            self, rows=[self.rows[k] for k in rows], found=[self.found[k] for k in rows]
        )  # fmt: skip


def explain_data(
    predictor: Predictor,
    data: str,
    *,
    smiles: str | None = None,
    target: str | None = None,
    reporter: Reporter | None = None,
) -> Explained:
    """Explain the molecules of a file, of a known set, or a SMILES that is given itself.

    Args:
        predictor: the model.
        data: what is asked about.
        smiles: the column of the molecules; guessed if None.
        target: the one target to explain; all if None.
        reporter: is told how it goes.
    """
    reporter, model = reporter or Reporter(), predictor.model
    places = [k for k, (_, own) in enumerate(columns_of(model.task)) if target in (None, own)]
    if not places:
        hint = did_you_mean(str(target), predictor.targets)
        raise ValueError(
            f"the model has no target {target!r}{hint}: {', '.join(predictor.targets)}"
        )
    rows = _read(predictor, data, smiles)
    if model.features and not rows.feature_names:
        raise ValueError(
            f"this model needs the columns {', '.join(model.features)} beside the molecule: give "
            "a table that has them"
        )
    for text in rows.messages:
        reporter.message(text)
    found: list[Explanation | None] = []
    rejects = dict(rows.rejects)
    for start in range(0, len(rows.texts), _CHUNK):
        span = slice(start, start + _CHUNK)
        told, bad = explain(
            predictor, rows.texts[span], features=rows.features[span], blocks=rows.blocks
        )
        found += told
        rejects = {**{start + row: why for row, why in bad.items()}, **rejects}
        reporter.progress("explaining", len(found), len(rows.texts))
    good = [row for row, why in enumerate(found) if why is not None and row not in rejects]
    names = [name for name, _ in columns_of(model.task)]
    return Explained(
        good,
        [why for row in good if (why := found[row]) is not None],
        rejects,
        rows.texts,
        rows.blocks,
        [names[place] for place in places],
        places,
    )


def _read(predictor: Predictor, data: str, smiles: str | None) -> Rows:
    features = predictor.model.features
    if data == "-" or Path(data).is_file():
        source = Source(data, smiles, (), None, features)
        return read_rows(source, need_targets=False)
    if data.lower() in known.KNOWN:
        table = known.load(data)
        if isinstance(table, GraphSet):
            raise ValueError(f"{data} is a set of graphs without SMILES; this model reads SMILES")
        return rows_of_known(table)
    try:
        parse(data)
    except MoleculeError as error:
        raise TableError(f"{data!r} is neither a file nor a SMILES ({error})") from error
    return read_rows(Source(([data], [[0.0]])))


def write_rejects(path: Path, explained: Explained) -> Path | None:
    """List the rows that could not be used beside the output, if there are any."""
    listed = path.with_name("rejects.csv")
    forget_rejects(listed)
    if not explained.rejects:
        return None
    with RejectsWriter(listed) as writer:
        for row, why in sorted(explained.rejects.items()):
            writer.add(row + 1, "" if explained.blocks else explained.texts[row], why)
        writer.commit()
    return listed


def write_atoms(path: Path, explained: Explained, kernels: Sequence[Kernel | None]) -> None:
    """Write one row for each atom.

    Columns: ``row`` (from 1), ``smiles``, ``atom`` (from 0, in the order of the SMILES),
    ``element``; for each target ``<target>_contribution``, and, the same for all atoms of a
    molecule, ``<target>_prediction``, ``<target>_baseline`` and ``<target>_whole``; with a kernel
    ``kernel_short``, ``kernel_middle`` and ``kernel_long``.
    """
    kinds = ("contribution", "prediction", "baseline", "whole")
    names = ["row", "smiles", "atom", "element"]
    names += [f"{column}_{kind}" for column in explained.columns for kind in kinds]
    has_kernels = any(kernel is not None for kernel in kernels)
    names += [f"kernel_{name}" for name in KERNELS] if has_kernels else []
    with TableWriter(path, names) as out:
        for row, why, kernel in zip(explained.rows, explained.found, kernels, strict=True):
            out.write(dict(_columns(explained, row, why, kernel, has_kernels)))
        out.commit()


KERNELS = ("short", "middle", "long")


def _columns(
    explained: Explained, row: int, why: Explanation, kernel: Kernel | None, has_kernels: bool
) -> Iterator[tuple[str, Column]]:
    count = len(why.atoms)
    molecule = parse_block(why.text) if explained.blocks else parse(why.text)
    yield "row", [row + 1] * count
    yield "smiles", ["" if explained.blocks else why.text] * count
    yield "atom", list(range(count))
    yield "element", [atom.GetSymbol() for atom in molecule.GetAtoms()]
    for name, place in zip(explained.columns, explained.places, strict=True):
        yield f"{name}_contribution", why.atoms[:, place]
        for kind in ("prediction", "baseline", "whole"):
            yield f"{name}_{kind}", [float(getattr(why, kind)[place])] * count
    if has_kernels:
        for column, name in enumerate(KERNELS):
            missing = [float("nan")] * count
            yield f"kernel_{name}", missing if kernel is None else kernel.values[:, column]
