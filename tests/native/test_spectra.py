"""The compiled eigensolver beside LAPACK's: the same spaces to 1e-10, whatever the graph."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gad import native
from gad.operators import eigenbasis
from tests.graphs import ZOO, c60, disjoint, isolated, molecules, path, random_rings, weighted

pytestmark = pytest.mark.skipif(not native.status().active, reason=native.status().reason)

CASES = {
    **ZOO,
    "c60": c60(),
    "weights": weighted(random_rings(40, 5)),
    "molecules": disjoint(*molecules(60), isolated(2)),
    "beside a large one": disjoint(path(3), path(eigenbasis._COMPILED + 1), random_rings(30)),
}


def spaces(values: Tensor, vectors: Tensor) -> list[tuple[float, Tensor]]:
    """Every eigenvalue with the projector Φ Φᵀ of its space: what no choice of basis changes."""
    gaps = (values.diff() > eigenbasis.SAME_EIGENVALUE).nonzero().flatten() + 1
    parts = torch.tensor_split(torch.arange(values.numel()), gaps)
    return [(float(values[p].mean()), vectors[:, p] @ vectors[:, p].T) for p in parts]


@pytest.mark.parametrize("name", CASES)
def test_the_same_eigenspaces(name):
    graph = CASES[name]
    fast = graph.operators(torch.float64)
    with native.plain():
        exact = graph.operators(torch.float64)
    torch.testing.assert_close(fast.eigenvalues, exact.eigenvalues, rtol=0, atol=1e-10)
    sizes = fast.component_sizes.tolist()
    split = [n * n for n in sizes]
    for n, values, own, other in zip(
        sizes,
        fast.eigenvalues.split(sizes),
        fast.eigenvectors.split(split),
        exact.eigenvectors.split(split),
        strict=True,
    ):
        found, expected = spaces(values, own.view(n, n)), spaces(values, other.view(n, n))
        for (_, a), (_, b) in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-10)
        assert values[0] == 0
        assert (own.view(n, n)[:, 0] == own[0]).all()


@pytest.mark.parametrize("name", CASES)
def test_the_same_directions(name):
    graph = CASES[name]
    fast = graph.operators(torch.float64)
    with native.plain():
        exact = graph.operators(torch.float64)
    torch.testing.assert_close(fast.field_norm, exact.field_norm, rtol=0, atol=1e-8)
    assert torch.equal(fast.field_directions, exact.field_directions)


def test_several_threads_find_the_same():
    graph = CASES["molecules"]
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            found.append(graph.operators(torch.float64).eigenvectors)
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(*found, rtol=0, atol=0)
