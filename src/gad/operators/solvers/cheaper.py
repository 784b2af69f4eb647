"""Which of the solvers without a basis is cheaper for the implicit step."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gad.operators.graph_operators import GraphOperators
from gad.operators.schemes import IMPLICIT
from gad.operators.solvers.base import Solver
from gad.operators.solvers.chebyshev import Chebyshev
from gad.operators.solvers.conjugate import ConjugateGradient, conjugate_gradients
from gad.operators.solvers.walk import Walk

# To which accuracy the two are tried.
_TOLERANCE = 1e-6
# Below this share of steps conjugate gradients are cheaper. Where memory is what a step waits for,
# theirs costs little more than one of the polynomial; where it is not, three times as much.
_SHARE, _SHARE_OF_FEW = 0.65, 0.3
_MANY = 20_000
# Smaller graphs are not worth the question, nor are times whose polynomial is as short.
_FEW, _SHORT = 1_000, 2.0
# Polynomials for longer times have a degree in the thousands.
_LONG = 1e4


def cheaper_implicit(operators: GraphOperators, times: Tensor) -> Solver:
    """Conjugate gradients or a Chebyshev polynomial, of the same accuracy.

    The polynomial is good on the whole of [0, 2], where a spectrum can lie. Conjugate gradients see
    where it does lie: on random and social graphs they need a fraction of the steps, on grids and
    citations as many. Which of the two a graph is, one channel tells, once for times alike.
    """
    longest = float(times.detach().max()) if times.numel() else 0.0
    if longest > _LONG:
        return ConjugateGradient()
    if operators.num_nodes < _FEW or longest < _SHORT:
        return Chebyshev()
    time = 2.0 ** round(math.log2(longest))
    share = operators.once(f"conjugate_share_{time}", lambda: _conjugate_share(operators, time))
    enough = _SHARE if operators.num_nodes >= _MANY else _SHARE_OF_FEW
    return ConjugateGradient() if share < enough else Chebyshev()


@torch.no_grad()
def _conjugate_share(operators: GraphOperators, time: float) -> float:
    """Steps of conjugate gradients to the degree of the polynomial, for this time."""
    drawn = torch.randn(operators.num_nodes, 1, generator=torch.Generator().manual_seed(0))
    x = drawn.to(operators.device, operators.dtype)
    times = x.new_tensor([time])
    degree = Chebyshev(tolerance=_TOLERANCE).degrees(times, IMPLICIT, x.dtype)
    _, steps = conjugate_gradients(Walk.of(operators, x), times, x, _TOLERANCE, 2000)
    return steps / int(degree)
