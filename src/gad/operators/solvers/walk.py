"""Steps of the random walk P = M⁻¹A, which the solvers without a basis are made of.

PyTorch's sparse product is the definition; where the compiled kernels accept the signal, a step is
one pass over the edges together with the sums that follow it. A large graph whose neighbours lie
far apart in memory is renumbered for them, if that brings neighbours together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gad import native
from gad.operators.graph_operators import GraphOperators
from gad.operators.numbering import Numbering, better_numbering


@dataclass(frozen=True, eq=False)
class Walk:
    """P [N, N] in compressed rows and the masses [N], in the type of the signals.

    ``columns`` are P's as the kernels read them; None where PyTorch does the work. All nodes are
    those of the numbering, if there is one: :meth:`enter` and :meth:`leave` it.
    """

    matrix: Tensor
    mass: Tensor
    columns: Tensor | None
    numbering: Numbering | None = None

    @staticmethod
    def of(operators: GraphOperators, x: Tensor) -> Walk:
        """The walk on a graph, for signals like x [N, C]."""
        matrix, mass = operators.random_walk.to(x.dtype), operators.mass.to(x.dtype)
        fits = native.accepts(x, mass) and matrix.device.type == "cpu" and operators.well_formed
        if not fits:
            return Walk(matrix, mass, None)
        return operators.once("walk", lambda: _for_kernels(matrix, mass))

    def enter(self, x: Tensor) -> Tensor:
        """A signal x [N, C] by the numbering of this walk."""
        return x if self.numbering is None else _rows(x, *self.numbering)

    def leave(self, x: Tensor) -> Tensor:
        """A signal of this walk by the numbering of the graph."""
        return x if self.numbering is None else _rows(x, *self.numbering[::-1])

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
        return (self.mass @ (one * other)).double()

    def slope(self, h: Tensor, u: Tensor) -> Tensor:
        """−⟨u, M⁻¹L h⟩ = ⟨u, P h − h⟩ of every channel [C], float64: du/dt of a resolvent."""
        one, h = torch.ones_like(h[0]), h.contiguous()
        found = self.step(h, h, one, -one, active=h.shape[1], other=u.contiguous())[1]
        assert found is not None
        return found

    def descend(self, alpha: Tensor, kp: Tensor, r: Tensor) -> Tensor:
        """``r −= α kp``; returns ⟨r, r⟩ [C], float64."""
        if self.columns is None:
            r.addcmul_(kp, alpha, value=-1)
            return self.inner(r, r)
        dot = torch.zeros(r.shape[1], dtype=torch.float64)
        native.call("walk_descend", *r.shape, alpha, kp, r, self.mass, dot)
        return dot

    def turn(self, alpha: Tensor, beta: Tensor, r: Tensor, x: Tensor, p: Tensor) -> None:
        """``x += α p``, then ``p = r + β p``."""
        if self.columns is None:
            x.addcmul_(p, alpha)
            p.mul_(beta).add_(r)
        else:
            native.call("walk_turn", *r.shape, alpha, beta, r, x, p)


def _for_kernels(matrix: Tensor, mass: Tensor) -> Walk:
    numbering = better_numbering(matrix)
    if numbering is not None:
        matrix, mass = numbering.of_matrix(matrix), mass[numbering.order]
    return Walk(matrix, mass, matrix.col_indices().to(torch.int32), numbering)


def _rows(x: Tensor, order: Tensor, back: Tensor) -> Tensor:
    result: Tensor = _Rows.apply(x, order, back)  # type: ignore[no-untyped-call]
    return result


class _Rows(torch.autograd.Function):
    """x[order], and the gradient g[back] with the inverse order: nothing has to be added up."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, back: Tensor) -> Tensor:
        ctx.order, ctx.back = order, back
        return x.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _rows(grad, ctx.back, ctx.order), None, None
