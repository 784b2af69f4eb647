"""What atoms and whole-molecule values add to a network's outputs, from the mean molecule on.

The head of a network reads p [R]: sums, means and maxima over the states h of the atoms, and values
of the whole molecule behind them. On the straight way from p̄, the mean over training molecules, to
p its outputs z change by

    z(p) − z(p̄) = S (p − p̄),    S = ∫₀¹ ∂z/∂p at p̄ + a (p − p̄) da,

the integrated gradients of Sundararajan et al. (2017). The head is linear between the places where
one of its units switches on or off; these are found, so S is exact. What is read of the states is
divided among the atoms: of a sum each has its own part, of a mean 1/n of it, a maximum belongs to
the atom that has it, and log n to all alike.

From the outputs of M members to a prediction (blend, probabilities, mean of the ensemble,
calibration) the way is a straight line too, gone in short stretches.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from gad.data.store.molecules import PackedMolecules, with_values
from gad.nn.model import GAD, Head, pool, pooled_channels
from gad.operators import IMPLICIT, Chebyshev, Eigenbasis, GraphOperators
from gad.prediction.blend import columns
from gad.settings.task import Task

if TYPE_CHECKING:
    from gad.prediction.predictor import Predictor

# Molecules at a time, and numbers of all their slopes.
_MOLECULES, _NUMBERS = 256, 2_000_000
# Atoms this near to a maximum share it: states are rounded, and equal atoms must stay equal.
_NEAR = 1e-3
# Stretches of the way where several outputs make one prediction.
_STRETCHES = 32
_STILL, _TINY = 1e-9, 1e-6

Told = Callable[[Tensor], Tensor]
"""Outputs of the members [M, G, W] → predictions [G, W]."""


@dataclass(frozen=True, eq=False)
class Middle:
    """The mean molecule: what heads read of it [M, R], and what stands beside networks [M, W]."""

    read: Tensor
    beside: Tensor


@dataclass(frozen=True, eq=False)
class Ways:
    """From the mean molecule's prediction [W] on, what atoms [N, W] and whole values [G, W] add."""

    start: Tensor
    atoms: Tensor
    whole: Tensor


@dataclass(frozen=True, eq=False)
class _Encoded:
    """Some molecules, as each of M members has them: states [N, C] and what is read [G, R]."""

    operators: GraphOperators
    states: list[Tensor]
    read: list[Tensor]
    beside: Tensor


def middle_of(predictor: Predictor, packed: PackedMolecules) -> Middle:
    """The mean over these molecules."""
    parts = list(_encoded(predictor, packed))
    read = [torch.cat([part.read[m] for part in parts]) for m in range(len(parts[0].read))]
    beside = torch.cat([part.beside for part in parts], dim=1)
    return Middle(torch.stack([own.mean(0) for own in read]), beside.mean(1))


@torch.no_grad()
def ways_of(predictor: Predictor, packed: PackedMolecules, middle: Middle, told: Told) -> Ways:
    """What is added on the way from the mean molecule to each of these."""
    members, task = predictor.model.members, predictor.model.task
    heads = [_doubled(member) for member in members]
    one = torch.ones(task.outputs, dtype=torch.float64)
    shares = [one if blend is None else blend.shares[0].double() for blend in predictor.blends]
    start = _outputs(heads, shares, [own[None] for own in middle.read], middle.beside[:, None])
    atoms, whole = [], []
    for part in _encoded(predictor, packed):
        end, batch = _outputs(heads, shares, part.read, part.beside), part.operators.batch
        slopes = _stretched(task, start.expand_as(end), end, told)
        of_atoms = slopes.new_zeros(len(batch), task.outputs)
        of_whole = slopes.new_zeros(end.shape[1:])
        for m, member in enumerate(members):
            mean, read = middle.read[m], part.read[m]
            own = mean_slopes(heads[m], mean, read) * shares[m][:, None]
            each = _divided(member, part.operators, part.states[m], read, mean, own)
            cut = pooled_channels(member.channels, member.readout)
            rest = torch.einsum("gk,gwk->gw", (read - mean)[:, cut:], own[..., cut:])
            rest += part.beside[m] - middle.beside[m]
            for j, (here, there) in enumerate(_coordinates(task)):
                slope = slopes[:, here, m, j]
                of_atoms[:, here] += slope[batch] * each[:, there]
                of_whole[:, here] += slope * rest[:, there]
        atoms.append(of_atoms)
        whole.append(of_whole)
    return Ways(told(start)[0], torch.cat(atoms), torch.cat(whole))


