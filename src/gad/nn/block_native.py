"""A block, or its filters alone, by compiled kernels: one step of autograd, forward and backward.

The order of the kernels is in ``block.c``; the plain twin is :class:`gad.nn.GADBlock` itself, which
does the same in separate steps of PyTorch.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import Structure, c_float, c_int64, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gad import native
from gad.nn.diffusion import Diffusion
from gad.operators import Eigenbasis, GraphOperators
from gad.operators.layouts import FlatBasis, Response
from gad.operators.schemes import Heat, ImplicitStep

if TYPE_CHECKING:
    from gad.nn.aggregation import DirectionalAggregation
    from gad.nn.norm import BatchNorm

# In the order of the enumeration in reduce.c.
_NAMES = ("mean", "max", "min", "sum", "std", "av", "dx")
# Weights and their gradients, in the order of both structures in block.c.
_FILTERS = ("source", "target", "own", "bias", "mix_bias", "mix")
_NORM = ("gain", "shift")
_LINEAR = ("V", "a", "W", "b")
_WEIGHTS = (*_FILTERS, *_NORM, *_LINEAR, "edge", "times")


def _pointers(*names: str) -> tuple[tuple[str, type[Any]], ...]:
    return tuple((name, c_void_p) for name in names)


def _numbers(*names: str) -> tuple[tuple[str, type[Any]], ...]:
    return tuple((name, c_int64) for name in names)


class _Graphs(Structure):
    _fields_ = (
        *_numbers("nodes", "edges", "slots"),
        *_pointers("count", "begin", "source", "reverse", "degree"),
        *_pointers("first", "norm", "first_sum", "norm_sum"),
        *_numbers("rows", "entries"),
        *_pointers("node", "row", "edge", "value", "row_sum"),
    )


class _Norm(Structure):
    _fields_ = (
        *_pointers("gain", "shift", "mean", "var"),
        *(("eps", c_float), ("momentum", c_float), ("training", c_int64)),
    )


class _Block(Structure):
    _fields_ = (
        *_pointers("graphs", "basis", "norm"),
        ("response", Response),
        *_numbers("channels", "towers", "aggregators", "scalers"),
        *_pointers("names", "scales", "factor", *_FILTERS, *_LINEAR, "edges", "edge"),
        *_numbers("edge_channels", "centre_is_node", "residual"),
        ("slope", c_float),
    )


class _Gradients(Structure):
    _fields_ = _pointers(*_WEIGHTS, "edges")


class _Layout:
    """A batch as the C code reads it, with the tensors its pointers point into."""

    def __init__(self, operators: GraphOperators) -> None:
        layout = operators.neighbours
        counts = layout.counts
        self.kept: dict[str, Tensor] = {
            "count": torch.tensor(counts, dtype=torch.int64),
            "begin": torch.tensor([0, *reversed(counts), operators.num_nodes]),
            "source": layout.source.to(torch.int32),
            "reverse": layout.reverse.to(torch.int32),
            "degree": layout.degree.to(torch.float32),
        }
        if operators.has_directions:
            field = vars(operators.jagged_field.to(torch.float32))
            self.kept |= {name: values.contiguous() for name, values in field.items()}
        sizes = {
            name: self.kept[name].numel() if name in self.kept else 0 for name in ("node", "value")
        }
        self.graphs = _Graphs(
            nodes=operators.num_nodes,
            edges=operators.num_edges,
            slots=len(counts),
            rows=sizes["node"],
            entries=sizes["value"],
            **{name: values.data_ptr() for name, values in self.kept.items()},
        )
        self.basis = operators.flat_basis if operators.has_basis else None
        self.factor = operators.inverse_root_size.to(torch.float32)


@dataclass(frozen=True)
class _Call:
    """What a block is made of, beside the tensors that have gradients."""

    layout: _Layout
    basis: FlatBasis | None
    power: int
    norm: BatchNorm | None
    aggregation: DirectionalAggregation
    scales: Tensor
    graph_norm: bool
    training: bool
    residual: bool
    slope: float

    def describe(self, edges: Tensor | None, weights: Sequence[Tensor | None]) -> _Block:
        """As the C code reads it."""
        norm, aggregation, names = self.norm, self.aggregation, self.aggregation.aggregators
        given = dict(zip(_WEIGHTS, map(native.address, weights), strict=True))
        gain, shift, times = (given.pop(name) for name in (*_NORM, "times"))
        block = _Block(
            graphs=native.address(self.layout.graphs),
            response=Response(times=times, power=self.power),
            channels=aggregation.channels,
            towers=aggregation.towers,
            aggregators=len(names),
            scalers=len(aggregation.scalers),
            scales=self.scales.data_ptr(),
            factor=self.layout.factor.data_ptr() if self.graph_norm else None,
            edges=native.address(edges),
            edge_channels=aggregation.edge_channels,
            centre_is_node=aggregation.dx_centre == "node",
            residual=self.residual,
            slope=self.slope,
            **given,
        )
        parts: dict[str, Any] = {"names": (c_int64 * len(names))(*map(_NAMES.index, names))}
        if self.basis is not None:
            parts["basis"] = self.basis.struct()
        if norm is not None:
            parts["norm"] = _Norm(
                gain, shift, norm.running_mean.data_ptr(), norm.running_var.data_ptr(),
                norm.eps, norm.momentum, self.training,
            )  # fmt: skip
        for name, part in parts.items():
            setattr(block, name, native.address(part))
        block.kept = (self, parts, weights)  # as long as it lives, so does what it points to
        return block


def suits(
    operators: GraphOperators,
    *tensors: Tensor | None,
    diffusion: Diffusion | None = None,
    norm: BatchNorm | None = None,
) -> bool:
    """Whether the compiled block can do this: float32 on a CPU, and an eigenbasis."""
    if diffusion is not None:
        kind = type(diffusion)
        usual = kind.forward is Diffusion.forward and kind.times is Diffusion.times
        known = type(diffusion.scheme) in (Heat, ImplicitStep)
        if not (usual and known and isinstance(diffusion.choose_solver(operators), Eigenbasis)):
            return False
        basis = operators.flat_basis
        tensors = (*tensors, diffusion.raw_times, basis.vectors, basis.mass)
    if norm is not None:
        tensors = (*tensors, norm.weight, norm.running_mean)
    return operators.num_nodes > 0 and native.usable(*tensors)


def block_natively(
    x: Tensor,
    operators: GraphOperators,
    edge_attr: Tensor | None,
    aggregation: DirectionalAggregation,
    *,
    diffusion: Diffusion | None = None,
    norm: BatchNorm | None = None,
    graph_norm: bool = False,
    across: nn.Linear | None = None,
    combine: nn.Linear | None = None,
    residual: bool = False,
    slope: float = 1.0,
) -> Tensor:
    """What :class:`gad.nn.GADBlock` gives, of the parts that are given: x [N, C] → [N, C]."""
    order, rank, given = (getattr(operators.neighbours, n) for n in ("order", "rank", "given"))
    if order is not None or given is not None:
        operators = operators.once("arranged", operators.arranged)
    layout = operators.once("native_layout", lambda: _Layout(operators))
    call = _Call(
        layout=layout,
        basis=None if diffusion is None else layout.basis,
        power=0 if diffusion is None else diffusion.scheme.power,
        norm=norm,
        aggregation=aggregation,
        scales=aggregation.scales_down_from(layout.graphs.slots),
        graph_norm=graph_norm,
        training=norm is not None and norm.training,
        residual=residual,
        slope=slope,
    )
    y: Tensor = _Step.apply(  # type: ignore[no-untyped-call]
        call,
        x if order is None else x.index_select(0, order),
        edge_attr if edge_attr is None or given is None else edge_attr.index_select(0, given),
        aggregation.source_weight, aggregation.target_weight, aggregation.own_weight,
        aggregation.bias, aggregation.mix_bias, aggregation.mix_weight,
        *((None, None) if norm is None else (norm.weight, norm.bias)),
        *((None, None) if across is None else (across.weight, across.bias)),
        *((None, None) if combine is None else (combine.weight, combine.bias)),
        aggregation.edge_weight,
        None if diffusion is None else diffusion.raw_times,
    )  # fmt: skip
    if call.training and norm is not None:
        norm.num_batches_tracked += 1
    return y if rank is None else y.index_select(0, rank)


class _Step(torch.autograd.Function):
    """All of it as one step."""

    @staticmethod
    def forward(
        ctx: Any, call: _Call, x: Tensor, edges: Tensor | None, *weights: Tensor | None
    ) -> Tensor:
        x, edges, *weights = (  # type: ignore[assignment]
            None if t is None else t.contiguous() for t in (x, edges, *weights)
        )
        block = call.describe(edges, weights)
        size = c_int64()
        native.call("block_size", block, ctypes.addressof(size))
        memory, y = x.new_empty(size.value), torch.empty_like(x)
        native.call("block_forward", block, x, memory, y)
        ctx.block = block
        ctx.save_for_backward(memory, edges, *weights)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        memory, edges, *weights = ctx.saved_tensors
        ctx.block.edges = native.address(edges)
        grad = grad.contiguous()
        grad_x = torch.empty_like(grad)
        grads = [None if t is None else torch.empty_like(t) for t in (*weights, edges)]
        native.call(
            "block_backward", ctx.block, grad, memory, torch.empty_like(memory), grad_x,
            _Gradients(*map(native.address, grads)),
        )  # fmt: skip
        return None, grad_x, grads.pop(), *grads
