"""The graph: edges made undirected, features, classes, splits."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gad.data.splits import Split, stratified_split
from gad.operators import GraphOperators, build_operators
from gad.operators.sparse import to_csr

MASKS = ("train_mask", "val_mask", "test_mask")
"""What PyTorch Geometric calls the parts of a split."""
DEGREE_FEATURES = ("constant", "log degree")
"""What nodes are told apart by where they have no features."""
BY_DEGREE = "nodes are told apart by their degree"
SIXTY_TWENTY_TWENTY = (0.6, 0.2, 0.2)
# Below this share of numbers that are not 0 a sparse product is the quicker one.
_SPARSE_SHARE = 0.1


class NodeReject(NamedTuple):
    """A row that could not be used: which table, its number from 1, what it said, and why."""

    table: str
    row: int
    text: str
    reason: str


@dataclass(frozen=True, eq=False)
class NodeGraph:
    """One undirected graph with features and, where they are known, classes of its nodes.

    Attributes:
        name: of the data.
        edge_index: int64 [2, E], both directions, without loops or doubles.
        x: float32 [N, D], dense or sparse CSR.
        y: int64 [N], the number of the class, −1 where it is unknown.
        classes: their names.
        ids: names of the nodes; empty if they are numbers 0 … N − 1.
        features: names of the D features; empty if they have none.
        edge_weight: float32 [E], or None.
        splits: given splits over the nodes; empty if none is given.
        metric: what a model is chosen by, "accuracy" or "roc_auc".
        labelled: whether classes were given at all.
        messages: what a user should know about how the data was read.
        rejects: rows of the tables that could not be used.
    """

    name: str
    edge_index: Tensor
    x: Tensor
    y: Tensor
    classes: tuple[str, ...]
    ids: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    edge_weight: Tensor | None = None
    splits: tuple[Split, ...] = ()
    metric: str = "accuracy"
    messages: tuple[str, ...] = ()
    rejects: tuple[NodeReject, ...] = field(default=(), repr=False)

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.y.numel()

    @property
    def num_edges(self) -> int:
        """Undirected edges: E / 2."""
        return self.edge_index.shape[1] // 2

    def operators(self, *, directions: bool = True) -> GraphOperators:
        """The graph's operators, without a basis: polynomials are quicker even on small graphs."""
        return build_operators(
            self.edge_index,
            self.num_nodes,
            basis=False,
            directions=directions,
            edge_weight=self.edge_weight,
        )

    def fingerprint(self) -> str:
        """SHA-256 of edges, features and classes: equal graphs, equal fingerprints."""
        once = self.edge_index[:, self.edge_index[0] < self.edge_index[1]]
        order = (once[0] * self.num_nodes + once[1]).argsort()
        pairs = once[:, order]
        x = to_csr(self.x)
        parts = [pairs, self.y, x.crow_indices(), x.col_indices(), x.values()]
        if self.edge_weight is not None:
            weight = self.edge_weight[self.edge_index[0] < self.edge_index[1]]
            parts.append(weight[order])
        digest = hashlib.sha256()
        for part in parts:
            array = part.numpy()
            wanted = "<f4" if array.dtype.kind == "f" else "<i8"
            digest.update(np.ascontiguousarray(array, dtype=wanted).tobytes())
        return digest.hexdigest()

    def split(self, number: int, seed: int) -> tuple[Split, str | None]:
        """The given split of that number; where none is given one is drawn, and that is said.

        Returns:
            The split, and the sentence for the user if it was drawn.
        """
        if self.splits:
            if not 0 <= number < len(self.splits):
                raise ValueError(
                    f"{self.name} has {len(self.splits)} splits, numbered from 0: there is no "
                    f"split {number}"
                )
            return self.splits[number], None
        if number:
            raise ValueError(
                f"{self.name} has no splits of its own, so there is no split {number}: another "
                "seed draws another split"
            )
        known = (self.y >= 0).nonzero().flatten().numpy()
        if len(known) < len(SIXTY_TWENTY_TWENTY):
            raise ValueError(
                f"{self.name} has {len(known)} labelled nodes: too few for training, validation "
                "and test"
            )
        drawn = stratified_split(
            range(len(known)), self.y[known].numpy()[:, None], SIXTY_TWENTY_TWENTY, seed=seed
        )
        sentence = (
            f"no split is given: 60 % of the {len(known):,} labelled nodes were drawn for "
            f"training, 20 % for validation and 20 % for the test, by class, with seed {seed}"
        )
        return Split(*(known[rows] for _, rows in drawn.parts())), sentence

    def checked(self) -> NodeGraph:
        """What a training needs is there, or it is an error; nodes without a class leave splits."""
        if not int((self.y >= 0).sum()):
            raise ValueError(
                f"{self.name}: no node has a class, so there is nothing to learn; the column of "
                "the classes in a table is named by --label"
            )
        seen = self.y[self.y >= 0].unique()
        if seen.numel() == 1:
            raise ValueError(
                f"{self.name}: every labelled node is of the class "
                f"{self.classes[int(seen[0])]!r}, so there is nothing to learn"
            )
        known = self.y.numpy() >= 0
        splits = tuple(
            Split(*(rows[known[rows]] for _, rows in split.parts())) for split in self.splits
        )
        for number, split in enumerate(splits):
            for part, rows in split.parts():
                if not len(rows):
                    raise ValueError(
                        f"{self.name}: split {number} has no {part} nodes with a class; without "
                        "any split one is drawn"
                    )
        said = []
        if any(
            len(one) != len(other)
            for before, after in zip(self.splits, splits, strict=True)
            for (_, one), (_, other) in zip(before.parts(), after.parts(), strict=True)
        ):
            said.append("nodes without a class were left out of the parts they were given to")
        if lonely := self.num_nodes - int(self.edge_index.unique().numel()):
            have = "has" if lonely == 1 else "have"
            said.append(
                f"{lonely:,} of {self.num_nodes:,} nodes {have} no edge: features alone count there"
            )
        return replace(self, splits=splits, messages=(*self.messages, *said))


