"""How a function of the Laplacian is applied: four solvers behind one call.

``solver(operators, x, times, scheme)`` returns ``r_t(M⁻¹L) x`` for x [N, C] and times [C], with
gradients to both. The scheme says which function; the solver how it is applied.

========================  ============================  ==========================================
solver                    schemes                       for
========================  ============================  ==========================================
:class:`Eigenbasis`       any                           small graphs with a basis; exact
:class:`Chebyshev`        any                           large sparse graphs; to a chosen accuracy
:class:`Cholesky`         implicit                      small graphs; the paper's direct method
:class:`ConjugateGradient`  implicit                    large sparse graphs; to a chosen accuracy
========================  ============================  ==========================================
"""

from gad.operators.solvers.base import Solver
from gad.operators.solvers.chebyshev import Chebyshev
from gad.operators.solvers.cholesky import Cholesky
from gad.operators.solvers.conjugate import ConjugateGradient
from gad.operators.solvers.eigen import Eigenbasis

__all__ = ["Chebyshev", "Cholesky", "ConjugateGradient", "Eigenbasis", "Solver"]
