"""Many graphs in a few flat arrays, with their targets and their split."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from gad.data.splits import Split

if TYPE_CHECKING:
    from collections.abc import Mapping

Bytes: TypeAlias = npt.NDArray[np.uint8]
Ints: TypeAlias = npt.NDArray[np.int32]
Longs: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float32]
Doubles: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class GraphSet:
    """G graphs with N nodes and Eb bonds in all, packed one after the other.

    Graph g has the nodes ``node_ptr[g] : node_ptr[g + 1]`` and likewise its bonds.

    Attributes:
        name: of the data set.
        node_ptr: [G + 1], ascending from 0 to N.
        atom_categories: [N, A], each column a number below its ``atom_cardinalities``.
        edge_ptr: [G + 1], ascending from 0 to Eb.
        bonds: [Eb, 2], node numbers within the graph; every bond once, i < j, in ascending order.
        bond_categories: [Eb, B], each column a number below its ``bond_cardinalities``.
        targets: [G, T], in ``units``.
        target_names: T names.
        units: T units.
        split: rows of train, validation and test.
        atom_cardinalities: A numbers of categories.
        bond_cardinalities: B numbers of categories.
        atom_values: [N, V] real features of atoms; V = 0 where there are none.
        atom_value_names: V names.

    Example:
        Formaldehyde, C=O with two hydrogens:

        >>> from gad.data.splits import Split
        >>> graphs = GraphSet(
        ...     name="one molecule",
        ...     node_ptr=np.array([0, 4]),
        ...     atom_categories=np.array([[1], [3], [0], [0]], np.uint8),
        ...     edge_ptr=np.array([0, 3]),
        ...     bonds=np.array([[0, 1], [0, 2], [0, 3]], np.int32),
        ...     bond_categories=np.array([[1], [0], [0]], np.uint8),
        ...     targets=np.array([[2.33, -6.75]]),
        ...     target_names=("mu", "homo"),
        ...     units=("D", "eV"),
        ...     split=Split([0], [], []),
        ...     atom_cardinalities=(5,),
        ...     bond_cardinalities=(3,),
        ... )
        >>> len(graphs), graphs.select("HOMO").targets.tolist()
        (1, [[-6.75]])
    """

    name: str
    node_ptr: Longs
    atom_categories: Bytes
    edge_ptr: Longs
    bonds: Ints
    bond_categories: Bytes
    targets: Doubles
    target_names: tuple[str, ...]
    units: tuple[str, ...]
    split: Split
    atom_cardinalities: tuple[int, ...]
    bond_cardinalities: tuple[int, ...]
    atom_values: Floats = field(default_factory=lambda: np.empty((0, 0), np.float32))
    atom_value_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.atom_value_names:
            empty = np.empty((len(self.atom_categories), 0), np.float32)
            object.__setattr__(self, "atom_values", empty)
        for ok, what in _checks(self):
            if not ok:
                raise ValueError(f"{self.name}: {what}")

    def __len__(self) -> int:
        return len(self.targets)

    def __repr__(self) -> str:
        sizes = f"{len(self)} graphs, {len(self.atom_categories)} atoms, {len(self.bonds)} bonds"
        return f"GraphSet({self.name!r}: {sizes}, targets {', '.join(self.target_names)})"

    def select(self, *names: str) -> GraphSet:
        """The same graphs with only the targets named (in any case), in that order."""
        known = {name.lower(): column for column, name in enumerate(self.target_names)}
        missing = [name for name in names if name.lower() not in known]
        if missing or not names:
            raise ValueError(
                f"{self.name} has no target {', '.join(map(repr, missing)) or 'without a name'}; "
                f"its targets are {', '.join(self.target_names)}"
            )
        columns = [known[name.lower()] for name in names]
        return replace(
            self,
            targets=self.targets[:, columns],
            target_names=tuple(self.target_names[c] for c in columns),
            units=tuple(self.units[c] for c in columns),
        )

    def take(self, rows: Longs, split: Split | None = None, name: str = "") -> GraphSet:
        """The chosen graphs, in the order given, as a set of their own.

        Args:
            rows: the graphs.
            split: their parts; all to train on if not given.
            name: of the new set; it keeps its own if not given.
        """
        atoms, bonds = _spans(self.node_ptr, rows), _spans(self.edge_ptr, rows)
        return replace(
            self,
            name=name or self.name,
            node_ptr=pointers(np.diff(self.node_ptr)[rows]),
            atom_categories=self.atom_categories[atoms],
            edge_ptr=pointers(np.diff(self.edge_ptr)[rows]),
            bonds=self.bonds[bonds],
            bond_categories=self.bond_categories[bonds],
            targets=self.targets[rows],
            atom_values=self.atom_values[atoms],
            split=split or Split(np.arange(len(rows)), *[np.empty(0, np.int64)] * 2),
        )

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the graphs, features and targets, in their order; the split is not part of it.

        Targets count to float32 precision, the precision of training, so that the last bits of a
        unit conversion do not matter.
        """
        digest = hashlib.sha256()
        parts: Mapping[str, tuple[npt.ArrayLike, str]] = {
            "node_ptr": (self.node_ptr, "<i8"),
            "atom_categories": (self.atom_categories, "<u1"),
            "edge_ptr": (self.edge_ptr, "<i8"),
            "bonds": (self.bonds, "<i4"),
            "bond_categories": (self.bond_categories, "<u1"),
            "targets": (self.targets + 0.0, "<f4"),  # −0 becomes 0
            "atom_values": (self.atom_values, "<f4"),
        }
        for name, (array, kind) in parts.items():
            content = np.ascontiguousarray(array, kind)
            digest.update(f"{name} {content.shape} {kind}\n".encode())
            digest.update(content.data)
        digest.update(repr((self.target_names, self.units, self.atom_value_names)).encode())
        return digest.hexdigest()

    def require(self, fingerprint: str, source: str, remedy: str) -> GraphSet:
        """Return itself if the fingerprint is the one expected; refuse otherwise."""
        if self.fingerprint != fingerprint:
            raise ValueError(
                f"{source} does not hold the data set {self.name} as published: its checksum is "
                f"{self.fingerprint[:16]}…, expected {fingerprint[:16]}…. {remedy}"
            )
        return self