def undirected(
    source: Tensor, target: Tensor, num_nodes: int, weight: Tensor | None = None
) -> tuple[Tensor, Tensor | None, list[str]]:
    """Edges in both directions, each once, without loops; what was left out, in sentences.

    An edge may be given one way or both ways. Where it is given more than once its weights are
    averaged.

    >>> edges, _, said = undirected(torch.tensor([0, 1, 1]), torch.tensor([1, 0, 1]), 2)
    >>> edges.tolist(), said
    ([[0, 1], [1, 0]], ['1 self-loop was left out: a diffusion does not see it'])
    """
    said = []
    own = source == target
    if loops := int(own.sum()):
        left, it = ("self-loop was", "it") if loops == 1 else ("self-loops were", "them")
        said.append(f"{loops:,} {left} left out: a diffusion does not see {it}")
        source, target = source[~own], target[~own]
        weight = None if weight is None else weight[~own]
    ways = torch.unique(source * num_nodes + target).numel()
    if repeated := source.numel() - ways:
        rows = "edge is" if repeated == 1 else "edges are"
        said.append(f"{repeated:,} {rows} given more than once and counted once")
    low, high = torch.minimum(source, target), torch.maximum(source, target)
    key, place = torch.unique(low * num_nodes + high, return_inverse=True)
    low, high = key // num_nodes, key % num_nodes
    edge_index = torch.stack([torch.cat([low, high]), torch.cat([high, low])])
    if weight is None:
        return edge_index, None, said
    total = torch.zeros(key.numel(), dtype=torch.float64).index_add_(0, place, weight.double())
    mean = (total / torch.bincount(place, minlength=key.numel())).float()
    return edge_index, torch.cat([mean, mean]), said


def thin(x: Tensor) -> Tensor:
    """Features as they are multiplied fastest: sparse CSR where nearly all are 0, else dense."""
    if x.layout == torch.strided:
        share = float((x != 0).float().mean()) if x.numel() else 1.0
        return to_csr(x) if share < _SPARSE_SHARE else x
    share = x.values().numel() / max(1, x.shape[0] * x.shape[1])
    return x if share < _SPARSE_SHARE else x.to_dense()


def degree_features(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Of nodes that have no features: 1 and log(1 + number of neighbours) [N, 2]."""
    degree = torch.bincount(edge_index[1], minlength=num_nodes).float()
    return torch.stack([torch.ones(num_nodes), degree.log1p()], dim=1)


def as_classes(labels: list[str]) -> tuple[Tensor, tuple[str, ...]]:
    """Names of classes as numbers, −1 where the name is empty; numbers are sorted as numbers.

    >>> as_classes(["10", "", "9"])
    (tensor([ 1, -1,  0]), ('9', '10'))
    """
    names = sorted({label for label in labels if label}, key=_rank)
    place = {name: number for number, name in enumerate(names)}
    return torch.tensor([place.get(label, -1) for label in labels]), tuple(names)


def _rank(name: str) -> tuple[bool, float, str]:
    try:
        return False, float(name), name
    except ValueError:
        return True, 0.0, name
