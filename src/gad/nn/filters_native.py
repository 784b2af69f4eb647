"""The whole filter stage by compiled kernels, forward and backward: no step is left to autograd.

What :class:`gad.nn.DirectionalAggregation` does in separate steps, with the same results: the
three products of a tower (p from the source, q from the target, a node's own part) are one, and so
are their gradients.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import Structure, c_int64, c_void_p
from typing import Any

import torch
from torch import Tensor

from gad import native
from gad.operators import GraphOperators

# In the order of the enumeration in the C source.
_NAMES = ("mean", "max", "min", "sum", "std", "av", "dx")


class _Graphs(Structure):
    """``Graphs`` in reduce.c."""

    _fields_ = (
        ("nodes", c_int64), ("edges", c_int64), ("slots", c_int64), ("count", c_void_p),
        ("source", c_void_p), ("reverse", c_void_p), ("degree", c_void_p),
        ("first", c_void_p), ("norm", c_void_p), ("first_sum", c_void_p), ("norm_sum", c_void_p),
        ("rows", c_int64), ("entries", c_int64),
        ("node", c_void_p), ("row", c_void_p), ("edge", c_void_p),
        ("value", c_void_p), ("row_sum", c_void_p),
    )  # fmt: skip


class _Messages(Structure):
    """``Messages`` in reduce.c."""

    _fields_ = (
        ("channels", c_int64), ("width", c_int64), ("aggregators", c_int64), ("names", c_void_p),
        ("tower", c_int64), ("p", c_void_p), ("q", c_void_p), ("e", c_void_p), ("z", c_void_p),
    )  # fmt: skip


class _Groups(Structure):
    """``Groups`` in products.c."""

    _fields_ = (
        *((name, c_int64) for name in ("towers", "groups", "outputs", "inputs", "nodes")),
        ("begin", c_void_p),
    )


class _Layout:
    """A batch as the C code reads it, with the tensors its pointers point into."""

    def __init__(self, operators: GraphOperators) -> None:
        layout = operators.neighbours
        self.kept: dict[str, Tensor] = {
            "count": torch.tensor(layout.counts, dtype=torch.int64),
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
            slots=len(layout.counts),
            rows=sizes["node"],
            entries=sizes["value"],
            **{name: values.data_ptr() for name, values in self.kept.items()},
        )
        # Groups of one degree, from the highest down to 0, as the nodes stand.
        self.ends = torch.tensor([0, *reversed(layout.counts), operators.num_nodes])


def filters(
    h: Tensor,
    e: Tensor | None,
    weights: Sequence[Tensor],
    scales: Tensor,
    operators: GraphOperators,
    aggregators: tuple[str, ...],
    centre_is_node: bool,
) -> Tensor:
    """Messages, aggregates and their mixing: [T, C/T, N], nodes by rank.

    Args:
        h: features [N, C].
        e: the edges' part of the messages [C, E] in jagged order, or None.
        weights: of p, of q and of a node's own part [T, C/T, C/T], the biases of q and of the
            result [C], and the weights of the aggregates [T, S·C/T, A·C/T].
        scales: the scalers of every degree, highest first [S, D + 1].
        operators: of the N nodes.
        aggregators: names.
        centre_is_node: whether dx subtracts h_i, and not m_ii.
    """
    layout = operators.once("native_layout", lambda: _Layout(operators))
    result: Tensor = _Filters.apply(  # type: ignore[no-untyped-call]
        h, e, *weights, scales, layout, aggregators, centre_is_node
    )
    return result


class _Filters(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        e: Tensor | None,
        source: Tensor,
        target: Tensor,
        own: Tensor,
        bias: Tensor,
        mix_bias: Tensor,
        mix: Tensor,
        scales: Tensor,
        layout: _Layout,
        aggregators: tuple[str, ...],
        centre_is_node: bool,
    ) -> Tensor:
        towers, width, _ = source.shape
        h = h.contiguous()
        e = None if e is None else e.contiguous()
        z = h.t().contiguous() if centre_is_node else None
        # Three products of a tower as one: p, q and a node's own part.
        products = torch.cat([source, target, own], dim=1)
        shifts = h.new_zeros(towers, 3, width)
        torch.stack([bias.view(towers, -1), mix_bias.view(towers, -1)], dim=1, out=shifts[:, 1:])
        parts = torch.baddbmm(shifts.view(towers, -1, 1), products, _by_tower(h, towers))
        names = (c_int64 * len(aggregators))(*map(_NAMES.index, aggregators))
        aggregates = h.new_empty(towers, len(aggregators) * width, h.shape[0])
        native.call("reduce_forward", layout.graphs, _messages(parts, e, z, names), aggregates)
        mixes = torch.matmul(scales.t(), mix.view(towers, scales.shape[0], -1))
        y = parts[:, 2 * width :].clone()
        groups = _groups(mixes, aggregates, layout)
        native.call("product_by_group", groups, mixes, aggregates, y, 0)
        ctx.save_for_backward(h, e, z, products, mixes, scales, parts, aggregates)
        ctx.layout, ctx.names = layout, names
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, e, z, products, mixes, scales, parts, aggregates = ctx.saved_tensors
        towers, _, width = products.shape
        grad = grad.contiguous()
        groups = _groups(mixes, aggregates, ctx.layout)
        grad_mixes, grad_aggregates = torch.empty_like(mixes), torch.empty_like(aggregates)
        native.call("product_by_group_weights", groups, grad, aggregates, grad_mixes)
        native.call("product_by_group", groups, mixes, grad, grad_aggregates, 1)
        grads = torch.empty_like(parts)
        grads[:, 2 * width :] = grad
        grad_e, grad_z = (None if t is None else torch.empty_like(t) for t in (e, z))
        native.call(
            "reduce_backward", ctx.layout.graphs, _messages(parts, e, z, ctx.names),
            grad_aggregates, grads, grads[:, width:], grad_e, grad_z,
        )  # fmt: skip
        by_tower = _by_tower(h, towers)
        grad_products = torch.bmm(grads, by_tower.transpose(1, 2)).split(width, dim=1)
        grad_h = torch.bmm(products.transpose(1, 2), grads).flatten(0, 1)
        if grad_z is not None:
            grad_h += grad_z
        _, grad_bias, grad_mix_bias = grads.sum(2).split(width, dim=1)
        grad_mix = torch.matmul(scales, grad_mixes).view(towers, -1, aggregates.shape[1])
        return (
            grad_h.t().contiguous(), grad_e, *grad_products, grad_bias.flatten(),
            grad_mix_bias.flatten(), grad_mix, None, None, None, None,
        )  # fmt: skip


def _by_tower(h: Tensor, towers: int) -> Tensor:
    """The features [N, C] as [T, C/T, N], not copied."""
    return h.view(h.shape[0], towers, -1).permute(1, 2, 0)


def _messages(parts: Tensor, e: Tensor | None, z: Tensor | None, names: Any) -> _Messages:
    towers, three, nodes = parts.shape
    width = three // 3
    return _Messages(
        towers * width, width, len(names), ctypes.addressof(names), three * nodes,
        parts.data_ptr(), parts[:, width:].data_ptr(),
        None if e is None else e.data_ptr(), None if z is None else z.data_ptr(),
    )  # fmt: skip


def _groups(mixes: Tensor, aggregates: Tensor, layout: _Layout) -> _Groups:
    towers, inputs, nodes = aggregates.shape
    groups = mixes.shape[1]
    return _Groups(towers, groups, mixes.shape[2] // inputs, inputs, nodes, layout.ends.data_ptr())
