"""How flat, ragged operators are laid out for multiplication.

Two layouts, both made once per batch and neither visible outside: eigenbases padded in buckets of
similar size (one batched product per bucket), and neighbours in *jagged diagonals* (slot s holds
the s-th neighbour of every node that has one, nodes sorted by decreasing degree, so that every
slot is a prefix of the nodes: no padding, no mask).
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from gad import native
from gad.native import bindings
from gad.operators.derivatives import without_kernels
from gad.operators.eigenbasis import starts

# Bucket bounds grow by this factor, so padding wastes little and buckets are few.
_GROWTH = 1.26
# Entries in one bucket's padded basis; larger buckets are cut.
_BUCKET = 1 << 26


class Basis(Protocol):
    """Eigenbases laid out for multiplication."""

    @property
    def eigenvalues(self) -> Tensor:
        """λ in the order of the responses [ΣK]."""
        ...

    def apply(self, x: Tensor, response: Tensor) -> Tensor:
        """Φ (R ⊙ ΦᵀM x) for x [N, C] and R [ΣK, C], with gradients to both."""
        ...


@dataclass(frozen=True)
class Bucket:
    """Eigenbases of U components of similar size, padded with zeros.

    ``eigenvalues`` [U, K], ``analysis`` [U, K, n] = ΦᵀM and ``synthesis`` [U, K, n] = Φᵀ.
    """

    eigenvalues: Tensor
    analysis: Tensor
    synthesis: Tensor


@dataclass(frozen=True)
class PaddedBasis:
    """All buckets of a batch.

    ``eigenvalues`` [Σ U·K] and ``nodes`` [Σ U·n] list those of the buckets, one after the other
    (padding repeats a node: its rows of Φ are 0); ``position`` [N] finds a node in that list.
    """

    buckets: tuple[Bucket, ...]
    eigenvalues: Tensor
    nodes: Tensor
    position: Tensor

    def apply(self, x: Tensor, response: Tensor) -> Tensor:
        """As :meth:`Basis.apply`: one batched product for each bucket and side."""
        sizes = [bucket.analysis.shape for bucket in self.buckets]
        signals = x.index_select(0, self.nodes).split([units * n for units, _, n in sizes])
        responses = response.split([units * count for units, count, _ in sizes])
        results = []
        for bucket, signal, r in zip(self.buckets, signals, responses, strict=True):
            units, count, n = bucket.analysis.shape
            coefficient = torch.bmm(bucket.analysis.to(x.dtype), signal.view(units, n, -1))
            filtered = r.view(units, count, -1) * coefficient
            result = torch.bmm(bucket.synthesis.to(x.dtype).transpose(1, 2), filtered)
            results.append(result.flatten(0, 1))
        return torch.cat(results).index_select(0, self.position)


@dataclass(frozen=True)
class FlatBasis:
    """The eigenbases of all components, flat: see :class:`gad.operators.GraphOperators`."""

    sizes: Tensor
    counts: Tensor
    members: Tensor
    mass: Tensor
    values: Tensor
    vectors: Tensor

    @property
    def eigenvalues(self) -> Tensor:
        """λ [ΣK]."""
        return self.values

    def apply(self, x: Tensor, response: Tensor) -> Tensor:
        """As :meth:`Basis.apply`, by the compiled kernel: nothing is padded."""
        result: Tensor = _Filter.apply(x, response, self)  # type: ignore[no-untyped-call]
        return result

    def struct(self) -> bindings.Basis:
        """As the compiled kernels read it."""
        return bindings.struct(
            bindings.Basis,
            units=self.sizes.numel(),
            size=self.sizes.contiguous(),
            count=self.counts.contiguous(),
            members=self.members.contiguous(),
            **{
                name: getattr(self, name).to(torch.float32).contiguous()
                for name in ("mass", "vectors", "values")
            },
        )

    def pad(self) -> PaddedBasis:
        """Lay the eigenbases out in buckets of similar size."""
        key = (self.sizes.to(torch.float64).log() / math.log(_GROWTH)).ceil().to(torch.int64)
        order = key.argsort(stable=True)
        _, per_key = torch.unique_consecutive(key[order], return_counts=True)
        begins = starts(self.sizes), starts(self.counts), starts(self.sizes * self.counts)
        position = torch.empty_like(self.members)
        buckets: list[Bucket] = []
        listed: list[Tensor] = []
        offset = 0
        for same in torch.split(order, per_key.tolist()):
            largest = int(self.sizes[same].max())
            for units in torch.split(same, max(1, _BUCKET // largest**2)):
                bucket, nodes, real = self._bucket(units, *(begin[units, None] for begin in begins))
                place = torch.arange(nodes.numel(), device=nodes.device).view_as(nodes) + offset
                position[nodes[real]] = place[real]
                offset += nodes.numel()
                buckets.append(bucket)
                listed.append(nodes.flatten())
        eigenvalues = torch.cat([b.eigenvalues.flatten() for b in buckets])
        return PaddedBasis(tuple(buckets), eigenvalues, torch.cat(listed), position)

    def _bucket(
        self, units: Tensor, member: Tensor, value: Tensor, vector: Tensor
    ) -> tuple[Bucket, Tensor, Tensor]:
        """One bucket, its nodes [U, n], and which of them are not padding."""
        size, count = self.sizes[units, None], self.counts[units, None]
        row = torch.arange(int(size.max()), device=units.device)[None]
        column = torch.arange(int(count.max()), device=units.device)[None]
        real, kept = row < size, column < count
        nodes = self.members[member + row * real]
        eigenvalues = self.values[value + column * kept] * kept
        inside = kept[:, :, None] & real[:, None, :]
        entry = (
            vector[:, :, None] + row[:, None, :] * count[:, :, None] + column[:, :, None]
        ) * inside
        synthesis = self.vectors[entry] * inside
        analysis = synthesis * self.mass[nodes][:, None, :]
        return Bucket(eigenvalues, analysis, synthesis), nodes, real


class _Filter(torch.autograd.Function):
    """Y = Φ (R ⊙ ΦᵀM X) for X [N, C] and the responses R [ΣK, C].

    The operator is self-adjoint under the mass: the gradient to X is the same product with ΦᵀM and
    Φᵀ exchanged, and that to R is the product of the two sides' coefficients.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, response: Tensor, basis: FlatBasis) -> Tensor:
        response = response.contiguous()
        y, coefficients = _filter(basis, x, response, adjoint=False)
        ctx.basis = basis
        ctx.save_for_backward(response, coefficients)
        return y

    @staticmethod
    @without_kernels
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        response, coefficients = ctx.saved_tensors
        grad_x, along = _filter(ctx.basis, grad, response, adjoint=True)
        return grad_x, along.mul_(coefficients), None


