"""Directions: against dense matrices, whatever the basis, the sign and the numbering."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.graphs import (
    SYMMETRIC,
    ZOO,
    Graph,
    complete,
    complete_bipartite,
    disjoint,
    examples,
    graph,
    graphs,
    hypercube,
    molecule,
    molecules,
    path,
    renumber,
    ring,
    star,
    weighted,
)
from tests.reference import dense

EVERY_GRAPH = pytest.mark.parametrize("graph", ZOO.values(), ids=list(ZOO))
EVERY_SYMMETRIC_GRAPH = pytest.mark.parametrize("graph", SYMMETRIC.values(), ids=list(SYMMETRIC))


def filters(operators, x):
    x = torch.as_tensor(x)
    return operators.directional_average(x), operators.directional_derivative(x)


def assert_filters(operators, F, x, tolerance=1e-12):
    """B_av x and |B_dx x| are those of the dense field F [m, N, N]."""
    average, derivative = filters(operators, x)
    np.testing.assert_allclose(average, dense.directional_average(F, x), rtol=0, atol=tolerance)
    np.testing.assert_allclose(
        derivative, dense.directional_derivative(F, x), rtol=0, atol=tolerance
    )


@EVERY_GRAPH
def test_against_dense_matrices(graph):
    A = graph.adjacency
    assert_filters(graph.operators(), dense.field(A, dense.first_eigenspace(A)), graph.signal())


@EVERY_GRAPH
def test_in_single_precision(graph):
    A, x = graph.adjacency, graph.signal().astype(np.float32)
    operators = graph.operators(torch.float32)
    assert_filters(operators, dense.field(A, dense.first_eigenspace(A)), x, 1e-5)
    assert filters(operators, x)[1].dtype == torch.float32


@examples(100)
@given(graphs(max_nodes=10))
def test_any_graph(graph):
    A = graph.adjacency
    for nodes in dense.components(A):
        gaps = np.diff(dense.eigenpairs(A[np.ix_(nodes, nodes)])[0])
        # Eigenvectors of almost equal eigenvalues are not determined to many digits.
        assume(((gaps < 1e-12) | (gaps > 1e-3)).all())
    assert_filters(
        graph.operators(), dense.field(A, dense.first_eigenspace(A)), graph.signal(), 1e-9
    )


def test_random_molecules():
    for number, drawn in enumerate(molecules(40, seed=11)):
        A = drawn.adjacency
        F = dense.field(A, dense.first_eigenspace(A))
        assert_filters(drawn.operators(), F, drawn.signal(seed=number), 1e-9)


@EVERY_SYMMETRIC_GRAPH
def test_the_basis_of_an_eigenspace_does_not_matter(graph):
    """The same filters from any basis of φ₁'s eigenspace, turned or reflected at random."""
    A, operators, x = graph.adjacency, graph.operators(), graph.signal()
    for seed in range(5):
        turned = dense.first_eigenspace(A, np.random.default_rng(seed))
        assert_filters(operators, dense.field(A, turned), x)


@pytest.mark.parametrize("name", ZOO)
def test_the_numbering_does_not_matter(name):
    graph, tolerance = ZOO[name], 1e-12 if name in SYMMETRIC else 1e-11
    x, rng = graph.signal(), np.random.default_rng(1)
    average, derivative = filters(graph.operators(), x)
    for _ in range(5):
        permutation = rng.permutation(graph.num_nodes)
        y = np.empty_like(x)
        y[permutation] = x
        a, d = filters(renumber(graph, permutation).operators(), y)
        torch.testing.assert_close(a[permutation], average, rtol=0, atol=tolerance)
        torch.testing.assert_close(d[permutation], derivative, rtol=0, atol=tolerance)


@EVERY_SYMMETRIC_GRAPH
def test_symmetry_of_the_graph_is_symmetry_of_the_filters(graph):
    """Nodes that a symmetry exchanges receive the same from a signal that it leaves alone."""
    degree = graph.adjacency.sum(1)[:, None]
    average, derivative = filters(graph.operators(), degree)
    H = dense.heat_matrix(graph.adjacency, 1.0)
    # Nodes of one orbit have the same heat kernel, entry for entry after sorting.
    kernel = np.round(np.sort(H, axis=1), 9)
    for i in range(graph.num_nodes):
        orbit = (kernel == kernel[i]).all(1)
        assert np.ptp(average[orbit].numpy()) < 1e-12
        assert np.ptp(derivative[orbit].numpy()) < 1e-12


