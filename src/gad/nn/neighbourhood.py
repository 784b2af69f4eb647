"""Reductions over neighbourhoods: the fast kernel and, beside it, its plain twin.

Messages are linear, m_ij = q_i + p_j + e_ij, so what depends on i alone is factored out of every
reduction: max_j m_ij = q_i + max_j (p_j + e_ij), and so on. Node i receives

=======  ==========================================================================
mean     q_i + mean_j (p_j + e_ij)
sum      d_i q_i + Σ_j (p_j + e_ij)
max/min  q_i + max_j / min_j (p_j + e_ij); equal messages share the gradient evenly
std      √ mean_j (m_ij − mean m_i)², centred first, gradient 0 at 0
av       Σ_j ‖F̂_ij‖ m_ij
dx       ‖ Σ_j F̂_ij (m_ij − z_i) ‖ over the directions, gradient 0 at 0; z_i = m_ii = q_i + p_i
=======  ==========================================================================

and 0 for every aggregate where there are no neighbours. Everything is column-major [C, ·].

The fast kernel walks the jagged diagonals (:class:`gad.operators.layouts.Neighbours`) with a
hand-written backward pass: as many steps as the largest degree, each a slice. Graphs with a node of
more than :data:`MOST_SLOTS` neighbours take the plain twin, which gathers and scatters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from gad.operators import GraphOperators
from gad.operators.graph_operators import safe_sqrt
from gad.operators.layouts import JaggedField

AGGREGATORS = ("mean", "max", "min", "sum", "std", "av", "dx")
DIRECTIONAL = frozenset({"av", "dx"})
# Beyond this degree the slices of the jagged diagonals become too many and too short.
MOST_SLOTS = 32


def prefers_slots(operators: GraphOperators) -> bool:
    """Whether the fast kernel is the faster one on these graphs."""
    return len(operators.neighbours.counts) <= MOST_SLOTS


def reduce_slots(
    p: Tensor,
    q: Tensor,
    e: Tensor | None,
    z: Tensor | None,
    operators: GraphOperators,
    aggregators: Sequence[str],
    towers: int,
) -> Tensor:
    """All aggregates by jagged diagonals: [towers, A, C/towers, N], nodes by rank.

    Args:
        p: the part of the messages that sources give [C, N], nodes by rank.
        q: the part that targets give [C, N].
        e: the part that edges give [C, E] in jagged order, or None.
        z: what ``dx`` subtracts [C, N]; None stands for m_ii = q_i + p_i.
        operators: of the N nodes.
        aggregators: names, in the order of the result.
        towers: into how many blocks the channels are cut.
    """
    result: Tensor = _Reduce.apply(p, q, e, z, operators, tuple(aggregators), towers)  # type: ignore[no-untyped-call]
    return result


class _Slots:
    """The slots of a batch: the first n nodes' s-th messages are the edges a to b, for every s.

    Tensors are [T, C/T, ·]: towers, channels, and nodes that have a neighbour or edges.
    """

    def __init__(self, operators: GraphOperators, dtype: torch.dtype) -> None:
        self.operators, self.dtype = operators, dtype
        self.layout = operators.neighbours
        self.runs = self.layout.slots()
        self.nodes = self.runs[0][0] if self.runs else 0
        self.degree = self.layout.degree[: self.nodes].to(dtype)

    def sum(self, m: Tensor, weight: Tensor | None = None) -> Tensor:
        """Σ_j m_ij, or Σ_j w_ij m_ij for weights [E]."""
        _, a, b = self.runs[0]
        total = m[..., a:b].clone() if weight is None else m[..., a:b] * weight[a:b]
        for n, a, b in self.runs[1:]:
            if weight is None:
                total[..., :n] += m[..., a:b]
            else:
                total[..., :n].addcmul_(m[..., a:b], weight[a:b])
        return total

    def less(self, m: Tensor, centre: Tensor) -> Tensor:
        """m_ij − c_i for c [nodes]."""
        result = torch.empty_like(m)
        for n, a, b in self.runs:
            torch.sub(m[..., a:b], centre[..., :n], out=result[..., a:b])
        return result

    def field(self) -> JaggedField:
        """The directional field, in the floating type of the messages."""
        field = self.operators.jagged_field
        return field if field.first.dtype == self.dtype else field.to(self.dtype)


@dataclass
class _Gradients:
    """Where the aggregators' backward passes leave their shares.

    A message's gradient is ``shared`` [nodes], plus weight × coefficient for every pair in
    ``weighted`` ([E], [nodes]), plus what ``late`` adds in place once these are summed up.
    """

    q: Tensor
    centre: Tensor
    shared: Tensor | None = None
    weighted: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    late: list[Callable[[Tensor], None]] = field(default_factory=list)

    def share(self, part: Tensor) -> None:
        """Add to every message's gradient."""
        self.shared = part if self.shared is None else self.shared + part

    def messages(self, slots: _Slots, like: Tensor) -> Tensor:
        """The gradient of the messages [T, C/T, E]."""
        grad = torch.empty_like(like)
        for n, a, b in slots.runs:
            run = grad[..., a:b]
            base = run.zero_() if self.shared is None else self.shared[..., :n]
            for weight, coefficient in self.weighted:
                torch.addcmul(base, coefficient[..., :n], weight[a:b], out=run)
                base = run
            if base is not run:
                run.copy_(base)
        for add in self.late:
            add(grad)
        return grad


