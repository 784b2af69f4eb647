"""Directional aggregation: messages, aggregators × degree scalers, towers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from gad.nn.block_native import block_natively, suits
from gad.nn.columns import rearrange
from gad.nn.neighbourhood import (
    AGGREGATORS,
    DIRECTIONAL,
    prefers_slots,
    reduce_plain,
    reduce_slots,
)
from gad.operators import GraphOperators
from gad.operators.layouts import Neighbours

SCALERS = ("identity", "amplification", "attenuation")


def mean_log_degree(operators: GraphOperators) -> float:
    """δ, the mean of log(d + 1) over the nodes of a training set."""
    return float((operators.degree + 1).to(torch.float64).log().mean())


class DirectionalAggregation(nn.Module):
    """The filters: messages in towers, aggregated, scaled by degree, mapped back to C channels.

    In each tower (C/T channels, the tower's part of h):

    ``m_ij = U [h_i, h_j, e_ij]``, reduced over j by every aggregator, each result multiplied by
    every scaler — identity, amplification log(d+1)/δ, attenuation δ/log(max(d, 1)+1) —
    concatenated with h_i and mapped linearly to C/T channels.

    ``dx`` is |Σ_j F̂_ij (m_ij − m_ii)| with m_ii = U [h_i, h_i, 0], so a constant signal without
    edge features gives 0. With ``dx_centre="node"`` it is |Σ_j F̂_ij (m_ij − h_i)|, as DGN's authors
    have it. With ``messages="plain"`` m_ij is h_j, plus a linear map of e_ij where there are bonds.

    Args:
        channels: C, a multiple of ``towers``.
        aggregators: any of mean, max, min, sum, std, av (B_av), dx (|B_dx|), in any order.
        scalers: any of identity, amplification, attenuation.
        towers: T.
        edge_channels: channels of the edge features, 0 for none.
        delta: δ (:func:`mean_log_degree` of the training set), stored with the model.
        dx_centre: "message" or "node".
        messages: "linear" or "plain".

    Shapes: h [N, C], edge features [E, edge_channels] in the order of the ``edge_index`` the
    operators were built from → [N, C].
    """

    delta: Tensor

    def __init__(
        self,
        channels: int,
        *,
        aggregators: Sequence[str] = ("mean", "max", "min", "dx"),
        scalers: Sequence[str] = SCALERS,
        towers: int = 1,
        edge_channels: int = 0,
        delta: float = 1.0,
        dx_centre: str = "message",
        messages: str = "linear",
    ) -> None:
        super().__init__()
        _check_names("aggregator", aggregators, AGGREGATORS)
        _check_names("scaler", scalers, SCALERS)
        _check_names("dx_centre", [dx_centre], ("message", "node"))
        _check_names("messages", [messages], ("linear", "plain"))
        if towers < 1 or channels % towers:
            raise ValueError(f"{channels} channels cannot be cut into {towers} equal towers")
        if not delta > 0:
            raise ValueError(f"delta, the mean of log(degree + 1), must be positive, not {delta}")
        self.channels, self.towers = channels, towers
        self.aggregators, self.scalers = tuple(aggregators), tuple(scalers)
        self.edge_channels, self.dx_centre = edge_channels, dx_centre
        width, inputs = channels // towers, len(self.aggregators) * len(self.scalers)
        self.target_weight: Tensor = nn.Parameter(torch.empty(towers, width, width))
        self.source_weight: Tensor = nn.Parameter(torch.empty(towers, width, width))
        self.edge_weight = (
            nn.Parameter(torch.empty(channels, edge_channels)) if edge_channels else None
        )
        self.bias: Tensor = nn.Parameter(torch.empty(channels))
        self.own_weight = nn.Parameter(torch.empty(towers, width, width))
        # Rows: scaler by scaler; columns: aggregator by aggregator.
        self.mix_weight = nn.Parameter(
            torch.empty(towers, len(self.scalers) * width, len(self.aggregators) * width)
        )
        self.mix_bias = nn.Parameter(torch.empty(channels))
        self.register_buffer("delta", torch.tensor(float(delta)))
        self._kept_scales: dict[tuple[Any, ...], Tensor] = {}
        bound = 1 / math.sqrt(2 * width + edge_channels)
        for weight in (self.target_weight, self.source_weight, self.edge_weight, self.bias):
            if weight is not None:
                nn.init.uniform_(weight, -bound, bound)
        bound = 1 / math.sqrt((1 + inputs) * width)
        for weight in (self.own_weight, self.mix_weight, self.mix_bias):
            nn.init.uniform_(weight, -bound, bound)
        if messages == "plain":
            self._fix_messages()

    def _fix_messages(self) -> None:
        """U = [0, 1, ·], which is not learned: constants in place of the parameters."""
        identity = torch.eye(self.channels // self.towers).expand_as(self.source_weight)
        fixed = {
            "source_weight": identity.contiguous(),
            "target_weight": torch.zeros_like(self.target_weight),
            "bias": torch.zeros_like(self.bias),
        }
        for name, value in fixed.items():
            delattr(self, name)
            self.register_buffer(name, value.detach(), persistent=False)

    def forward(
        self, h: Tensor, operators: GraphOperators, edge_attr: Tensor | None = None
    ) -> Tensor:
        """Aggregate h [N, C] over neighbourhoods: [N, C]."""
        self.check_inputs(h, operators, edge_attr)
        layout = operators.neighbours
        slots = prefers_slots(operators)
        if slots and suits(operators, h, edge_attr, self.mix_weight):
            return block_natively(h, operators, edge_attr, self)
        order, rank = (layout.order, layout.rank) if slots else (None, None)
        e = None
        if edge_attr is not None and self.edge_weight is not None:
            where = layout.given if slots else operators.edge_position
            arranged = edge_attr if where is None else edge_attr.index_select(0, where)
            e = torch.mm(self.edge_weight, arranged.t())
        columns = rearrange(h.t(), order, rank).contiguous()
        tower_columns = columns.view(self.towers, -1, columns.shape[1])
        p = torch.bmm(self.source_weight, tower_columns).view_as(columns)
        bias = self.bias.view(self.towers, -1, 1)
        q = torch.baddbmm(bias, self.target_weight, tower_columns).view_as(columns)
        z = columns if self.dx_centre == "node" else None
        reduce = reduce_slots if slots else reduce_plain
        aggregates = reduce(p, q, e, z, operators, self.aggregators, self.towers)
        aggregates = aggregates.flatten(1, 2)
        own = torch.baddbmm(self.mix_bias.view(self.towers, -1, 1), self.own_weight, tower_columns)
        if slots:
            y = own + self._mix_by_degree(aggregates, layout)
        else:
            y = own + self._mix(aggregates, operators.degree)
        return rearrange(y.view_as(columns), rank, order).t()

    def _mix(self, aggregates: Tensor, degree: Tensor) -> Tensor:
        """Σ_s s(d) W_s a in every tower: [T, C/T, N].

        Scaling commutes with the linear map, so the unscaled aggregates are multiplied once by all
        scalers' weights and the results, not the inputs, are scaled.
        """
        mixed = torch.bmm(self.mix_weight, aggregates)
        if self.scalers == ("identity",):
            return mixed
        mixed = mixed.view(self.towers, len(self.scalers), -1, mixed.shape[-1])
        scaled: Tensor = (mixed * self._scales(degree).to(mixed.dtype)[:, None]).sum(1)
        return scaled

    def _mix_by_degree(self, aggregates: Tensor, layout: Neighbours) -> Tensor:
        """The same where nodes stand by degree: one product with Σ_s s(d) W_s for each degree d."""
        ends = (0, *reversed(layout.counts), aggregates.shape[2])
        weights = self._mixes(len(layout.counts))
        result: Tensor = _ProductByGroup.apply(weights, aggregates, ends)  # type: ignore[no-untyped-call]
        return result

    def _mixes(self, highest: int) -> Tensor:
        """Σ_s s(d) W_s for the degrees from the highest down to 0 [D + 1, T, C/T, A·C/T]."""
        weight = self.mix_weight.unflatten(1, (len(self.scalers), -1))
        return torch.einsum("sd,tsok->dtok", self.scales_down_from(highest), weight)

    def scales_down_from(self, highest: int) -> Tensor:
        """The scalers of the degrees from the highest down to 0 [S, D + 1], kept while δ stays."""
        key = (highest, self.mix_weight.dtype, self.delta.device, self.delta._version)
        if key not in self._kept_scales:
            degrees = torch.arange(highest, -1, -1, device=self.delta.device)
            with torch.inference_mode(False):
                scales = self._scales(degrees).to(self.mix_weight.dtype)
            self._kept_scales = {**self._kept_scales, key: scales}
        return self._kept_scales[key]

    def _scales(self, degree: Tensor) -> Tensor:
        """The scalers of each degree [S, …]."""
        d = degree.to(self.delta.dtype)
        values = {
            "identity": torch.ones_like(d),
            "amplification": torch.log(d + 1) / self.delta,
            "attenuation": self.delta / torch.log(d.clamp_min(1) + 1),
        }
        return torch.stack([values[name] for name in self.scalers])

    def check_inputs(self, h: Tensor, operators: GraphOperators, edge_attr: Tensor | None) -> None:
        """Refuse shapes that do not fit, and operators that lack what is needed."""
        if h.dim() != 2 or h.shape != (operators.num_nodes, self.channels):
            raise ValueError(
                f"expected features [{operators.num_nodes}, {self.channels}] "
                f"(nodes, channels), not {list(h.shape)}"
            )
        if DIRECTIONAL & set(self.aggregators):
            operators.need_field()
        if (edge_attr is None) != (self.edge_channels == 0):
            wants = (
                f"{self.edge_channels} edge channels" if self.edge_channels else "no edge features"
            )
            raise ValueError(
                f"this layer was made for {wants}, but edge_attr "
                f"{'is missing' if edge_attr is None else 'was given'}"
            )
        expected = (operators.num_given_edges, self.edge_channels)
        if edge_attr is not None and edge_attr.shape != expected:
            raise ValueError(
                f"expected edge features {list(expected)} (edges as given to build_operators, "
                f"channels), not {list(edge_attr.shape)}"
            )

    def extra_repr(self) -> str:
        """Sizes and names."""
        return (
            f"{self.channels}, aggregators={self.aggregators}, scalers={self.scalers}, "
            f"towers={self.towers}, edge_channels={self.edge_channels}"
        )


class _ProductByGroup(torch.autograd.Function):
    """y = W_g x on the columns from end g to end g + 1: W [G, T, O, K], x [T, K, N]."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, x: Tensor, ends: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(weights, x)
        ctx.ends = ends
        y = x.new_empty(x.shape[0], weights.shape[2], x.shape[2])
        for weight, (a, b) in zip(weights, pairwise(ends), strict=True):
            torch.bmm(weight, x[..., a:b], out=y[..., a:b])
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        weights, x = ctx.saved_tensors
        grad_x, grad_weights = torch.empty_like(x), torch.empty_like(weights)
        for weight, into, (a, b) in zip(weights, grad_weights, pairwise(ctx.ends), strict=True):
            torch.bmm(weight.transpose(1, 2), grad[..., a:b], out=grad_x[..., a:b])
            torch.bmm(grad[..., a:b], x[..., a:b].transpose(1, 2), out=into)
        return grad_weights, grad_x, None


def _check_names(kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    if isinstance(names, str) or not names:
        raise ValueError(f"give at least one {kind} as a list of names out of {', '.join(known)}")
    for name in names:
        if name not in known:
            raise ValueError(f"unknown {kind} {name!r}: choose from {', '.join(known)}")
    if len(set(names)) < len(names):
        raise ValueError(f"an {kind} is named twice in {list(names)}")