@torch.no_grad()
def mean_slopes(head: Head, start: Tensor, ends: Tensor) -> Tensor:
    """S of each way from start [R] to one of the ends [G, R]: [G, W, R], float64 throughout.

    With two hidden layers S = W₃ (W₂ ⊙ P) W₁, where P [H₂, H₁] is the share of the way on which a
    unit of the second layer and one of the first are both on.

    >>> torch.manual_seed(0)
    <torch._C.Generator object at ...>
    >>> head, start = Head(8, 2).double(), torch.zeros(8, dtype=torch.float64)
    >>> ends = torch.randn(3, 8, dtype=torch.float64)
    >>> added = (mean_slopes(head, start, ends) @ ends[:, :, None])[..., 0]
    >>> torch.testing.assert_close(added, head(ends) - head(start))
    """
    if len(head.layers) != 3:
        raise ValueError("only a head of two hidden layers can be explained")
    (w1, b1), (w2, b2), (w3, _) = map(_weights, head.layers)
    if (norm := head.norm) is not None:  # a straight line in each channel
        zero = torch.zeros_like(start)[None]
        shift = norm(zero)[0]
        gain = norm(zero + 1)[0] - shift
        b1, w1 = b1 + w1 @ shift, w1 * gain
    first, last = start @ w1.T + b1, ends @ w1.T + b1
    # Where units of the first layer switch; those that never do, at the end of the way.
    switch = first / (first - last)
    inside = (switch > 0) & (switch < 1)
    cuts = torch.where(inside, switch, torch.ones_like(switch)).sort(1).values
    both = last.new_zeros(len(ends), len(b2), len(b1))
    here = torch.zeros_like(cuts[:, :1])
    for there in (*cuts.split(1, dim=1), torch.ones_like(here)):
        on = (first + (here + there) / 2 * (last - first) > 0).double()
        a, b = ((on * (first + at * (last - first))) @ w2.T + b2 for at in (here, there))
        # In between these are straight lines: above 0 for so much of the stretch.
        share = torch.where(a * b >= 0, ((a + b) > 0).double(), a.maximum(b) / (a - b).abs())
        both += ((there - here) * share)[:, :, None] * on[:, None]
        here = there
    slopes: Tensor = w3 @ (w2 * both) @ w1
    return slopes


@torch.no_grad()
def spread(predictor: Predictor, operators: GraphOperators, values: Tensor) -> Tensor:
    """Values [N, T] of states, brought back to the atoms that these had them from.

    A layer of diffusion gives atom i the share K_ij of what atom j had; so what atom i contributes
    goes to the atoms j in these shares, layer by layer, for the mean time of a layer. Sums over a
    connected molecule stay what they are. Without diffusion a block counts as a step of time 1.
    """
    member = predictor.model.members[0]
    layers = member.diffusions()
    scheme = layers[0].scheme if layers else IMPLICIT
    times = [float(own.times.mean()) for own in layers] or [1.0] * len(member.blocks)
    operators = operators.to(dtype=torch.float64)
    solver = Eigenbasis() if operators.has_basis else Chebyshev()
    mass = operators.mass[:, None]
    for time in times:
        moved = solver(operators, values / mass, values.new_full((values.shape[1],), time), scheme)
        values = mass * moved
    return values


