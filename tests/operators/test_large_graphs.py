"""Operators without a basis: φ₁ from the sparse eigensolver, diffusion without decomposition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gad.operators import HEAT, IMPLICIT, Chebyshev, ConjugateGradient, Eigenbasis, fiedler
from tests.graphs import (
    disjoint,
    graph,
    grid,
    hypercube,
    isolated,
    molecule,
    path,
    random_rings,
    random_tree,
    renumber,
    ring,
    star,
    weighted,
)

# All with a component of more than 400 nodes, below which the solve is dense.
LARGE = {
    "grid 30x40": (grid(30, 40), 1),
    "grid 25x25": (grid(25, 25), 2),
    "grid 8x8x8": (grid(8, 8, 8), 3),
    "torus 21x21": (grid(21, 21, periodic=True), 4),
    "ring of 600": (ring(600), 2),
    "random, degree 4": (random_rings(1000), 1),
    "random, degree 6": (random_rings(700, rings=3, seed=1), 1),
    "path of 1500": (path(1500), 1),
    "tree": (random_tree(500, seed=2), 1),
    "ternary tree": (graph(1093, [((i - 1) // 3, i) for i in range(1, 1093)]), 2),
    "weighted grid": (weighted(grid(20, 25)), 1),
    "hypercube of 512": (hypercube(9), 9),
    "star of 450": (star(450), 449),
}
EVERY_LARGE_GRAPH = pytest.mark.parametrize(("graph", "m"), LARGE.values(), ids=list(LARGE))


def assert_same_directions(sparse, full, x, tolerance=1e-4):
    x = torch.as_tensor(x).to(sparse.dtype)
    for name in ("directional_average", "directional_derivative"):
        found, wanted = getattr(sparse, name)(x), getattr(full, name)(x)
        torch.testing.assert_close(found, wanted, rtol=0, atol=tolerance)


@pytest.mark.slow
@EVERY_LARGE_GRAPH
def test_directions_of_the_sparse_solver(graph, m):
    sparse, full = graph.operators(torch.float32, basis=False), graph.operators(torch.float32)
    assert full.field_directions.unique().tolist() == [m]
    assert sparse.field_directions.unique().tolist() == [m]
    assert float(sparse.residual.max()) < 1e-6
    assert_same_directions(sparse, full, graph.signal(2))
    assert not sparse.has_basis


@EVERY_LARGE_GRAPH
def test_numbering_does_not_matter(graph, m):
    rng = np.random.default_rng(0)
    permutation, x = rng.permutation(graph.num_nodes), torch.from_numpy(graph.signal(2))
    y = torch.empty_like(x)
    y[permutation] = x
    one, other = graph.operators(basis=False), renumber(graph, permutation).operators(basis=False)
    for name in ("directional_average", "directional_derivative"):
        a, b = getattr(one, name)(x), getattr(other, name)(y)[permutation]
        torch.testing.assert_close(a, b, rtol=0, atol=1e-4)


@pytest.mark.slow
def test_where_news_travels_slowly(monkeypatch):
    """Where Lanczos would take too long, the multilevel solver finds φ₁."""
    monkeypatch.setattr(fiedler, "_by_lanczos", lambda *_: None)
    for long in (path(1500), grid(3, 400), grid(25, 25)):
        sparse = long.operators(basis=False)
        assert float(sparse.residual) < 1e-5
        assert_same_directions(sparse, long.operators(), long.signal(2))


def test_components_large_and_small():
    """Each component has its own φ₁, whichever solver found it."""
    graph = disjoint(
        path(3), grid(20, 22), isolated(2), ring(6), random_rings(450), molecule(20), path(2)
    )
    sparse, full = graph.operators(basis=False), graph.operators()
    assert_same_directions(sparse, full, graph.signal(2), 1e-6)
    torch.testing.assert_close(sparse.field_directions, full.field_directions)


def test_the_residual_is_that_of_each_graph():
    graph = disjoint(path(10), grid(20, 22), ring(6))
    batch = torch.repeat_interleave(torch.tensor([10, 440, 6]))
    residual = graph.operators(basis=False, batch=batch).residual
    assert residual[0] == 0
    assert 0 < residual[1] < 1e-6
    assert residual[2] == 0
    assert (graph.operators(batch=batch).residual == 0).all()


def test_small_components_need_no_sparse_solver():
    graph = disjoint(molecule(20), ring(6), isolated(1))
    sparse, full = graph.operators(basis=False), graph.operators()
    assert_same_directions(sparse, full, graph.signal(), 1e-13)


def test_a_potential_needs_no_eigensolver():
    graph = grid(21, 21)
    height = torch.from_numpy(graph.signal(1)[:, 0])
    sparse = graph.operators(basis=False, potential=height)
    assert_same_directions(sparse, graph.operators(potential=height), graph.signal(), 1e-14)


def test_directions_can_be_left_out():
    bare = grid(21, 21).operators(basis=False, directions=False)
    assert not bare.has_directions
    assert bare.residual is None
    # A potential without directions is not an error; there is just no field.
    assert not path(3).operators(potential=torch.ones(3), directions=False).has_directions


@pytest.mark.parametrize(
    ("solver", "scheme"),
    [(Chebyshev(), HEAT), (Chebyshev(), IMPLICIT), (ConjugateGradient(), IMPLICIT)],
    ids=repr,
)
@pytest.mark.parametrize(
    "graph",
    [grid(12, 15), disjoint(random_rings(90), weighted(path(40)), isolated(3))],
    ids=["grid", "components"],
)
def test_diffusion_without_a_basis(graph, solver, scheme):
    """The same values and gradients as the eigenbasis, and no basis."""
    g = torch.from_numpy(graph.signal(3, seed=1))
    found = []
    for operators, how in (
        (graph.operators(), Eigenbasis()),
        (graph.operators(basis=False, directions=False), solver),
    ):
        x = torch.from_numpy(graph.signal(3)).requires_grad_()
        times = torch.tensor([0.5, 5.0, 60.0], dtype=torch.float64, requires_grad=True)
        h = how(operators, x, times, scheme)
        h.backward(g)
        found.append((h.detach(), x.grad, times.grad))
    for wanted, given in zip(*found, strict=True):
        torch.testing.assert_close(given, wanted, rtol=1e-9, atol=1e-9)