# Every aggregator is a pair: forward(slots, m, q, centre, into) writes its result for the nodes
# that have neighbours and returns what its backward(slots, m, kept, g, gradients) needs.
_Kept = tuple[Tensor, ...]


def _sum_forward(slots: _Slots, m: Tensor, q: Tensor, _: Tensor, into: Tensor) -> _Kept:
    torch.addcmul(slots.sum(m), q, slots.degree, out=into)
    return ()


def _sum_backward(slots: _Slots, _m: Tensor, _k: _Kept, g: Tensor, to: _Gradients) -> None:
    to.q.addcmul_(g, slots.degree)
    to.share(g)


def _mean_forward(slots: _Slots, m: Tensor, q: Tensor, _: Tensor, into: Tensor) -> _Kept:
    torch.addcmul(q, slots.sum(m), 1 / slots.degree, out=into)
    return ()


def _mean_backward(slots: _Slots, _m: Tensor, _k: _Kept, g: Tensor, to: _Gradients) -> None:
    to.q += g
    to.share(g / slots.degree)


def _extreme_forward(
    better: Callable[..., Tensor], slots: _Slots, m: Tensor, q: Tensor, _: Tensor, into: Tensor
) -> _Kept:
    best = m[..., : slots.nodes].clone()
    for n, a, b in slots.runs[1:]:
        better(best[..., :n], m[..., a:b], out=best[..., :n])
    torch.add(best, q, out=into)
    return (best,)


def _extreme_backward(slots: _Slots, m: Tensor, kept: _Kept, g: Tensor, to: _Gradients) -> None:
    (best,) = kept
    to.q += g

    def share(grad: Tensor) -> None:
        hits = torch.empty_like(m)
        for n, a, b in slots.runs:
            torch.eq(m[..., a:b], best[..., :n], out=hits[..., a:b])
        each = g / slots.sum(hits)
        for n, a, b in slots.runs:
            grad[..., a:b].addcmul_(hits[..., a:b], each[..., :n])

    to.late.append(share)


def _std_forward(slots: _Slots, m: Tensor, _q: Tensor, _: Tensor, into: Tensor) -> _Kept:
    # Centred on the first message, then on the mean: equal messages give 0 and not rounding.
    centred = slots.less(m, m[..., : slots.nodes])
    centred = slots.less(centred, slots.sum(centred) / slots.degree)
    std = (slots.sum(centred.square()) / slots.degree).sqrt_()
    into.copy_(std)
    return centred, std


