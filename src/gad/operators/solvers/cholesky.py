"""(M + tL) h = M x by a Cholesky factorisation per component and channel: the paper's method.

Cubic in the size of a component and linear in channels: it is here because the paper solves this
way, and because a direct solve is what the other solvers are compared with.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gad.operators.eigenbasis import starts
from gad.operators.graph_operators import GraphOperators
from gad.operators.schemes import Scheme
from gad.operators.solvers.base import check_implicit, check_signal


class Cholesky:
    """Solve (M + tL) h = M x directly, all components of one size and all channels at once."""

    def __call__(
        self, operators: GraphOperators, x: Tensor, times: Tensor, scheme: Scheme
    ) -> Tensor:
        """``(M + tL)⁻¹ M x``."""
        check_implicit(self, scheme)
        check_signal(operators, x, times)
        sizes, component = operators.component_sizes, operators.component
        slot = torch.empty_like(operators.members)
        first = starts(sizes)
        slot[operators.members] = (
            torch.arange(operators.num_nodes, device=x.device) - first[component[operators.members]]
        )
        mass, weight = operators.mass.to(x.dtype), operators.weight.to(x.dtype)
        degree = x.new_zeros(operators.num_nodes).index_add_(0, operators.target, weight)
        h = torch.empty_like(x)
        for size in sizes.unique().tolist():
            units = (sizes == size).nonzero().flatten()
            place = torch.full_like(sizes, -1)
            place[units] = torch.arange(units.numel(), device=x.device)
            nodes = operators.members[first[units, None] + torch.arange(size, device=x.device)]
            inside = (place[component[operators.target]] >= 0).nonzero().flatten()
            j, i = operators.source[inside], operators.target[inside]
            laplacian = x.new_zeros(units.numel(), size, size)
            laplacian[place[component[i]], slot[i], slot[j]] = -weight[inside]
            laplacian.diagonal(dim1=1, dim2=2).copy_(degree[nodes])
            diagonal = torch.diag_embed(mass[nodes])
            # [units, channels, n, n], one system for each component and channel.
            system = diagonal[:, None] + times.to(x.dtype)[:, None, None] * laplacian[:, None]
            factor = torch.linalg.cholesky(system)
            right = (mass[nodes][:, :, None] * x[nodes]).transpose(1, 2)[..., None]
            solved = torch.cholesky_solve(right, factor)[..., 0].transpose(1, 2)
            h = h.index_put((nodes,), solved)
        return h

    def __repr__(self) -> str:
        return "Cholesky()"
