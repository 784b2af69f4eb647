"""Directions on a graph: the field of a potential, normalised, and its whole eigenspace.

A potential φ gives the field F_ij = A_ij (φ_i − φ_j) on edges j → i; each row is divided by its L1
norm: F̂. Where the potential is an eigenspace of dimension m (or several fields of the user's), row
i is divided by Z_i = Σ_j ‖F_ij‖₂ over the m directions instead, which is the same at m = 1 and does
not depend on the basis chosen. All of it in float64, without an epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gad.operators.eigenbasis import (
    Partition,
    Spectra,
    first_eigenspaces,
    ragged_arange,
    starts,
)

# A row whose norm is below this share of its mass times its component's largest |φ| has no
# direction: what is left there is rounding, and dividing rounding by itself would give a random
# direction. (The mass makes it the same for weights in other units.)
NO_DIRECTION = 1e-9


@dataclass(frozen=True)
class Potentials:
    """Potentials of every component, flat: component u has a [n_u, m_u] matrix, row by row.

    ``counts`` [U] are the m_u; ``noise`` [U] is the relative accuracy of the potentials.
    """

    values: Tensor
    counts: Tensor
    noise: Tensor


@dataclass(frozen=True)
class Field:
    """The normalised field F̂ on edges.

    ``first`` [E] is its first direction, ``norm`` [E] its length over all directions (‖F̂_ij‖₂,
    what B_av uses), ``directions`` [E] the number m of directions of each edge's component, and
    ``others`` [Σ(m − 1)] the directions after the first, edge by edge.
    """

    first: Tensor
    norm: Tensor
    directions: Tensor
    others: Tensor


def fiedler_potentials(spectra: Spectra, partition: Partition) -> Potentials:
    """The φ₁ eigenspace of each component, cut out of its eigenbasis."""
    dims = first_eigenspaces(spectra)
    row_unit = torch.arange(dims.numel()).repeat_interleave(partition.sizes)
    columns, chosen = spectra.counts[row_unit], dims[row_unit]
    # Row after row the vectors lie end to end; of each row the entries 1 … m are taken.
    entry = (starts(columns) + 1).repeat_interleave(chosen) + ragged_arange(chosen)
    return Potentials(spectra.vectors[entry], dims, torch.zeros(dims.numel()))


def user_potentials(potential: Tensor, partition: Partition) -> Potentials:
    """The user's own field [N] or fields [N, m] instead of φ₁."""
    values = potential.detach().to("cpu", torch.float64)
    if values.dim() == 1:
        values = values[:, None]
    num_nodes, m = partition.members.numel(), values.shape[-1] if values.dim() else 0
    if values.dim() != 2 or values.shape[0] != num_nodes or m == 0:
        raise ValueError(
            f"potential must be [N] or [N, m] with N = {num_nodes} nodes, "
            f"not {list(potential.shape)}"
        )
    if not torch.isfinite(values).all():
        raise ValueError("potential has values that are not finite")
    units = partition.sizes.numel()
    counts = torch.full((units,), m, dtype=torch.int64)
    # Where a potential has its zero says nothing, so it may not decide what is small either.
    total = torch.zeros(units, m, dtype=torch.float64).index_add_(0, partition.component, values)
    values = values - (total / partition.sizes[:, None])[partition.component]
    return Potentials(values[partition.members].reshape(-1), counts, torch.zeros(units))


def field(
    source: Tensor,
    target: Tensor,
    weight: Tensor,
    mass: Tensor,
    potentials: Potentials,
    partition: Partition,
) -> Field:
    """F̂ of the potentials on edges sorted by target, with the masses [N] of the nodes."""
    component, num_nodes = partition.component, partition.members.numel()
    directions = potentials.counts[component[target]]
    first = torch.zeros(source.numel(), dtype=torch.float64)
    norm = torch.zeros_like(first)
    others = torch.zeros(int((directions - 1).clamp_min(0).sum()), dtype=torch.float64)
    other_start = starts((directions - 1).clamp_min(0))
    block_start = starts(partition.sizes * potentials.counts)
    for m in potentials.counts.unique().tolist():
        edges = (directions == m).nonzero().flatten()
        if m == 0 or edges.numel() == 0:
            continue
        i, j = target[edges], source[edges]
        columns = torch.arange(m)
        row = block_start[component] + partition.slot * m
        phi_i = potentials.values[row[i, None] + columns]
        phi_j = potentials.values[row[j, None] + columns]
        flow = weight[edges, None] * (phi_i - phi_j)
        length = flow.norm(dim=1)
        total = torch.zeros(num_nodes, dtype=torch.float64).index_add_(0, i, length)
        largest = torch.zeros(partition.sizes.numel(), dtype=torch.float64)
        largest.scatter_reduce_(0, component[i], phi_i.norm(dim=1), "amax")
        floor = potentials.noise.to(torch.float64).clamp_min(NO_DIRECTION) * largest
        large = total[i] > floor[component[i]] * mass[i]
        scale = torch.where(large, 1 / total[i], torch.zeros_like(length))
        first[edges] = flow[:, 0] * scale
        norm[edges] = length * scale
        if m > 1:
            others[other_start[edges, None] + columns[: m - 1]] = flow[:, 1:] * scale[:, None]
    return Field(first, norm, directions, others)


def transpose(flow: Field, reverse: Tensor) -> Field:
    """F̂ᵀ on the same edges: what stood on i → j, at ``reverse``, stands on j → i."""
    extra = (flow.directions - 1).clamp_min(0)
    begin = starts(extra)
    # Both directions of an edge lie in one component, so they have as many directions.
    other = begin[reverse].repeat_interleave(extra) + ragged_arange(extra)
    return Field(flow.first[reverse], flow.norm[reverse], flow.directions, flow.others[other])
