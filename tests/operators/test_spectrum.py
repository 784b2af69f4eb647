"""The eigenbasis: closed forms, orthogonality, exact zeros, and cuts that split nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given

from gad.operators import HEAT, Eigenbasis
from tests.graphs import (
    ZOO,
    complete,
    disjoint,
    examples,
    graphs,
    molecule,
    path,
    ring,
    star,
    weighted,
)
from tests.reference import dense

EVERY_GRAPH = pytest.mark.parametrize("graph", ZOO.values(), ids=list(ZOO))


def assert_spectrum(graph, expected):
    spectrum = graph.operators().spectrum()
    assert spectrum.dtype == torch.float64
    np.testing.assert_allclose(spectrum, np.sort(expected), rtol=0, atol=1e-13)


@pytest.mark.parametrize("n", [3, 4, 5, 6, 17, 100])
def test_ring(n):
    assert_spectrum(ring(n), 1 - np.cos(2 * np.pi * np.arange(n) / n))


@pytest.mark.parametrize("n", [2, 3, 4, 17, 100])
def test_path(n):
    assert_spectrum(path(n), 1 - np.cos(np.pi * np.arange(n) / (n - 1)))


@pytest.mark.parametrize("n", [2, 3, 4, 17, 50])
def test_complete(n):
    assert_spectrum(complete(n), [0] + [n / (n - 1)] * (n - 1))


@pytest.mark.parametrize("leaves", [1, 2, 4, 50])
def test_star(leaves):
    assert_spectrum(star(leaves), [0] + [1] * (leaves - 1) + [2])


@pytest.mark.slow
def test_a_path_of_2000_nodes():
    """λ₁ is 1.2e-6 here: small, and not to be taken for 0."""
    spectrum = path(2000).operators(directions=False, k=3).spectrum()
    assert spectrum[0] == 0
    assert spectrum[1] == pytest.approx(1 - np.cos(np.pi / 1999), rel=0, abs=1e-12)
    assert spectrum[2] == pytest.approx(1 - np.cos(2 * np.pi / 1999), rel=0, abs=1e-12)
    assert len(spectrum) == 3


@EVERY_GRAPH
def test_against_a_dense_solve(graph):
    lam, _ = dense.eigenpairs(graph.adjacency)
    spectrum = graph.operators().spectrum()
    np.testing.assert_allclose(spectrum, lam, rtol=0, atol=1e-12)
    assert (spectrum >= 0).all()
    assert (spectrum <= 2).all()


@EVERY_GRAPH
def test_one_exact_zero_for_each_component(graph):
    spectrum = graph.operators().spectrum()
    assert int((spectrum == 0).sum()) == len(dense.components(graph.adjacency))


@examples(50)
@given(graphs(max_nodes=12))
def test_basis_is_orthonormal_under_the_mass(graph):
    operators = graph.operators()
    basis = np.zeros((graph.num_nodes, graph.num_nodes))
    values, vectors, counts = (t.numpy() for t in operators.need_basis())
    np.testing.assert_array_equal(counts, operators.component_sizes)
    column = 0
    for nodes in np.split(operators.members.numpy(), np.cumsum(counts)[:-1]):
        n = len(nodes)
        block, vectors = vectors[: n * n].reshape(n, n), vectors[n * n :]
        basis[np.ix_(nodes, np.arange(column, column + n))] = block
        column += n
    M, L = np.diag(dense.mass(graph.adjacency)), dense.laplacian(graph.adjacency)
    np.testing.assert_allclose(basis.T @ M @ basis, np.eye(graph.num_nodes), atol=1e-12)
    np.testing.assert_allclose(L @ basis, M @ basis * values, atol=1e-12 * M.max())


@EVERY_GRAPH
def test_a_cut_never_splits_an_eigenspace(graph):
    full = graph.operators().spectrum().numpy()
    for k in range(1, min(graph.num_nodes, 12) + 1):
        operators = graph.operators(k=k)
        kept = len(operators.spectrum())
        np.testing.assert_allclose(operators.spectrum(), full[:kept], rtol=0, atol=1e-14)
        # What is past k continues k's eigenspace, and what is left out does not.
        assert kept >= k
        assert (np.diff(full[k - 1 : kept]) <= 1e-8).all()
        assert kept == graph.num_nodes or full[kept] - full[kept - 1] > 1e-8
        assert operators.truncated == (kept < graph.num_nodes)


@pytest.mark.parametrize("graph", [path(12), weighted(molecule(12, seed=3))], ids=["path", "mol"])
def test_a_cut_keeps_k_where_nothing_is_degenerate(graph):
    for k in range(1, 20):
        assert len(graph.operators(k=k).spectrum()) == min(k, graph.num_nodes)


@EVERY_GRAPH
@pytest.mark.parametrize("k", [1, 2, 5])
def test_diffusion_on_a_cut_basis(graph, k):
    operators = graph.operators(k=k)
    lam = operators.spectrum().numpy()
    x = graph.signal(2)
    h = Eigenbasis()(operators, torch.from_numpy(x), torch.tensor([0.5, 4.0]).double(), HEAT)
    for c, t in enumerate([0.5, 4.0]):
        H = dense.truncated_matrix(graph.adjacency, len(lam), np.exp(-t * lam))
        np.testing.assert_allclose(h[:, c], H @ x[:, c], rtol=0, atol=1e-12)


def test_two_identical_halves():
    """Nothing of one half shows in the other, however their equal eigenvalues might mix."""
    half = molecule(14, seed=2)
    both = disjoint(half, half)
    one, two = half.operators(), both.operators()
    torch.testing.assert_close(two.spectrum(), one.spectrum().repeat_interleave(2), rtol=0, atol=0)
    x = torch.from_numpy(half.signal())
    times = torch.tensor([0.1, 1.0, 10.0, 100.0]).double()
    h = Eigenbasis()(two, torch.cat([x, torch.zeros_like(x)]), times, HEAT)
    torch.testing.assert_close(h[:14], Eigenbasis()(one, x, times, HEAT), rtol=0, atol=1e-13)
    assert (h[14:] == 0).all()
    for name in ("directional_average", "directional_derivative"):
        single = getattr(one, name)(x)
        double = getattr(two, name)(torch.cat([x, x]))
        torch.testing.assert_close(double, torch.cat([single, single]), rtol=0, atol=1e-13)


def test_a_cut_of_two_halves_keeps_both():
    half = path(7)
    for k in range(1, 15):
        kept = disjoint(half, half).operators(k=k).spectrum()
        assert len(kept) == min(14, k + k % 2)


@pytest.mark.parametrize("k", [0, -3])
def test_k_is_at_least_one(k):
    with pytest.raises(ValueError, match="at least 1"):
        path(3).operators(k=k)
