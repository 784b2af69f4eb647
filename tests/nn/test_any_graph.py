"""No graph crashes a model or makes a NaN of it, forwards or backwards."""

from __future__ import annotations

import pytest
import torch

from tests.graphs import (
    Graph,
    c60,
    complete,
    complete_bipartite,
    disjoint,
    grid,
    isolated,
    molecule,
    path,
    renumber,
    ring,
    star,
    weighted,
)
from tests.nn.samples import EVERY_SCHEME, Batch, collate, decorate, model, predict

GRAPHS: dict[str, list[Graph]] = {
    "one node": [isolated(1)],
    "two lonely nodes": [isolated(2)],
    "lonely graphs": [isolated(1), isolated(1), isolated(3)],
    "isolated among others": [disjoint(isolated(1), molecule(9), isolated(2))],
    "components": [disjoint(ring(5), path(3), star(4), isolated(1), path(2))],
    "two halves": [disjoint(molecule(11), molecule(11))],
    "two halves, mixed": [renumber(disjoint(ring(4), ring(4)), [0, 2, 4, 6, 1, 3, 5, 7])],
    "k2": [path(2)],
    "k3": [complete(3)],
    "k10": [complete(10)],
    "k40": [complete(40)],
    "k44": [complete_bipartite(4, 4)],
    "stars": [star(1), star(2), star(3), star(32), star(33), star(200)],
    "rings": [ring(3), ring(4), ring(5), ring(6), ring(31)],
    "c60": [c60()],
    "grid": [grid(5, 5), grid(3, 4, periodic=True)],
    "weights far apart": [Graph(5, path(5).pairs, path(5).pairs[:, 0] * 0 + [1e-6, 1.0, 1e6, 1.0])],
    "weighted": [weighted(molecule(12)), weighted(ring(6))],
    "mixed": [isolated(1), molecule(20), ring(6), isolated(2), star(40), path(2)],
}


def assert_finite(batch: Batch, scheme, **options):
    """Outputs and all gradients, training and evaluating, before and after a step."""
    net = model(10, diffusion=scheme, **options)
    optimiser = torch.optim.SGD(net.parameters(), lr=1e-3)
    for _ in range(2):
        optimiser.zero_grad()
        y = predict(net, batch)
        assert torch.isfinite(y).all()
        y.square().sum().backward()
        for name, parameter in net.named_parameters():
            if parameter.grad is not None:
                assert torch.isfinite(parameter.grad).all(), name
        optimiser.step()
    assert torch.isfinite(predict(net.eval(), batch)).all()
    for name, value in net.state_dict().items():
        assert torch.isfinite(value).all(), name


@pytest.mark.parametrize("alike", [True, False], ids=["alike", "random"])
@pytest.mark.parametrize("case", GRAPHS)
@EVERY_SCHEME
def test_any_graph(scheme, case, alike):
    batch = collate([decorate(g, alike=alike) for g in GRAPHS[case]])
    assert_finite(batch, scheme)


@pytest.mark.parametrize("case", GRAPHS)
@EVERY_SCHEME
def test_any_graph_without_bonds(scheme, case):
    batch = collate([decorate(g, alike=True) for g in GRAPHS[case]])
    assert_finite(batch, scheme, edge_channels=0)


@pytest.mark.parametrize("case", GRAPHS)
@EVERY_SCHEME
def test_any_graph_without_a_basis(scheme, case):
    batch = collate([decorate(g) for g in GRAPHS[case]], basis=False)
    assert_finite(batch, scheme, edge_channels=0)


@pytest.mark.parametrize("case", ["one node", "components", "k10", "mixed", "rings"])
@EVERY_SCHEME
def test_any_graph_with_a_cut_basis(scheme, case):
    batch = collate([decorate(g) for g in GRAPHS[case]], k=3)
    assert_finite(batch, scheme, edge_channels=0)


@pytest.fixture(scope="module")
def long_path() -> dict[bool, Batch]:
    """2,000 nodes in a row, with all its eigenpairs and with none."""
    molecule = decorate(path(2000))
    return {basis: collate([molecule], basis=basis) for basis in (True, False)}


@pytest.mark.slow
@pytest.mark.parametrize("basis", [True, False], ids=["basis", "no basis"])
@EVERY_SCHEME
def test_a_path_of_2000_nodes(scheme, basis, long_path):
    assert_finite(long_path[basis], scheme)


@pytest.mark.slow
@EVERY_SCHEME
def test_a_path_of_2000_nodes_with_and_without_a_basis(scheme, long_path):
    """The way of a molecule and the way of a large graph lead to the same outputs."""
    net = model(10, diffusion=scheme, readout=None).eval()
    full, none = (predict(net, long_path[basis]) for basis in (True, False))
    torch.testing.assert_close(none, full, rtol=1e-4, atol=1e-5)


@EVERY_SCHEME
def test_signals_far_apart(scheme):
    """Features of 10⁴ beside features of 10⁻⁴."""
    case = disjoint(molecule(10), isolated(1))
    layer = scheme(4)
    x = torch.from_numpy(case.signal(4)).float() * torch.tensor([1e-4, 1.0, 1e4, 0.0])
    h = layer(x, case.operators(torch.float32))
    assert torch.isfinite(h).all()
    assert not h[:, 3].any()