def _filter(
    basis: FlatBasis, x: Tensor, response: Tensor, *, adjoint: bool
) -> tuple[Tensor, Tensor]:
    """Φ (R ⊙ ΦᵀM x) and the coefficients ΦᵀM x [ΣK, C], or the adjoint: MΦ (R ⊙ Φᵀ x), Φᵀ x."""
    x = x.contiguous()
    y, coefficients = torch.empty_like(x), torch.empty_like(response)
    given = bindings.struct(bindings.Response, given=response)
    native.call("diffuse", basis.struct(), given, x.shape[1], x, coefficients, y, int(adjoint))
    return y, coefficients


@dataclass(frozen=True)
class Neighbours:
    """Neighbours in jagged diagonals.

    Nodes are ranked by decreasing degree: ``order`` [N] lists them (None: they already are in
    order) and ``rank`` [N] inverts it. ``counts`` are the prefix lengths: counts[s] nodes have more
    than s neighbours. Edges are sorted by (slot, rank of target): ``source`` [E] is the rank of the
    edge's source, ``reverse`` [E] where its reverse stands, ``edges`` [E] its number in the
    operators' own order, ``given`` [E] its number in the list they were built from (None: the
    same). ``degree`` [N] counts neighbours, by rank. ``arranged`` says that nodes and edges already
    stand in this order.
    """

    order: Tensor | None
    rank: Tensor | None
    counts: tuple[int, ...]
    source: Tensor
    reverse: Tensor
    degree: Tensor
    edges: Tensor
    given: Tensor | None
    arranged: bool = False


def jagged(source: Tensor, degree: Tensor, reverse: Tensor, position: Tensor) -> Neighbours:
    """Lay edges sorted by (target, source), at ``position`` in a given list, out in diagonals."""
    arrange = _arrange_natively if native.accepts() and source.is_cpu else _arrange
    order, rank, edges, counts, ranked_source, ranked_reverse, ranked_degree = arrange(
        source, degree, reverse
    )
    ranked = _is_arange(order)
    given = position[edges]
    return Neighbours(
        order=None if ranked else order,
        rank=None if ranked else rank,
        counts=counts,
        source=ranked_source,
        reverse=ranked_reverse,
        degree=ranked_degree,
        edges=edges,
        given=None if _is_arange(given) else given,
    )


_Arranged = tuple[Tensor, Tensor, Tensor, tuple[int, ...], Tensor, Tensor, Tensor]


def _arrange(source: Tensor, degree: Tensor, reverse: Tensor) -> _Arranged:
    """Order, rank, edges; counts, source, reverse and degree: see :class:`Neighbours`."""
    order = degree.argsort(descending=True, stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(order.numel(), device=order.device)
    ranked_degree = degree[order]
    # counts[s] is the number of nodes of degree > s: where s falls in the descending degrees.
    steps = torch.arange(1, int(ranked_degree[0]) + 1, device=order.device)
    counts = order.numel() - torch.searchsorted(ranked_degree.flip(0), steps)
    sizes = tuple(counts.tolist())
    first = starts(degree)[order]
    # Edges are sorted by target, so a node's s-th edge stands s places after its first.
    edges = torch.cat([first[:n] + s for s, n in enumerate(sizes)] or [first[:0]])
    place = torch.empty_like(edges)
    place[edges] = torch.arange(edges.numel(), device=edges.device)
    return order, rank, edges, sizes, rank[source[edges]], place[reverse[edges]], ranked_degree


def _arrange_natively(source: Tensor, degree: Tensor, reverse: Tensor) -> _Arranged:
    """The same by a compiled kernel."""
    source, degree, reverse = (t.contiguous() for t in (source, degree, reverse))
    order, rank, ranked_degree, counts = degree.new_empty(4, degree.numel())
    edges, new_source, new_reverse = source.new_empty(3, source.numel())
    slots = ctypes.c_int64()
    native.call(
        "arrange", degree.numel(), source.numel(), source, degree, reverse, order, rank,
        ranked_degree, edges, new_source, new_reverse, counts, ctypes.addressof(slots),
    )  # fmt: skip
    sizes = tuple(counts[: slots.value].tolist())
    return order, rank, edges, sizes, new_source, new_reverse, ranked_degree


def _is_arange(index: Tensor) -> bool:
    return bool((index == torch.arange(index.numel(), device=index.device)).all())
