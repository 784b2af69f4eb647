"""A block, or its filters alone, in one call into C (:mod:`gad.native`) and one step of autograd.

The definitions are :class:`gad.nn.GADBlock` and :class:`gad.nn.DirectionalAggregation`. C is taken
only where it must give the same numbers: every part is exactly of the type it was made with and
nothing hangs on it (hooks, parametrisations, adapters), and every tensor is an ordinary one of
float32 on the CPU, of the size the kernels expect. Everything else is declined: the functions here
then return None.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int64
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as module_hooks

from gad import native
from gad import nn as gad_nn
from gad.native import bindings
from gad.operators import Eigenbasis, GraphOperators
from gad.operators.derivatives import without_kernels
from gad.operators.schemes import Heat, ImplicitStep

if TYPE_CHECKING:
    from gad.nn.aggregation import DirectionalAggregation
    from gad.nn.block import GADBlock
    from gad.nn.diffusion import Diffusion

# r' = −λ r^power: how the kernels know a scheme.
_POWERS = {Heat: 1, ImplicitStep: 2}
# Beyond this degree the slots become too many and too short, and the weights by degree too many.
_MOST_SLOTS = 32
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_EVERYWHERE = [getattr(module_hooks, f"_global{name}") for name in _HOOKS]
_LINEAR = nn.Linear.forward


def try_filters(
    aggregation: DirectionalAggregation,
    h: Tensor,
    operators: GraphOperators,
    edge_attr: Tensor | None,
) -> Tensor | None:
    """What the filters give, h [N, C] → [N, C], or None where C must not be used."""
    return _run(aggregation, None, h, operators, edge_attr)


def try_block(
    block: GADBlock, x: Tensor, operators: GraphOperators, edge_attr: Tensor | None
) -> Tensor | None:
    """What a block gives, up to dropout if it drops, or None where C must not be used."""
    if not native.accepts(x, edge_attr) or not _accepts_parts(block, operators):
        return None
    return _run(block.aggregation, block, x, operators, edge_attr)


# ---------------------------------------------------------------- the gate


def _accepts_parts(block: GADBlock, operators: GraphOperators) -> bool:
    """Whether a block and its parts are exactly what they were made as."""
    norm, diffusion = block.norm, block.diffusion
    return (
        type(block) is gad_nn.GADBlock
        and "normed_filters" not in vars(block)
        and (block.combine is None) == (diffusion is None)
        and _is_bare(block.aggregation, gad_nn.DirectionalAggregation)
        and _is_bare(block.across_towers, nn.Linear)
        and (block.combine is None or _is_bare(block.combine, nn.Linear))
        and nn.Linear.forward is _LINEAR
        and (norm is None or (_is_bare(norm, gad_nn.BatchNorm) and _accepts_norm(norm)))
        and (diffusion is None or _accepts_diffusion(diffusion, operators))
        and not any(_EVERYWHERE)
    )


def _is_bare(module: nn.Module, *kinds: type[nn.Module]) -> bool:
    """Whether a module is exactly of this type and calling it does nothing but its forward."""
    own = vars(module)
    return (
        type(module) in kinds
        and not any(own[name] for name in _HOOKS)
        and not own["_modules"]
        and "forward" not in own
        and own.get("_compiled_call_impl") is None
    )


def _accepts_norm(norm: gad_nn.BatchNorm) -> bool:
    mean, var = norm.running_mean, norm.running_var
    return (
        norm.track_running_stats
        # Statistics over several processes are not the kernels' business.
        and not (norm.training and norm.share is not None)
        and isinstance(norm.momentum, float)
        and mean is not None
        and var is not None
        and mean.shape == var.shape == norm.weight.shape
        and native.accepts(mean, var)
        # They are followed in place, so a copy would not do.
        and mean.is_contiguous()
        and var.is_contiguous()
    )


def _accepts_diffusion(diffusion: Diffusion, operators: GraphOperators) -> bool:
    kinds = (gad_nn.Diffusion, gad_nn.ImplicitDiffusion, gad_nn.SpectralDiffusion)
    return (
        _is_bare(diffusion, *kinds)
        and "choose_solver" not in vars(diffusion)
        and type(diffusion.scheme) in _POWERS
        and not vars(diffusion.scheme)
        and type(diffusion.choose_solver(operators)) is Eigenbasis
        and operators.has_basis
    )


def _has_shape(tensor: Tensor | None, shape: tuple[int, ...] | None) -> bool:
    return (None if tensor is None else tensor.shape) == shape


def _weights(
    filters: DirectionalAggregation, block: GADBlock | None
) -> dict[str, tuple[Tensor | None, tuple[int, ...] | None]]:
    """Every weight with the shape it must have (None: it must not be there), in C's order."""
    C, T, D = filters.channels, filters.towers, filters.edge_channels
    w, rows, columns = C // T, len(filters.scalers), len(filters.aggregators)
    found: dict[str, tuple[Tensor | None, tuple[int, ...] | None]] = {
        "source": (filters.source_weight, (T, w, w)),
        "target": (filters.target_weight, (T, w, w)),
        "own": (filters.own_weight, (T, w, w)),
        "bias": (filters.bias, (C,)),
        "mix_bias": (filters.mix_bias, (C,)),
        "mix": (filters.mix_weight, (T, rows * w, columns * w)),
        "edge_weight": (filters.edge_weight, (C, D) if D else None),
    }
    if block is not None:
        found |= {
            "across": (block.across_towers.weight, (C, C)),
            "across_bias": (block.across_towers.bias, (C,)),
        }
        if block.norm is not None:
            found |= {"gain": (block.norm.weight, (C,)), "shift": (block.norm.bias, (C,))}
        if block.diffusion is not None and block.combine is not None:
            found |= {
                "combine": (block.combine.weight, (C, 2 * C)),
                "combine_bias": (block.combine.bias, (C,)),
                "times": (block.diffusion.raw_times, (C,)),
            }
    return {name: found.get(name, (None, None)) for name in bindings.WEIGHTS}


