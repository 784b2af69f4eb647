"""Rows of molecules with their labels, out of a table, a known set or Python data."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gad.data.known import MoleculeSet
from gad.data.labels import Labels, Signs, read_labels
from gad.data.tables import Table, TableError, open_table
from gad.data.tables.columns import choose_columns, find_column
from gad.data.tables.numbers import decimal_commas, numbers, said_commas

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Source:
    """What the user pointed at: which data, which columns."""

    data: Any
    smiles: str | None = None
    targets: Sequence[str] | None = None
    weight: str | None = None
    features: Sequence[str] = ()
    split_column: str | None = None
    task: str | None = None
    relations: Sequence[str] = ()
    transform: str = "none"
    merge: str | None = None
    dates: bool = False
    """Whether the split column has dates: a row without one cannot be used."""

    @staticmethod
    def of(
        data: Any,
        target: str | Sequence[str] | None = None,
        relation: str | Sequence[str] | None = None,
        **columns: Any,
    ) -> Source:
        """From the keywords of :func:`gad.train`, where one column may stand alone."""
        targets = (target,) if isinstance(target, str) else target
        relations = (relation,) if isinstance(relation, str) else tuple(relation or ())
        return Source(data, targets=targets, relations=relations, **columns)


@dataclass(frozen=True, eq=False)
class InMemory:
    """Rows that are in Python already: n SMILES with labels [n] or [n, T].

    Labels are numbers, words, or bounds such as ``">10"``; weights are [n], further numbers that
    the model is given are features [n, F].
    """

    smiles: Sequence[Any]
    targets: Any
    weights: npt.ArrayLike | None = None
    features: npt.ArrayLike | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows as they were read: molecules as text, and numbers.

    ``bounds`` [n, T] says where a target is only a bound (see :class:`gad.data.labels.Labels`);
    where a target has ``classes`` its numbers are theirs.
    """

    title: str
    texts: list[str]
    blocks: bool
    targets: Floats
    target_names: tuple[str, ...]
    units: tuple[str, ...]
    weights: Floats
    features: Floats
    feature_names: tuple[str, ...]
    split_values: list[str] | None
    rejects: dict[int, str]
    fingerprint: str
    messages: list[str] = field(default_factory=list)
    bounds: Signs | None = None
    classes: tuple[tuple[str, ...], ...] = ()


def read_rows(
    source: Source,
    *,
    need_targets: bool = True,
    classes: Sequence[Sequence[str]] | None = None,
) -> Rows:
    """Read a table file, or Python data: :class:`InMemory`, or a pair (molecules, targets).

    Args:
        source: where they are.
        need_targets: whether targets are guessed where none is named.
        classes: of each target, where a model knows them already.
    """
    if isinstance(source.data, tuple):
        return _of_python(InMemory(*source.data), source)
    if isinstance(source.data, InMemory):
        return _of_python(source.data, source)
    table = open_table(source.data)
    columns, messages = choose_columns(
        table,
        smiles=source.smiles,
        targets=source.targets,
        weight=source.weight,
        features=source.features,
        split=source.split_column,
        need_targets=need_targets,
    )
    texts: list[str] = []
    split_values: list[str] = []
    rejects: dict[int, str] = {}
    relations, said = _relations(table, source.relations, columns.targets)
    messages += said
    rest = (*((columns.weight,) if columns.weight else ()), *columns.features)
    wanted = (*columns.targets, *rest, *relations)
    cells: dict[str, list[Any]] = {name: [] for name in wanted}
    for chunk in table.chunks():
        texts.extend(chunk.blocks if columns.smiles is None else chunk.texts(columns.smiles))  # type: ignore[arg-type]
        if columns.split:
            split_values.extend(chunk.texts(columns.split))
        rejects.update({chunk.start + i: why for i, why in chunk.rejects.items()})
        for name in wanted:
            cells[name] += chunk.columns[name]
    if not texts:
        raise TableError(f"{table.path} has no rows below its header")
    commas = [name for name in wanted if table.may_have_commas and decimal_commas(cells[name])]
    numeric: dict[str, Floats] = {}
    for name in rest:
        numeric[name], bad = numbers(cells[name], name, comma=name in commas)
        rejects = {**bad, **rejects}
    labels: list[Labels] = []
    for place, name in enumerate(columns.targets):
        read, bad = read_labels(
            cells[name],
            name,
            task=source.task,
            classes=None if classes is None else classes[place],
            relations=cells[relations[place]] if relations else None,
            comma=name in commas,
        )
        bad |= _without_logarithm(read, name, source)
        labels.append(read)
        messages += _told(name, read)
        rejects = {**bad, **rejects}
    weights = numeric[columns.weight] if columns.weight else np.ones(len(texts))
    features = _stack([numeric[name] for name in columns.features], len(texts))
    _check(weights, features, rejects)
    return Rows(
        title=Path(source.data).name,
        texts=texts,
        blocks=columns.smiles is None,
        targets=_stack([read.values for read in labels], len(texts)),
        target_names=columns.targets,
        units=("",) * len(columns.targets),
        weights=np.where(np.isfinite(weights), weights, 0.0),
        features=features,
        feature_names=columns.features,
        split_values=split_values if columns.split else None,
        rejects=rejects,
        fingerprint=table.fingerprint(),
        messages=messages + said_commas(commas),
        bounds=np.stack([read.bounds for read in labels], axis=1) if labels else None,
        classes=tuple(read.classes for read in labels),
    )


