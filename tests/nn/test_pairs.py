"""The filter over all pairs: a function of the diffusion kernels, and of nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from gad import native
from gad.nn import GAD, Between, Diffusion, KernelFilter, PairWeights
from gad.nn.model import decay_groups, frozen_parts, layer_rates
from gad.operators import HEAT, IMPLICIT
from tests.graphs import complete, disjoint, isolated, molecule, molecules, ring, star
from tests.nn.samples import SCHEMES, collate, decorate, decorate_all, model, predict
from tests.reference.dense import laplacian, mass
from tests.test_invariance import assert_same, outputs, renumbered, turned

KINDS = pytest.mark.parametrize("scheme", [IMPLICIT, HEAT], ids=["implicit", "spectral"])
CASE = disjoint(molecule(9), ring(6), star(3), isolated(1))
LAYERS, HEADS = 2, 4


def net(scheme: str = "implicit", **options) -> GAD:
    """A model with a filter over all pairs after each of its two blocks."""
    torch.manual_seed(1)
    pairs = PairWeights(LAYERS * HEADS, SCHEMES[scheme].own_scheme, times=5, hidden=6)
    between = Between(20, LAYERS, pairs=pairs)
    return model(diffusion=SCHEMES[scheme], layers=LAYERS, between=between, **options)


def trained(scheme: str) -> GAD:
    found, batch = net(scheme), collate(decorate_all(molecules(32)))
    optimiser = torch.optim.Adam(found.parameters(), lr=1e-2)
    for _ in range(10):
        optimiser.zero_grad()
        (predict(found, batch) - batch.y).abs().mean().backward()
        optimiser.step()
    return found.eval()


# ------------------------------------------------------------------------------ what it is


@KINDS
def test_it_is_the_definition_written_out(scheme):
    """Every pair of a component by itself, by dense matrices."""
    torch.manual_seed(0)
    pairs = PairWeights(2, scheme, times=3, hidden=4).double()
    operators, x = CASE.operators(), torch.randn(CASE.num_nodes, 6, dtype=torch.float64)
    m = mass(CASE.adjacency)
    root = np.sqrt(m)
    lam, u = np.linalg.eigh(laplacian(CASE.adjacency) / root[:, None] / root)
    r = scheme.response(torch.from_numpy(lam)[:, None], pairs.times.detach())
    s = torch.einsum("ik,kt,jk->ijt", torch.from_numpy(u), r, torch.from_numpy(u))
    q = s.sign() * (1 + 32 * s.abs()).log() / np.log(33)
    w = s @ pairs.linear.t() + pairs.outer(F.leaky_relu(pairs.inner(q)))
    connected = operators.component[:, None] == operators.component
    w = w * connected[:, :, None] * torch.from_numpy(root / root[:, None])[:, :, None]
    expected = torch.einsum("ijg,jgc->igc", w, x.view(-1, 2, 3)).flatten(1)
    torch.testing.assert_close(pairs(operators).apply(x), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("scheme", "k"), [(IMPLICIT, None), (HEAT, None), (HEAT, 4)])
def test_plain_diffusion_is_a_special_case(scheme, k):
    """With a head for each channel that picks its time, and nothing from the hidden units."""
    pairs, diffusion = PairWeights(6, scheme, times=6).double(), Diffusion(6, scheme).double()
    diffusion.set_times(pairs.times.detach())
    torch.nn.init.zeros_(pairs.outer.weight)
    operators, x = CASE.operators(k=k), torch.from_numpy(CASE.signal(6))
    found = pairs(operators).apply(x)
    torch.testing.assert_close(found, diffusion(x, operators), rtol=1e-9, atol=1e-9)
    torch.nn.init.ones_(pairs.outer.weight)
    assert (pairs(operators).apply(x) - found).abs().max() > 0.1


def test_layers_share_kernels_and_have_heads_of_their_own():
    pairs = PairWeights(6, IMPLICIT, times=3).double()
    operators, x = CASE.operators(), torch.from_numpy(CASE.signal(4))
    first, second, third = pairs(operators).split(3)
    assert (first.apply(x) - second.apply(x)).abs().max() > 1e-3
    whole = pairs(operators).apply(torch.cat([x, x, x], dim=1))
    torch.testing.assert_close(
        torch.cat([own.apply(x) for own in (first, second, third)], dim=1), whole
    )


def test_a_component_hears_nothing_of_another():
    layer, pairs = KernelFilter(6, 3).double().eval(), PairWeights(3, IMPLICIT).double()
    both, alone = disjoint(molecule(9), ring(6)).operators(), molecule(9).operators()
    x = torch.from_numpy(CASE.signal(6))[:15].clone()
    before = layer(x, pairs(both))
    x[9:] += 1e6
    torch.testing.assert_close(layer(x, pairs(both))[:9], before[:9], rtol=0, atol=0)
    torch.testing.assert_close(layer(x[:9], pairs(alone)), before[:9], rtol=1e-10, atol=1e-12)


def test_everything_reaches_everything_within_a_component():
    x = torch.zeros(12, 2, dtype=torch.float64)
    x[0] = 1
    h = PairWeights(2, IMPLICIT).double()(molecule(12).operators()).apply(x)
    assert (h.abs() > 1e-6).all()


def test_a_single_atom_keeps_to_itself():
    pairs = PairWeights(2, IMPLICIT, times=2).double()
    x = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    torch.nn.init.zeros_(pairs.outer.weight)
    torch.testing.assert_close(pairs(isolated(1).operators()).apply(x), x)


def test_heads_must_divide_the_channels():
    with pytest.raises(ValueError, match="6 channels cannot be cut into 4"):
        KernelFilter(6, 4)
    with pytest.raises(ValueError, match="3 heads cannot be shared by 2 layers"):
        Between(6, 2, pairs=PairWeights(3, IMPLICIT))
    with pytest.raises(ValueError, match="4 blocks need as many rounds, not 2"):
        GAD(6, layers=4, between=Between(6, 2))


def test_without_a_basis_it_says_what_is_missing():
    with pytest.raises(ValueError, match="built without a basis"):
        PairWeights(2, IMPLICIT)(ring(5).operators(basis=False))


# ------------------------------------------------------------------------------ invariance


@pytest.mark.parametrize("scheme", SCHEMES)
def test_numbering_batch_and_basis_change_nothing(scheme):
    found = trained(scheme)
    sample = decorate_all(
        [*molecules(30), ring(6), complete(5), star(5), disjoint(ring(6), ring(6)), isolated(1)]
    )
    expected = outputs(found, sample)
    assert_same(outputs(found, renumbered(sample)), expected)
    assert_same(torch.cat([outputs(found, [m]) for m in sample]), expected)
    assert_same(outputs(found, sample[::-1]).flip(0), expected)
    cut = outputs(found, sample, k=4)
    assert_same(outputs(found, renumbered(sample), k=4), cut)
    assert (cut - expected).abs().max() > 1e-4
    for only_signs in (True, False):
        each = []
        for m in sample[:40]:
            batch = collate([m])
            other = turned(m.graph, 1, only_signs=only_signs).to(torch.float32)
            with torch.no_grad():
                each.append(found(batch.x, other, batch.edge_attr))
        assert_same(torch.cat(each), expected[:40])


# ------------------------------------------------------------------------------ training


def test_every_parameter_gets_a_gradient():
    found, batch = net(), collate(decorate_all([*molecules(6), disjoint(ring(5), isolated(1))]))
    predict(found, batch).square().sum().backward()
    for name, parameter in found.between.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_gradients_are_those_of_finite_differences():
    pairs = PairWeights(2, IMPLICIT, times=2, hidden=3).double()
    operators = disjoint(molecule(5), ring(4), isolated(1)).operators()
    x = torch.randn(10, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda *_: pairs(operators).apply(x), (x, *pairs.parameters()), fast_mode=True
    )


@pytest.mark.parametrize("training", [True, False])
def test_with_and_without_the_compiled_kernels(training):
    found, batch = net().train(training), collate(decorate_all(molecules(8)))
    if not native.accepts(torch.zeros(1)):
        pytest.skip("no compiled kernels here")
    values, slopes = [], []
    for plain in (False, True):
        found.zero_grad()
        if plain:
            with native.plain():
                y = predict(found, batch)
                y.square().sum().backward()
        else:
            y = predict(found, batch)
            y.square().sum().backward()
        values.append(y.detach())
        slopes.append(found.between.pairs.raw_times.grad.clone())
    torch.testing.assert_close(*values, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(*slopes, rtol=1e-2, atol=1e-3)


def test_its_times_are_not_decayed():
    found = net()
    _, timed = decay_groups(found, 0.1)
    assert any(p is found.between.pairs.raw_times for p in timed["params"])
    assert timed["weight_decay"] == 0


def test_what_follows_a_block_learns_and_freezes_with_it():
    found = net()
    rates = layer_rates(found, 0.5)
    last, first = (found.between.rounds[k].pairs.across_heads.weight for k in (1, 0))
    assert (rates[last], rates[first]) == (0.5, 0.25)
    assert rates[found.between.pairs.raw_times] == 0.125
    parts = frozen_parts(found, 1)
    assert found.between.rounds[0] in parts
    assert found.between.pairs in parts
    assert found.between.rounds[1] not in parts


def test_dropout_and_norm_are_the_blocks():
    pairs = PairWeights(3, IMPLICIT)
    made = Between(6, 1, pairs=pairs, batch_norm=False, dropout=0.999999)
    x, operators = torch.randn(6, 6), decorate(ring(6)).graph.operators().to(torch.float32)
    assert made.rounds[0].pairs.norm is None
    torch.testing.assert_close(made.prepare(operators)(0, x, None)[0], x)
    assert (made.eval().prepare(operators)(0, x, None)[0] - x).abs().max() > 1e-3
