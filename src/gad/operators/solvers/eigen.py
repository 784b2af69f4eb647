"""h = Φ r_t(Λ) Φᵀ M x by the eigenbasis: exact, two small products per component."""

from __future__ import annotations

from torch import Tensor

from gad.operators.graph_operators import GraphOperators
from gad.operators.schemes import Scheme
from gad.operators.solvers.base import check_signal


class Eigenbasis:
    """Apply r_t through the eigenbasis the operators carry (truncated if they are)."""

    def __call__(
        self, operators: GraphOperators, x: Tensor, times: Tensor, scheme: Scheme
    ) -> Tensor:
        """``Φ r_t(Λ) Φᵀ M x``."""
        operators.need_basis()
        check_signal(operators, x, times)
        basis = operators.basis_for(x)
        response = scheme.response(basis.eigenvalues.to(x.dtype)[:, None], times.to(x.dtype))
        return basis.apply(x, response.to(x.dtype).expand(-1, x.shape[1]))

    def __repr__(self) -> str:
        return "Eigenbasis()"
