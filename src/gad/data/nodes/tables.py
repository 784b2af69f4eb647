"""A table of nodes and a table of edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gad.data.nodes.graph import (
    BY_DEGREE,
    DEGREE_FEATURES,
    MASKS,
    NodeGraph,
    NodeReject,
    as_classes,
    degree_features,
    thin,
    undirected,
)
from gad.data.splits import Split
from gad.data.splits.split import PARTS, WORDS
from gad.data.tables import TableError, open_table
from gad.data.tables.base import cell_text
from gad.data.tables.numbers import decimal_commas, numbers, parse_number, said_commas
from gad.data.tables.writers import TableWriter, forget_rejects
from gad.words import did_you_mean

_IDS = ("id", "node", "node_id", "nodeid", "name")
_LABELS = ("label", "class", "y", "target")
_SPLITS = ("split", "part", "fold", "set")
_ENDS = (("source", "target"), ("src", "dst"), ("from", "to"), ("node1", "node2"), ("u", "v"))
_WEIGHTS = ("weight", "w")
# More classes than this, or hardly fewer classes than labels, are measurements.
_MOST_CLASSES = 1000
_SHOWN = 3
_TRUTH = {
    "": False, "0": False, "false": False, "0.0": False, "1": True, "true": True, "1.0": True,
}  # fmt: skip


@dataclass(frozen=True)
class NodeColumns:
    """Which columns are what; what is None is guessed by its name.

    Attributes:
        id: of the nodes; by default called id, node or name, else the first column.
        label: the classes; called label, class, y or target.
        split: train, val or test; called split.
        source: one end of an edge; called source, src, from, …, else the first column.
        target: the other; likewise, else the second.
        weight: of an edge, positive; called weight.
        features: columns of numbers; by default all that remain.
    """

    id: str | None = None
    label: str | None = None
    split: str | None = None
    source: str | None = None
    target: str | None = None
    weight: str | None = None
    features: tuple[str, ...] | None = None


def load_tables(
    nodes: str | Path, edges: str | Path, columns: NodeColumns | None = None
) -> NodeGraph:
    """Read a graph. A row that cannot be used is rejected with a reason; the others go on."""
    columns = columns or NodeColumns()
    nodes, edges = Path(nodes), Path(edges)
    rejects: list[NodeReject] = []
    said: list[str] = []
    table = _read(nodes, rejects)
    id_column = _choose(table, columns.id, _IDS, nodes, "--id") or next(iter(table.cells))
    label = _choose(table, columns.label, _LABELS, nodes, "--label")
    split = _choose(table, columns.split, _SPLITS, nodes, "--split-column")
    place, kept = _identify(table, id_column, rejects)
    table = table.rows(kept)
    masks = () if split is not None else tuple(name for name in MASKS if name in table.cells)
    taken = {id_column, label, split, *masks}
    x, names = _features(table, columns.features, taken, said)
    labels = [""] * len(kept) if label is None else table.texts(label)
    y, classes = as_classes([text.strip() for text in labels])
    if label is not None:
        _check_classes(y, classes, table, label)
    edge_index, weight = _edges(edges, columns, place, rejects, said)
    if not names:
        x, names = degree_features(edge_index, len(kept)), DEGREE_FEATURES
        said.append(f"{nodes.name} has no columns of numbers to read: {BY_DEGREE}")
    _say_rejects(rejects, said)
    return NodeGraph(
        name=nodes.name,
        edge_index=edge_index,
        x=thin(x),
        y=y,
        classes=classes,
        ids=tuple(place),
        features=names,
        edge_weight=weight,
        splits=_split(table, split, masks),
        messages=tuple(said),
        rejects=tuple(rejects),
    )


@dataclass(frozen=True)
class _Cells:
    """A whole table: its cells by column, and the number of each row in the file, from 1."""

    path: Path
    cells: dict[str, list[Any]]
    numbers: list[int]

    def texts(self, name: str) -> list[str]:
        return [cell_text(cell) for cell in self.cells[name]]

    def rows(self, kept: Sequence[int]) -> _Cells:
        cells = {name: [column[i] for i in kept] for name, column in self.cells.items()}
        return _Cells(self.path, cells, [self.numbers[i] for i in kept])


def _read(path: Path, rejects: list[NodeReject]) -> _Cells:
    table = open_table(path)
    cells: dict[str, list[Any]] = {name: [] for name in table.names}
    numbers_: list[int] = []
    for chunk in table.chunks():
        bad = chunk.rejects
        for i, reason in sorted(bad.items()):
            first = cell_text(next(iter(chunk.columns.values()))[i])
            rejects.append(NodeReject(path.name, chunk.start + i + 1, first, reason))
        for name, column in chunk.columns.items():
            cells[name] += [c for i, c in enumerate(column) if i not in bad] if bad else column
        numbers_ += [chunk.start + i + 1 for i in range(len(chunk)) if i not in bad]
    if not numbers_:
        raise TableError(f"{path}: the table has no rows that can be used.")
    return _Cells(path, cells, numbers_)


def _choose(
    table: _Cells, wanted: str | None, usual: Sequence[str], path: Path, option: str
) -> str | None:
    """The column that was named, or the first of the usual names that is there."""
    if wanted is not None:
        if wanted not in table.cells:
            raise TableError(
                f"{path}: there is no column {wanted!r}{did_you_mean(wanted, table.cells)}; "
                f"the columns are {', '.join(table.cells)} ({option})."
            )
        return wanted
    lower = {name.lower(): name for name in reversed(table.cells)}
    return next((lower[name] for name in usual if name in lower), None)


def _identify(
    table: _Cells, column: str, rejects: list[NodeReject]
) -> tuple[dict[str, int], list[int]]:
    """Name → number of the node; and the rows that are kept."""
    place: dict[str, int] = {}
    kept: list[int] = []
    first: dict[str, int] = {}
    for row, text in enumerate(table.texts(column)):
        name, number = text.strip(), table.numbers[row]
        reason = None
        if not name:
            reason = f"the node has no name in the column {column!r}"
        elif name in place:
            reason = f"node {name!r} is there already, in row {first[name]}"
        if reason:
            rejects.append(NodeReject(table.path.name, number, name, reason))
            continue
        place[name], first[name] = len(kept), number
        kept.append(row)
    if not kept:
        raise TableError(f"{table.path}: no row names a node in the column {column!r}.")
    return place, kept


def _features(
    table: _Cells, wanted: tuple[str, ...] | None, taken: set[str | None], said: list[str]
) -> tuple[Tensor, tuple[str, ...]]:
    """Columns of numbers [N, D], a missing one by the mean of its column, and their names."""
    if wanted is not None:
        for name in wanted:
            _choose(table, name, (), table.path, "--feature")
            if name in taken:
                raise TableError(f"{table.path}: the column {name!r} cannot be a feature as well.")
    columns, filled = [], 0
    names: list[str] = []
    text: list[str] = []
    commas: list[str] = []
    for name, cells in table.cells.items():
        if name in taken or (wanted is not None and name not in wanted):
            continue
        comma = decimal_commas(cells)
        values, bad = numbers(cells, name, comma=comma)
        if bad:
            if wanted is not None:
                row = min(bad)
                raise TableError(f"{table.path}, row {table.numbers[row]}: {bad[row]}.")
            text.append(name)
            continue
        commas += [name] if comma else []
        missing = np.isnan(values)
        if missing.all():
            text.append(name)
            continue
        filled += int(missing.sum())
        columns.append(np.where(missing, np.mean(values[~missing]), values))
        names.append(name)
    said += said_commas(commas)
    if text:
        shown = ", ".join(repr(name) for name in text[:_SHOWN]) + (", …" if text[_SHOWN:] else "")
        said.append(
            f"not used, since not all their cells are numbers: {shown} "
            "(write a category as columns of 0 and 1)"
        )
    if filled:
        said.append(f"{filled:,} missing features were filled with the mean of their column")
    order = range(len(names)) if wanted is None else [names.index(name) for name in wanted]
    stacked = [torch.from_numpy(columns[i]).float() for i in order]
    rows = len(table.numbers)
    x = torch.stack(stacked, dim=1) if stacked else torch.zeros(rows, 0)
    if not bool(torch.isfinite(x).all()):
        row = int((~torch.isfinite(x)).any(1).nonzero()[0])
        raise TableError(
            f"{table.path}, row {table.numbers[row]}: a feature is too large for float32."
        )
    return x, tuple(names[i] for i in order)


def _check_classes(y: Tensor, classes: tuple[str, ...], table: _Cells, column: str) -> None:
    known = int((y >= 0).sum())
    if len(classes) > _MOST_CLASSES or (len(classes) > 20 and len(classes) > known / 2):
        raise TableError(
            f"{table.path}: the column {column!r} has {len(classes):,} different values in "
            f"{known:,} rows, too many for classes; name the column of classes with --label."
        )


def _edges(
    path: Path,
    columns: NodeColumns,
    place: dict[str, int],
    rejects: list[NodeReject],
    said: list[str],
) -> tuple[Tensor, Tensor | None]:
    table = _read(path, rejects)
    names = list(table.cells)
    lower = {name.lower() for name in names}
    usual = next((pair for pair in _ENDS if lower >= set(pair)), ("", ""))
    if len(names) < 2:
        raise TableError(f"{path}: a table of edges needs two columns, the ends of each edge.")
    ends = [
        _choose(table, wanted, (guess,), path, option) or names[i]
        for i, (wanted, guess, option) in enumerate(
            zip((columns.source, columns.target), usual, ("--source", "--target"), strict=True)
        )
    ]
    weight_column = _choose(table, columns.weight, _WEIGHTS, path, "--weight")
    weights = None if weight_column is None else table.cells[weight_column]
    pairs: list[tuple[int, int]] = []
    kept_weights: list[float] = []
    unknown = 0
    both = zip(table.texts(ends[0]), table.texts(ends[1]), strict=True)
    for row, (a, b) in enumerate(both):
        one, other = a.strip(), b.strip()
        strange = next((name for name in (one, other) if name not in place), None)
        value = 1.0 if weights is None else parse_number(weights[row])
        reason = None
        if strange is not None:
            unknown += 1
            reason = f"node {strange!r} is not in the table of nodes"
            reason = reason if strange else "the edge lacks one of its nodes"
        elif value is None or not value > 0:
            cell = "" if weights is None else cell_text(weights[row])
            reason = f"the weight {cell!r} is not a positive number"
        if reason:
            rejects.append(NodeReject(path.name, table.numbers[row], f"{one} – {other}", reason))
            continue
        pairs.append((place[one], place[other]))
        kept_weights.append(float(value or 0))
    if not pairs and unknown:
        raise TableError(
            f"{path}: no row names two known nodes; the columns {ends[0]!r} and {ends[1]!r} should "
            "hold what the table of nodes has as its id (--id, --source, --target)."
        )
    ends_ = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)
    weight = None if weights is None else torch.tensor(kept_weights)
    edge_index, weight, more = undirected(ends_[:, 0], ends_[:, 1], len(place), weight)
    said += more
    return edge_index, weight


def _split(table: _Cells, column: str | None, masks: Sequence[str]) -> tuple[Split, ...]:
    """The split of a column, or of columns that are masks; an empty cell belongs to no part."""
    parts: dict[str, list[int]] = {name: [] for name in PARTS}
    if column is None:
        for name in masks:
            truth = [_TRUTH.get(text.strip().lower()) for text in table.texts(name)]
            if None in truth:
                row = truth.index(None)
                raise TableError(
                    f"{table.path}, row {table.numbers[row]}: {table.texts(name)[row]!r} is "
                    f"neither true nor false; the column {name!r} says which nodes are in the part."
                )
            parts[name.removesuffix("_mask")] = [row for row, inside in enumerate(truth) if inside]
        return (Split(*(np.array(parts[n], dtype=np.int64) for n in PARTS)),) if masks else ()
    for row, text in enumerate(table.texts(column)):
        word = text.strip().lower()
        if word and word not in WORDS:
            raise TableError(
                f"{table.path}, row {table.numbers[row]}: {text!r} is no part; the column "
                f"{column!r} holds train, val, test or nothing."
            )
        if word:
            parts[WORDS[word]].append(row)
    return (Split(*(np.array(parts[name], dtype=np.int64) for name in PARTS)),)


def _say_rejects(rejects: Sequence[NodeReject], said: list[str]) -> None:
    if not rejects:
        return
    first = rejects[0]
    rows = "1 row was" if len(rejects) == 1 else f"{len(rejects):,} rows were"
    said.append(f"{rows} not used; the first: {first.table}, row {first.row}: {first.reason}")


def write_rejects(folder: Path, rejects: Sequence[NodeReject]) -> str | None:
    """List what could not be used in ``rejects.csv``; where that is, or None where all was used."""
    path = folder / "rejects.csv"
    forget_rejects(path, NodeReject._fields)
    if not rejects:
        return None
    with TableWriter(path, NodeReject._fields) as writer:
        columns = map(list, zip(*rejects, strict=True))
        writer.write(dict(zip(NodeReject._fields, columns, strict=True)))
        writer.commit()
    return str(path)
