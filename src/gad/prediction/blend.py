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
    that going down ``depth`` times ends in a leaf, whatever its depth. A row within ``soft`` of a
    threshold goes both ways, to the left by the share (threshold + soft − x) / (2 soft): what comes
    out is continuous, so that the rounding of what the origin reads, which depends on the order of
    atoms and on the batch, does not send a molecule elsewhere.

    Attributes:
        column, left, right: int64 [nodes] of all trees.
        threshold, value: float32 [nodes].
        root, output: int64 [T], the first node of each tree and the output that it adds to.
        start: float32 [W], to which the leaves are added.
        depth: of the deepest tree.
        soft: float32 [D], of each column; 0 for a plain step.
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
    soft: Tensor

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
            native.accepts(x, self.threshold, self.value, self.start, self.soft)
            and all(t.dtype is torch.int64 and t.is_cpu for t in places)
            and all(
                t.is_contiguous() for t in (*nodes, self.root, self.output, self.start, self.soft)
            )
            and len({len(t) for t in nodes}) == len({len(self.root), len(self.output)}) == 1
            and len(self.soft) == x.shape[1]
        )

    def _compiled(self, x: Tensor) -> Tensor:
        x, y = x.contiguous(), x.new_empty(len(x), len(self.start))
        native.call(
            "trees", *x.shape, x, len(self.value), self.column, self.left, self.right,
            self.threshold, self.value, len(self.root), self.root, self.output,
            len(self.start), self.start, int(self.depth), self.soft, y,
        )  # fmt: skip
        return y

    def _few(self, x: Tensor) -> Tensor:
        cells = x.t().contiguous().flatten()  # column by column
        row = torch.arange(len(x))
        node = self.root[:, None].expand(-1, len(x))
        near = torch.zeros_like(node, dtype=torch.bool)
        for _ in range(int(self.depth)):
            column = self.column[node]
            over = cells[column * len(x) + row] - self.threshold[node]
            near |= over.abs() < self.soft[column]
            node = torch.where(over <= 0, self.left[node], self.right[node])
        leaves = self.value[node]
        tree, at = near.nonzero(as_tuple=True)
        leaves[tree, at] = self._shared(x, at, self.root[tree])
        added = x.new_zeros(len(self.start), len(x)).index_add(0, self.output, leaves)
        return self.start + added.T

    def _shared(self, x: Tensor, rows: Tensor, node: Tensor) -> Tensor:
        """The leaves of some rows of x, each from its node on, by their shares."""
        pair, share = torch.arange(len(rows)), x.new_ones(len(rows))
        for _ in range(int(self.depth)):
            column = self.column[node]
            over, soft = x[rows[pair], column] - self.threshold[node], self.soft[column]
            left = torch.where(over.abs() < soft, 0.5 - 0.5 * over / soft, (over <= 0).to(x.dtype))
            to_left, to_right = left > 0, left < 1
            node = torch.cat([self.left[node[to_left]], self.right[node[to_right]]])
            share = torch.cat([(share * left)[to_left], (share * (1 - left))[to_right]])
            pair = torch.cat([pair[to_left], pair[to_right]])
        return x.new_zeros(len(rows)).index_add(0, pair, share * self.value[node])


@dataclass(frozen=True, eq=False)
class Kernel:
    """A Gaussian kernel around M training molecules: rows [n, D] to outputs [n, W].

        weight k + bias,    k_c = exp(−|z − z_c|² / D'),

    with z the D' columns that are read, standardised, held within ±5 and multiplied by how much
    they count.

    Attributes:
        column: int64 [D'], which are read.
        mean, rate: [D'] of them; rate is 1 / standard deviation, 0 for a column that is constant.
        scale: [D'], how much each counts.
        centres: [M, D'], z of the training molecules, in half precision.
        weight, bias: [W, M] and [W].
    """

    column: Tensor
    mean: Tensor
    rate: Tensor
    scale: Tensor
    centres: Tensor
    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Outputs [n, W] of rows x [n, D], in double precision.

        Single precision would round by 10⁻⁶, otherwise in another batch.
        """
        close = near(self.standardise(x).double(), self.centres)
        return close @ self.weight.double().T + self.bias

    def standardise(self, x: Tensor) -> Tensor:
        """The columns that are read of rows x [n, D], standardised and scaled: z [n, D']."""
        return x[:, self.column].sub(self.mean).mul(self.rate).clamp(-5, 5).mul(self.scale)


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
        # Copies: where numbers begin in memory, which a file decides, changes the last bit of sums.
        prefix = f"{number}.{kind}."
        return {
            k.removeprefix(prefix): t.clone() for k, t in tensors.items() if k.startswith(prefix)
        }

    # Older files have plain steps, and columns that count alike.
    trees, kernel = {"soft": torch.zeros(width)} | under("trees"), under("kernel")
    kernel = {"scale": torch.ones_like(kernel["rate"])} | kernel
    blend = Blend(Trees(**trees), Kernel(**kernel), tensors[f"{number}.{_SHARES}"])
    _check(blend, width)
    return blend


def _check(blend: Blend, width: int) -> None:
    """Refuse trees that lead out of themselves: a file may say anything."""
    trees, nodes = blend.trees, blend.trees.value.numel()
    places = (
        (trees.left, nodes),
        (trees.right, nodes),
        (trees.root, nodes),
        (trees.output, trees.start.numel()),
        (trees.column, width),
        (blend.kernel.column, width),
    )
    sound = (
        all(bool(((at >= 0) & (at < end)).all()) for at, end in places)
        and {t.shape for t in (trees.left, trees.right, trees.column)} == {(nodes,)}
        and trees.soft.shape == (width,)
        and 0 <= int(trees.depth) <= 64
        and _one_way(trees)
    )
    if not sound:
        raise ValueError("the trees of the blend are damaged")


def _one_way(trees: Trees) -> bool:
    """Whether one way leads to every node: rows that go both ways would else never arrive."""
    here = torch.arange(len(trees.left))
    ways = torch.cat([way[way != here] for way in (trees.left, trees.right)])
    return int(torch.bincount(ways, minlength=1).max()) <= 1
