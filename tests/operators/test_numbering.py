"""Large graphs whose neighbours lie far apart are renumbered for the solvers, unseen."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gad import native
from gad.operators import HEAT, IMPLICIT, Chebyshev, ConjugateGradient, numbering
from gad.operators.numbering import better_numbering
from gad.operators.solvers.walk import Walk
from tests.graphs import disjoint, grid, isolated, random_rings, renumber, star, weighted


@pytest.fixture(autouse=True)
def _small_graphs_are_large(monkeypatch):
    monkeypatch.setattr(numbering, "_MANY", 100)


def shuffled(case, seed=0):
    return renumber(case, np.random.default_rng(seed).permutation(case.num_nodes))


def walk_of(case):
    return case.operators(torch.float32, basis=False, directions=False).random_walk


def test_a_grid_numbered_at_random_comes_together_again():
    matrix = walk_of(weighted(shuffled(grid(30, 30))))
    found = better_numbering(matrix)
    torch.testing.assert_close(found.order[found.back], torch.arange(900))
    moved = found.of_matrix(matrix)
    torch.testing.assert_close(moved.to_dense(), matrix.to_dense()[found.order][:, found.order])
    row, column = moved.to_dense().nonzero().unbind(1)
    assert (row - column).abs().max() < 100
    assert (moved.col_indices()[1:] > moved.col_indices()[:-1])[row[1:] == row[:-1]].all()


@pytest.mark.parametrize(
    "case",
    [grid(30, 30), random_rings(900, rings=5), shuffled(disjoint(star(500), grid(20, 20)))],
    ids=["in order", "no good order", "a hub"],
)
def test_where_nothing_is_to_win_nodes_keep_their_numbers(case):
    assert better_numbering(walk_of(case)) is None


@pytest.mark.skipif(not native.status().active, reason="no compiled kernels")
@pytest.mark.parametrize(
    ("solver", "scheme"),
    [(Chebyshev(), HEAT), (Chebyshev(), IMPLICIT), (ConjugateGradient(), IMPLICIT)],
    ids=str,
)
def test_solvers_give_the_same(solver, scheme):
    """Values and gradients are those of double precision, which is not renumbered."""
    case = shuffled(weighted(disjoint(grid(20, 25), isolated(2))))
    found = []
    for dtype in (torch.float32, torch.float64):
        operators = case.operators(dtype, basis=False, directions=False)
        x = torch.from_numpy(case.signal(3)).to(dtype).requires_grad_()
        assert (Walk.of(operators, x).numbering is not None) == (dtype is torch.float32)
        times = torch.tensor([0.3, 20.0, 4.0], dtype=dtype, requires_grad=True)
        h = solver(operators, x, times, scheme)
        (h * torch.from_numpy(case.signal(3, seed=1)).to(dtype)).sum().backward()
        found.append([v.detach().double() for v in (h, x.grad, times.grad)])
    for single, double in zip(*found, strict=True):
        torch.testing.assert_close(single, double, rtol=1e-4, atol=1e-4)