@pytest.mark.parametrize(
    ("graph", "m"),
    [
        (path(5), 1),
        (ring(6), 2),
        (ring(7), 2),
        (hypercube(3), 3),
        (hypercube(5), 5),
        (star(4), 3),
        (complete(5), 4),
        (complete_bipartite(3, 3), 4),
        (path(2), 1),
    ],
    ids=repr,
)
def test_number_of_directions(graph, m):
    assert set(graph.operators().field_directions.tolist()) == {m}


@EVERY_GRAPH
def test_rows_are_normalised_or_empty(graph):
    operators = graph.operators()
    rows = (
        torch.zeros(graph.num_nodes).double().index_add(0, operators.target, operators.field_norm)
    )
    assert (torch.minimum((rows - 1).abs(), rows) <= 1e-14).all()
    assert (operators.field.abs() <= operators.field_norm + 1e-15).all()
    if graph.num_nodes > 1 and len(dense.components(graph.adjacency)) == 1:
        assert rows.sum() > 0.5


@EVERY_GRAPH
def test_constants_have_no_derivative(graph):
    one = torch.full((graph.num_nodes, 3), 7.0).double()
    average, derivative = filters(graph.operators(), one)
    assert (derivative == 0).all()
    rows = torch.minimum((average - 7).abs(), average.abs())
    assert (rows <= 1e-13).all()


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_signals_of_any_rank(shape):
    for drawn in (molecule(12), hypercube(3)):
        operators = drawn.operators()
        x = torch.from_numpy(drawn.signal(int(np.prod(shape)))).reshape(drawn.num_nodes, *shape)
        flat = x.reshape(drawn.num_nodes, -1)
        for one, other in zip(filters(operators, x), filters(operators, flat), strict=True):
            assert one.shape == x.shape
            torch.testing.assert_close(one.reshape_as(other), other, rtol=0, atol=0)


def test_a_row_without_direction_is_zero():
    # Two triangles joined at a node: φ₁ is constant on each triangle's far edge.
    bowtie = graph(5, [(0, 1), (1, 2), (2, 0), (0, 3), (3, 4), (4, 0)])
    operators = bowtie.operators()
    F = torch.zeros(5, 5).double()
    F[operators.target, operators.source] = operators.field
    assert F[1, 2] == pytest.approx(0, abs=1e-14)
    assert abs(F[1, 0]) == pytest.approx(1, abs=1e-14)
    # A potential that is constant around a node leaves it no direction at all.
    flat = path(5).operators(potential=torch.tensor([1.0, 1.0, 1.0, 2.0, 5.0]))
    average, derivative = filters(flat, torch.arange(5.0).double()[:, None])
    torch.testing.assert_close(average.flatten(), torch.tensor([0, 0, 3, 3.5, 3]).double())
    torch.testing.assert_close(derivative.flatten(), torch.tensor([0, 0, 1, 1, 1]).double())


def test_rounding_is_not_a_direction():
    potential = torch.tensor([1.0, 1.0 + 1e-13, 1.0, 1.0 - 1e-12])
    operators = path(4).operators(potential=potential.double())
    assert (operators.field == 0).all()
    assert (operators.field_norm == 0).all()


