"""Messages inside rings: the equation, and that nothing is chosen."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from gad import build_operators, native
from gad.chem.featurize import Featurizer
from gad.data.store.molecules import Preparation, read_molecules
from gad.nn import GAD, Between, RingMessages
from tests.graphs import disjoint, hypercube, isolated, molecules, path, ring
from tests.nn.samples import SCHEMES, collate, decorate_all, model, predict
from tests.test_invariance import assert_same, outputs, renumbered

GRAPHS = [*molecules(20), ring(6), hypercube(3), path(5), isolated(1), disjoint(ring(3), ring(5))]


def net() -> GAD:
    torch.manual_seed(1)
    between = Between(20, 2, ring_channels=5)
    return model(diffusion=SCHEMES["implicit"], layers=2, between=between)


def test_it_is_the_equation():
    """A square and a triangle with a bond in common, and a tail."""
    pairs = torch.tensor([[0, 1, 2, 3, 2, 4, 4], [1, 2, 3, 0, 4, 3, 5]])
    operators = build_operators(torch.cat([pairs, pairs.flip(0)], 1), 6, dtype=torch.float64)
    layer = RingMessages(4, 3).double()
    h = torch.randn(6, 4, dtype=torch.float64)
    expected = h.clone()
    for atoms in ([0, 1, 2, 3], [2, 3, 4]):
        expected[atoms] += layer.down(F.leaky_relu(layer.up(h[atoms].mean(0)), 0.01))
    torch.testing.assert_close(layer(h, operators), expected)
    assert torch.equal(layer(h, operators)[5], h[5])


def test_numbering_and_batch_change_nothing():
    found, sample = net(), decorate_all(GRAPHS)
    batch = collate(sample)
    optimiser = torch.optim.Adam(found.parameters(), lr=1e-2)
    for _ in range(10):
        optimiser.zero_grad()
        (predict(found, batch) - batch.y).abs().mean().backward()
        optimiser.step()
    expected = outputs(found.eval(), sample)
    assert_same(outputs(found, renumbered(sample)), expected)
    assert_same(torch.cat([outputs(found, [m]) for m in sample]), expected)
    with native.plain():
        assert_same(outputs(found, sample), expected, bound=1e-4)


def test_every_parameter_gets_a_gradient_and_no_rings_are_no_trouble():
    found = net()
    predict(found, collate(decorate_all(GRAPHS))).square().sum().backward()
    for name, parameter in found.between.named_parameters():
        assert parameter.grad.abs().max() > 0, name
    chain = collate(decorate_all([path(4), isolated(1)]))
    assert torch.isfinite(predict(found, chain)).all()


def test_batches_and_selections_have_their_own_rings():
    packed = read_molecules(["C1CC1C", "CCO", "c1ccccc1O"], Preparation(Featurizer()))
    layer = RingMessages(3, 2)
    h = torch.randn(len(packed.atoms), 3)
    whole = layer(h, packed.operators)
    part = packed.take(torch.tensor([2, 0]))
    rows = torch.cat([torch.arange(7, 14), torch.arange(4)])
    torch.testing.assert_close(layer(h[rows], part.operators), whole[rows])
    batch = packed.batch(torch.tensor([0, 1, 2])).operators
    ends = torch.sort((layer(torch.ones(14, 3), batch) != 1).any(1).long()).values
    assert int(ends.sum()) == 3 + 6
