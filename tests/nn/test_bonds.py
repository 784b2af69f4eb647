"""States of edges: the equation, and what reads them."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from gad import build_operators, native
from gad.nn import GAD, Between, BondUpdate
from tests.graphs import disjoint, isolated, molecule, molecules, ring
from tests.nn.samples import SCHEMES, collate, decorate_all, model, predict
from tests.test_invariance import assert_same, outputs, renumbered


def net(layers: int = 3) -> GAD:
    torch.manual_seed(1)
    between = Between(20, layers, bond_states=4)
    return model(diffusion=SCHEMES["implicit"], layers=layers, between=between)


@pytest.mark.parametrize("batch_norm", [True, False])
def test_it_is_the_equation(batch_norm):
    """Edge by edge, in the order in which the edges were given, which is not the operators'."""
    edge_index = torch.tensor([[2, 0, 1, 1, 0, 2, 3], [1, 1, 2, 0, 0, 3, 2]])  # one is a loop
    operators = build_operators(edge_index, 4, dtype=torch.float64)
    layer = BondUpdate(3, 2, batch_norm=batch_norm).double().eval()
    h, e = torch.randn(4, 3).double(), torch.randn(7, 2).double()
    found = layer(h, operators, e)
    of_target, of_source = layer.nodes.weight.chunk(2)
    for k, (j, i) in enumerate(edge_index.t().tolist()):
        y = of_target @ h[i] + of_source @ h[j] + layer.edges(e[k])
        y = y if layer.norm is None else layer.norm(y[None])[0]
        expected = e[k] if i == j else e[k] + layer.outer(F.leaky_relu(y, 0.01))
        torch.testing.assert_close(found[k], expected)


def test_numbering_and_batch_change_nothing():
    found, sample = net(), decorate_all([*molecules(20), ring(6), isolated(1)])
    batch = collate(sample)
    optimiser = torch.optim.Adam(found.parameters(), lr=1e-2)
    for _ in range(10):
        optimiser.zero_grad()
        (predict(found, batch) - batch.y).abs().mean().backward()
        optimiser.step()
    expected = outputs(found.eval(), sample)
    assert_same(outputs(found, renumbered(sample)), expected)
    assert_same(torch.cat([outputs(found, [m]) for m in sample]), expected)


def test_every_parameter_gets_a_gradient_and_the_last_block_has_no_update():
    found = net()
    assert [r.bonds is None for r in found.between.rounds] == [False, False, True]
    predict(found, collate(decorate_all([*molecules(6), ring(5)]))).square().sum().backward()
    for name, parameter in found.between.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_later_blocks_read_the_new_states():
    found, batch = net(2).eval(), collate(decorate_all(molecules(4)))
    before = predict(found, batch)
    torch.nn.init.zeros_(found.between.rounds[0].bonds.outer.weight)
    torch.nn.init.zeros_(found.between.rounds[0].bonds.outer.bias)
    assert (predict(found, batch) - before).abs().max() > 1e-5
    found.between = None
    other = predict(found, batch)
    found.between = Between(20, 2)
    torch.testing.assert_close(predict(found, batch), other, rtol=0, atol=0)


def test_atoms_without_bonds():
    lonely = disjoint(isolated(1), isolated(1)).operators()
    e = torch.zeros(0, 4, dtype=torch.float64)
    layer = BondUpdate(6, 4).double()
    assert layer(torch.randn(2, 6).double(), lonely, e).shape == (0, 4)


def test_with_and_without_the_compiled_kernels():
    found, batch = net().eval(), collate(decorate_all([*molecules(6), molecule()]))
    y = predict(found, batch)
    with native.plain():
        torch.testing.assert_close(predict(found, batch), y, rtol=1e-4, atol=1e-5)
