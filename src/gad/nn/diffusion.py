"""Learnable diffusion: every channel diffuses for its own time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gad.operators import (
    HEAT,
    IMPLICIT,
    Chebyshev,
    Eigenbasis,
    GraphOperators,
    Scheme,
    Solver,
)
from gad.operators.solvers.cheaper import cheaper_implicit

# Times start between these, a reach of 0.3 to 5 bonds: from local to most of a molecule.
_SHORTEST, _LONGEST = 0.1, 25.0
_GOLDEN = (math.sqrt(5) - 1) / 2


class Timed(nn.Module):
    """A layer with learned times ≥ 0, which weight decay does not touch.

    Args:
        count: how many.
        times: those to start from [count]; by default spread from local to global reach.
    """

    def __init__(self, count: int, times: Tensor | Sequence[float] | float | None = None) -> None:
        super().__init__()
        self.raw_times = nn.Parameter(spread_times(count))
        if times is not None:
            self.set_times(times)

    @property
    def times(self) -> Tensor:
        """The diffusion times [C], ≥ 0, with a gradient that can leave 0."""
        result: Tensor = _NonNegative.apply(self.raw_times)  # type: ignore[no-untyped-call]
        return result

    @torch.no_grad()
    def set_times(self, times: Tensor | Sequence[float] | float) -> None:
        """Set the times: one for all channels or one each, ≥ 0; read back exactly."""
        values = torch.as_tensor(times, dtype=self.raw_times.dtype, device=self.raw_times.device)
        if values.dim() and values.shape != self.raw_times.shape:
            count = self.raw_times.numel()
            raise ValueError(f"{count} channels need as many times, not {values.numel()}")
        if not bool(((values >= 0) & torch.isfinite(values)).all()):
            raise ValueError("diffusion times must be finite and at least 0")
        self.raw_times.copy_(values.expand_as(self.raw_times))

    @property
    def reach(self) -> Tensor:
        """√t: the root mean square distance, in bonds, that heat has gone on a chain [C]."""
        return self.times.detach().sqrt()


class Diffusion(Timed):
    """h = r_t(M⁻¹L) x, channel c for its own learned time t_c ≥ 0.

    Args:
        channels: C.
        scheme: which function of the Laplacian, r_t.
        solver: how it is applied; by default the eigenbasis where the operators have what the
            scheme needs of it, otherwise a solver that needs none.
        times: the times to start from [C]; by default spread from local to global reach.

    Shapes: x [N, C], operators of N nodes → [N, C].
    """

    def __init__(
        self,
        channels: int,
        scheme: Scheme,
        *,
        solver: Solver | None = None,
        times: Tensor | Sequence[float] | float | None = None,
    ) -> None:
        super().__init__(channels, times)
        self.scheme = scheme
        self.solver = solver

    @property
    def channels(self) -> int:
        """C."""
        return self.raw_times.shape[0]

    def choose_solver(self, operators: GraphOperators) -> Solver:
        """The solver used on these operators."""
        if self.solver is not None:
            return self.solver
        return Eigenbasis() if operators.has_basis else Chebyshev()

    def forward(self, x: Tensor, operators: GraphOperators) -> Tensor:
        """Diffuse x [N, C]."""
        return self.choose_solver(operators)(operators, x, self.times.to(x.dtype), self.scheme)

    def extra_repr(self) -> str:
        """Channels, scheme and solver."""
        return f"{self.channels}, {self.scheme!r}, solver={self.solver!r}"


class _OwnScheme(Diffusion):
    """A diffusion that brings its scheme along."""

    own_scheme: Scheme

    def __init__(
        self,
        channels: int,
        *,
        solver: Solver | None = None,
        times: Tensor | Sequence[float] | float | None = None,
    ) -> None:
        super().__init__(channels, self.own_scheme, solver=solver, times=times)


class SpectralDiffusion(_OwnScheme):
    """The spectral expansion (GAD-s): r_t(λ) = exp(−tλ) on the eigenpairs the operators carry.

    With ``k ≥ N`` or no ``k`` this is the exact heat equation; without a basis it is applied as a
    Chebyshev polynomial.

    Example:
        >>> import gad, torch
        >>> pair = gad.build_operators(torch.tensor([[0, 1], [1, 0]]), 2)
        >>> layer = SpectralDiffusion(1, times=[0.0])
        >>> layer(torch.tensor([[1.0], [0.0]]), pair).detach().flatten().abs().round(decimals=6)
        tensor([1., 0.])
    """

    own_scheme = HEAT


class ImplicitDiffusion(_OwnScheme):
    """The implicit timestep (GAD-i): h = (M + tL)⁻¹ M x, r_t(λ) = 1/(1 + tλ) on the full basis.

    Where the basis is truncated or missing, the system is solved by conjugate gradients or by a
    Chebyshev polynomial, whichever is cheaper on this graph: the result is the same.

    Example:
        >>> import gad, torch
        >>> pair = gad.build_operators(torch.tensor([[0, 1], [1, 0]]), 2)
        >>> layer = ImplicitDiffusion(1, times=[1.0])
        >>> layer(torch.tensor([[1.0], [0.0]]), pair).detach().flatten()
        tensor([0.6667, 0.3333])
    """

    own_scheme = IMPLICIT

    def choose_solver(self, operators: GraphOperators) -> Solver:
        """The eigenbasis if it is whole, otherwise the cheaper of two that need none."""
        if self.solver is not None:
            return self.solver
        whole = operators.has_basis and not operators.truncated
        return Eigenbasis() if whole else cheaper_implicit(operators, self.raw_times)


def spread_times(channels: int, longest: float = _LONGEST) -> Tensor:
    """Times spread evenly in logarithm, such that any run of channels is spread as well.

    Multiples of the golden ratio modulo 1 fill the interval evenly from the first few on, so that
    every tower has short and long times. They begin at 0.1, or are all the longest if that is less.
    """
    share = (torch.arange(1, channels + 1, dtype=torch.float64) * _GOLDEN) % 1
    shortest = min(_SHORTEST, longest)
    spread = shortest * (longest / shortest) ** share if longest > 0 else torch.zeros_like(share)
    return spread.to(torch.get_default_dtype())


class _NonNegative(torch.autograd.Function):
    """max(θ, 0), with the gradient of the projection rather than that of the clamp.

    At θ ≤ 0 a clamp has gradient 0 and the time could never leave 0. Here the gradient passes where
    following it would raise θ, and is stopped only where it would push θ further below 0.
    """

    @staticmethod
    def forward(ctx: Any, raw: Tensor) -> Tensor:
        ctx.save_for_backward(raw)
        return raw.clamp_min(0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (raw,) = ctx.saved_tensors
        return torch.where((raw > 0) | (grad < 0), grad, torch.zeros_like(grad))
