"""One block: diffusion, filters, and the parts that can be left out."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from gad.nn import GADBlock, ImplicitDiffusion, SpectralDiffusion
from gad.operators import GraphOperators
from tests.graphs import disjoint, isolated, molecule, ring
from tests.nn.samples import AGGREGATORS, EVERY_SCHEME, collate, decorate_all

CASE = disjoint(molecule(), ring(6), isolated(1))


def block(seed: int = 0, **options) -> GADBlock:
    torch.manual_seed(seed)
    return GADBlock(6, **{"towers": 2, "delta": 1.1, **options}).double()


def inputs() -> tuple[torch.Tensor, GraphOperators]:
    return torch.from_numpy(CASE.signal(6)), CASE.operators()


def filters(module: GADBlock, h, operators, edge_attr=None):
    """The anisotropic part, written out."""
    f = module.aggregation(h, operators, edge_attr)
    if module.graph_norm:
        f = f / operators.graph_sizes[operators.batch, None].double().sqrt()
    if module.norm is not None:
        f = module.norm(f)
    return F.leaky_relu(F.linear(f, module.across_towers.weight, module.across_towers.bias), 0.01)


@pytest.mark.parametrize("options", [{}, {"graph_norm": False}, {"batch_norm": False}], ids=str)
@EVERY_SCHEME
def test_block_is_figure_2(scheme, options):
    """h = LeakyReLU(diffuse(x)); out = x + MLP[h, filters(h)]."""
    module = block(diffusion=scheme(6), **options).eval()
    x, operators = inputs()
    h = F.leaky_relu(module.diffusion(x, operators), 0.01)
    both = torch.cat([h, filters(module, h, operators)], dim=1)
    expected = x + F.linear(both, module.combine.weight, module.combine.bias)
    torch.testing.assert_close(module(x, operators), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "aggregators", [("mean", "max", "dx", "av"), ("mean", "max", "min", "std")]
)
def test_without_diffusion_the_block_is_dgn_or_pna(aggregators):
    """x + filters(x), with directional aggregators (DGN) or without (PNA)."""
    module = block(aggregators=aggregators).eval()
    assert module.diffusion is None
    assert module.combine is None
    x, operators = inputs()
    expected = x + filters(module, x, operators)
    torch.testing.assert_close(module(x, operators), expected, rtol=1e-12, atol=1e-12)


def test_pna_needs_neither_basis_nor_directions():
    module = block(aggregators=("mean", "max", "min", "std")).eval()
    x, operators = inputs()
    bare = CASE.operators(basis=False, directions=False)
    torch.testing.assert_close(module(x, bare), module(x, operators), rtol=0, atol=0)


@EVERY_SCHEME
def test_diffusion_without_directions(scheme):
    module = block(diffusion=scheme(6), aggregators=("mean", "max")).eval()
    x, operators = inputs()
    without = CASE.operators(directions=False)
    torch.testing.assert_close(module(x, without), module(x, operators), rtol=0, atol=0)


@EVERY_SCHEME
def test_diffusion_for_no_time_is_no_diffusion(scheme):
    """At t = 0 only the LeakyReLU is left of h."""
    module = block(diffusion=scheme(6, times=0.0)).eval()
    x, operators = inputs()
    h = F.leaky_relu(x, 0.01)
    both = torch.cat([h, filters(module, h, operators)], dim=1)
    expected = x + F.linear(both, module.combine.weight, module.combine.bias)
    torch.testing.assert_close(module(x, operators), expected, rtol=1e-10, atol=1e-10)


def test_residual_can_be_left_out():
    x, operators = inputs()
    with_x, without = block(residual=True).eval(), block(residual=False).eval()
    expected = x + without(x, operators)
    torch.testing.assert_close(with_x(x, operators), expected, rtol=0, atol=1e-14)


def test_dropout_acts_in_training_only():
    x, operators = inputs()
    plain, dropping = block(residual=False), block(residual=False, dropout=0.5)
    expected = plain(x, operators)
    torch.manual_seed(0)
    dropped = dropping(x, operators)
    gone = dropped == 0
    assert 0.3 < gone.double().mean() < 0.7
    torch.testing.assert_close(dropped[~gone], 2 * expected[~gone], rtol=1e-12, atol=1e-12)
    assert not torch.equal(dropping(x, operators), dropped)
    dropping.eval()
    plain.eval()
    torch.testing.assert_close(dropping(x, operators), dropping(x, operators), rtol=0, atol=0)
    dropping.load_state_dict(plain.state_dict())
    torch.testing.assert_close(dropping(x, operators), plain(x, operators), rtol=0, atol=0)


def test_dropout_spares_the_residual():
    x, operators = inputs()
    y = block(dropout=0.999999)(x, operators)
    torch.testing.assert_close(y, x, rtol=0, atol=1e-12)


def test_graph_norm_divides_by_the_root_of_each_graphs_own_size():
    batch = collate(decorate_all([ring(4), molecule(9), isolated(1)]), dtype=torch.float64)
    module = block(batch_norm=False, graph_norm=True).eval()
    other = block(batch_norm=False, graph_norm=False).eval()
    torch.manual_seed(1)
    h = torch.randn(14, 6, dtype=torch.float64)
    a = module.aggregation(h, batch.operators)
    sizes = torch.tensor([4.0] * 4 + [9.0] * 9 + [1.0], dtype=torch.float64)[:, None]
    expected = a / sizes.sqrt()
    torch.testing.assert_close(module.normed_filters(h, batch.operators, None), expected)
    assert (other.normed_filters(h, batch.operators, None) - expected).abs().max() > 1e-3


def test_batch_norm_is_optional():
    assert block(batch_norm=False).norm is None
    assert not any("running" in name for name in block(batch_norm=False).state_dict())
    x, operators = inputs()
    module = block(batch_norm=False)
    module.train()
    y = module(x, operators)
    module.eval()
    torch.testing.assert_close(module(x, operators), y, rtol=0, atol=0)


def test_batch_norm_learns_statistics_in_training_only():
    x, operators = inputs()
    module = block()
    module(x, operators)
    after_one = module.norm.running_mean.clone()
    assert after_one.abs().max() > 0
    module.eval()
    module(x, operators)
    torch.testing.assert_close(module.norm.running_mean, after_one, rtol=0, atol=0)


def test_channels_of_diffusion_must_fit():
    with pytest.raises(ValueError, match="6 channels cannot use a diffusion of 5"):
        GADBlock(6, diffusion=ImplicitDiffusion(5))


@EVERY_SCHEME
def test_edge_features_reach_the_output(scheme):
    module = block(diffusion=scheme(6), aggregators=AGGREGATORS, edge_channels=2).eval()
    x, operators = inputs()
    edge_attr = torch.randn(operators.num_given_edges, 2, dtype=torch.float64, requires_grad=True)
    module(x, operators, edge_attr).square().sum().backward()
    assert (edge_attr.grad.abs().amax(1) > 0).all()
    with pytest.raises(ValueError, match="edge_attr is missing"):
        module(x, operators)


def test_gradients_are_those_of_finite_differences():
    case = disjoint(molecule(6), ring(4), isolated(1))
    torch.manual_seed(2)
    module = GADBlock(
        4, towers=2, diffusion=SpectralDiffusion(4), aggregators=AGGREGATORS, edge_channels=2
    ).double()
    operators = case.operators()
    x = torch.from_numpy(case.signal(4)).requires_grad_()
    edge_attr = torch.randn(operators.num_given_edges, 2, dtype=torch.float64, requires_grad=True)
    inputs = (x, edge_attr, *module.parameters())
    assert torch.autograd.gradcheck(
        lambda *_: module(x, operators, edge_attr), inputs, fast_mode=True
    )
