"""Fields of other conventions: φ₁ of the combinatorial Laplacian, and the transposed field."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import eigh

from gad.operators import build_operators
from tests.graphs import ZOO, disjoint, grid, molecules, ring, star, weighted
from tests.reference import dense

EVERY_GRAPH = pytest.mark.parametrize("graph", ZOO.values(), ids=list(ZOO))


def combinatorial_eigenspace(A):
    """φ₁'s eigenspace of L φ = λ φ in every component, as ``dense.first_eigenspace`` has it."""
    spaces = []
    for nodes in dense.components(A):
        lam, phi = eigh(dense.laplacian(A[np.ix_(nodes, nodes)]))
        if nodes.size > 1:
            same = np.flatnonzero(np.abs(lam[1:] - lam[1]) <= 1e-8) + 1
            spaces.append((nodes, phi[:, same]))
    found = np.zeros((len(A), max((s.shape[1] for _, s in spaces), default=1)))
    for nodes, space in spaces:
        found[nodes, : space.shape[1]] = space
    return found


def assert_filters(operators, F, x, tolerance=1e-11):
    tensor = torch.from_numpy(x)
    average, derivative = dense.directional_average(F, x), dense.directional_derivative(F, x)
    found = operators.directional_average(tensor), operators.directional_derivative(tensor)
    np.testing.assert_allclose(found[0], average, rtol=0, atol=tolerance)
    np.testing.assert_allclose(found[1], derivative, rtol=0, atol=tolerance)


@EVERY_GRAPH
@pytest.mark.parametrize("basis", [True, False])
def test_combinatorial_against_dense_matrices(graph, basis):
    A = graph.adjacency
    F = dense.field(A, combinatorial_eigenspace(A))
    assert_filters(graph.operators(combinatorial=True, basis=basis), F, graph.signal())


@EVERY_GRAPH
@pytest.mark.parametrize("combinatorial", [True, False])
def test_transposed_against_dense_matrices(graph, combinatorial):
    A = graph.adjacency
    space = combinatorial_eigenspace(A) if combinatorial else dense.first_eigenspace(A)
    F = dense.field(A, space).transpose(0, 2, 1)
    operators = graph.operators(transposed=True, combinatorial=combinatorial)
    assert_filters(operators, F, graph.signal())


def test_only_the_directions_change():
    of = weighted(molecules(1, seed=5, smallest=20)[0])
    plain = of.operators()
    for other in (of.operators(combinatorial=True), of.operators(transposed=True)):
        torch.testing.assert_close(other.eigenvalues, plain.eigenvalues, rtol=0, atol=0)
        torch.testing.assert_close(other.mass, plain.mass, rtol=0, atol=0)
        assert not torch.allclose(other.field, plain.field)


def test_regular_graphs_have_one_laplacian():
    of = disjoint(ring(7), grid(4, 5, periodic=True))
    x = torch.from_numpy(of.signal())
    plain, other = of.operators(), of.operators(combinatorial=True)
    torch.testing.assert_close(other.directional_derivative(x), plain.directional_derivative(x))


def test_a_large_graph_without_a_basis():
    """Beyond the dense solver's reach, where φ₁ of a lattice is a cosine along its longer side."""
    of = grid(60, 10)
    operators = of.operators(combinatorial=True, basis=False)
    phi = np.repeat(np.cos(np.pi * (np.arange(60) + 0.5) / 60), 10)
    F = dense.field(of.adjacency, phi)
    assert float(operators.residual.max()) < 1e-6
    assert_filters(operators, F, of.signal(), 1e-4)


def test_your_own_potential_is_taken_as_it_is():
    of = star(4)
    potential = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    plain = build_operators(of.edge_index, 5, potential=potential)
    other = build_operators(of.edge_index, 5, potential=potential, combinatorial=True)
    torch.testing.assert_close(other.field, plain.field)
    turned = build_operators(of.edge_index, 5, potential=potential, transposed=True)
    torch.testing.assert_close(turned.field, plain.field[plain.reverse])