def _std_backward(slots: _Slots, _m: Tensor, kept: _Kept, g: Tensor, to: _Gradients) -> None:
    centred, std = kept
    part = torch.where(std > 0, g / (std * slots.degree), 0)

    def add(grad: Tensor) -> None:
        for n, a, b in slots.runs:
            grad[..., a:b].addcmul_(centred[..., a:b], part[..., :n])

    to.late.append(add)


def _av_forward(slots: _Slots, m: Tensor, q: Tensor, _: Tensor, into: Tensor) -> _Kept:
    field = slots.field()
    torch.addcmul(slots.sum(m, field.norm), q, field.norm_sum[: slots.nodes], out=into)
    return ()


def _av_backward(slots: _Slots, _m: Tensor, _k: _Kept, g: Tensor, to: _Gradients) -> None:
    field = slots.field()
    to.q.addcmul_(g, field.norm_sum[: slots.nodes])
    to.weighted.append((field.norm, g))


def _dx_forward(slots: _Slots, m: Tensor, _q: Tensor, centre: Tensor, into: Tensor) -> _Kept:
    # The difference comes before the sum: a constant signal gives 0 and not rounding.
    field = slots.field()
    difference = slots.less(m, centre)
    derivative = slots.sum(difference, field.first)
    torch.abs(derivative, out=into)
    if not field.node.numel():
        return (derivative,)
    # The few nodes whose direction is not unique: the norm over all their directions.
    others = m.new_zeros(*m.shape[:-1], field.node.numel())
    others.index_add_(-1, field.row, difference[..., field.edge] * field.value)
    square = derivative.square().index_add_(-1, field.node, others.square())
    length = square[..., field.node].sqrt_()
    into[..., field.node] = length
    return derivative, others, length


def _dx_backward(slots: _Slots, _m: Tensor, kept: _Kept, g: Tensor, to: _Gradients) -> None:
    field = slots.field()
    derivative, *rest = kept
    along = derivative.sgn().mul_(g)
    to.weighted.append((field.first, along))
    if rest:
        others, length = rest
        share = torch.where(length > 0, g[..., field.node] / length, 0)
        along[..., field.node] = share * derivative[..., field.node]
        along_others = share * others
        to.centre.index_add_(-1, field.node, along_others * field.row_sum, alpha=-1)

        def add(grad: Tensor) -> None:
            grad.index_add_(-1, field.edge, along_others[..., field.row] * field.value)

        to.late.append(add)
    to.centre.addcmul_(along, field.first_sum[: slots.nodes], value=-1)


_KERNELS: dict[str, tuple[Callable[..., _Kept], Callable[..., None]]] = {
    "mean": (_mean_forward, _mean_backward),
    "max": (partial(_extreme_forward, torch.maximum), _extreme_backward),
    "min": (partial(_extreme_forward, torch.minimum), _extreme_backward),
    "sum": (_sum_forward, _sum_backward),
    "std": (_std_forward, _std_backward),
    "av": (_av_forward, _av_backward),
    "dx": (_dx_forward, _dx_backward),
}


