"""Numbers from outside: the authors' own layers, and the figures of the paper."""

from __future__ import annotations

import math

import pytest
import torch

from gad.operators import HEAT, IMPLICIT, Chebyshev, Cholesky, ConjugateGradient, Eigenbasis
from tests.graphs import graph
from tests.paper_figures import EDGES, FIGURE_1A, FIGURE_3, FIGURE_3_TIME, GRAPH

IMPLICIT_SOLVERS = [Eigenbasis(), Chebyshev(), Cholesky(), ConjugateGradient()]
SOLVERS = [
    *((solver, IMPLICIT, "implicit") for solver in IMPLICIT_SOLVERS),
    (Eigenbasis(), HEAT, "spectral"),
    (Chebyshev(), HEAT, "spectral"),
]
EVERY_SOLVER = pytest.mark.parametrize(
    ("solver", "scheme", "key"), SOLVERS, ids=[f"{s!r}-{key}" for s, _, key in SOLVERS]
)


def recorded_cases(golden):
    """(operators, signal, recorded case) of every molecule in the file, in float32."""
    cases = golden["cases"]
    assert len(cases) == 8
    for case in cases:
        n = case["num_nodes"]
        i, c = torch.arange(n)[:, None], torch.arange(4)
        x = torch.sin(1.0 + i + 3.0 * c)
        yield graph(n, case["edges"]).operators(torch.float32), x, case


@EVERY_SOLVER
def test_the_authors_diffusion(golden, solver, scheme, key):
    times = torch.tensor(golden["times"])
    for operators, x, case in recorded_cases(golden):
        h = solver(operators, x, times, scheme)
        assert h.dtype == torch.float32
        torch.testing.assert_close(h, torch.tensor(case[key]), rtol=0, atol=1e-5)


def test_the_authors_directional_filters(golden):
    for operators, x, case in recorded_cases(golden):
        average = torch.tensor(case["directional_average"])
        derivative = torch.tensor(case["directional_derivative_abs"])
        torch.testing.assert_close(operators.directional_average(x), average, rtol=0, atol=1e-5)
        torch.testing.assert_close(
            operators.directional_derivative(x), derivative, rtol=0, atol=1e-5
        )


def test_the_figures_are_those_recorded(golden):
    figure = golden["paper_figure_1a"]
    assert [tuple(e) for e in figure["edges"]] == EDGES
    assert {1.0: figure["t1"], 5.0: figure["t5"]} == FIGURE_1A
    figure = golden["paper_figure_3_dx"]
    assert figure["t"] == FIGURE_3_TIME
    assert {int(node): value for node, value in figure["values"].items()} == FIGURE_3


@pytest.mark.parametrize("solver", IMPLICIT_SOLVERS, ids=repr)
@pytest.mark.parametrize("time", FIGURE_1A)
def test_figure_1a(solver, time):
    """A unit of heat at node 0, in percent, to the digits the figure prints."""
    heat = torch.zeros(13, 1, dtype=torch.float64)
    heat[0] = 100
    h = solver(GRAPH.operators(), heat, heat.new_tensor([time]), IMPLICIT)
    for node, printed in enumerate(FIGURE_1A[time]):
        unit = 10 ** len(str(printed).partition(".")[2])
        shown = unit * float(h[node, 0])
        assert round(unit * printed) in {round(shown), math.floor(shown)}, node


@pytest.mark.parametrize("solver", IMPLICIT_SOLVERS, ids=repr)
def test_figure_3(solver):
    """The kernel of node 0 under the transposed field, up to its one sign."""
    operators = GRAPH.operators()
    F = torch.zeros(13, 13, dtype=torch.float64)
    F[operators.target, operators.source] = operators.field
    one = torch.eye(13, dtype=torch.float64)
    H = solver(operators, one, one.new_full((13,), FIGURE_3_TIME), IMPLICIT)
    kernel = ((F.T - torch.diag(F.sum(0))) @ H)[0]
    kernel = kernel * kernel[6].sign()
    recorded = kernel.new_tensor([FIGURE_3[node] for node in range(1, 13)])
    torch.testing.assert_close(kernel[1:], recorded, rtol=0, atol=2e-5)
