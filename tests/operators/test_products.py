"""Sparse products against the filters edge by edge."""

from __future__ import annotations

import pytest
import torch

from gad.operators import MissingOperatorError
from gad.operators.products import SparseProduct, linear_filter
from tests.graphs import disjoint, isolated, path, ring, star

GRAPHS = [path(5), ring(6), star(4), disjoint(ring(4), isolated(2), path(3))]


@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
def test_filters_are_those_of_the_operators(graph):
    operators = graph.operators()
    x = torch.from_numpy(graph.signal(3))
    torch.testing.assert_close(linear_filter("av", x, operators), operators.directional_average(x))
    torch.testing.assert_close(
        linear_filter("dx", x, operators), operators.directional_derivative(x)
    )
    A = torch.from_numpy(graph.adjacency)
    mean = (A @ x) / A.sum(1, keepdim=True).clamp_min(1)
    torch.testing.assert_close(linear_filter("mean", x, operators), mean)


@pytest.mark.parametrize("name", ["mean", "av", "dx"])
def test_gradients_are_those_of_the_products(name):
    operators = disjoint(ring(4), star(3), isolated(1)).operators()
    x = torch.randn(9, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x.requires_grad_()
    torch.autograd.gradcheck(lambda v: linear_filter(name, v, operators), x)


def test_a_product_adds_entries_of_one_place():
    at = torch.tensor([0, 0])
    twice = SparseProduct(at, at, torch.tensor([1.0, 2.0]), (1, 1))
    torch.testing.assert_close(twice(torch.tensor([[2.0]])), torch.tensor([[6.0]]))


def test_without_directions_the_error_says_how_to_get_them():
    with pytest.raises(MissingOperatorError, match="directions=True"):
        linear_filter("dx", torch.zeros(3, 1), path(3).operators(directions=False))
