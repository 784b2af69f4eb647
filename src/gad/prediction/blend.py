"""What stands beside the network: boosted trees and a kernel machine, as plain numbers.

The network learns to read the graph; trees read Morgan counts, quick descriptors and what the base
reads of a molecule, and a kernel machine compares the latter with that of training molecules. They
err differently, so a weighted mean of the three is better than each, above all on small tables:

    output = w₀ network + w₁ trees + w₂ kernel,    Σ w = 1,

in units of what is learned: standardised values, or logits. The weights are chosen on rows that
none of the three was trained on (:mod:`gad.training.blending`).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gad import native
from gad.nn import GAD
from gad.nn.model import NoHead
from gad.prediction.model_file import Model, Part

PART, ORIGIN = "blend", "origin"
"""The names under which a model file keeps the blend, and the network training started from."""

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
class Kernel:
    """A Gaussian kernel around M training molecules: rows [n, D] to outputs [n, W].

        weight k + bias,    k_c = exp(−|z − z_c|² / D'),

    with z the D' columns that are read, standardised and held within ±5.

    Attributes:
        column: int64 [D'], which are read.
        mean, rate: [D'] of them; rate is 1 / standard deviation, 0 for a column that is constant.
        centres: [M, D'], z of the training molecules, in half precision.
        weight, bias: [W, M] and [W].
    """

    column: Tensor
    mean: Tensor
    rate: Tensor
    centres: Tensor
    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Outputs [n, W] of rows x [n, D]."""
        return near(self.standardise(x), self.centres) @ self.weight.T + self.bias

    def standardise(self, x: Tensor) -> Tensor:
        """The columns that are read of rows x [n, D], standardised: z [n, D']."""
        return x[:, self.column].sub(self.mean).mul(self.rate).clamp(-5, 5)


def near(z: Tensor, centres: Tensor) -> Tensor:
    """exp(−|z − z_c|² / D') for every row and centre: [n, M]."""
    centres = centres.to(z.dtype)
    apart = z.square().sum(1)[:, None] + centres.square().sum(1) - 2 * z @ centres.T
    return apart.clamp(min=0).div(-max(z.shape[1], 1)).exp()


@dataclass(frozen=True, eq=False)
class Blend:
    """What stands beside one network.

    Attributes:
        trees, kernel: of all targets.
        shares: [3, W], how much network, trees and kernel count in each output.
    """

    trees: Trees
    kernel: Kernel
    shares: Tensor

    def beside(self, x: Tensor) -> Tensor:
        """What trees and kernel add to the network's share, by :func:`columns`: [n, W]."""
        return (self.shares[1] * self.trees(x) + self.shares[2] * self.kernel(x)).to(torch.float64)

    def __call__(self, network: Tensor, x: Tensor) -> Tensor:
        """The blended outputs [n, W], by the network's."""
        return self.shares[0] * network.to(torch.float64) + self.beside(x)


def columns(counts: Tensor, values: Tensor, read: Tensor | None = None) -> Tensor:
    """What trees and kernel read: log(1 + count), values, what the origin reads; float32 [n, D].

    Args:
        counts: Morgan counts, uint8 [n, 1024].
        values: whole-molecule values as they are, [n, V].
        read: by the network that training started from, [n, R]; None if it started from scratch.
    """
    parts = [torch.log1p(counts.to(torch.float32)), values.to(torch.float32)]
    return torch.cat(parts if read is None else [*parts, read.to(torch.float32)], dim=1)


def origin_part(origin: GAD) -> Part:
    """The network that training started from, as a model file keeps it: its weights but the head's.

    They are halved where nothing is lost by it, as with those of the base, which are kept in half
    precision.
    """
    weights = {k: t for k, t in origin.state_dict().items() if not k.startswith("head.")}
    return Part({}, {k: t.half() if _fits_half(t) else t for k, t in weights.items()})


def _fits_half(weights: Tensor) -> bool:
    return weights.dtype is torch.float32 and torch.equal(weights.half().float(), weights)


def origin_of(model: Model) -> GAD | None:
    """That network, which reads molecules as before training; None where a file has none."""
    part = model.parts.get(ORIGIN)
    if part is None:
        return None
    origin = copy.deepcopy(model.members[0])
    origin.head, origin.readout, origin.graph_channels = NoHead(), "all", 0
    origin.load_state_dict(part.tensors)
    return origin


def to_part(blends: Sequence[Blend], width: int) -> Part:
    """The blends of all members, which read so many columns, as a model file keeps them."""
    tensors: dict[str, Tensor] = {}
    for number, blend in enumerate(blends):
        tensors[f"{number}.{_SHARES}"] = blend.shares
        for kind in ("trees", "kernel"):
            own = vars(getattr(blend, kind))
            tensors |= {f"{number}.{kind}.{name}": tensor for name, tensor in own.items()}
    return Part({"members": len(blends), "columns": width}, tensors)


def blends_of(model: Model) -> list[Blend | None]:
    """What stands beside each of a model's networks; None where it has no blend."""
    part = model.parts.get(PART)
    if part is None:
        return [None] * len(model.members)
    width = int(part.settings["columns"])
    return [_read(part.tensors, number, width) for number in range(len(model.members))]


def _read(tensors: Mapping[str, Tensor], number: int, width: int) -> Blend:
    def under(kind: str) -> dict[str, Tensor]:
        prefix = f"{number}.{kind}."
        return {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}

    blend = Blend(
        Trees(**under("trees")), Kernel(**under("kernel")), tensors[f"{number}.{_SHARES}"]
    )
    _check(blend, width)
    return blend


def _check(blend: Blend, width: int) -> None:
    """Refuse trees that lead out of themselves: a file may say anything."""
    trees, nodes = blend.trees, blend.trees.value.numel()
    inside = all(
        bool(((places >= 0) & (places < end)).all())
        for places, end in (
            (trees.left, nodes),
            (trees.right, nodes),
            (trees.root, nodes),
            (trees.output, trees.start.numel()),
            (trees.column, width),
            (blend.kernel.column, width),
        )
    )
    if not inside or not 0 <= int(trees.depth) <= 64:
        raise ValueError("the trees of the blend are damaged")
