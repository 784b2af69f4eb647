"""The one interface of all solvers."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from gad.operators.graph_operators import GraphOperators
from gad.operators.schemes import ImplicitStep, Scheme


class Solver(Protocol):
    """A way to apply r_t(M⁻¹L)."""

    def __call__(
        self, operators: GraphOperators, x: Tensor, times: Tensor, scheme: Scheme
    ) -> Tensor:
        """``r_t(M⁻¹L) x`` channel by channel: x [N, C], times [C] ≥ 0 → [N, C]."""
        ...


def check_signal(operators: GraphOperators, x: Tensor, times: Tensor) -> None:
    """Refuse shapes that do not fit before they broadcast into something else."""
    if x.dim() != 2 or x.shape[0] != operators.num_nodes:
        raise ValueError(
            f"x must be [N, C] with N = {operators.num_nodes} nodes, not {list(x.shape)}"
        )
    if times.shape != (x.shape[1],):
        raise ValueError(f"{x.shape[1]} channels need as many times, not {list(times.shape)}")


def check_implicit(solver: object, scheme: Scheme) -> None:
    """A linear solve is the implicit step and nothing else."""
    if type(scheme) is not ImplicitStep:
        raise ValueError(
            f"{type(solver).__name__} solves (M + tL) h = M x, which is the implicit scheme, not "
            f"{scheme!r}: use Eigenbasis or Chebyshev"
        )


def check_tolerance(tolerance: float | None) -> float | None:
    """A relative error that can be asked for, or None for the usual one."""
    if tolerance is not None and not 0 < tolerance < 1:
        raise ValueError(f"tolerance must lie between 0 and 1, not {tolerance}")
    return tolerance
