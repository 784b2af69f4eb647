"""The gate of the compiled path: whether C must give the same numbers as the definition.

Every part of a block is exactly of the type it was made with and nothing hangs on it (hooks,
parametrisations, adapters), and every tensor is an ordinary one of float32 on the CPU, of the size
the kernels expect. All of it is looked at in every call, since anything may have changed. A block
is called for a few dozen molecules at a time, so looking must be quick: parts and weights are read
from the dictionaries in which modules keep them, which takes a tenth of the time of an attribute.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.nn.modules import module as module_hooks

from gad import native
from gad import nn as gad_nn
from gad.native import bindings
from gad.operators import Eigenbasis, GraphOperators
from gad.operators.schemes import Heat, ImplicitStep

if TYPE_CHECKING:
    from gad.nn.aggregation import DirectionalAggregation
    from gad.nn.block import GADBlock
    from gad.nn.diffusion import Diffusion

# r' = −λ r^power: how the kernels know a scheme.
POWERS = {Heat: 1, ImplicitStep: 2}
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_EVERYWHERE = [getattr(module_hooks, f"_global{name}") for name in _HOOKS]
_LINEAR = nn.Linear.forward
_KNOWN, _DIRECTIONAL = frozenset(bindings.AGGREGATORS), frozenset({"av", "dx"})


def part(module: nn.Module, name: str) -> Any:
    """``module.name``, where that is a part, a parameter or a buffer."""
    own = vars(module)
    for place in (own, own["_parameters"], own["_modules"], own["_buffers"]):
        if name in place:
            return place[name]
    return None


def accepts_parts(block: GADBlock, operators: GraphOperators) -> bool:
    """Whether a block and its parts are exactly what they were made as."""
    norm, diffusion = part(block, "norm"), part(block, "diffusion")
    combine = part(block, "combine")
    return (
        type(block) is gad_nn.GADBlock
        and "normed_filters" not in vars(block)
        and (combine is None) == (diffusion is None)
        and _is_bare(part(block, "aggregation"), gad_nn.DirectionalAggregation)
        and _is_bare(part(block, "across_towers"), nn.Linear)
        and (combine is None or _is_bare(combine, nn.Linear))
        and nn.Linear.forward is _LINEAR
        and (norm is None or (_is_bare(norm, gad_nn.BatchNorm) and _accepts_norm(norm)))
        and (diffusion is None or _accepts_diffusion(diffusion, operators))
        and not any(_EVERYWHERE)
    )


def _is_bare(module: nn.Module, *kinds: type[nn.Module]) -> bool:
    """Whether a module is exactly of this type and calling it does nothing but its forward."""
    if type(module) not in kinds:
        return False
    own = vars(module)
    return not (
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
        or own["_modules"]
        or "forward" in own
        or own.get("_compiled_call_impl") is not None
    )


def _accepts_norm(norm: gad_nn.BatchNorm) -> bool:
    mean, var, weight = (part(norm, name) for name in ("running_mean", "running_var", "weight"))
    return (
        norm.track_running_stats
        # Statistics over several processes are not the kernels' business.
        and not (norm.training and norm.share is not None)
        and isinstance(norm.momentum, float)
        and native.is_ordinary(mean)
        and native.is_ordinary(var)
        and native.is_ordinary(weight)
        and mean.shape == var.shape == weight.shape
        # They are followed in place, so a copy would not do.
        and mean.is_contiguous()
        and var.is_contiguous()
    )


def _accepts_diffusion(diffusion: Diffusion, operators: GraphOperators) -> bool:
    kinds = (gad_nn.Diffusion, gad_nn.ImplicitDiffusion, gad_nn.SpectralDiffusion)
    return (
        _is_bare(diffusion, *kinds)
        and "choose_solver" not in vars(diffusion)
        and type(diffusion.scheme) in POWERS
        and not vars(diffusion.scheme)
        and operators.has_basis
        and type(diffusion.choose_solver(operators)) is Eigenbasis
    )


def weights_of(
    filters: DirectionalAggregation, block: GADBlock | None
) -> list[Tensor | None] | None:
    """Every weight in C's order, None where there is none; None if one is not as it must be."""
    norm = combine = diffusion = across = None
    if block is not None:
        norm, combine = part(block, "norm"), part(block, "combine")
        diffusion, across = part(block, "diffusion"), part(block, "across_towers")
    owners = {"filters": filters, "norm": norm, "across": across, "combine": combine}
    owners["diffusion"] = diffusion
    weights = [
        None if (module := owners[owner]) is None else part(module, name)
        for owner, name in _WEIGHTS
    ]
    shapes = _shapes(
        filters.channels, filters.towers, filters.edge_channels,
        len(filters.scalers), len(filters.aggregators),
        norm is not None, across is not None, combine is not None,
    )  # fmt: skip
    delta = part(filters, "delta")
    if not native.is_ordinary(delta) or delta.requires_grad:
        return None
    if not all(weight is None or native.is_ordinary(weight) for weight in weights):
        return None
    found = [None if weight is None else weight.shape for weight in weights]
    return weights if found == shapes and delta.shape == () else None


# Whose they are and what they are called there, in C's order (bindings.WEIGHTS).
_WEIGHTS = (
    ("filters", "source_weight"), ("filters", "target_weight"), ("filters", "own_weight"),
    ("filters", "bias"), ("filters", "mix_bias"), ("filters", "mix_weight"),
    ("norm", "weight"), ("norm", "bias"), ("across", "weight"), ("across", "bias"),
    ("combine", "weight"), ("combine", "bias"), ("filters", "edge_weight"),
    ("diffusion", "raw_times"),
)  # fmt: skip


@lru_cache(maxsize=256)
def _shapes(
    C: int, T: int, D: int, scalers: int, aggregators: int, norm: bool, across: bool, combine: bool
) -> list[tuple[int, ...] | None]:
    """The shape every weight must have, in C's order; None: it must not be there."""
    w = C // T
    square, of_norm = (T, w, w), (C,) if norm else None
    return [
        square, square, square, (C,), (C,), (T, scalers * w, aggregators * w), of_norm, of_norm,
        (C, C) if across else None, (C,) if across else None,
        (C, 2 * C) if combine else None, (C,) if combine else None,
        (C, D) if D else None, (C,) if combine else None,
    ]  # fmt: skip


def accepts_sizes(
    filters: DirectionalAggregation, x: Tensor, operators: GraphOperators, edges: Tensor | None
) -> bool:
    """Whether inputs and names are what the kernels know."""
    return (
        type(filters) is gad_nn.DirectionalAggregation
        and not filters._modules
        and filters.slope >= 0  # a result has the sign of what it was made from
        and _KNOWN.issuperset(filters.aggregators)
        and (operators.has_directions or _DIRECTIONAL.isdisjoint(filters.aggregators))
        and x.shape == (operators.num_nodes, filters.channels)
        and (edges is None) == (filters.edge_channels == 0)
        and (edges is None or edges.shape == (operators.num_given_edges, filters.edge_channels))
    )
