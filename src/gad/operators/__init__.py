"""From a graph to its operators: Laplacian, eigenbasis, directions, and functions of the Laplacian.

Pure tensors: this package knows no files, no chemistry and no layers.
"""

from gad.operators.build import build_operators
from gad.operators.graph_operators import GraphOperators, MissingOperatorError
from gad.operators.laplacian import GraphError
from gad.operators.schemes import HEAT, IMPLICIT, Heat, ImplicitStep, Scheme
from gad.operators.solvers import Chebyshev, Cholesky, ConjugateGradient, Eigenbasis, Solver

__all__ = [
    "HEAT",
    "IMPLICIT",
    "Chebyshev",
    "Cholesky",
    "ConjugateGradient",
    "Eigenbasis",
    "GraphError",
    "GraphOperators",
    "Heat",
    "ImplicitStep",
    "MissingOperatorError",
    "Scheme",
    "Solver",
    "build_operators",
]
