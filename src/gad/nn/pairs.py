"""A filter over all pairs of nodes: any function of the diffusion kernels at several times.

A diffusion weighs what node i receives from node j by K_t(i, j), one number a time. Here the
numbers of T times go through a small network first, so that a layer may weigh nodes by how they lie
to one another (near, on one ring, at the two ends of a chain) and not by nearness alone. It stays a
function of the Laplacian: nothing else enters, so it cannot depend on how the nodes are numbered
nor on the choice of eigenvectors.

In the symmetric form S_t = M^½ Φ r_t(Λ) Φᵀ M^½ the kernel is K_t(i, j) = S_t(i, j) √(m_j / m_i),
and one of the two pairs (i, j) and (j, i) is enough to work with: half the arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gad.nn.diffusion import Timed
from gad.nn.norm import BatchNorm
from gad.operators import GraphOperators, Scheme
from gad.operators.layouts import PaddedBasis

# Entries of a kernel span orders of magnitude. log(1 + 32 s) is the logarithm of large ones and
# linear in small ones, so that the rounding of entries that are all but 0 stays as small as it is.
_STRETCH = 32.0


class PairWeights(Timed):
    """w(i, j), for every head and all pairs of nodes that are connected.

    With s_ij = (S_t(i, j) for T learned times t), see above::

        w(i, j) = A s_ij + B LeakyReLU(W q(s_ij) + b),    q(s) = ± log(1 + 32 |s|) / log 33

    A head is a plain diffusion for time t if A picks that time and B is 0; that is how all of them
    start, but for B. A pair of nodes in different components has no weight: it is left out.

    One object serves all layers of a model, L of them with G heads each: kernels and hidden units
    are worked out once.

    Args:
        heads: how many weights a pair has, those of all layers together.
        scheme: which function of the Laplacian, r_t.
        times: T, how many times; they start spread from local to global reach.
        hidden: how many hidden units.

    Shapes: operators with an eigenbasis (whole, or cut at k) → :class:`Weights`.

    Example:
        >>> import gad, torch
        >>> from gad.operators import IMPLICIT
        >>> pair = gad.build_operators(torch.tensor([[0, 1], [1, 0]]), 2)
        >>> weights = PairWeights(4, IMPLICIT, times=3)(pair)
        >>> [tuple(own.shape) for own in weights.of_buckets]  # heads, components, i, j
        [(4, 1, 2, 2)]
    """

    def __init__(self, heads: int, scheme: Scheme, *, times: int = 8, hidden: int = 24) -> None:
        super().__init__(times)
        self.heads, self.scheme = heads, scheme
        self.linear = nn.Parameter(torch.eye(times)[torch.arange(heads) % times])
        self.inner = nn.Linear(times, hidden)
        self.outer = nn.Linear(hidden, heads, bias=False)

    def forward(self, operators: GraphOperators) -> Weights:
        """All weights of all pairs."""
        dtype = self.raw_times.dtype
        layout = operators.padded_basis
        times = self.times
        response = self.scheme.response(layout.eigenvalues.to(dtype)[:, None], times)
        responses = response.split([bucket.eigenvalues.numel() for bucket in layout.buckets])
        kernels = []
        for phi, r in zip(_symmetric(operators, dtype), responses, strict=True):
            # S_t(i, j) = Σ_k r_t(λ_k) φ_ki φ_kj for i ≤ j.
            units, count, n = phi.shape
            half = _half(n, phi.device)
            rows = phi.flatten(0, 1)
            both = rows.index_select(1, half.first) * rows.index_select(1, half.second)
            own = torch.bmm(r.view(units, count, -1).transpose(1, 2), both.view(units, count, -1))
            kernels.append(own.transpose(0, 1).flatten(1))
        s = torch.cat(kernels, dim=1)
        q = torch.log1p(_STRETCH * s.abs()).copysign(s) / math.log1p(_STRETCH)
        hidden = F.leaky_relu(torch.addmm(self.inner.bias[:, None], self.inner.weight, q))
        w = torch.addmm(self.linear @ s, self.outer.weight, hidden)
        sizes = [bucket.analysis.shape for bucket in layout.buckets]
        parts = w.split([units * (n * (n + 1) // 2) for units, _, n in sizes], dim=1)
        return Weights(
            tuple(
                _Unfold.apply(part.reshape(self.heads, units, -1), n)  # type: ignore[no-untyped-call]
                for part, (units, _, n) in zip(parts, sizes, strict=True)
            ),
            layout,
            operators.mass.to(dtype).sqrt()[:, None],
        )

    def extra_repr(self) -> str:
        """Heads, times and scheme."""
        return f"{self.heads}, {self.scheme!r}, times={self.raw_times.numel()}"


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of all pairs of nodes: for each bucket of components [heads, U, n, n].

    ``layout`` says where the nodes of the buckets are; ``root_mass`` [N, 1] is √m.
    """

    of_buckets: tuple[Tensor, ...]
    layout: PaddedBasis
    root_mass: Tensor

    def split(self, layers: int) -> list[Weights]:
        """Those of each of so many layers."""
        shares = zip(*(own.chunk(layers) for own in self.of_buckets), strict=True)
        return [Weights(tuple(own), self.layout, self.root_mass) for own in shares]

    def apply(self, x: Tensor) -> Tensor:
        """h_i = Σ_j √(m_j / m_i) w_g(i, j) x_j for the channels of head g: [N, C] → [N, C]."""
        layout, channels = self.layout, x.shape[1]
        # What stands at padding must be 0: it has weights.
        padded = x.new_zeros(len(layout.nodes), channels)
        padded = padded.index_copy(0, layout.position, self.root_mass * x)
        sizes = [own.shape[1] * own.shape[2] for own in self.of_buckets]
        results = []
        for w, signal in zip(self.of_buckets, padded.split(sizes), strict=True):
            heads, units, n, _ = w.shape
            by_head = signal.view(units, n, heads, -1).permute(2, 0, 1, 3)
            h = torch.matmul(w, by_head).permute(1, 2, 0, 3)
            results.append(h.reshape(units * n, channels))
        return torch.cat(results).index_select(0, layout.position) / self.root_mass


