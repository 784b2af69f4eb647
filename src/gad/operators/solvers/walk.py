"""Steps of the random walk P = M⁻¹A, which the solvers without a basis are made of.

PyTorch's sparse product is the definition; where the compiled kernels accept the signal, a step is
one pass over the edges together with the sums that follow it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gad import native
from gad.operators.graph_operators import GraphOperators


@dataclass(frozen=True, eq=False)
class Walk:
    """P [N, N] in compressed rows and the masses [N], in the type of the signals.

    ``columns`` are P's as the kernels read them; None where PyTorch does the work.
    """

    matrix: Tensor
    mass: Tensor
    columns: Tensor | None

    @staticmethod
    def of(operators: GraphOperators, x: Tensor) -> Walk:
        """The walk on a graph, for signals like x [N, C]."""
        matrix, mass = operators.random_walk.to(x.dtype), operators.mass.to(x.dtype)
        fits = native.accepts(x, mass) and matrix.device.type == "cpu" and operators.well_formed
        return Walk(
            matrix, mass, operators.once("walk_columns", lambda: _narrow(matrix)) if fits else None
        )

    def step(
        self,
        now: Tensor,
        before: Tensor,
        a: Tensor,
        b: Tensor,
        *,
        active: int,
        weight: Tensor | None = None,
        total: Tensor | None = None,
        other: Tensor | None = None,
        out: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """``next = a P now + b before`` and ``Σ m ⊙ other ⊙ next``; ``total`` += weight ⊙ next.

        ``now`` and ``before`` are [N, C], ``a`` and ``b`` [C]; the first ``active`` channels are
        needed. ``weight`` [C] and ``total`` [N, C] are given where the sum of steps is wanted,
        ``other`` [N, C] where the inner products [C] are. ``out`` may be written on, and be before.
        """
        if self.columns is None:
            after = (self.matrix @ now).mul_(a).addcmul_(before, b)
            if total is not None and weight is not None:
                total.addcmul_(after, weight)
            return after, None if other is None else self.inner(other, after)
        after = torch.empty_like(now) if out is None else out
        dot = None if other is None else torch.zeros(now.shape[1], dtype=torch.float64)
        matrix = self.matrix
        native.call(
            "walk_step", now.shape[0], now.shape[1], active, matrix.crow_indices(), self.columns,
            matrix.values(), now, a, b, before, after, weight, total, self.mass, other, dot,
        )  # fmt: skip
        return after, dot

    def inner(self, one: Tensor, other: Tensor) -> Tensor:
        """⟨one, other⟩ = Σ m ⊙ one ⊙ other of every channel [C], float64."""
        return torch.einsum("n,nc,nc->c", self.mass, one, other).double()

    def slope(self, h: Tensor, u: Tensor) -> Tensor:
        """−⟨u, M⁻¹L h⟩ = ⟨u, P h − h⟩ of every channel [C], float64: du/dt of a resolvent."""
        one, h = torch.ones_like(h[0]), h.contiguous()
        found = self.step(h, h, one, -one, active=h.shape[1], other=u.contiguous())[1]
        assert found is not None
        return found

    def descend(self, alpha: Tensor, p: Tensor, kp: Tensor, x: Tensor, r: Tensor) -> Tensor:
        """``x += α p``, ``r −= α kp``; returns ⟨r, r⟩ [C], float64."""
        if self.columns is None:
            x.addcmul_(p, alpha)
            r.addcmul_(kp, alpha, value=-1)
            return self.inner(r, r)
        dot = torch.zeros(p.shape[1], dtype=torch.float64)
        native.call("walk_descend", *p.shape, alpha, p, kp, x, r, self.mass, dot)
        return dot


def _narrow(matrix: Tensor) -> Tensor:
    return matrix.col_indices().to(torch.int32)
