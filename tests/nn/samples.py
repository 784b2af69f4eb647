"""Batches of graphs with features, for every test of layers and models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gad.chem.featurize import Featurizer
from gad.data.known.esol import load_esol
from gad.data.store.molecules import Preparation, read_molecules
from gad.nn import GAD, CategoricalEncoder, ImplicitDiffusion, SpectralDiffusion
from gad.operators import GraphOperators, build_operators
from tests.graphs import Graph, renumber

SCHEMES = {"implicit": ImplicitDiffusion, "spectral": SpectralDiffusion}
EVERY_SCHEME = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=list(SCHEMES))
AGGREGATORS = ("mean", "max", "min", "sum", "std", "av", "dx")
ATOMS, BONDS = 28, 4


@dataclass(frozen=True)
class Molecule:
    """A graph with an atom kind on every node and a bond kind on every pair of nodes.

    ``bonds`` [N, N] is a dense matrix, so that bonds follow their atoms through any renumbering.
    """

    graph: Graph
    atoms: np.ndarray
    bonds: np.ndarray
    y: float = 0.0

    def renumbered(self, permutation: np.ndarray) -> Molecule:
        """Atom i is called ``permutation[i]``, and the edges stand in another order."""
        inverse = np.argsort(permutation)
        return Molecule(
            renumber(self.graph, permutation),
            self.atoms[inverse],
            self.bonds[np.ix_(inverse, inverse)],
            self.y,
        )


@dataclass(frozen=True)
class Batch:
    """What a model is given: categories of nodes [N] and of edges [E], and the operators."""

    x: Tensor
    operators: GraphOperators
    edge_attr: Tensor
    y: Tensor


def decorate(graph: Graph, seed: int = 0, *, alike: bool = False) -> Molecule:
    """Random kinds of atoms and bonds, or (``alike``) the same kind everywhere."""
    rng = np.random.default_rng([seed, graph.num_nodes])
    if alike:
        atoms, bonds = np.zeros(graph.num_nodes, int), np.zeros((graph.num_nodes,) * 2, int)
    else:
        atoms = rng.integers(0, ATOMS, graph.num_nodes)
        bonds = rng.integers(0, BONDS, (graph.num_nodes,) * 2)
    return Molecule(graph, atoms, np.maximum(bonds, bonds.T), float(rng.standard_normal()))


def decorate_all(graphs: Sequence[Graph], *, alike: bool = False) -> list[Molecule]:
    """Decorate many graphs, each with its own random numbers."""
    return [decorate(graph, seed, alike=alike) for seed, graph in enumerate(graphs)]


def collate(molecules: Sequence[Molecule], **options: Any) -> Batch:
    """Put molecules one after the other and build the operators of all at once."""
    sizes = [m.graph.num_nodes for m in molecules]
    starts = np.cumsum([0, *sizes])
    indices = [m.graph.edge_index for m in molecules]
    edge_attr = [
        torch.from_numpy(m.bonds[tuple(index)]) for m, index in zip(molecules, indices, strict=True)
    ]
    edge_index = [index + int(start) for index, start in zip(indices, starts[:-1], strict=True)]
    weights = [m.graph.edge_weight for m in molecules]
    if any(w is not None for w in weights):
        options["edge_weight"] = torch.cat(
            [
                torch.ones(index.shape[1], dtype=torch.float64) if w is None else w
                for w, index in zip(weights, indices, strict=True)
            ]
        )
    operators = build_operators(
        torch.cat(edge_index, dim=1),
        sum(sizes),
        batch=torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)),
        **{"dtype": torch.float32, **options},
    )
    return Batch(
        torch.from_numpy(np.concatenate([m.atoms for m in molecules])),
        operators,
        torch.cat(edge_attr),
        torch.tensor([[m.y] for m in molecules], dtype=torch.float32),
    )


def model(channels: int = 20, seed: int = 0, **options: Any) -> GAD:
    """A model of molecules: both encoders, towers, all seven aggregators unless told otherwise."""
    torch.manual_seed(seed)
    edge_channels = options.pop("edge_channels", 4)
    made = partial(
        GAD,
        channels,
        encoder=CategoricalEncoder([ATOMS], channels),
        edge_encoder=CategoricalEncoder([BONDS], edge_channels) if edge_channels else None,
        edge_channels=edge_channels,
    )
    return made(**{"layers": 2, "towers": 5, "aggregators": AGGREGATORS, **options})


def predict(net: GAD, batch: Batch) -> Tensor:
    """The outputs of a batch."""
    return net(batch.x, batch.operators, batch.edge_attr if net.edge_encoder is not None else None)


@cache
def solubilities(count: int) -> list[Molecule]:
    """Real molecules, some of those that the package ships."""
    smiles = load_esol().smiles
    packed = read_molecules(smiles[:: len(smiles) // count][:count], Preparation(Featurizer()))
    found = []
    for g in range(len(packed)):
        part = packed.operators.select(torch.tensor([g]))
        pairs = torch.stack([part.source, part.target], dim=1)
        pairs = pairs[part.source < part.target].numpy()
        found.append(decorate(Graph(part.num_nodes, pairs), g))
    return found
