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
from gad.data.tables import TableError, open_table
from gad.data.tables.columns import choose_columns
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

    @staticmethod
    def of(
        data: Any,
        smiles: str | None,
        target: str | Sequence[str] | None,
        weight: str | None,
        features: Sequence[str],
        split_column: str | None,
    ) -> Source:
        """From the keywords of :func:`gad.train`, where one target may stand alone."""
        targets = (target,) if isinstance(target, str) else target
        return Source(data, smiles, targets, weight, tuple(features), split_column)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows as they were read: molecules as text, and numbers."""

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


def read_rows(source: Source, *, need_targets: bool = True) -> Rows:
    """Read a table file, or Python data as a pair (molecules, targets)."""
    if isinstance(source.data, tuple):
        return _of_python(*source.data)
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
    wanted = (*columns.targets, *((columns.weight,) if columns.weight else ()), *columns.features)
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
    for name in wanted:
        numeric[name], bad = numbers(cells[name], name, comma=name in commas)
        rejects = {**bad, **rejects}
    weights = numeric[columns.weight] if columns.weight else np.ones(len(texts))
    features = _stack([numeric[name] for name in columns.features], len(texts))
    for row in np.flatnonzero(~np.isfinite(features).all(1)).tolist():
        rejects.setdefault(row, "a feature column is empty")
    for row in np.flatnonzero(~(np.isfinite(weights) & (weights >= 0))).tolist():
        rejects.setdefault(row, f"the weight is {weights[row]}: weights are at least 0")
    return Rows(
        title=Path(source.data).name,
        texts=texts,
        blocks=columns.smiles is None,
        targets=_stack([numeric[name] for name in columns.targets], len(texts)),
        target_names=columns.targets,
        units=("",) * len(columns.targets),
        weights=np.where(np.isfinite(weights), weights, 0.0),
        features=features,
        feature_names=columns.features,
        split_values=split_values if columns.split else None,
        rejects=rejects,
        fingerprint=table.fingerprint(),
        messages=messages + said_commas(commas),
    )


def _stack(columns: list[Floats], rows: int) -> Floats:
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0))


def _of_python(molecules: Sequence[Any], targets: Any) -> Rows:
    texts = [m if isinstance(m, str) else "" if m is None else str(m) for m in molecules]
    values = np.asarray(targets, dtype=np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if len(texts) != len(values):
        raise ValueError(f"{len(texts)} molecules but {len(values)} rows of targets")
    digest = hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass"))
    digest.update(np.ascontiguousarray(values).tobytes())
    count = values.shape[1]
    names = ("target",) if count == 1 else tuple(f"target_{i}" for i in range(count))
    return Rows(
        "python data", texts, False, values, names, ("",) * count, np.ones(len(texts)),
        np.zeros((len(texts), 0)), (), None, {}, digest.hexdigest(),
    )  # fmt: skip


def rows_of_known(table: MoleculeSet) -> Rows:
    """The rows of a known table."""
    count = len(table)
    return Rows(
        table.name, list(table.smiles), False, table.targets, table.target_names, table.units,
        np.ones(count), np.zeros((count, 0)), (), None, {}, table.fingerprint,
    )  # fmt: skip
