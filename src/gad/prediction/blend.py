"""A model of descriptors beside the network: boosted trees and a linear model, as plain numbers.

A network reads the graph; trees and a linear model read Morgan counts and quick descriptors. They
err differently, so a weighted mean of the three is better than each, above all on small tables:

    output = w₀ network + w₁ trees + w₂ linear,    Σ w = 1,

in units of what is learned: standardised values, or logits. The weights are chosen on rows that
none of the three was trained on (:mod:`gad.training.blending`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gad import native
from gad.prediction.model_file import Model, Part

PART = "blend"
"""The name under which a model file keeps it."""

_SHARES = "shares"
_FEW = 128


@dataclass(frozen=True, eq=False)
class Trees:
    """T regression trees over D columns, whose leaves add up to W outputs.

    A node sends a row to the left where ``x[column] ≤ threshold``; a leaf sends it to itself, so
    that going down ``depth`` times ends in a leaf, whatever its depth.

    Attributes:
        column, left, right: int64 [nodes] of all trees.
        threshold, value: float32 [nodes].
        root, output: int64 [T], the first node of each tree and the output that it adds to.
        start: float32 [W], to which the leaves are added.
        depth: of the deepest tree.
    """

    column: Tensor
    left: Tensor
    right: Tensor
    threshold: Tensor
    value: Tensor
    root: Tensor
    output: Tensor
    start: Tensor
    depth: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Outputs [n, W] of rows x [n, D]."""
        if self._accepts(x):
            return self._compiled(x)
        # A few rows at a time: the places in all trees stay in the processor's cache.
        return torch.cat([self._few(rows) for rows in x.split(_FEW)]) if len(x) else x[:, :0]

    def _accepts(self, x: Tensor) -> bool:
        """Whether the compiled kernel gives the same; whether all places exist it sees itself."""
        nodes = (self.column, self.left, self.right, self.threshold, self.value)
        places = (self.column, self.left, self.right, self.root, self.output)
        return (
            native.accepts(x, self.threshold, self.value, self.start)
            and all(t.dtype is torch.int64 and t.is_cpu for t in places)
            and all(t.is_contiguous() for t in (*nodes, self.root, self.output, self.start))
            and len({len(t) for t in nodes}) == len({len(self.root), len(self.output)}) == 1
        )

    def _compiled(self, x: Tensor) -> Tensor:
        x, y = x.contiguous(), x.new_empty(len(x), len(self.start))
        native.call(
            "trees", *x.shape, x, len(self.value), self.column, self.left, self.right,
            self.threshold, self.value, len(self.root), self.root, self.output,
            len(self.start), self.start, int(self.depth), y,
        )  # fmt: skip
        return y

    def _few(self, x: Tensor) -> Tensor:
        cells = x.t().contiguous().flatten()  # column by column
        row = torch.arange(len(x))
        node = self.root[:, None].expand(-1, len(x))
        for _ in range(int(self.depth)):
            low = cells[self.column[node] * len(x) + row] <= self.threshold[node]
            node = torch.where(low, self.left[node], self.right[node])
        added = x.new_zeros(len(self.start), len(x)).index_add(0, self.output, self.value[node])
        return self.start + added.T


@dataclass(frozen=True, eq=False)
class Line:
    """weight x + bias of standardised columns, held within ±10: [n, D] → [n, W].

    Attributes:
        mean, rate: [D]; rate is 1 / standard deviation, 0 for a column that is constant.
        weight, bias: [W, D] and [W].
    """

    mean: Tensor
    rate: Tensor
    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Outputs [n, W] of rows x [n, D]."""
        return self.standardise(x) @ self.weight.T + self.bias

    def standardise(self, x: Tensor) -> Tensor:
        """The columns as the weights know them."""
        return x.sub(self.mean).mul(self.rate).clamp(-10, 10)


@dataclass(frozen=True, eq=False)
class Blend:
    """What stands beside one network.

    Attributes:
        trees: of all targets.
        line: of all targets.
        shares: [3, W], how much network, trees and line count in each output.
    """

    trees: Trees
    line: Line
    shares: Tensor

    def beside(self, counts: Tensor, values: Tensor) -> Tensor:
        """What trees and line add to the network's share: [n, W].

        Args:
            counts: Morgan counts, uint8 [n, 1024].
            values: whole-molecule values as they are, [n, V].
        """
        x = columns(counts, values)
        return (self.shares[1] * self.trees(x) + self.shares[2] * self.line(x)).to(torch.float64)

    def __call__(self, network: Tensor, counts: Tensor, values: Tensor) -> Tensor:
        """The blended outputs [n, W], by the network's."""
        return self.shares[0] * network.to(torch.float64) + self.beside(counts, values)


def columns(counts: Tensor, values: Tensor) -> Tensor:
    """What the models of descriptors read: log(1 + count), then the values; float32 [n, D]."""
    return torch.cat([torch.log1p(counts.to(torch.float32)), values.to(torch.float32)], dim=1)


def to_part(blends: Sequence[Blend]) -> Part:
    """The blends of all members, as a model file keeps them."""
    tensors: dict[str, Tensor] = {}
    for number, blend in enumerate(blends):
        tensors[f"{number}.{_SHARES}"] = blend.shares
        for kind in ("trees", "line"):
            own = vars(getattr(blend, kind))
            tensors |= {f"{number}.{kind}.{name}": tensor for name, tensor in own.items()}
    return Part({"members": len(blends)}, tensors)


def blends_of(model: Model) -> list[Blend | None]:
    """What stands beside each of a model's networks; None where it has no blend."""
    part = model.parts.get(PART)
    if part is None:
        return [None] * len(model.members)
    return [_read(part.tensors, number) for number in range(len(model.members))]


def _read(tensors: Mapping[str, Tensor], number: int) -> Blend:
    def under(kind: str) -> dict[str, Tensor]:
        prefix = f"{number}.{kind}."
        return {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}

    blend = Blend(Trees(**under("trees")), Line(**under("line")), tensors[f"{number}.{_SHARES}"])
    _check(blend)
    return blend


def _check(blend: Blend) -> None:
    """Refuse trees that lead out of themselves: a file may say anything."""
    trees, nodes = blend.trees, blend.trees.value.numel()
    inside = all(
        bool(((places >= 0) & (places < end)).all())
        for places, end in (
            (trees.left, nodes),
            (trees.right, nodes),
            (trees.root, nodes),
            (trees.output, trees.start.numel()),
            (trees.column, blend.line.mean.numel()),
        )
    )
    if not inside or not 0 <= int(trees.depth) <= 64:
        raise ValueError("the trees of the blend are damaged")