def _accepts_sizes(
    filters: DirectionalAggregation, x: Tensor, operators: GraphOperators, edges: Tensor | None
) -> bool:
    """Whether inputs, names and δ are what the kernels know."""
    directional = {"av", "dx"} & set(filters.aggregators)
    return (
        type(filters) is gad_nn.DirectionalAggregation
        and not filters._modules
        and set(filters.aggregators) <= set(bindings.AGGREGATORS)
        and (operators.has_directions or not directional)
        and x.shape == (operators.num_nodes, filters.channels)
        and (edges is None) == (filters.edge_channels == 0)
        and (edges is None or edges.shape == (operators.num_given_edges, filters.edge_channels))
        and _has_shape(filters.delta, ())
        and not filters.delta.requires_grad
    )


# ---------------------------------------------------------------- a batch as C reads it


class _Layout:
    """A batch as the kernels read it: nodes by decreasing degree, edges slot by slot."""

    def __init__(self, operators: GraphOperators) -> None:
        given = operators.neighbours
        self.order, self.rank, self.given = given.order, given.rank, given.given
        operators = operators if given.arranged else operators.arranged()
        layout = operators.neighbours
        self.slots = len(layout.counts)
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
            slots=self.slots,
            count=bindings.integers(layout.counts),
            begin=bindings.integers([0, *reversed(layout.counts), operators.num_nodes]),
            rows=tensors["node"].numel() if "node" in tensors else 0,
            entries=tensors["value"].numel() if "value" in tensors else 0,
            **tensors,
        )
        self.basis = operators.flat_basis.struct() if operators.has_basis else None
        self.factor = operators.inverse_root_size.to(torch.float32)


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
    readable = (
        operators.device.type == "cpu"
        and operators.num_nodes > 0
        and operators.well_formed
        and len(operators.neighbours.counts) <= _MOST_SLOTS
    )
    return _Layout(operators) if readable else None


@lru_cache(maxsize=256)
def _scales(scalers: tuple[str, ...], delta: float, highest: int) -> Tensor:
    """The scalers of the degrees from the highest down to 0 [S, D + 1]."""
    from gad.nn.aggregation import scales

    with torch.inference_mode(False):
        return scales(scalers, torch.arange(highest, -1, -1), torch.tensor(delta)).contiguous()


# ---------------------------------------------------------------- one step of autograd


