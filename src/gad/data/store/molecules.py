"""From SMILES to a packed set of molecules with their operators, once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gad.chem.fast.descriptors import QUICK_DESCRIPTOR_NAMES
from gad.chem.featurize import Featurizer, MoleculeGraphs
from gad.chem.standardise import standardise_texts
from gad.operators import GraphOperators, build_operators
from gad.operators.cycles import CycleLimitError, count_cycles, cycle_lengths
from gad.operators.walks import edge_probabilities, return_probabilities

# Changes whenever the same settings would give other numbers, so that no old cache is read.
_VERSION = 2
# Cycles through a bond are told apart up to this many: 0, 1, 2, 3, more.
_MOST_CYCLES = 4


@dataclass(frozen=True)
class Preparation:
    """How molecules are turned into graphs; stored with a model, so prediction needs no flags.

    Attributes:
        featurizer: atoms and bonds to features.
        k: eigenpairs to keep of each molecule, None for all.
        random_walk: append return probabilities of so many steps to the atom values.
        bond_walk: the bonds' real values are the probabilities that a walk from one atom is at the
            other after 1 to so many steps.
        descriptors: give the head a few cheap descriptors of the whole molecule.
        cycles: count cycles of lengths 3 to this through atoms and bonds; 0 for none.
        combinatorial: directions from φ₁ of the combinatorial Laplacian.
        transposed: directions from the transposed field.
        standardise: steps by which molecules are brought into one form first (:mod:`gad.chem`).
        counts: work out Morgan counts, for models of descriptors beside the network.
    """

    featurizer: Featurizer
    k: int | None = None
    random_walk: int = 0
    descriptors: bool = False
    cycles: int = 0
    combinatorial: bool = False
    transposed: bool = False
    standardise: tuple[str, ...] = ()
    counts: bool = False
    bond_walk: int = 0

    @property
    def atom_values(self) -> int:
        """The number of real values of an atom."""
        return self.featurizer.atom_values + cycle_lengths(self.cycles) + self.random_walk

    @property
    def bond_cardinalities(self) -> tuple[int, ...]:
        """The number of categories of each of a bond's features."""
        return with_cycles(self.featurizer.bond_cardinalities, self.cycles)

    @property
    def graph_values(self) -> int:
        """The number of values of a whole molecule."""
        return len(QUICK_DESCRIPTOR_NAMES) if self.descriptors else 0

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it."""
        settings = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**settings, "featurizer": self.featurizer.to_dict()}

    @staticmethod
    def from_dict(settings: Mapping[str, Any]) -> Preparation:
        """Read back :meth:`to_dict`."""
        known = {f.name for f in fields(Preparation)}
        if unknown := set(settings) - known:
            raise ValueError(f"unknown preparation settings: {', '.join(sorted(unknown))}")
        return Preparation(
            **{
                **settings,
                "featurizer": Featurizer.from_dict(settings["featurizer"]),
                "standardise": tuple(settings.get("standardise", ())),
            }
        )

    def fingerprint(self, molecules: Sequence[str]) -> str:
        """One name for these settings on these molecules; another RDKit may see others in them."""
        shape = (self.featurizer.atom_cardinalities, self.featurizer.bond_cardinalities)
        made_by = [made_with(), self.to_dict(), shape, self.atom_values]
        digest = hashlib.sha256(json.dumps(made_by, sort_keys=True).encode())
        for text in molecules:
            digest.update(text.encode("utf-8", "surrogatepass"))
            digest.update(b"\x00")
        return digest.hexdigest()


def made_with() -> list[str | int]:
    """What prepared molecules depend on besides their text and the settings."""
    return [_VERSION, version("rdkit")]


@dataclass(frozen=True, eq=False)
class Batch:
    """What a model is given: G molecules with N atoms and E directed bonds in all."""

    atoms: Tensor
    atom_values: Tensor
    bonds: Tensor
    bond_values: Tensor
    graph_values: Tensor
    operators: GraphOperators

    def inputs(self) -> dict[str, Any]:
        """The arguments of :meth:`gad.nn.GAD.forward`."""
        return {
            "x": (self.atoms, self.atom_values),
            "operators": self.operators,
            "edge_attr": with_values(self.bonds, self.bond_values),
            "graph_attr": self.graph_values if self.graph_values.shape[1] else None,
        }

    def to(self, device: torch.device | str) -> Batch:
        """Move to another device."""
        return replace(self, **{f.name: getattr(self, f.name).to(device) for f in fields(Batch)})


def with_values(bonds: Tensor, values: Tensor) -> Tensor | tuple[Tensor, Tensor]:
    """What an encoder of bonds reads: their categories, and real values where there are any."""
    return (bonds, values) if values.shape[1] else bonds


@dataclass(frozen=True, eq=False)
class PackedMolecules:
    """A packed set of G molecules; batches are slices of it.

    Attributes:
        atoms, atom_values: uint8 [N, F] and float32 [N, V] features of all atoms.
        bonds: uint8 [E, F'] features of all directed bonds, in the operators' order.
        graph_values: float32 [G, D] features of whole molecules.
        operators: of all molecules.
        rows: int64 [G], where each molecule stood in what it was made from.
        rejects: row → why it could not be used.
        unseen: row → elements the featuriser does not know by name.
        keys: the canonical SMILES of each molecule [G]; empty unless they were asked for.
        counts: uint8 [G, 1024] Morgan counts; [G, 0] unless the preparation asks for them.
        bond_values: float32 [E, V'] real values of bonds; [E, 0] unless it asks for them.
    """

    atoms: Tensor
    atom_values: Tensor
    bonds: Tensor
    graph_values: Tensor
    operators: GraphOperators
    rows: Tensor
    rejects: dict[int, str] = field(default_factory=dict)
    unseen: dict[int, tuple[str, ...]] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    counts: Tensor = field(default_factory=lambda: torch.zeros(0, 0, dtype=torch.uint8))
    bond_values: Tensor = field(default_factory=lambda: torch.zeros(0, 0))

    def __post_init__(self) -> None:
        if len(self.bond_values) != len(self.bonds):
            object.__setattr__(self, "bond_values", torch.zeros(len(self.bonds), 0))
        if len(self.counts) != len(self):
            object.__setattr__(self, "counts", torch.zeros(len(self), 0, dtype=torch.uint8))

    def __len__(self) -> int:
        return self.rows.numel()

    def batch(self, graphs: Tensor) -> Batch:
        """The chosen molecules (int64 numbers), in the order given; atoms stand by degree."""
        operators, nodes, edges = self.operators.pick(graphs)
        layout = operators.neighbours
        nodes = nodes if layout.order is None else nodes[layout.order]
        edges = edges[layout.edges]
        return Batch(
            self.atoms[nodes],
            self.atom_values[nodes],
            self.bonds[edges],
            self.bond_values[edges],
            self.graph_values[graphs],
            operators.arranged(),
        )

    def take(self, graphs: Tensor) -> PackedMolecules:
        """The chosen molecules (int64 numbers) as a set of their own."""
        operators, nodes, edges = self.operators.pick(graphs)
        return replace(
            self,
            atoms=self.atoms[nodes],
            atom_values=self.atom_values[nodes],
            bonds=self.bonds[edges],
            bond_values=self.bond_values[edges],
            graph_values=self.graph_values[graphs],
            operators=operators,
            rows=self.rows[graphs],
            keys=tuple(self.keys[graph] for graph in graphs.tolist()) if self.keys else (),
            counts=self.counts[graphs],
        )

    def batches(self, atoms: int) -> Iterator[tuple[Tensor, Batch]]:
        """All molecules, similar sizes together, at most so many atoms: (numbers [b], batch)."""
        for graphs in by_atoms(self.operators.graph_sizes, atoms):
            yield graphs, self.batch(graphs)

    @staticmethod
    def concatenate(parts: Sequence[PackedMolecules]) -> PackedMolecules:
        """Several sets as one; rows must not overlap."""
        if len(parts) == 1:
            return parts[0]
        return PackedMolecules(
            atoms=torch.cat([p.atoms for p in parts]),
            atom_values=torch.cat([p.atom_values for p in parts]),
            bonds=torch.cat([p.bonds for p in parts]),
            bond_values=torch.cat([p.bond_values for p in parts]),
            graph_values=torch.cat([p.graph_values for p in parts]),
            operators=GraphOperators.concatenate([p.operators for p in parts]),
            rows=torch.cat([p.rows for p in parts]),
            rejects={row: why for p in parts for row, why in p.rejects.items()},
            unseen={row: names for p in parts for row, names in p.unseen.items()},
            keys=tuple(key for p in parts for key in p.keys),
            counts=torch.cat([p.counts for p in parts]),
        )


def by_atoms(sizes: Tensor, atoms: int) -> Iterator[Tensor]:
    """Graphs of similar sizes together (their numbers, int64), at most so many atoms.

    A graph that is larger than that is alone.

    >>> [graphs.tolist() for graphs in by_atoms(torch.tensor([9, 2, 3, 4]), 8)]
    [[1, 2], [3], [0]]
    """
    order = sizes.argsort(stable=True)
    total = sizes[order].cumsum(0)
    start = done = 0
    while start < order.numel():
        stop = max(start + 1, int(torch.searchsorted(total, done + atoms, right=True)))
        yield order[start:stop]
        start, done = stop, int(total[stop - 1])


class NoMoleculesError(ValueError):
    """Not one row could be used; ``rejects`` says why for each."""

    def __init__(self, rejects: dict[int, str]) -> None:
        first = next(iter(rejects.items()), None)
        reason = f"; row {first[0] + 1}: {first[1]}" if first else ""
        super().__init__(f"none of the {len(rejects)} molecules can be used{reason}")
        self.rejects = rejects


def read_molecules(
    molecules: Sequence[str],
    preparation: Preparation,
    *,
    blocks: bool = False,
    first_row: int = 0,
    keys: bool = False,
) -> PackedMolecules:
    """Featurise molecules and work out their operators.

    Args:
        molecules: SMILES, or mol blocks with ``blocks``.
        preparation: the settings.
        blocks: whether the texts are mol blocks.
        first_row: the row of the first molecule.
        keys: whether to name every molecule, which takes a quarter of the time again.

    Raises:
        NoMoleculesError: if none can be used. One that cannot goes to ``rejects``.
    """
    unread: dict[int, str] = {}
    if preparation.standardise:
        steps = preparation.standardise
        molecules, _, unread = standardise_texts(molecules, steps, blocks=blocks)
        blocks = False
    graphs = preparation.featurizer.read(
        molecules,
        blocks=blocks,
        descriptors=preparation.descriptors,
        keys=keys,
        counts=preparation.counts,
        first_row=first_row,
    )
    graphs.rejects.update({first_row + place: why for place, why in unread.items()})
    while len(graphs):
        try:
            return pack(graphs, preparation)
        except CycleLimitError as error:
            crowded = error.graph
        graphs = graphs.without(crowded, "too many rings in one another to count its cycles")
    raise NoMoleculesError(graphs.rejects)


def pack(graphs: MoleculeGraphs, preparation: Preparation) -> PackedMolecules:
    """Work out the operators of featurised molecules."""
    packed = pack_arrays(
        sizes=torch.from_numpy(graphs.sizes),
        bonds=torch.from_numpy(graphs.bonds),
        atoms=torch.from_numpy(graphs.atom_categories),
        atom_values=torch.from_numpy(graphs.atom_values),
        bond_categories=torch.from_numpy(graphs.bond_categories),
        preparation=preparation,
    )
    return replace(
        packed,
        graph_values=torch.from_numpy(graphs.descriptors.astype(np.float32)),
        rows=torch.from_numpy(graphs.rows),
        rejects=graphs.rejects,
        unseen=graphs.unseen,
        keys=graphs.keys,
        counts=torch.zeros(0, 0) if graphs.counts is None else torch.from_numpy(graphs.counts),
    )


def with_cycles(bond_cardinalities: Sequence[int], cycles: int) -> tuple[int, ...]:
    """The categories of bonds with those of their cycle counts behind, as :func:`pack_arrays`."""
    return (*bond_cardinalities, *[_MOST_CYCLES + 1] * cycle_lengths(cycles))


def pack_arrays(
    *,
    sizes: Tensor,
    bonds: Tensor,
    atoms: Tensor,
    atom_values: Tensor,
    bond_categories: Tensor,
    preparation: Preparation,
) -> PackedMolecules:
    """A packed set from flat arrays: sizes [G], bonds once [b, 2] (global atoms), features.

    Of the graph alone come further features: cycles through atoms as log₂(1 + count) behind the
    atom values (which keeps 0 and 1), cycles through bonds as categories 0, 1, 2, 3, more behind
    the bonds' own, return probabilities of random walks behind the atom values, and probabilities
    to be at the other end of a bond as the bond values.
    """
    batch = torch.arange(sizes.numel()).repeat_interleave(sizes)
    edge_index = torch.cat([bonds, bonds.flip(1)]).t()
    if preparation.cycles:
        of_atoms, of_edges = count_cycles(
            edge_index, batch.numel(), preparation.cycles, batch=batch
        )
        atom_values = torch.cat([atom_values, torch.log2(1 + of_atoms.to(torch.float64))], dim=1)
        categories = of_edges[: bonds.shape[0]].clamp_max(_MOST_CYCLES).to(torch.uint8)
        bond_categories = torch.cat([bond_categories, categories], dim=1)

    def operators_of(pairs: int | None) -> GraphOperators:
        return build_operators(
            edge_index,
            batch.numel(),
            batch=batch,
            k=pairs,
            combinatorial=preparation.combinatorial,
            transposed=preparation.transposed,
        )

    k, steps, along = preparation.k, preparation.random_walk, preparation.bond_walk
    operators = operators_of(None if steps or along else k)
    bond_values = edge_probabilities(operators, along) if along else torch.zeros(0, 0)
    if steps:
        atom_values = torch.cat([atom_values, return_probabilities(operators, steps)], dim=1)
    if k is not None and (steps or along):
        operators = operators_of(k)
    directed = torch.cat([bond_categories, bond_categories])[operators.edge_position]
    operators = replace(operators, edge_position=torch.arange(operators.num_edges))
    return PackedMolecules(
        atoms=atoms,
        atom_values=atom_values.to(torch.float32),
        bonds=directed,
        bond_values=bond_values.to(torch.float32),
        graph_values=torch.zeros(sizes.numel(), 0),
        operators=operators,
        rows=torch.arange(sizes.numel()),
    )