def _relations(
    table: Table, given: Sequence[str], targets: tuple[str, ...]
) -> tuple[list[str], list[str]]:
    """The columns of relations, one for each target, and what is to be said of their names."""
    if given and len(given) != len(targets):
        raise TableError(
            f"{len(given)} columns of relations for {len(targets)} targets: give --relation once "
            "for each --target, in the same order"
        )
    found = [find_column(table, name, "relation") for name in given]
    return [name for name, _ in found], [text for _, said in found for text in said]


def _told(name: str, labels: Labels) -> list[str]:
    """What a reader of a target would like to know."""
    if labels.classes:
        return [f"target {name!r} has the classes {', '.join(labels.classes)}"]
    bounds, known = int(np.count_nonzero(labels.bounds)), np.isfinite(labels.values)
    if bounds and bounds == known.sum():
        return [f"target {name!r}: all of its labels are bounds, which say on one side only"]
    if bounds:
        return [f"target {name!r}: {bounds} of its labels are bounds (> or <)"]
    if known.sum() > 1 and np.ptp(labels.values[known]) == 0:
        same = labels.values[known][0]
        return [f"target {name!r}: all of its labels are {same:g}: there is nothing to learn"]
    return []


def _check(weights: Floats, features: Floats, rejects: dict[int, str]) -> None:
    """Reject rows whose weight or features are no numbers that could be used."""
    for row in np.flatnonzero(~np.isfinite(features).all(1)).tolist():
        rejects.setdefault(row, "a feature column is empty")
    for row in np.flatnonzero(~(np.isfinite(weights) & (weights >= 0))).tolist():
        rejects.setdefault(row, f"the weight is {weights[row]}: weights are at least 0")


def _without_logarithm(labels: Labels, name: str, source: Source) -> dict[int, str]:
    """Labels that cannot be learned by their logarithm, if that is how they are learned."""
    if source.transform != "log10" or labels.classes:
        return {}
    return {
        row: f"column {name!r}: {labels.values[row]:g} has no logarithm (--transform log10)"
        for row in np.flatnonzero(labels.values <= 0).tolist()
    }


def _stack(columns: list[Floats], rows: int) -> Floats:
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0))


def _of_python(data: InMemory, source: Source) -> Rows:
    texts = [m if isinstance(m, str) else "" if m is None else str(m) for m in data.smiles]
    given = np.asarray(data.targets)
    given = given[:, None] if given.ndim == 1 else given
    rows, count = given.shape
    if len(texts) != rows:
        raise ValueError(f"{len(texts)} molecules but {rows} rows of targets")
    rejects: dict[int, str] = {}
    names = ("target",) if count == 1 else tuple(f"target_{i}" for i in range(count))
    labels = []
    for name, column in zip(names, given.T, strict=True):
        if given.dtype.kind in "biuf" and source.task != "multiclass":
            read = Labels(column.astype(np.float64), np.zeros(rows, np.int8))
        else:
            read, bad = read_labels(column.tolist(), name, task=source.task)
            rejects = {**bad, **rejects}
        labels.append(read)
        rejects = {**_without_logarithm(read, name, source), **rejects}
    weights = np.ones(rows) if data.weights is None else np.asarray(data.weights, np.float64)
    features = np.zeros((rows, 0))
    if data.features is not None:
        features = np.asarray(data.features, np.float64).reshape(rows, -1)
    if weights.shape != (rows,):
        raise ValueError(f"{rows} molecules but weights of the shape {weights.shape}")
    _check(weights, features, rejects)
    values = _stack([read.values for read in labels], rows)
    digest = hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass"))
    for array in (values, *(() if data.weights is None else (weights,)), features):
        digest.update(np.ascontiguousarray(array).tobytes())
    return Rows(
        "python data", texts, False, values, names, ("",) * count,
        np.where(np.isfinite(weights), weights, 0.0), features,
        tuple(f"feature_{k}" for k in range(features.shape[1])), None, rejects,
        digest.hexdigest(),
        bounds=np.stack([read.bounds for read in labels], axis=1) if labels else None,
        classes=tuple(read.classes for read in labels),
    )  # fmt: skip


def rows_of_known(table: MoleculeSet) -> Rows:
    """The rows of a known table."""
    count = len(table)
    return Rows(
        table.name, list(table.smiles), False, table.targets, table.target_names, table.units,
        np.ones(count), np.zeros((count, 0)), (), None, {}, table.fingerprint,
    )  # fmt: skip
