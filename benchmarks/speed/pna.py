"""PyTorch Geometric's side: a network of ``PNAConv``, in a process of its own.

The same molecules, depth, towers, scalers, readout, loss and optimiser as ours, four aggregators,
bonds in every message, and as many parameters to 2 %. Batches come from PyTorch Geometric's own
``DataLoader``.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import BatchNorm, PNAConv, global_mean_pool
from torch_geometric.utils import degree

from benchmarks.speed.gad import MOLECULES, RECIPE, first_graphs, zinc
from benchmarks.speed.workers import Goes, serve
from gad.nn import count_parameters, widest

AGGREGATORS = ["mean", "max", "min", "std"]
GOES = Goes()


class PNA(nn.Module):
    """Embeddings, L × (PNAConv, batch norm, ReLU, residual), mean over atoms, three linear maps.

    ``hidden`` is the first inner width of the head; half of it is the second.
    """

    def __init__(self, width: int, hidden: int, histogram: Tensor) -> None:
        super().__init__()
        (atoms,), (bonds,) = zinc().atom_cardinalities, zinc().bond_cardinalities
        self.atoms = nn.Embedding(atoms, width)
        self.bonds = nn.Embedding(bonds, RECIPE.model.edge_channels)
        self.convolutions = nn.ModuleList(
            PNAConv(
                width, width, AGGREGATORS, list(RECIPE.model.scalers), histogram,
                edge_dim=RECIPE.model.edge_channels, towers=RECIPE.model.towers, divide_input=True,
            )
            for _ in range(RECIPE.model.layers)
        )  # fmt: skip
        self.norms = nn.ModuleList(BatchNorm(width) for _ in range(RECIPE.model.layers))
        self.head = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden // 2), nn.ReLU(),
            nn.Linear(hidden // 2, 1),
        )  # fmt: skip

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor,
                graphs: int) -> Tensor:  # fmt: skip
        """One value for each graph [B, 1]."""
        h, bonds = self.atoms(x), self.bonds(edge_attr)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            h = h + F.relu(norm(convolution(h, edge_index, bonds)))
        result: Tensor = self.head(global_mean_pool(h, batch, graphs))
        return result


@lru_cache
def molecules() -> list[Data]:
    """The first molecules of the training part as PyTorch Geometric has them."""
    graphs = first_graphs(MOLECULES)
    found = []
    for g in range(len(graphs)):
        atoms = slice(graphs.node_ptr[g], graphs.node_ptr[g + 1])
        bonds = slice(graphs.edge_ptr[g], graphs.edge_ptr[g + 1])
        pairs = torch.from_numpy(graphs.bonds[bonds].astype(np.int64))
        kinds = torch.from_numpy(graphs.bond_categories[bonds, 0].astype(np.int64))
        found.append(
            Data(
                x=torch.from_numpy(graphs.atom_categories[atoms, 0].astype(np.int64)),
                edge_index=torch.cat([pairs, pairs.flip(1)]).t().contiguous(),
                edge_attr=torch.cat([kinds, kinds]),
                y=torch.tensor([[graphs.targets[g, 0]]], dtype=torch.float32),
            )
        )
    return found


@lru_cache
def histogram() -> Tensor:
    """How many atoms have each degree."""
    each = [degree(m.edge_index[1], m.num_nodes, dtype=torch.int64) for m in molecules()]
    return torch.bincount(torch.cat(each))


def network(parameters: int) -> PNA:
    """A network of so many parameters, to 2 %.

    Widths go in steps of the towers, which is coarse. What is missing goes into the head: a few
    products for each molecule rather than each atom, so that it costs next to nothing.
    """
    torch.manual_seed(0)

    def of(width: int) -> PNA:
        return PNA(width, width // 2, histogram())

    width = widest(of, parameters, multiple=RECIPE.model.towers)
    for hidden in itertools.count(width // 2):
        model = PNA(width, hidden, histogram())
        if count_parameters(model) >= 0.995 * parameters:
            return model
    raise AssertionError


@lru_cache
def called(parameters: int, compiled: bool) -> nn.Module:
    """The network as it is called; compiled for any number of atoms and bonds."""
    model = network(parameters)
    if compiled:
        model.compile(dynamic=True)
    return model


def call(model: nn.Module, data: Any) -> Tensor:
    """Outputs of a batch."""
    result: Tensor = model(data.x, data.edge_index, data.edge_attr, data.batch, data.num_graphs)
    return result


def training(batch: int, parameters: int, compiled: bool) -> Iterator[int]:
    """Train for ever; a number of molecules after each step."""
    model = called(parameters, compiled)
    descent = torch.optim.AdamW(
        model.parameters(),
        lr=RECIPE.training.learning_rate,
        weight_decay=RECIPE.training.weight_decay,
    )
    loader = DataLoader(molecules(), batch, shuffle=True)
    while True:
        for data in loader:
            model.train()
            F.l1_loss(call(model, data), data.y).backward()
            descent.step()
            descent.zero_grad()
            yield data.num_graphs


def inference(batch: int, parameters: int, compiled: bool, forward_only: bool) -> Iterator[int]:
    """Predict all molecules again and again."""
    model = called(parameters, compiled)
    loader: Any = DataLoader(molecules(), batch)
    loader = list(loader) if forward_only else loader
    while True:
        for data in loader:
            model.eval()
            with torch.no_grad():
                call(model, data)
            yield data.num_graphs


def answer_info(parameters: int) -> dict[str, Any]:
    model = network(parameters)
    return {
        "parameters": count_parameters(model),
        "width": model.atoms.embedding_dim,
        "aggregators": AGGREGATORS,
    }


def answer_train(
    batch: int, seconds: float, parameters: int, compiled: bool = False
) -> dict[str, Any]:
    def make() -> Iterator[int]:
        return training(batch, parameters, compiled)

    return GOES(("train", batch, compiled), make, seconds)


def answer_infer(
    batch: int, seconds: float, parameters: int, compiled: bool = False,
    forward_only: bool = False,
) -> dict[str, Any]:  # fmt: skip
    def make() -> Iterator[int]:
        return inference(batch, parameters, compiled, forward_only)

    return GOES(("infer", batch, compiled, forward_only), make, seconds)


def main() -> None:
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    serve({"info": answer_info, "train": answer_train, "infer": answer_infer})


if __name__ == "__main__":
    main()