def sort_bonds(edge_ptr: Longs, bonds: Ints, *columns: Bytes) -> tuple[Ints, list[Bytes]]:
    """Bring the bonds of every graph into ascending order, with what belongs to them.

    Example:
        >>> bonds = np.array([[1, 2], [0, 1], [0, 1]], np.int32)
        >>> bonds, (order,) = sort_bonds(np.array([0, 2, 3]), bonds, np.array([7, 8, 9], np.uint8))
        >>> bonds.tolist(), order.tolist()
        ([[0, 1], [1, 2], [0, 1]], [8, 7, 9])
    """
    graph = np.repeat(np.arange(len(edge_ptr) - 1), np.diff(edge_ptr))
    order = np.lexsort((bonds[:, 1], bonds[:, 0], graph))
    return bonds[order], [column[order] for column in columns]


def pointers(counts: npt.ArrayLike) -> Longs:
    """Counts → where each graph starts: [G] → [G + 1]."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _spans(starts: Longs, rows: Longs) -> Longs:
    """Where the entries of the chosen graphs are, in their order."""
    sizes = np.diff(starts)[rows]
    shift: Longs = np.repeat(starts[rows] - sizes.cumsum() + sizes, sizes)
    return shift + np.arange(shift.size)


def _checks(s: GraphSet) -> list[tuple[bool, str]]:
    """What must hold for the arrays to be graphs."""
    graphs, nodes, edges = len(s.targets), len(s.atom_categories), len(s.bonds)
    sound = all(
        ptr.shape == (graphs + 1,) and ptr[0] == 0 and ptr[-1] == size and (np.diff(ptr) >= 0).all()
        for ptr, size in ((s.node_ptr, nodes), (s.edge_ptr, edges))
    )
    if not sound:
        return [(False, "node_ptr or edge_ptr does not fit the arrays it points into")]
    graph = np.repeat(np.arange(graphs), np.diff(s.edge_ptr))
    first, second = s.bonds.T.astype(np.int64)
    place = (graph * (1 << 20) + first) * (1 << 20) + second
    return [
        (bool((first >= 0).all() and (first < second).all()), "bonds must be 0 ≤ i < j"),
        (bool((second < np.diff(s.node_ptr)[graph]).all()), "a bond leads out of its graph"),
        (bool((np.diff(place) > 0).all()), "bonds must ascend within a graph, none twice"),
        (_below(s.atom_categories, s.atom_cardinalities), "an atom is of an unknown category"),
        (_below(s.bond_categories, s.bond_cardinalities), "a bond is of an unknown category"),
        (len(s.bond_categories) == edges, "every bond needs its categories"),
        (s.targets.shape[1:] == (len(s.target_names),) == (len(s.units),), "targets need names"),
        (s.atom_values.shape == (nodes, len(s.atom_value_names)), "atom_values need names"),
        (all(rows.max(initial=-1) < graphs for _, rows in s.split.parts()), "split beyond the end"),
    ]


def _below(categories: Bytes, cardinalities: tuple[int, ...]) -> bool:
    fits = categories.ndim == 2 and categories.shape[1] == len(cardinalities)
    return fits and bool((categories < np.asarray(cardinalities)).all())
