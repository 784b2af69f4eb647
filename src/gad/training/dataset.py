"""A data set for training: a table or a known set, prepared, labelled and split."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gad.chem.identity import canonical, scaffold
from gad.chem.molecule import parse, parse_block
from gad.data import known
from gad.data.cache import prepare
from gad.data.columns import choose_columns, numbers
from gad.data.known.graphset import GraphSet
from gad.data.molecules import PackedMolecules, Preparation, pack_arrays, with_cycles
from gad.data.splits import (
    Split,
    column_split,
    duplicates,
    index_split,
    k_fold,
    random_split,
    scaffold_split,
    stratified_split,
)
from gad.data.tables import TableError, open_table
from gad.training.build import Inputs, inputs_of, preparation_of
from gad.training.recipe import Recipe

Floats = npt.NDArray[np.float64]
# Graphs of a known set packed together.
_GRAPHS_AT_ONCE = 8192
SPLITS = ("random", "stratified", "scaffold", "column", "file")


@dataclass(frozen=True)
class Source:
    """What the user pointed at: which data, which columns."""

    data: Any
    smiles: str | None = None
    targets: Sequence[str] | None = None
    weight: str | None = None
    features: Sequence[str] = ()
    split_column: str | None = None


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


@dataclass(frozen=True, eq=False)
class Dataset:
    """G usable molecules with labels; ``rows`` of the packed set say where they came from.

    Attributes:
        title: for people.
        packed: the molecules, with all whole-molecule values unscaled.
        targets: [G, T] in the user's units, NaN where missing.
        weights: [G].
        smiles: [G], for people ("" for the graphs of a known set).
        keys, scaffolds: [G] identities for splits, None for known graphs.
        split_values: [G] the user's own split column.
        fixed_split: the split a known set comes with.
        rejects: row → reason; rows_read in all.
    """

    title: str
    packed: PackedMolecules
    inputs: Inputs
    preparation: Preparation | None
    targets: Floats
    target_names: tuple[str, ...]
    units: tuple[str, ...]
    weights: Floats
    feature_names: tuple[str, ...]
    smiles: list[str]
    keys: list[str] | None
    scaffolds: list[str] | None
    split_values: list[str] | None
    fixed_split: Split | None
    rejects: dict[int, str]
    reject_texts: dict[int, str]
    rows_read: int
    fingerprint: str
    messages: list[str]

    def __len__(self) -> int:
        return len(self.packed)


def load_dataset(
    source: Source,
    recipe: Recipe,
    *,
    workers: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Dataset:
    """Read, featurise and label; ``progress(what, done, total)`` is told how it goes."""
    name = source.data
    if isinstance(name, str) and name.lower() in known.KNOWN and not Path(name).exists():
        loaded = known.load(name)
        if isinstance(loaded, GraphSet):
            return _of_graphs(loaded, source, recipe)
        rows = _of_known_table(loaded)
    else:
        rows = read_rows(source)
    return _prepared(rows, recipe, workers, progress)


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
    numeric: dict[str, list[Floats]] = {name: [] for name in wanted}
    for chunk in table.chunks():
        texts.extend(chunk.blocks if columns.smiles is None else chunk.texts(columns.smiles))  # type: ignore[arg-type]
        if columns.split:
            split_values.extend(chunk.texts(columns.split))
        rejects.update({chunk.start + i: why for i, why in chunk.rejects.items()})
        for name in wanted:
            values, bad = numbers(chunk.columns[name], name)
            numeric[name].append(values)
            for i, why in bad.items():
                rejects.setdefault(chunk.start + i, why)
    if not texts:
        raise TableError(f"{table.path} has no rows below its header")
    joined = {name: np.concatenate(parts) for name, parts in numeric.items()}
    weights = joined[columns.weight] if columns.weight else np.ones(len(texts))
    features = _stack([joined[name] for name in columns.features], len(texts))
    for row in np.flatnonzero(~np.isfinite(features).all(1)).tolist():
        rejects.setdefault(row, "a feature column is empty")
    for row in np.flatnonzero(~(np.isfinite(weights) & (weights >= 0))).tolist():
        rejects.setdefault(row, f"the weight is {weights[row]}: weights are at least 0")
    return Rows(
        title=Path(source.data).name,
        texts=texts,
        blocks=columns.smiles is None,
        targets=_stack([joined[name] for name in columns.targets], len(texts)),
        target_names=columns.targets,
        units=("",) * len(columns.targets),
        weights=np.where(np.isfinite(weights), weights, 0.0),
        features=features,
        feature_names=columns.features,
        split_values=split_values if columns.split else None,
        rejects=rejects,
        fingerprint=table.fingerprint(),
        messages=messages,
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


def _of_known_table(table: known.MoleculeSet) -> Rows:
    count = len(table)
    return Rows(
        table.name, list(table.smiles), False, table.targets, table.target_names, table.units,
        np.ones(count), np.zeros((count, 0)), (), None, {}, table.fingerprint,
    )  # fmt: skip


def _prepared(
    rows: Rows,
    recipe: Recipe,
    workers: int | None,
    progress: Callable[[str, int, int], None] | None,
) -> Dataset:
    """Featurise the rows, with identities for splitting."""
    preparation = preparation_of(recipe)
    labelled = np.isfinite(rows.targets).any(1)
    rejects = dict(rows.rejects)
    for row in np.flatnonzero(~labelled).tolist():
        rejects.setdefault(row, "no label: every target is empty")
    total = len(rows.texts)

    def told(done: int) -> None:
        if progress is not None:
            progress("preparing molecules", done, total)

    packed = prepare(rows.texts, preparation, blocks=rows.blocks, workers=workers, progress=told)
    rejects = {**packed.rejects, **rejects}
    usable = torch.tensor([int(r) not in rejects for r in packed.rows])
    if not bool(usable.any()):
        row, why = next(iter(sorted(rejects.items())))
        raise TableError(f"{rows.title}: not one row can be used; row {row + 1}: {why}")
    if not bool(usable.all()):
        packed = _subset(packed, usable.nonzero().flatten())
    at = packed.rows.numpy()
    features = torch.from_numpy(rows.features[at]).to(torch.float32)
    packed = replace(packed, graph_values=torch.cat([packed.graph_values, features], dim=1))
    read = parse_block if rows.blocks else parse
    molecules = [read(rows.texts[row]) for row in at.tolist()]
    keys, scaffolds = [canonical(m) for m in molecules], [scaffold(m) for m in molecules]
    targets = rows.targets[at]
    messages = list(rows.messages)
    messages += _told(duplicates(keys, targets))
    return Dataset(
        title=rows.title,
        packed=packed,
        inputs=inputs_of(preparation, rows.features.shape[1]),
        preparation=preparation,
        targets=targets,
        target_names=rows.target_names,
        units=rows.units,
        weights=rows.weights[at],
        feature_names=rows.feature_names,
        smiles=keys if rows.blocks else [rows.texts[row] for row in at.tolist()],
        keys=keys,
        scaffolds=scaffolds,
        split_values=None
        if rows.split_values is None
        else [rows.split_values[row] for row in at.tolist()],
        fixed_split=None,
        rejects=rejects,
        reject_texts={
            row: "" if rows.blocks else rows.texts[row] for row in rejects if row < total
        },
        rows_read=total,
        fingerprint=rows.fingerprint,
        messages=messages,
    )


def _told(disagreeing: Sequence[object], most: int = 5) -> list[str]:
    """Molecules that are listed with different labels: the first few, and how many more."""
    told = [str(found) for found in disagreeing[:most]]
    more = len(disagreeing) - most
    return [*told, f"and {more} more molecules with different labels"] if more > 0 else told


def _subset(packed: PackedMolecules, graphs: Tensor) -> PackedMolecules:
    operators, nodes, edges = packed.operators.pick(graphs)
    return replace(
        packed, atoms=packed.atoms[nodes], atom_values=packed.atom_values[nodes],
        bonds=packed.bonds[edges], graph_values=packed.graph_values[graphs], operators=operators,
        rows=packed.rows[graphs],
    )  # fmt: skip


def _of_graphs(graphs: GraphSet, source: Source, recipe: Recipe) -> Dataset:
    """The graphs of a known set as given, with its own split."""
    if source.targets:
        graphs = graphs.select(*source.targets)
    elif len(graphs.target_names) > 1:
        raise TableError(
            f"{graphs.name} has several targets: choose one with --target out of "
            f"{', '.join(graphs.target_names)}"
        )
    packed = pack_graphs(graphs, recipe)
    inputs = Inputs(
        graphs.atom_cardinalities,
        packed.atom_values.shape[1],
        with_cycles(graphs.bond_cardinalities, recipe.cycles),
        0,
    )
    count = len(graphs)
    return Dataset(
        graphs.name, packed, inputs, None, graphs.targets, graphs.target_names, graphs.units,
        np.ones(count), (), [""] * count, None, None, None, graphs.split, {}, {}, count,
        graphs.fingerprint, [],
    )  # fmt: skip


def pack_graphs(graphs: GraphSet, recipe: Recipe) -> PackedMolecules:
    """Operators and features of a known set's graphs; from the graphs alone, see ``pack_arrays``.

    Some thousands at a time: what is worked out on the way takes several times the result's memory.
    """
    firsts = range(0, len(graphs), _GRAPHS_AT_ONCE)
    return PackedMolecules.concatenate([_pack_some(graphs, recipe, first) for first in firsts])


def _pack_some(graphs: GraphSet, recipe: Recipe, first: int) -> PackedMolecules:
    last = min(first + _GRAPHS_AT_ONCE, len(graphs))
    nodes, edges = graphs.node_ptr[first : last + 1], graphs.edge_ptr[first : last + 1]
    node, edge = slice(nodes[0], nodes[-1]), slice(edges[0], edges[-1])
    start = torch.from_numpy(nodes[:-1] - nodes[0]).repeat_interleave(
        torch.from_numpy(np.diff(edges))
    )
    packed = pack_arrays(
        sizes=torch.from_numpy(np.diff(nodes)),
        bonds=torch.from_numpy(graphs.bonds[edge]).to(torch.int64) + start[:, None],
        atoms=torch.from_numpy(graphs.atom_categories[node]),
        atom_values=torch.from_numpy(graphs.atom_values[node]),
        bond_categories=torch.from_numpy(graphs.bond_categories[edge]),
        k=recipe.k or None,
        random_walk=recipe.random_walk,
        cycles=recipe.cycles,
        combinatorial=recipe.laplacian == "combinatorial",
        transposed=recipe.field == "transposed",
    )
    return replace(packed, rows=packed.rows + first)


def split_dataset(
    data: Dataset,
    kind: str,
    *,
    seed: int,
    fractions: Sequence[float] = (0.8, 0.1, 0.1),
    file: str | Path | None = None,
    folds: int | None = None,
) -> tuple[list[Split], list[str]]:
    """One split, or as many as folds, with what is to be said of them."""
    if data.fixed_split is not None:
        return [data.fixed_split], [f"{data.title} comes with its own split, which is used"]
    assert data.keys is not None
    assert data.scaffolds is not None
    if kind not in SPLITS:
        raise ValueError(f"unknown split {kind!r}: choose from {', '.join(SPLITS)}")
    if folds is not None:
        if kind in ("column", "file"):
            raise ValueError(f"folds are drawn, so they cannot be combined with a split by {kind}")
        by = data.scaffolds if kind == "scaffold" else None
        return k_fold(data.keys, folds, seed=seed, scaffolds=by, val_fraction=0.1), []
    if kind == "column":
        if data.split_values is None:
            raise ValueError("a split by column needs the column's name: --split-column NAME")
        split, messages = column_split(data.split_values, data.keys, seed=seed)
        return [split], messages
    if kind == "file":
        if file is None:
            raise ValueError("a split by file needs the file: --split-file FILE")
        split, messages = _by_rows(data, file, seed)
        return [split], messages
    return [_drawn(data, kind, (fractions[0], fractions[1], fractions[2]), seed)], []


def _drawn(data: Dataset, kind: str, fractions: tuple[float, float, float], seed: int) -> Split:
    assert data.keys is not None
    assert data.scaffolds is not None
    if kind == "stratified":
        return stratified_split(data.keys, data.targets, fractions, seed=seed)
    if kind == "scaffold":
        return scaffold_split(data.keys, data.scaffolds, fractions, seed=seed)
    return random_split(data.keys, fractions, seed=seed)


def _by_rows(data: Dataset, file: str | Path, seed: int) -> tuple[Split, list[str]]:
    """An index file counts rows of the table; the rejected ones are not there any more."""
    split, messages = index_split(file, data.rows_read, seed=seed)
    place = {int(row): position for position, row in enumerate(data.packed.rows)}
    parts = [
        np.array([place[row] for row in rows.tolist() if row in place], dtype=np.int64)
        for _, rows in split.parts()
    ]
    return Split(*parts), messages
