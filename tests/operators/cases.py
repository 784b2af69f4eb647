"""Every solver with every scheme it solves."""

from __future__ import annotations

import pytest

from gad.operators import HEAT, IMPLICIT, Chebyshev, Cholesky, ConjugateGradient, Eigenbasis

CASES = [
    (Eigenbasis(), HEAT),
    (Eigenbasis(), IMPLICIT),
    (Chebyshev(), HEAT),
    (Chebyshev(), IMPLICIT),
    (Cholesky(), IMPLICIT),
    (ConjugateGradient(), IMPLICIT),
]
EVERY_CASE = pytest.mark.parametrize(
    ("solver", "scheme"), CASES, ids=[f"{s!r}-{scheme!r}" for s, scheme in CASES]
)