class KernelFilter(nn.Module):
    """out = x + LeakyReLU(norm(W h)) with h_i = Σ_j w_g(i, j) x_j for the channels of head g.

    Every head weighs its share of the channels by one function of the diffusion kernels
    (:class:`PairWeights`); a linear map brings the heads together. With as many heads as channels
    that all start as diffusions, h is :class:`gad.nn.Diffusion` of x.

    Args:
        channels: C, a multiple of ``heads``.
        heads: G.
        batch_norm, dropout: as in :class:`gad.nn.GADBlock`.

    Shapes: x [N, C], weights of G heads → [N, C].

    Example:
        >>> import gad, torch
        >>> from gad.operators import IMPLICIT
        >>> pair = gad.build_operators(torch.tensor([[0, 1], [1, 0]]), 2)
        >>> weights, layer = PairWeights(4, IMPLICIT)(pair), KernelFilter(8, 4)
        >>> layer(torch.randn(2, 8), weights).shape
        torch.Size([2, 8])
    """

    slope = 0.01  # of LeakyReLU below 0

    def __init__(
        self, channels: int, heads: int, *, batch_norm: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if heads < 1 or channels % heads:
            raise ValueError(f"{channels} channels cannot be cut into {heads} equal heads")
        self.across_heads = nn.Linear(channels, channels, bias=not batch_norm)
        self.norm = BatchNorm(channels) if batch_norm else None
        self.dropout = dropout

    def forward(self, x: Tensor, weights: Weights) -> Tensor:
        """Filter x [N, C] by the weights of all pairs."""
        y: Tensor = self.across_heads(weights.apply(x))
        y = F.leaky_relu(y if self.norm is None else self.norm(y), self.slope)
        return x + F.dropout(y, self.dropout, self.training)


def _symmetric(operators: GraphOperators, dtype: torch.dtype) -> list[Tensor]:
    """M^½ Φ of the components, bucket by bucket, transposed: [U, K, n]."""

    def scaled() -> list[Tensor]:
        layout = operators.padded_basis
        sizes = [bucket.synthesis.shape for bucket in layout.buckets]
        roots = operators.mass.sqrt()[layout.nodes].split([units * n for units, _, n in sizes])
        return [
            (bucket.synthesis * root.view(len(bucket.synthesis), 1, -1)).to(dtype)
            for bucket, root in zip(layout.buckets, roots, strict=True)
        ]

    return operators.once(f"symmetric_basis_{dtype}", scaled)


@dataclass(frozen=True)
class _Half:
    """The pairs i ≤ j of n nodes, and where each pair (i, j) of all n² is among them.

    ``first`` and ``second`` are i and j, ``upper`` and ``lower`` the places of (i, j) and (j, i) in
    the square, ``share`` is ½ where these are the same place.
    """

    first: Tensor
    second: Tensor
    square: Tensor
    upper: Tensor
    lower: Tensor
    share: Tensor


@lru_cache(maxsize=128)
def _half(n: int, device: torch.device) -> _Half:
    with torch.inference_mode(False):
        i, j = torch.triu_indices(n, n, device=device)
        square = torch.empty(n, n, dtype=torch.int64, device=device)
        square[i, j] = square[j, i] = torch.arange(i.numel(), device=device)
        share = torch.where(i == j, 0.5, 1.0)
        return _Half(i, j, square.flatten(), i * n + j, j * n + i, share)


class _Unfold(torch.autograd.Function):
    """Values of the pairs i ≤ j [G, U, n (n + 1) / 2] at all pairs [G, U, n, n].

    The gradient of a pair is the sum of those at its two places: two lookups, in place of the
    scattered sum that autograd would make of one.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, n: int) -> Tensor:
        ctx.n = n
        everywhere = values.flatten(0, 1).index_select(1, _half(n, values.device).square)
        return everywhere.view(*values.shape[:2], n, n)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        half, rows = _half(ctx.n, grad.device), grad.reshape(-1, ctx.n * ctx.n)
        both = rows.index_select(1, half.upper) + rows.index_select(1, half.lower)
        return (both * half.share.to(grad.dtype)).view(*grad.shape[:2], -1), None
