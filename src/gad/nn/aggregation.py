"""Directional aggregation: messages, aggregators × degree scalers, towers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypedDict

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gad.nn.backends import compiled
from gad.operators import GraphOperators
from gad.operators.graph_operators import safe_sqrt


@dataclass(frozen=True)
class Messages:
    """What an aggregator reads: a message along every edge j → i.

    ``values`` [E, C] are the messages m_ij; ``centre`` [N, C] is what ``dx`` subtracts, m_ii or
    h_i; ``operators`` know which edge goes where.
    """

    values: Tensor
    centre: Tensor
    operators: GraphOperators

    def sum(self, values: Tensor) -> Tensor:
        """Σ_j v_ij [N, C] of values on edges [E, C]; 0 where there are no neighbours."""
        return self.operators.sum_edges(values)

    def mean(self, values: Tensor) -> Tensor:
        """The mean over j of v_ij [N, C]; 0 where there are no neighbours."""
        return self.sum(values) / self.operators.degree.clamp_min(1).to(values.dtype)[:, None]

    def at_edges(self, values: Tensor) -> Tensor:
        """v_i [N, C] on every edge into i [E, C]."""
        return values.index_select(0, self.operators.target)


def _extreme(which: str, messages: Messages) -> Tensor:
    """The mean of those messages that are largest (or smallest): they share the gradient evenly."""
    values, target = messages.values, messages.operators.target
    with torch.no_grad():
        unset = torch.zeros_like(messages.centre)
        every = target[:, None].expand_as(values)
        best = unset.scatter_reduce(0, every, values, which, include_self=False)
        is_best = (values == messages.at_edges(best)).to(values.dtype)
        count = messages.sum(is_best).clamp_min(1)
    return messages.sum(values * is_best) / count


def _std(messages: Messages) -> Tensor:
    """√ mean_j (m_ij − mean m_i)², with gradient 0 at 0."""
    # Centred on any one message, then on the mean: equal messages give exactly 0.
    values, target = messages.values.detach(), messages.operators.target
    some = torch.zeros_like(messages.centre).index_copy(0, target, values)
    centred = messages.values - messages.at_edges(some)
    centred = centred - messages.at_edges(messages.mean(centred))
    return safe_sqrt(messages.mean(centred.square()))


def _dx(messages: Messages) -> Tensor:
    """|Σ_j F̂_ij (m_ij − centre_i)|: the difference comes first, so a constant gives exactly 0."""
    return messages.operators.derive_edges(messages.values - messages.at_edges(messages.centre))


# A new aggregator is one more line here; where the compiled kernels do not know it, they decline.
AGGREGATORS: dict[str, Callable[[Messages], Tensor]] = {
    "mean": lambda messages: messages.mean(messages.values),
    "max": partial(_extreme, "amax"),
    "min": partial(_extreme, "amin"),
    "sum": lambda messages: messages.sum(messages.values),
    "std": _std,
    "av": lambda messages: messages.operators.average_edges(messages.values),
    "dx": _dx,
}

# Of the number of neighbours d and of δ.
SCALERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "identity": lambda d, _delta: torch.ones_like(d),
    "amplification": lambda d, delta: torch.log(d + 1) / delta,
    "attenuation": lambda d, delta: delta / torch.log(d.clamp_min(1) + 1),
}


def scales(names: Iterable[str], degree: Tensor, delta: Tensor) -> Tensor:
    """The scalers of each degree [N]: [S, N]."""
    d = degree.to(delta.dtype)
    return torch.stack([SCALERS[name](d, delta) for name in names])


def mean_log_degree(operators: GraphOperators) -> float:
    """δ, the mean of log(d + 1) over the nodes of a training set."""
    return float((operators.degree + 1).to(torch.float64).log().mean())


class FilterOptions(TypedDict, total=False):
    """What :class:`DirectionalAggregation` is told besides its width, and whoever makes one."""

    aggregators: Sequence[str]
    scalers: Sequence[str]
    towers: int
    edge_channels: int
    delta: float
    dx_centre: str
    messages: str


class DirectionalAggregation(nn.Module):
    """The filters: messages in towers, aggregated, scaled by degree, mapped back to C channels.

    In each tower (C/T channels, the tower's part of h):

    ``m_ij = U [h_i, h_j, e_ij]``, reduced over j by every aggregator, each result multiplied by
    every scaler — identity, amplification log(d+1)/δ, attenuation δ/log(max(d, 1)+1) —
    concatenated with h_i and mapped linearly to C/T channels.

    ``dx`` is |Σ_j F̂_ij (m_ij − m_ii)| with m_ii = U [h_i, h_i, 0], so a constant signal without
    edge features gives 0. With ``dx_centre="node"`` it is |Σ_j F̂_ij (m_ij − h_i)|, as DGN's authors
    have it. With ``messages="plain"`` m_ij is h_j, plus a linear map of e_ij where there are bonds.
    With ``messages="nonlinear"`` every m (and m_ii) goes through a LeakyReLU: a mean of linear
    messages cannot tell C=O beside C–N from C–O beside C=N, this one can. Every aggregate is 0
    where there are no neighbours; equal largest messages share the gradient.

    Args:
        channels: C, a multiple of ``towers``.
        aggregators: any of mean, max, min, sum, std, av (B_av), dx (|B_dx|), in any order.
        scalers: any of identity, amplification, attenuation.
        towers: T.
        edge_channels: channels of the edge features, 0 for none.
        delta: δ (:func:`mean_log_degree` of the training set), stored with the model.
        dx_centre: "message" or "node".
        messages: "linear", "nonlinear" or "plain".

    Shapes: h [N, C], edge features [E, edge_channels] in the order of the ``edge_index`` the
    operators were built from → [N, C].
    """

    delta: Tensor

    def __init__(
        self,
        channels: int,
        *,
        aggregators: Sequence[str] = ("mean", "max", "min", "dx"),
        scalers: Sequence[str] = tuple(SCALERS),
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
        _check_names("messages", [messages], ("linear", "nonlinear", "plain"))
        if towers < 1 or channels % towers:
            raise ValueError(f"{channels} channels cannot be cut into {towers} equal towers")
        if not delta > 0:
            raise ValueError(f"delta, the mean of log(degree + 1), must be positive, not {delta}")
        self.channels, self.towers = channels, towers
        self.aggregators, self.scalers = tuple(aggregators), tuple(scalers)
        self.edge_channels, self.dx_centre = edge_channels, dx_centre
        # Of the messages' LeakyReLU below 0; 1 leaves them as they are.
        self.slope = 0.01 if messages == "nonlinear" else 1.0
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
        fast = compiled.try_filters(self, h, operators, edge_attr)
        if fast is not None:
            return fast
        self._check_inputs(h, operators, edge_attr)
        # One product for all that is linear in h alone.
        weight = torch.cat([self.source_weight, self.target_weight, self.own_weight], dim=1)
        sent, received, own = _per_tower(weight, self._towers(h)).chunk(3, dim=2)
        sent, received = _join(sent), _join(received) + self.bias
        # The messages U [h_i, h_j, e_ij] on every edge.
        values = sent.index_select(0, operators.source)
        values = values + received.index_select(0, operators.target)
        if edge_attr is not None and self.edge_weight is not None:
            edges = edge_attr.index_select(0, operators.edge_position)
            values = values + edges @ self.edge_weight.t()
        centre = sent + received
        if self.slope != 1:
            values, centre = (F.leaky_relu(own, self.slope) for own in (values, centre))
        if self.dx_centre == "node":
            centre = h
        messages = Messages(values, centre, operators)
        aggregates = torch.stack(
            [self._towers(AGGREGATORS[name](messages)) for name in self.aggregators], dim=2
        )
        # Scaling commutes with the linear map: all scalers' weights are applied to the unscaled
        # aggregates, and the results, not the inputs, are scaled.
        mixed = _per_tower(self.mix_weight, aggregates.flatten(2)).chunk(len(self.scalers), dim=2)
        for scale, part in zip(
            scales(self.scalers, operators.degree, self.delta), mixed, strict=True
        ):
            own = own + scale.to(own.dtype)[:, None] * part
        return _join(own) + self.mix_bias

    def _towers(self, x: Tensor) -> Tensor:
        """[N, C] as [N, T, C/T]."""
        return x.view(x.shape[0], self.towers, -1)

    def _check_inputs(self, h: Tensor, operators: GraphOperators, edge_attr: Tensor | None) -> None:
        """Refuse shapes that do not fit."""
        if h.dim() != 2 or h.shape != (operators.num_nodes, self.channels):
            raise ValueError(
                f"expected features [{operators.num_nodes}, {self.channels}] "
                f"(nodes, channels), not {list(h.shape)}"
            )
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


def _per_tower(weight: Tensor, x: Tensor) -> Tensor:
    """W x in every tower: W [T, out, in], x [N, T, in] → [T, N, out]."""
    return torch.bmm(x.transpose(0, 1), weight.transpose(1, 2))


def _join(x: Tensor) -> Tensor:
    """The towers [T, N, C/T] side by side: [N, C]."""
    return x.transpose(0, 1).flatten(1)


def _check_names(kind: str, names: Sequence[str], known: Iterable[str]) -> None:
    choice = ", ".join(known)
    if isinstance(names, str) or not names:
        raise ValueError(f"give at least one {kind} as a list of names out of {choice}")
    for name in names:
        if name not in known:
            raise ValueError(f"unknown {kind} {name!r}: choose from {choice}")
    if len(set(names)) < len(names):
        raise ValueError(f"an {kind} is named twice in {list(names)}")
