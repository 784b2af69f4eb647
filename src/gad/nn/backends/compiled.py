"""A block, or its filters alone, in one call into C (:mod:`gad.native`) and one step of autograd.

The definitions are :class:`gad.nn.GADBlock` and :class:`gad.nn.DirectionalAggregation`. C is taken
only where it must give the same numbers (:mod:`gad.nn.backends.gate`). Everything else is declined:
the functions here then return None.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int64
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gad import native
from gad.native import bindings
from gad.nn.backends.gate import POWERS, accepts_parts, accepts_sizes, part, weights_of
from gad.operators import GraphOperators
from gad.operators.derivatives import without_kernels
from gad.operators.layouts import Neighbours

if TYPE_CHECKING:
    from gad.nn.aggregation import DirectionalAggregation
    from gad.nn.block import GADBlock

# Up to this degree nodes are grouped by every degree there could be, which is known at once; beyond
# by those there are, at most √(2E).
_MOST_SLOTS = 32


def try_filters(
    aggregation: DirectionalAggregation,
    h: Tensor,
    operators: GraphOperators,
    edge_attr: Tensor | None,
) -> Tensor | None:
    """What the filters give, h [N, C] → [N, C], or None where C must not be used."""
    if not native.accepts(h, edge_attr):
        return None
    return _run(aggregation, None, h, operators, edge_attr)


def try_block(
    block: GADBlock, x: Tensor, operators: GraphOperators, edge_attr: Tensor | None
) -> Tensor | None:
    """What a block gives, up to dropout if it drops, or None where C must not be used."""
    if not native.accepts(x, edge_attr) or not accepts_parts(block, operators):
        return None
    return _run(part(block, "aggregation"), block, x, operators, edge_attr)


# ---------------------------------------------------------------- a batch as C reads it


class _Layout:
    """A batch as the kernels read it: nodes by decreasing degree, edges slot by slot."""

    def __init__(self, operators: GraphOperators) -> None:
        given = operators.neighbours
        self.order, self.rank, self.given = given.order, given.rank, given.given
        operators = operators if given.arranged else operators.arranged()
        layout = operators.neighbours
        self.degrees, begin = _groups(layout)
        tensors = {
            "source": layout.source.to(torch.int32),
            "reverse": layout.reverse.to(torch.int32),
            "degree": layout.degree.to(torch.float32),
        }
        if operators.has_directions:
            tensors |= _field(operators)
        self.graphs = bindings.struct(
            bindings.Graphs,
            nodes=operators.num_nodes,
            edges=operators.num_edges,
            slots=len(layout.counts),
            groups=len(self.degrees),
            count=bindings.integers(layout.counts),
            begin=bindings.integers(begin),
            rows=tensors["node"].numel() if "node" in tensors else 0,
            entries=tensors["value"].numel() if "value" in tensors else 0,
            **tensors,
        )
        self.basis = operators.flat_basis.struct() if operators.has_basis else None
        self.factor = operators.inverse_root_size.to(torch.float32)


def _groups(layout: Neighbours) -> tuple[tuple[int, ...], list[int]]:
    """The degrees of the groups of nodes, the highest first, and where each begins, and the end."""
    nodes, slots = layout.degree.numel(), len(layout.counts)
    if slots <= _MOST_SLOTS:
        return tuple(range(slots, -1, -1)), [0, *reversed(layout.counts), nodes]
    degrees, counts = layout.degree.unique_consecutive(return_counts=True)
    return tuple(degrees.tolist()), [0, *counts.cumsum(0).tolist()]


def _field(operators: GraphOperators) -> dict[str, Tensor]:
    """The field on arranged edges, its sums into nodes, and the directions after the first."""
    first, norm = (values.to(torch.float32).contiguous() for values in operators.need_field())
    node, row, edge, value = operators.other_directions
    value = value.to(torch.float32).contiguous()
    return {
        "first": first,
        "norm": norm,
        "first_sum": operators.sum_edges(first),
        "norm_sum": operators.sum_edges(norm),
        "node": node,
        "row": row,
        "edge": edge,
        "value": value,
        "row_sum": value.new_zeros(node.numel()).index_add_(0, row, value),
    }


def _layout(operators: GraphOperators) -> _Layout | None:
    """The layout, or None where the kernels cannot read these operators."""
    readable = operators.device.type == "cpu" and operators.num_nodes > 0 and operators.well_formed
    return _Layout(operators) if readable else None


@lru_cache(maxsize=256)
def _scales(scalers: tuple[str, ...], delta: float, degrees: tuple[int, ...]) -> Tensor:
    """The scalers of these degrees [S, G]."""
    from gad.nn.aggregation import scales

    with torch.inference_mode(False):
        return scales(scalers, torch.tensor(degrees), torch.tensor(delta)).contiguous()


# ---------------------------------------------------------------- one step of autograd


@dataclass(frozen=True)
class _Call:
    """A block as it was when it was called, beside the tensors that have gradients.

    ``norm`` are the running mean and variance, ε, momentum, and whether it is training.
    """

    layout: _Layout
    scales: Tensor
    sizes: tuple[int, int, int, int]
    names: ctypes.Array[c_int64]
    edge_channels: int
    centre_is_node: bool
    message_slope: float
    slope: float = 0.0
    residual: bool = False
    graph_norm: bool = False
    power: int = 0
    norm: tuple[Tensor, Tensor, float, float, bool] | None = None

    @staticmethod
    def of(layout: _Layout, filters: DirectionalAggregation, block: GADBlock | None) -> _Call:
        """Everything but the weights, which backward passes are given once more."""
        alone = (
            layout,
            _scales(filters.scalers, float(part(filters, "delta")), layout.degrees),
            (filters.channels, filters.towers, len(filters.aggregators), len(filters.scalers)),
            bindings.numbers_of(filters.aggregators),
            filters.edge_channels,
            filters.dx_centre == "node",
            filters.slope,
        )
        if block is None:
            return _Call(*alone)
        diffusion, norm = part(block, "diffusion"), part(block, "norm")
        power = 0 if diffusion is None else POWERS[type(diffusion.scheme)]
        statistics = None
        if norm is not None:
            mean, var = part(norm, "running_mean"), part(norm, "running_var")
            statistics = mean, var, norm.eps, norm.momentum, norm.training
        residual = block.residual and not block.drops
        return _Call(*alone, block.slope, residual, block.graph_norm, power, statistics)

    @property
    def follows(self) -> bool:
        """Whether the norm is one of the batch itself."""
        return self.norm is not None and self.norm[-1]

    def describe(self, edges: Tensor | None, weights: Sequence[Tensor | None]) -> bindings.Block:
        """As the kernels read it; the tensors must live as long as it is used."""
        layout = self.layout
        at = [None if weight is None else weight.data_ptr() for weight in weights]
        gain, shift, times = at[6], at[7], at[13]
        norm = None
        if self.norm is not None:
            mean, var, *rest = self.norm
            norm = bindings.Norm(gain, shift, mean.data_ptr(), var.data_ptr(), *rest)
        made = bindings.Block(
            ctypes.addressof(layout.graphs),
            ctypes.addressof(layout.basis) if self.power and layout.basis is not None else None,
            None if norm is None else ctypes.addressof(norm),
            bindings.Response(None, times, self.power),
            *self.sizes,
            ctypes.addressof(self.names),
            self.scales.data_ptr(),
            layout.factor.data_ptr() if self.graph_norm else None,
            *at[:6],
            *at[8:12],
            None if edges is None else edges.data_ptr(),
            at[12],
            self.edge_channels,
            self.centre_is_node,
            self.residual,
            self.slope,
            self.message_slope,
        )
        made.kept = norm
        return made


def _run(
    filters: DirectionalAggregation,
    block: GADBlock | None,
    x: Tensor,
    operators: GraphOperators,
    edge_attr: Tensor | None,
) -> Tensor | None:
    if not accepts_sizes(filters, x, operators, edge_attr):
        return None
    weights = weights_of(filters, block)
    if weights is None:
        return None
    layout = operators.once("compiled_layout", lambda: _layout(operators))
    if layout is None:
        return None
    call = _Call.of(layout, filters, block)
    order, given = layout.order, None if edge_attr is None else layout.given
    x = x if order is None else x.index_select(0, order)
    edges = edge_attr if edge_attr is None or given is None else edge_attr.index_select(0, given)
    learns = torch.is_grad_enabled() and any(
        t is not None and t.requires_grad for t in (x, edges, *weights)
    )
    if learns or call.follows:
        y: Tensor = _Step.apply(call, x, edges, *weights)  # type: ignore[no-untyped-call]
    else:
        y = _infer(call, x, edges, weights)
    norm = None if block is None else part(block, "norm")
    if norm is not None and norm.training and norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    return y if layout.rank is None else y.index_select(0, layout.rank)


def _contiguous(*tensors: Tensor | None) -> list[Any]:
    return [None if tensor is None else tensor.contiguous() for tensor in tensors]


def _in_c(name: str, block: bindings.Block, x: Tensor) -> tuple[Tensor, Tensor]:
    """What a kernel makes of x, and the memory it worked in."""
    size = c_int64()
    native.call(f"{name}_size", block, ctypes.addressof(size))
    memory, y = x.new_empty(size.value), torch.empty_like(x)
    native.call(name, block, x, memory, y)
    return y, memory


def _infer(
    call: _Call, x: Tensor, edges: Tensor | None, weights: Sequence[Tensor | None]
) -> Tensor:
    """The values alone, where nobody asks for gradients: quicker, and in less memory."""
    x, edges, *weights = _contiguous(x, edges, *weights)
    return _in_c("block_infer", call.describe(edges, weights), x)[0]


class _Step(torch.autograd.Function):
    """All of it as one step."""

    @staticmethod
    def forward(
        ctx: Any, call: _Call, x: Tensor, edges: Tensor | None, *weights: Tensor | None
    ) -> Tensor:
        x, edges, *kept = _contiguous(x, edges, *weights)
        y, memory = _in_c("block_forward", call.describe(edges, kept), x)
        ctx.call = call
        ctx.save_for_backward(memory, edges, *kept)
        return y

    @staticmethod
    @without_kernels
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        memory, edges, *weights = ctx.saved_tensors
        grad = grad.contiguous()
        grad_x = torch.empty_like(grad)
        grads = [None if t is None else torch.empty_like(t) for t in (*weights, edges)]
        found = bindings.Gradients(*(None if t is None else t.data_ptr() for t in grads))
        native.call(
            "block_backward", ctx.call.describe(edges, weights), grad, memory,
            torch.empty_like(memory), grad_x, found,
        )  # fmt: skip
        return None, grad_x, grads[-1], *grads[:-1]