class _Reduce(torch.autograd.Function):
    """All aggregates at once, and their gradients in a few passes over the slots."""

    @staticmethod
    def forward(
        ctx: Any,
        p: Tensor,
        q: Tensor,
        e: Tensor | None,
        z: Tensor | None,
        operators: GraphOperators,
        aggregators: tuple[str, ...],
        towers: int,
    ) -> Tensor:
        slots = _Slots(operators, p.dtype)
        m = p.index_select(1, slots.layout.source)
        if e is not None:
            m += e
        m = _towers(m, towers)
        out = p.new_empty(towers, len(aggregators), m.shape[1], p.shape[1])
        out[..., slots.nodes :] = 0
        kept: list[_Kept] = []
        if slots.runs:
            own = _towers(q, towers)[..., : slots.nodes]
            centre = _towers(p if z is None else z - q, towers)[..., : slots.nodes]
            for place, name in enumerate(aggregators):
                forward, _ = _KERNELS[name]
                kept.append(forward(slots, m, own, centre, out[:, place, :, : slots.nodes]))
        ctx.slots, ctx.aggregators = slots, aggregators
        ctx.given = (e is not None, z is not None, [len(k) for k in kept])
        ctx.save_for_backward(m, *(tensor for k in kept for tensor in k))
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        slots = ctx.slots
        has_edges, has_centre, lengths = ctx.given
        m, *saved = ctx.saved_tensors
        towers, _, width, nodes = grad.shape
        zeros = grad.new_zeros(2, towers, width, nodes)
        to = _Gradients(q=zeros[0, ..., : slots.nodes], centre=zeros[1, ..., : slots.nodes])
        tensors = iter(saved)
        for place, (name, length) in enumerate(zip(ctx.aggregators, lengths, strict=False)):
            _, backward = _KERNELS[name]
            kept = tuple(islice(tensors, length))
            backward(slots, m, kept, grad[:, place, :, : slots.nodes], to)
        grad_q, grad_centre = zeros.view(2, towers * width, nodes)
        grad_m = to.messages(slots, m)
        grad_p = torch.zeros_like(grad_q)
        if slots.runs:
            # The gather p_j is undone by its own reverse: what node j sent, it finds at the
            # reverses of the edges it receives.
            back = grad_m.flatten(0, 1).index_select(1, slots.layout.reverse)
            grad_p[:, : slots.nodes] = slots.sum(back)
        if has_centre:
            grad_q -= grad_centre
        else:
            grad_p += grad_centre
        grad_e = grad_m.flatten(0, 1) if has_edges else None
        return grad_p, grad_q, grad_e, grad_centre if has_centre else None, None, None, None


def _towers(x: Tensor, towers: int) -> Tensor:
    """[C, n] as [towers, C/towers, n]."""
    return x.view(towers, x.shape[0] // towers, x.shape[1])


def reduce_plain(
    p: Tensor,
    q: Tensor,
    e: Tensor | None,
    z: Tensor | None,
    operators: GraphOperators,
    aggregators: Sequence[str],
    towers: int,
) -> Tensor:
    """The same by gathering and scattering, for any degree; nodes and edges in their own order.

    This is the definition written down: what :func:`reduce_slots` must equal.
    """
    source, target = operators.source, operators.target
    degree = operators.degree.to(p.dtype)
    divisor = degree.clamp_min(1)
    shape = p.shape
    m = p.index_select(1, source) + q.index_select(1, target)
    if e is not None:
        m = m + e
    results = []
    for name in aggregators:
        if name == "sum":
            results.append(_scatter(m, target, shape))
        elif name == "mean":
            results.append(_scatter(m, target, shape) / divisor)
        elif name in ("max", "min"):
            # NaN to begin with, since a number would count as a tie when the gradient is shared.
            unset = m.new_full(shape, math.nan)
            best = unset.scatter_reduce(1, target.expand_as(m), m, f"a{name}", include_self=False)
            results.append(torch.where(degree > 0, best, 0))
        elif name == "std":
            # Centred on any one message, then on the mean: equal messages give exactly 0.
            some = m.detach().new_zeros(shape).index_copy(1, target, m.detach())
            centred = m - some.index_select(1, target)
            mean = (_scatter(centred, target, shape) / divisor).index_select(1, target)
            results.append(safe_sqrt(_scatter((centred - mean).square(), target, shape) / divisor))
        elif name == "av":
            _, norm = operators.need_field()
            results.append(_scatter(m * norm.to(p.dtype), target, shape))
        else:
            first, _ = operators.need_field()
            difference = m - (p + q if z is None else z).index_select(1, target)
            derivative = _scatter(difference * first.to(p.dtype), target, shape)
            node, row, edge, value = operators.other_directions
            if node.numel():
                weighted = difference.index_select(1, edge) * value.to(p.dtype)
                others = _scatter(weighted, row, (shape[0], node.numel()))
                square = derivative.square().index_add(1, node, others.square())
                results.append(safe_sqrt(square))
            else:
                results.append(derivative.abs())
    return torch.stack([_towers(r, towers) for r in results], dim=1)


def _scatter(values: Tensor, index: Tensor, shape: Sequence[int]) -> Tensor:
    return values.new_zeros(shape).index_add(1, index, values)