@pytest.mark.parametrize("scale", [1e-12, 1e-10, 1e-5, 1e5, 1e10, 1e12])
def test_the_unit_of_the_weights_does_not_matter(scale):
    """Weights in other units scale L and M alike: the same basis, the same directions."""
    for plain in (weighted(molecule(20)), ring(6), path(4)):
        weights = np.ones(len(plain.pairs)) if plain.weights is None else plain.weights
        scaled = Graph(plain.num_nodes, plain.pairs, scale * weights)
        x = plain.signal()
        for a, b in zip(filters(scaled.operators(), x), filters(plain.operators(), x), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


# ------------------------------------------------------------------------------ sign


def test_no_signed_derivative_where_the_direction_is_not_unique():
    x = torch.ones(10, 1).double()
    graph = disjoint(path(4), ring(6))
    with pytest.raises(ValueError, match=r"not unique at node 4 \(φ₁ is degenerate"):
        graph.operators().directional_derivative(x, signed=True)


def test_the_signed_derivative_is_the_absolute_one_with_a_sign():
    graph = weighted(molecule(20))
    operators, x = graph.operators(), torch.from_numpy(graph.signal())
    signed = operators.directional_derivative(x, signed=True)
    assert (signed < 0).any()
    assert (signed > 0).any()
    torch.testing.assert_close(signed.abs(), operators.directional_derivative(x), rtol=0, atol=0)
    torch.testing.assert_close(operators.directional_derivative(-x, signed=True), -signed)


def test_a_potential_of_ones_own_has_a_sign():
    """On a path with a rising coordinate F̂_ij = (φ_i − φ_j)/Σ: uphill counts negative."""
    operators = path(4).operators(potential=torch.tensor([0.0, 1.0, 3.0, 4.0]))
    x = torch.tensor([0.0, 1.0, 5.0, 2.0]).double()
    found = operators.directional_derivative(x, signed=True)
    # Node 1: (1·(0 − 1) − 2·(5 − 1)) / 3; node 2: (2·(1 − 5) − 1·(2 − 5)) / 3.
    torch.testing.assert_close(found, torch.tensor([-1.0, -3.0, -5 / 3, 3.0]).double())
    mirrored = path(4).operators(potential=-torch.tensor([0.0, 1.0, 3.0, 4.0]))
    torch.testing.assert_close(mirrored.directional_derivative(x, signed=True), -found)


# ------------------------------------------------------------------------------ potentials


@EVERY_GRAPH
@pytest.mark.parametrize("m", [1, 2, 3])
def test_potentials_of_ones_own(graph, m):
    potential = graph.signal(m, seed=5)
    operators = graph.operators(potential=torch.from_numpy(potential))
    assert_filters(operators, dense.field(graph.adjacency, potential), graph.signal())
    if m == 1:
        flat = graph.operators(potential=torch.from_numpy(potential[:, 0]))
        torch.testing.assert_close(flat.field, operators.field, rtol=0, atol=0)


@examples(50)
@given(graphs(max_nodes=8), st.integers(0, 1000))
def test_potentials_turn_freely(graph, seed):
    """Several potentials count as one space: turning their axes changes nothing."""
    potential = graph.signal(3, seed)
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))[0]
    x = graph.signal()
    one = filters(graph.operators(potential=torch.from_numpy(potential)), x)
    other = filters(graph.operators(potential=torch.from_numpy(potential @ turn)), x)
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("offset", [1e6, 1.7e9, -1e12])
def test_the_zero_of_a_potential_does_not_matter(offset):
    """Only differences of a potential count: seconds since 1970 do as well as seconds."""
    seconds = torch.tensor([0.0, 1.0, 3.0, 7.0]).double()
    plain = path(4).operators(potential=seconds)
    moved = path(4).operators(potential=seconds + offset)
    torch.testing.assert_close(moved.field, plain.field, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", [(), (3,), (4, 0), (4, 2, 2), (5, 1)])
def test_a_potential_of_the_wrong_shape(shape):
    with pytest.raises(ValueError, match=r"potential must be \[N\] or \[N, m\] with N = 4"):
        path(4).operators(potential=torch.zeros(shape))


def test_a_potential_that_is_not_finite():
    with pytest.raises(ValueError, match="not finite"):
        path(2).operators(potential=torch.tensor([0.0, float("nan")]))


# ------------------------------------------------------------------------------ gradients


@EVERY_GRAPH
def test_the_derivative_of_a_constant_has_gradient_zero(graph):
    """|·| has no slope at 0; it is taken as 0, never NaN."""
    x = torch.full((graph.num_nodes, 2), 3.0, dtype=torch.float64, requires_grad=True)
    graph.operators().directional_derivative(x).sum().backward()
    assert (x.grad == 0).all()


@pytest.mark.parametrize("name", [name for name in ZOO if ZOO[name].num_nodes <= 30])
def test_gradients_by_finite_differences(name):
    operators = ZOO[name].operators()
    x = torch.from_numpy(ZOO[name].signal(2, seed=3)).requires_grad_()
    # Away from the kink: where a derivative is exactly 0 a difference sees half of both slopes.
    generic = operators.directional_derivative(x) > 1e-3
    assert torch.autograd.gradcheck(operators.directional_average, x)
    assert torch.autograd.gradcheck(lambda x: operators.directional_derivative(x)[generic], x)