@dataclass(frozen=True)
class _Call:
    """A block as it was when it was called, beside the tensors that have gradients."""

    fixed: dict[str, Any]
    norm: dict[str, Any] | None
    power: int

    @staticmethod
    def of(layout: _Layout, filters: DirectionalAggregation, block: GADBlock | None) -> _Call:
        """Everything but the weights, which backward passes are given once more."""
        fixed: dict[str, Any] = {
            "graphs": layout.graphs,
            "channels": filters.channels,
            "towers": filters.towers,
            "aggregators": len(filters.aggregators),
            "scalers": len(filters.scalers),
            "names": bindings.numbers_of(filters.aggregators),
            "scales": _scales(filters.scalers, float(filters.delta), layout.slots),
            "edge_channels": filters.edge_channels,
            "centre_is_node": filters.dx_centre == "node",
        }
        if block is None:
            return _Call(fixed, None, 0)
        fixed["slope"] = block.slope
        fixed["residual"] = block.residual and not block.drops
        fixed["factor"] = layout.factor if block.graph_norm else None
        fixed["basis"] = None if block.diffusion is None else layout.basis
        power = 0 if block.diffusion is None else _POWERS[type(block.diffusion.scheme)]
        if block.norm is None:
            return _Call(fixed, None, power)
        names = {"mean": "running_mean", "var": "running_var"}
        names |= {name: name for name in ("eps", "momentum", "training")}
        return _Call(fixed, {k: getattr(block.norm, name) for k, name in names.items()}, power)

    def describe(self, edges: Tensor | None, weights: Sequence[Tensor | None]) -> bindings.Block:
        """As the kernels read it."""
        given = dict(zip(bindings.WEIGHTS, weights, strict=True))
        gain, shift, times = (given.pop(name) for name in ("gain", "shift", "times"))
        norm = None
        if self.norm is not None:
            norm = bindings.struct(bindings.Norm, gain=gain, shift=shift, **self.norm)
        response = bindings.struct(bindings.Response, times=times, power=self.power)
        return bindings.struct(
            bindings.Block, **self.fixed, norm=norm, response=response, edges=edges, **given
        )


def _run(
    filters: DirectionalAggregation,
    block: GADBlock | None,
    x: Tensor,
    operators: GraphOperators,
    edge_attr: Tensor | None,
) -> Tensor | None:
    if not native.accepts(x, edge_attr) or not _accepts_sizes(filters, x, operators, edge_attr):
        return None
    found = _weights(filters, block).values()
    weights = [tensor for tensor, _ in found]
    if not all(_has_shape(*pair) for pair in found) or not native.accepts(*weights, filters.delta):
        return None
    layout = operators.once("compiled_layout", lambda: _layout(operators))
    if layout is None:
        return None
    order, given = layout.order, None if edge_attr is None else layout.given
    y: Tensor = _Step.apply(  # type: ignore[no-untyped-call]
        _Call.of(layout, filters, block),
        x if order is None else x.index_select(0, order),
        edge_attr if edge_attr is None or given is None else edge_attr.index_select(0, given),
        *weights,
    )
    norm = None if block is None else block.norm
    if norm is not None and norm.training and norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    return y if layout.rank is None else y.index_select(0, layout.rank)


class _Step(torch.autograd.Function):
    """All of it as one step."""

    @staticmethod
    def forward(
        ctx: Any, call: _Call, x: Tensor, edges: Tensor | None, *weights: Tensor | None
    ) -> Tensor:
        x, edges, *kept = (None if t is None else t.contiguous() for t in (x, edges, *weights))  # type: ignore[assignment]
        block = call.describe(edges, kept)
        size = c_int64()
        native.call("block_size", block, ctypes.addressof(size))
        memory, y = x.new_empty(size.value), torch.empty_like(x)
        native.call("block_forward", block, x, memory, y)
        ctx.call = call
        ctx.save_for_backward(memory, edges, *kept)
        return y

    @staticmethod
    @without_kernels
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        memory, edges, *weights = ctx.saved_tensors
        grad = grad.contiguous()
        grad_x = torch.empty_like(grad)
        grads = {
            name: None if t is None else torch.empty_like(t)
            for name, t in zip((*bindings.WEIGHTS, "edges"), (*weights, edges), strict=True)
        }
        native.call(
            "block_backward", ctx.call.describe(edges, weights), grad, memory,
            torch.empty_like(memory), grad_x, bindings.struct(bindings.Gradients, **grads),
        )  # fmt: skip
        grad_edges = grads.pop("edges")
        return None, grad_x, grad_edges, *grads.values()
