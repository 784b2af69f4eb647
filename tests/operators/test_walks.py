"""Random walks: return probabilities against powers of the dense transition matrix."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gad.operators.walks import edge_probabilities, return_probabilities
from tests.graphs import ZOO, path
from tests.reference import dense


@pytest.mark.parametrize("graph", ZOO.values(), ids=list(ZOO))
def test_against_powers_of_the_matrix(graph):
    A = graph.adjacency
    P = A / dense.mass(A)[:, None] + np.diag((A.sum(1) == 0).astype(float))
    wanted = [np.diag(np.linalg.matrix_power(P, step)) for step in range(1, 9)]
    found = return_probabilities(graph.operators(), 8)
    np.testing.assert_allclose(found, np.stack(wanted, axis=1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("graph", ZOO.values(), ids=list(ZOO))
def test_edges_against_powers_of_the_matrix(graph):
    A, operators = graph.adjacency, graph.operators()
    P = A / dense.mass(A)[:, None]
    i, j = operators.target.numpy(), operators.source.numpy()
    found = edge_probabilities(operators, 6)
    for step in range(1, 7):
        wanted = np.linalg.matrix_power(P, step)[i, j]
        np.testing.assert_allclose(found[:, step - 1], wanted, rtol=0, atol=1e-12)
    m = operators.mass.numpy()
    both = found.numpy() * m[i][:, None], found[operators.reverse].numpy() * m[j][:, None]
    np.testing.assert_allclose(*both, rtol=0, atol=1e-12)


def test_a_walk_needs_the_whole_basis():
    with pytest.raises(ValueError, match="whole eigenbasis: build without k"):
        edge_probabilities(path(5).operators(k=2), 3)
    with pytest.raises(ValueError, match="whole eigenbasis: build without k"):
        return_probabilities(path(5).operators(k=2), 3)
    assert return_probabilities(path(2).operators(k=2), 2).shape == (2, 2)
    assert return_probabilities(path(2).operators(torch.float32), 2).dtype == torch.float32
