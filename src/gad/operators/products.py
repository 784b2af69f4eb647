"""The linear filters of a graph as sparse products: mean, directional average and derivative.

A layer over one large graph multiplies by the same few matrices again and again. As compressed rows
they need a tenth of the time of gathering and adding edge by edge, and hubs cost no more than
their edges. The transposes, which the backward pass multiplies by, are made once as well.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gad.operators.graph_operators import GraphOperators, safe_sqrt
from gad.operators.sparse import compressed

LINEAR_FILTERS = ("mean", "av", "dx")
"""Names of the filters here; ``dx`` is linear up to the absolute value at its end."""


class SparseProduct:
    """y = A x for a fixed sparse matrix A [R, N] and x [N, C], with the gradient Aᵀ g.

    >>> A = SparseProduct(
    ...     torch.tensor([0, 0]), torch.tensor([0, 1]), torch.tensor([1.0, 2.0]), (1, 2)
    ... )
    >>> A(torch.tensor([[1.0], [10.0]]))
    tensor([[21.]])
    """

    def __init__(self, row: Tensor, column: Tensor, value: Tensor, size: tuple[int, int]) -> None:
        self.matrix = compressed(row, column, value, size)
        self.transpose = compressed(column, row, value, size[::-1])

    def __call__(self, x: Tensor) -> Tensor:
        """A x."""
        result: Tensor = _Product.apply(x, self.matrix.to(x.dtype), self.transpose.to(x.dtype))  # type: ignore[no-untyped-call]
        return result


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, transpose: Tensor) -> Tensor:
        ctx.transpose = transpose
        return matrix @ x.contiguous()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.transpose @ grad.contiguous(), None, None


def linear_filter(name: str, x: Tensor, operators: GraphOperators) -> Tensor:
    """One filter of :data:`LINEAR_FILTERS` over x [N, C]: [N, C].

    ``mean`` is P x (0 for an isolated node), ``av`` is B_av x, ``dx`` is |B_dx x|, which equals
    :meth:`GraphOperators.directional_derivative`.
    """
    if name == "mean":
        return operators.once("product_mean", lambda: _mean(operators))(x)
    if name == "av":
        return operators.once("product_av", lambda: _average(operators))(x)
    first, others, node = operators.once("product_dx", lambda: _derivative(operators))
    along = first(x)
    if others is None:
        return along.abs()
    return safe_sqrt(along.square().index_add(0, node, others(x).square()))


def _mean(operators: GraphOperators) -> SparseProduct:
    target, n = operators.target, operators.num_nodes
    weight = operators.weight / operators.mass.index_select(0, target)
    return SparseProduct(target, operators.source, weight, (n, n))


def _average(operators: GraphOperators) -> SparseProduct:
    _, norm = operators.need_field()
    n = operators.num_nodes
    return SparseProduct(operators.target, operators.source, norm, (n, n))


def _derivative(operators: GraphOperators) -> tuple[SparseProduct, SparseProduct | None, Tensor]:
    first, _ = operators.need_field()
    source, target, n = operators.source, operators.target, operators.num_nodes
    # Each edge adds F̂ at j and takes it away at i.
    columns = torch.cat([source, target])
    leading = SparseProduct(
        torch.cat([target, target]), columns, torch.cat([first, -first]), (n, n)
    )
    node, row, edge, value = operators.other_directions
    if not node.numel():
        return leading, None, node
    columns = torch.cat([source[edge], target[edge]])
    others = SparseProduct(
        torch.cat([row, row]), columns, torch.cat([value, -value]), (node.numel(), n)
    )
    return leading, others, node
