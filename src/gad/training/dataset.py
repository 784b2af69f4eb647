"""A data set for training: a table or a known set, prepared, labelled and split."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from gad.chem import canonical, parse, parse_block, quiet
from gad.chem.clusters import clusters
from gad.data import known
from gad.data.known.graphset import GraphSet
from gad.data.rows import Rows, Source, read_rows, rows_of_known
from gad.data.splits import (
    Split,
    column_split,
    duplicates,
    index_split,
    k_fold,
    random_split,
    said_of_time,
    scaffold_split,
    stratified_split,
    time_split,
)
from gad.data.splits.time import moment
from gad.data.store.cache import prepare, scaffolds
from gad.data.store.graphs import pack_graphs
from gad.data.store.molecules import PackedMolecules, Preparation, with_cycles
from gad.data.tables import TableError
from gad.settings.model import Inputs, inputs_of, preparation_of
from gad.settings.recipe import Recipe
from gad.settings.task import Scale, Signs, Task
from gad.training.merging import merge, named

Floats = npt.NDArray[np.float64]
SPLITS = ("random", "stratified", "scaffold", "cluster", "time", "column", "file")


@dataclass(frozen=True)
class Splitting:
    """How rows are divided: a kind out of ``SPLITS``, the file of a split by file, or folds."""

    kind: str = "random"
    file: str | Path | None = None
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1)
    folds: int | None = None
    repeat: int = 1

    def __post_init__(self) -> None:
        if self.kind not in SPLITS:
            raise ValueError(f"unknown split {self.kind!r}: choose from {', '.join(SPLITS)}")
        if self.kind == "file" and self.file is None:
            raise ValueError("a split by file needs the file: --split-file FILE")
        if self.repeat < 1 or (self.repeat > 1 and self.folds is None):
            raise ValueError("only folds are repeated: give their number as well, --folds K")
        if self.folds is not None and self.kind in ("time", "column", "file"):
            raise ValueError(
                f"folds are drawn, so they cannot be combined with a split by {self.kind}"
            )

    @staticmethod
    def of(
        kind: str = "random",
        column: str | None = None,
        file: str | Path | None = None,
        fractions: Sequence[float] = (0.8, 0.1, 0.1),
        folds: int | None = None,
        repeat: int = 1,
    ) -> Splitting:
        """What these options say together: a column or a file is a kind of its own."""
        if kind == "time" and column is None:
            raise ValueError("a split by time needs the column of dates: --split-column NAME")
        if column is not None or file is not None:
            kind = "time" if kind == "time" else "column" if column is not None else "file"
        train, val, test = fractions
        return Splitting(kind, file, (train, val, test), folds, repeat)


@dataclass(frozen=True, eq=False)
class Dataset:
    """G usable molecules with labels; ``rows`` of the packed set say where they came from.

    Attributes:
        title: for people.
        packed: the molecules, with all whole-molecule values unscaled.
        targets: [G, T] in the user's units, NaN where missing.
        weights: [G].
        smiles: [G], for people ("" for the graphs of a known set).
        split_values: [G] the user's own split column.
        fixed_split: the split a known set comes with.
        bounds, classes: of the targets, as in :class:`gad.data.rows.Rows`.
        source: where it all came from.
        changed: row → a molecule's name before and after standardising, where they differ.
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
    split_values: list[str] | None
    fixed_split: Split | None
    rejects: dict[int, str]
    reject_texts: dict[int, str]
    rows_read: int
    fingerprint: str
    messages: list[str]
    bounds: Signs | None = None
    classes: tuple[tuple[str, ...], ...] = ()
    source: Source = field(default_factory=lambda: Source(None))
    changed: dict[int, tuple[str, str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.packed)

    @cached_property
    def scaffolds(self) -> list[str]:
        """[G], worked out when a split first asks for them."""
        return scaffolds(self.packed.keys)

    def task(self, loss: str) -> Task:
        """What is learned, by what the user says and the labels are."""
        kind, transform = self.source.task, self.source.transform
        names, units = self.target_names, self.units
        return Task.of(kind, names, units, self.targets, loss, self.classes, transform)

    def scale(self, task: Task, rows: npt.NDArray[np.int64]) -> Scale:
        """The scale of a model that is trained on these rows."""
        values = self.packed.graph_values[torch.from_numpy(rows)]
        return Scale.of(task, self.targets[rows], self.weights[rows], values)


def load_dataset(
    source: Source,
    recipe: Recipe,
    *,
    workers: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Dataset:
    """Read, featurise and label; ``progress(what, done, total)`` is told how it goes."""
    data = source.data
    if isinstance(data, str) and data.lower() in known.KNOWN and not Path(data).exists():
        data = known.load(data)
    if isinstance(data, GraphSet):
        return _of_graphs(data, source, recipe)
    rows = rows_of_known(data) if isinstance(data, known.MoleculeSet) else read_rows(source)
    return _prepared(source, rows, recipe, workers, progress)


def _prepared(
    source: Source,
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
    for row, date in enumerate(rows.split_values or () if source.dates else ()):
        if moment(date) is None:
            rejects.setdefault(row, f"{date!r} is no date: write 2024-03-31, or growing numbers")
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
        packed = packed.take(usable.nonzero().flatten())
    at = packed.rows.numpy()
    features = torch.from_numpy(rows.features[at]).to(torch.float32)
    packed = replace(packed, graph_values=torch.cat([packed.graph_values, features], dim=1))
    targets, bounds = rows.targets[at], None if rows.bounds is None else rows.bounds[at]
    weights = rows.weights[at]
    changed = _changed(rows, packed) if preparation.standardise else {}
    messages = list(rows.messages)
    if changed:
        messages.append(f"standardised: {len(changed)} molecules, listed in standardised.csv")
    classes = rows.classes or [()] * targets.shape[1]
    if source.merge is None:
        exact = targets if bounds is None else np.where(bounds == 0, targets, np.nan)
        found = duplicates(packed.keys, exact, rows_of=at.tolist())
        messages += _told([named(each, classes) for each in found])
    else:
        merged = merge(
            _alike(rows, packed), targets, bounds, weights, source.merge,
            classes=classes, rows_of=at.tolist(),
        )  # fmt: skip
        rejects |= {int(at[place]): why for place, why in merged.dropped.items()}
        less = len(at) - len(merged.rows) - len(merged.dropped)
        messages.append(f"{less} rows are merged with others of their molecule ({source.merge})")
        messages += _told(merged.contradictions)
        if not len(merged.rows):
            raise TableError(f"{rows.title}: not one row is left, all contradict one another")
        packed = packed.take(torch.from_numpy(merged.rows))
        targets, bounds, weights = merged.targets, merged.bounds, merged.weights
        at = packed.rows.numpy()
    return Dataset(
        title=rows.title,
        packed=packed,
        inputs=inputs_of(preparation, rows.features.shape[1]),
        preparation=preparation,
        targets=targets,
        target_names=rows.target_names,
        units=rows.units,
        weights=weights,
        feature_names=rows.feature_names,
        smiles=list(packed.keys) if rows.blocks else [rows.texts[row] for row in at.tolist()],
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
        bounds=bounds,
        classes=rows.classes,
        source=source,
        changed=changed,
    )


def _told(disagreeing: Sequence[object], most: int = 5) -> list[str]:
    """Molecules that are listed with different labels: the first few, and how many more."""
    told = [str(found) for found in disagreeing[:most]]
    more = len(disagreeing) - most
    return [*told, f"and {more} more molecules with different labels"] if more > 0 else told


def _alike(rows: Rows, packed: PackedMolecules) -> list[Hashable]:
    """What is equal for rows of one molecule with the same features, in the same part."""
    if not rows.feature_names and rows.split_values is None:
        return list(packed.keys)
    part = rows.split_values or [""] * len(rows.texts)
    return [
        (key, part[row], *rows.features[row].tolist())
        for key, row in zip(packed.keys, packed.rows.tolist(), strict=True)
    ]


def _changed(rows: Rows, packed: PackedMolecules) -> dict[int, tuple[str, str]]:
    """Which molecules standardising has changed: row → name before and after."""
    read = parse_block if rows.blocks else parse
    names = zip(packed.rows.tolist(), packed.keys, strict=True)
    with quiet:
        each = ((row, canonical(read(rows.texts[row])), after) for row, after in names)
        return {row: (before, after) for row, before, after in each if before != after}


def _of_graphs(graphs: GraphSet, source: Source, recipe: Recipe) -> Dataset:
    """The graphs of a known set as given, with its own split."""
    if source.targets:
        graphs = graphs.select(*source.targets)
    elif len(graphs.target_names) > 1:
        raise TableError(
            f"{graphs.name} has several targets: choose one with --target out of "
            f"{', '.join(graphs.target_names)}"
        )
    packed = pack_graphs(graphs, preparation_of(recipe))
    inputs = Inputs(
        graphs.atom_cardinalities,
        packed.atom_values.shape[1],
        with_cycles(graphs.bond_cardinalities, recipe.molecules.cycles),
        0,
        packed.bond_values.shape[1],
    )
    count = len(graphs)
    return Dataset(
        graphs.name, packed, inputs, None, graphs.targets, graphs.target_names, graphs.units,
        np.ones(count), (), [""] * count, None, graphs.split, {}, {}, count,
        graphs.fingerprint, [], source=source,
    )  # fmt: skip


def split_dataset(
    data: Dataset, splitting: Splitting, *, seed: int
) -> tuple[list[Split], list[str]]:
    """One split, or as many as folds, with what is to be said of them."""
    if data.fixed_split is not None:
        return [data.fixed_split], [f"{data.title} comes with its own split, which is used"]
    keys, kind = data.packed.keys, splitting.kind
    if splitting.folds is not None:
        by = _groups(data, kind)
        drawn = (
            k_fold(keys, splitting.folds, seed=seed + again, scaffolds=by, val_fraction=0.1)
            for again in range(splitting.repeat)
        )
        return [split for folds in drawn for split in folds], []
    if kind == "column":
        if data.split_values is None:
            raise ValueError("a split by column needs the column's name: --split-column NAME")
        split, messages = column_split(
            data.split_values, keys, rows_of=data.packed.rows.tolist(), seed=seed
        )
    elif kind == "time":
        assert data.split_values is not None
        split = time_split(data.split_values, splitting.fractions, data.packed.rows.tolist())
        messages = [said_of_time(split, data.split_values)]
    elif kind == "file":
        assert splitting.file is not None
        split, messages = _by_rows(data, splitting.file, seed)
    else:
        split, messages = _drawn(data, kind, splitting.fractions, seed), []
    return [split], messages


def _drawn(data: Dataset, kind: str, fractions: tuple[float, float, float], seed: int) -> Split:
    keys = data.packed.keys
    if kind == "stratified":
        return stratified_split(keys, data.targets, fractions, seed=seed)
    if (groups := _groups(data, kind)) is not None:
        return scaffold_split(keys, groups, fractions, seed=seed)
    return random_split(keys, fractions, seed=seed)


def _groups(data: Dataset, kind: str) -> list[str] | None:
    """What may not be on two sides: scaffolds, or clusters of similar molecules."""
    if kind == "cluster":
        return [str(number) for number in clusters(data.packed.keys)]
    return data.scaffolds if kind == "scaffold" else None


def _by_rows(data: Dataset, file: str | Path, seed: int) -> tuple[Split, list[str]]:
    """An index file counts rows of the table; the rejected ones are not there any more."""
    split, messages = index_split(file, data.rows_read, seed=seed)
    place = {int(row): position for position, row in enumerate(data.packed.rows)}
    parts = [
        np.array([place[row] for row in rows.tolist() if row in place], dtype=np.int64)
        for _, rows in split.parts()
    ]
    return Split(*parts), messages
