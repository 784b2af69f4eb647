"""Which of the solvers without a basis is cheaper for the implicit step."""

from __future__ import annotations

import torch
from torch import Tensor

from gad.operators.graph_operators import GraphOperators
from gad.operators.schemes import IMPLICIT
from gad.operators.solvers.base import Solver
from gad.operators.solvers.chebyshev import Chebyshev
from gad.operators.solvers.conjugate import ConjugateGradient, conjugate_gradients
from gad.operators.solvers.walk import Walk

# What is tried: one channel for this time, to this accuracy.
_TIME, _TOLERANCE = 10.0, 1e-6
# A step of conjugate gradients costs more than one of the polynomial, all of whose channels take
# part to the end: below this share of steps they are cheaper.
_SHARE = 0.6
# Smaller graphs are not worth the question.
_FEW = 1_000
# Polynomials for longer times have a degree in the thousands.
_LONG = 1e4


def cheaper_implicit(operators: GraphOperators, times: Tensor) -> Solver:
    """Conjugate gradients or a Chebyshev polynomial, of the same accuracy.

    The polynomial is good on the whole of [0, 2], where a spectrum can lie. Conjugate gradients see
    where it does lie: on random and social graphs they need a fraction of the steps, on grids and
    citations as many. Which of the two a graph is, one channel tells, once.
    """
    if operators.num_nodes < _FEW or bool((times.detach() > _LONG).any()):
        return ConjugateGradient()
    share = operators.once("conjugate_share", lambda: _conjugate_share(operators))
    return ConjugateGradient() if share < _SHARE else Chebyshev()


@torch.no_grad()
def _conjugate_share(operators: GraphOperators) -> float:
    """Steps of conjugate gradients to the degree of the polynomial."""
    drawn = torch.randn(operators.num_nodes, 1, generator=torch.Generator().manual_seed(0))
    x = drawn.to(operators.device, operators.dtype)
    times = x.new_tensor([_TIME])
    degree = Chebyshev(tolerance=_TOLERANCE).degrees(times, IMPLICIT, x.dtype)
    _, steps = conjugate_gradients(Walk.of(operators, x), times, x, _TOLERANCE, 2000)
    return steps / int(degree)