@torch.no_grad()
def _encoded(predictor: Predictor, packed: PackedMolecules) -> Iterator[_Encoded]:
    """The molecules, some at a time."""
    model = predictor.model
    numbers = model.members[0].embedding_channels * model.task.outputs
    some = max(1, min(_MOLECULES, _NUMBERS // max(numbers, 1)))
    for graphs in torch.arange(len(packed)).split(some):
        part = packed.take(graphs)
        states, read, beside = [], [], []
        if any(predictor.blends):
            x = columns(part.counts, part.graph_values, predictor.listen(part).read)
        for member, scale, blend in zip(model.members, model.scales, predictor.blends, strict=True):
            bonds = with_values(part.bonds, part.bond_values)
            own = member.states((part.atoms, part.atom_values), part.operators, bonds)
            states.append(own.to("cpu", torch.float64))
            pooled = pool(states[-1], part.operators, str(member.readout))
            whole = scale.standardise(part.graph_values).double()
            read.append(torch.cat([pooled, whole], dim=1))
            none = pooled.new_zeros(len(part), model.task.outputs)
            said = none if blend is None else blend.beside(x)
            beside.append(said)
        yield _Encoded(part.operators, states, read, torch.stack(beside))


def _weights(layer: nn.Module) -> tuple[Tensor, Tensor]:
    assert isinstance(layer, nn.Linear)
    return layer.weight, layer.bias


def _doubled(member: GAD) -> Head:
    """Its head in double precision."""
    assert isinstance(member.head, Head)
    return copy.deepcopy(member.head).to("cpu", torch.float64)


def _outputs(heads: list[Head], shares: list[Tensor], read: list[Tensor], beside: Tensor) -> Tensor:
    """What the members say [M, G, W], blends included."""
    said = [share * head(own) for head, share, own in zip(heads, shares, read, strict=True)]
    return torch.stack(said) + beside


def _coordinates(task: Task) -> list[tuple[Tensor, Tensor]]:
    """For j = 0, 1, …: the columns whose target has a j-th output, and the places of that output.

    The prediction of a class depends on all outputs of its target, and on no others.
    """
    most = max((target.outputs for target in task.targets), default=0)
    pairs = []
    for j in range(most):
        spans = [span for span in task.spans if span.stop - span.start > j]
        here = [w for span in spans for w in range(span.start, span.stop)]
        there = [span.start + j for span in spans for _ in range(span.start, span.stop)]
        pairs.append((torch.tensor(here), torch.tensor(there)))
    return pairs


def _stretched(task: Task, start: Tensor, end: Tensor, told: Told) -> Tensor:
    """How much a prediction changes with each output on the way, on average: [G, W, M, K].

    In every stretch each output moves alone, about the middle of the stretch: with one member and
    one output this adds up exactly, whatever the calibration looks like.
    """
    members, count, width = end.shape
    coordinates = _coordinates(task)
    plain = all(t.kind == "regression" and t.transform == "none" for t in task.targets)
    straight = len(coordinates) == 1 and (members == 1 or plain)
    stretches = 1 if straight else _STRETCHES
    found = end.new_zeros(count, width, members, len(coordinates))
    way = end - start
    move = torch.where(way.abs() < _STILL, torch.full_like(way, _TINY), way) / stretches
    for step in range(stretches):
        middle = start + (step + 0.5) / stretches * way
        for j, (here, there) in enumerate(coordinates):
            own = torch.zeros(width, dtype=torch.bool).index_fill(0, there, True)
            for m in range(members):
                half = torch.zeros_like(move)
                half[m, :, own] = move[m, :, own] / 2
                change = told(middle + half) - told(middle - half)
                found[:, here, m, j] += (change[:, here] / move[m][:, there]) / stretches
    return found


def _divided(
    member: GAD,
    operators: GraphOperators,
    h: Tensor,
    read: Tensor,
    middle: Tensor,
    slopes: Tensor,
) -> Tensor:
    """What each atom adds to the outputs: [N, W].

    Args:
        member: whose readout it is.
        operators: of the molecules.
        h: states [N, C].
        read: of each molecule [G, R].
        middle: of the mean molecule [R].
        slopes: [G, W, R].
    """
    batch, channels = operators.batch, member.channels
    size = operators.graph_sizes.double()[batch, None]
    if member.readout == "sum":
        moved = h - middle[:channels] / size
    elif member.readout == "mean":
        moved = (h - middle[:channels]) / size
    else:
        total, mean, highest, count = middle[: 3 * channels + 1].split([channels] * 3 + [1])
        top = read[:, 2 * channels : 3 * channels]
        near = 1 - (top[batch] - h) / (_NEAR * (1 + top.abs()))[batch]
        near = near.clamp(min=0)
        shared = near / torch.zeros_like(top).index_add(0, batch, near)[batch]
        moved = torch.cat(
            [
                h - total / size,
                (h - mean) / size,
                shared * (top - highest)[batch],
                (size.log() - count) / size,
            ],
            dim=1,
        )
    own = slopes[..., : moved.shape[1]]
    return torch.einsum("nk,nwk->nw", moved, own[batch])
