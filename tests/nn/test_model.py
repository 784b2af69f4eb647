"""The full model: parts that are injected, gradients that arrive, widths that fit."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from gad.nn import (
    GAD,
    DirectionalAggregation,
    Head,
    ImplicitDiffusion,
    count_parameters,
    decay_groups,
    mean_log_degree,
    pool,
    widest,
)
from tests.graphs import disjoint, isolated, molecule, molecules, ring, star
from tests.nn.samples import (
    AGGREGATORS,
    ATOMS,
    EVERY_SCHEME,
    SCHEMES,
    Molecule,
    collate,
    decorate,
    decorate_all,
    model,
    predict,
    solubilities,
)

DIFFUSIONS = pytest.mark.parametrize("diffusion", [*SCHEMES.values(), None], ids=[*SCHEMES, "none"])
MOLECULES = decorate_all([*molecules(12), ring(6), star(4), isolated(1)])


@pytest.fixture(scope="module")
def batch():
    return collate(MOLECULES)


# ------------------------------------------------------------------------------ outputs


@DIFFUSIONS
def test_graph_outputs_and_node_outputs(batch, diffusion):
    graphs = predict(model(diffusion=diffusion, out_channels=3), batch)
    assert graphs.shape == (len(MOLECULES), 3)
    nodes = predict(model(diffusion=diffusion, out_channels=3, readout=None), batch)
    assert nodes.shape == (batch.operators.num_nodes, 3)


@pytest.mark.parametrize("readout", ["mean", "sum"])
def test_readout_pools_the_node_outputs_of_each_graph(batch, readout):
    """With the head left out, a graph's output is the mean or sum of its nodes' outputs."""
    net = model(readout=readout, head=nn.Identity()).eval()
    nodes = model(readout=None, head=nn.Identity()).eval()
    nodes.load_state_dict(net.state_dict())
    h, y = predict(nodes, batch), predict(net, batch)
    for g in range(len(MOLECULES)):
        expected = getattr(torch, readout)(h[batch.operators.batch == g], 0)
        torch.testing.assert_close(y[g], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("readout", ["mean", "sum"])
def test_pool(readout):
    operators = collate(decorate_all([ring(3), isolated(1), star(2)])).operators
    h = torch.arange(14.0).view(7, 2)
    expected = [getattr(part, readout)(0) for part in h.split([3, 1, 3])]
    torch.testing.assert_close(pool(h, operators, readout), torch.stack(expected))


def test_the_readout_of_everything_is_sum_mean_maximum_and_size_side_by_side():
    operators = collate(decorate_all([ring(3), isolated(1), star(2)])).operators
    h = torch.randn(7, 5, requires_grad=True)
    expected = [
        torch.cat([part.sum(0), part.mean(0), part.amax(0), torch.tensor([len(part)]).log()])
        for part in h.split([3, 1, 3])
    ]
    found = pool(h, operators, "all")
    torch.testing.assert_close(found, torch.stack(expected))
    weights = torch.randn_like(found)
    ours, theirs = (
        torch.autograd.grad((out * weights).sum(), h)[0] for out in (found, torch.stack(expected))
    )
    torch.testing.assert_close(ours, theirs)
    assert GAD(5, readout="all", graph_channels=2).embedding_channels == 3 * 5 + 1 + 2


def test_batch_is_one_by_one(batch):
    net = model().eval()
    singles = [predict(net, collate([m])) for m in MOLECULES]
    torch.testing.assert_close(torch.cat(singles), predict(net, batch), rtol=1e-5, atol=1e-6)


def test_embed_is_what_the_head_reads(batch):
    net = model().eval()
    embedded = net.embed(batch.x, batch.operators, batch.edge_attr)
    assert embedded.shape == (len(MOLECULES), 20)
    torch.testing.assert_close(net.head(embedded), predict(net, batch))


def test_features_of_whole_graphs(batch):
    net = model(graph_channels=4).eval()
    features = torch.randn(len(MOLECULES), 4, dtype=torch.float64, requires_grad=True)
    y = net(batch.x, batch.operators, batch.edge_attr, features)
    assert y.shape == (len(MOLECULES), 1)
    embedded = net.embed(batch.x, batch.operators, batch.edge_attr, features)
    torch.testing.assert_close(embedded[:, 20:], features.float())
    y.sum().backward()
    assert features.grad.abs().sum() > 0


def test_features_of_whole_graphs_are_checked(batch):
    features = torch.randn(len(MOLECULES), 4)
    with pytest.raises(ValueError, match="4 graph features"):
        model(graph_channels=4)(batch.x, batch.operators, batch.edge_attr)
    with pytest.raises(ValueError, match="0 graph features"):
        model()(batch.x, batch.operators, batch.edge_attr, features)
    with pytest.raises(ValueError, match="need a readout"):
        model(graph_channels=4, readout=None)


def test_features_of_whole_graphs_are_not_silently_ignored_by_a_model_of_nodes(batch):
    net = model(readout=None)
    with pytest.raises(ValueError, match="graph features"):
        net(batch.x, batch.operators, batch.edge_attr, torch.randn(len(MOLECULES), 4))


def test_unknown_readout_is_refused():
    with pytest.raises(ValueError, match="unknown readout 'max': choose from mean, sum, all"):
        GAD(4, readout="max")


# ------------------------------------------------------------------------------ parts


class Recorder(nn.Module):
    """An encoder or head of the user's own."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.seen: list[torch.Size] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(x.shape)
        return self.linear(x)


def test_encoders_and_head_are_injected():
    case = molecule()
    n, e = case.num_nodes, 2 * len(case.pairs)
    encoder, edge_encoder, head = Recorder(7, 8), Recorder(5, 3), Recorder(8, 2)
    net = GAD(8, layers=1, encoder=encoder, edge_encoder=edge_encoder, edge_channels=3, head=head)
    y = net(torch.randn(n, 7), case.operators(torch.float32), torch.randn(e, 5))
    assert y.shape == (1, 2)
    assert (encoder.seen, edge_encoder.seen, head.seen) == ([(n, 7)], [(e, 5)], [(1, 8)])
    y.sum().backward()
    assert all(
        p.grad is not None for part in (encoder, edge_encoder, head) for p in part.parameters()
    )


def test_without_encoders_features_go_in_as_they_are():
    case = molecule()
    net = GAD(8, layers=1, edge_channels=3)
    y = net(torch.randn(23, 8), case.operators(torch.float32), torch.randn(2 * len(case.pairs), 3))
    assert y.shape == (1, 1)


def test_encoders_may_take_any_object():
    """A model of molecules may be given a tuple of categories and values."""

    class Tuple(nn.Module):
        def forward(self, features):
            a, b = features
            return a + b

    case = ring(5)
    y = GAD(4, layers=1, encoder=Tuple())(
        (torch.ones(5, 4), torch.ones(5, 4)), case.operators(torch.float32)
    )
    assert y.shape == (1, 1)


@pytest.mark.parametrize("channels", [1, 2, 3, 20, 75])
def test_head_halves(channels):
    head = Head(channels, 4)
    widths = [(layer.in_features, layer.out_features) for layer in head.layers]
    half, quarter = max(1, channels // 2), max(1, channels // 4)
    assert widths == [(channels, half), (half, quarter), (quarter, 4)]
    assert head(torch.randn(3, channels)).shape == (3, 4)
    assert head(torch.randn(2, 3, channels)).shape == (2, 3, 4)


def test_diffusions_are_listed_block_by_block():
    net = model(layers=3)
    assert net.diffusions() == [block.diffusion for block in net.blocks]
    assert model(diffusion=None).diffusions() == []


def test_delta_is_set_everywhere_and_kept(batch):
    net = model(layers=3)
    delta = mean_log_degree(batch.operators)
    net.set_delta(delta)
    layers = [m for m in net.modules() if isinstance(m, DirectionalAggregation)]
    assert len(layers) == 3
    assert all(layer.delta.item() == pytest.approx(delta, rel=1e-6) for layer in layers)
    fresh = model(layers=3)
    fresh.load_state_dict(net.state_dict())
    torch.testing.assert_close(predict(fresh.eval(), batch), predict(net.eval(), batch))


# ------------------------------------------------------------------------------ gradients


@pytest.mark.parametrize("dx_centre", ["message", "node"])
@DIFFUSIONS
def test_every_parameter_receives_a_gradient(diffusion, dx_centre):
    """Every number of every block, and every embedding that is used."""
    assert_gradients_arrive(collate(MOLECULES), diffusion, dx_centre)


@EVERY_SCHEME
def test_every_parameter_receives_a_gradient_from_real_molecules(scheme):
    assert_gradients_arrive(collate(solubilities(60)), scheme, "message")


def assert_gradients_arrive(batch, diffusion, dx_centre):
    net = model(diffusion=diffusion, layers=4, dx_centre=dx_centre)
    (predict(net, batch) - batch.y).square().mean().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().sum() > 0, name
        if name.startswith("blocks"):
            assert (parameter.grad != 0).all(), name
    seen = torch.zeros(ATOMS, dtype=torch.bool)
    seen[batch.x] = True
    assert ((net.encoder.weight.grad != 0).all(1) == seen).all()


def test_gradients_are_those_of_the_loss():
    """A step against the gradient lowers the loss by what the gradient says, in float64."""
    batch = collate(MOLECULES, dtype=torch.float64)
    net = model().double()
    y = batch.y.double()

    def loss():
        return (predict(net, batch) - y).square().mean()

    before = loss()
    before.backward()
    slope = sum(p.grad.square().sum() for p in net.parameters())
    step = 1e-7
    with torch.no_grad():
        for p in net.parameters():
            p.sub_(step * p.grad)
    assert (before - loss()).item() == pytest.approx((step * slope).item(), rel=1e-3)


# ------------------------------------------------------------------------------ sizes


@pytest.mark.parametrize("budget", [1_500, 20_000, 100_000, 500_000])
@pytest.mark.parametrize("towers", [1, 5])
def test_widest_is_the_largest_that_fits(budget, towers):
    def build(width):
        return GAD(width, layers=2, towers=towers)

    width = widest(build, budget, multiple=towers)
    assert width % towers == 0
    assert count_parameters(build(width)) <= budget < count_parameters(build(width + towers))


def test_widest_says_when_nothing_fits():
    with pytest.raises(ValueError, match="even a width of 5 needs more than 10 parameters"):
        widest(lambda width: GAD(width, towers=5), 10, multiple=5)


def test_widest_leaves_random_numbers_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    widest(lambda width: GAD(width, layers=1), 1_000)
    torch.testing.assert_close(torch.rand(3), expected, rtol=0, atol=0)


def test_only_trainable_parameters_are_counted():
    net = model()
    total = count_parameters(net)
    assert total == sum(p.numel() for p in net.parameters())
    net.encoder.weight.requires_grad_(False)
    assert count_parameters(net) == total - net.encoder.weight.numel()


@DIFFUSIONS
def test_decay_groups_exclude_exactly_the_times(diffusion):
    net = model(diffusion=diffusion, layers=3)
    decayed, kept = decay_groups(net, 0.01)
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.01, 0.0)
    expected = [layer.raw_times for layer in net.diffusions()]
    assert {id(p) for p in kept["params"]} == {id(p) for p in expected}
    ids = [id(p) for group in (decayed, kept) for p in group["params"]]
    assert len(ids) == len(set(ids))
    assert set(ids) == {id(p) for p in net.parameters()}


@DIFFUSIONS
def test_an_optimiser_with_decay_leaves_the_times_alone(batch, diffusion):
    net = model(diffusion=diffusion)
    before = [layer.times.detach().clone() for layer in net.diffusions()]
    weight = net.blocks[0].across_towers.weight.detach().clone()
    optimiser = torch.optim.SGD(decay_groups(net, 0.5), lr=0.1)
    (0 * predict(net, batch).sum()).backward()
    optimiser.step()
    for layer, times in zip(net.diffusions(), before, strict=True):
        torch.testing.assert_close(layer.times.detach(), times, rtol=0, atol=0)
    torch.testing.assert_close(net.blocks[0].across_towers.weight.detach(), 0.95 * weight)


# ------------------------------------------------------------------------------ copies


@DIFFUSIONS
def test_copies_and_round_trips_keep_the_outputs(batch, diffusion):
    net = model(diffusion=diffusion)
    for _ in range(3):
        predict(net, batch)
    expected = predict(net.eval(), batch)
    copied = copy.deepcopy(net)
    torch.testing.assert_close(predict(copied, batch), expected, rtol=0, atol=0)
    fresh = model(diffusion=diffusion, seed=1).eval()
    assert (predict(fresh, batch) - expected).abs().max() > 1e-4
    fresh.load_state_dict(net.state_dict())
    torch.testing.assert_close(predict(fresh, batch), expected, rtol=0, atol=0)
    with torch.no_grad():
        copied.encoder.weight.zero_()
    torch.testing.assert_close(predict(net, batch), expected, rtol=0, atol=0)


@EVERY_SCHEME
def test_double_precision_agrees(batch, scheme):
    net = model(diffusion=scheme, layers=4).eval()
    expected = predict(net, batch)
    exact = collate(MOLECULES, dtype=torch.float64)
    y = predict(copy.deepcopy(net).double(), exact)
    assert y.dtype == torch.float64
    torch.testing.assert_close(y.float(), expected, rtol=1e-4, atol=1e-5)
    # Operators kept in float32 serve a model in float64.
    mixed = predict(copy.deepcopy(net).double(), batch)
    torch.testing.assert_close(mixed, y, rtol=1e-5, atol=1e-6)


def test_the_same_seed_gives_the_same_model(batch):
    a, b = predict(model(seed=3), batch), predict(model(seed=3), batch)
    torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_inference_without_gradients(batch):
    net = model().eval()
    expected = predict(net, batch)
    with torch.inference_mode():
        inferred = predict(net, batch)
    torch.testing.assert_close(inferred, expected.detach(), rtol=0, atol=0)


def test_operators_first_used_in_inference_mode_serve_training_afterwards():
    """A trainer may validate on a graph before it trains on it."""
    net, fresh = model().eval(), collate(MOLECULES)
    with torch.inference_mode():
        first = predict(net, fresh).clone()
    y = predict(net, fresh)
    torch.testing.assert_close(y.detach(), first.clone(), rtol=0, atol=0)
    y.sum().backward()
    found = {name: p.grad.clone() for name, p in net.named_parameters()}
    net.zero_grad()
    predict(net, collate(MOLECULES)).sum().backward()
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=0, atol=0)


def test_diffusion_is_made_once_for_every_block():
    made = []

    def make(channels: int) -> ImplicitDiffusion:
        made.append(channels)
        return ImplicitDiffusion(channels, times=1.0)

    net = GAD(6, layers=3, diffusion=make)
    assert made == [6, 6, 6]
    assert all(layer.times.tolist() == [1.0] * 6 for layer in net.diffusions())
    assert len({id(layer.raw_times) for layer in net.diffusions()}) == 3


@pytest.mark.parametrize("aggregators", [AGGREGATORS, ("mean", "std")])
def test_dgn_and_pna_are_the_same_code(batch, aggregators):
    net = model(diffusion=None, aggregators=aggregators)
    assert not any("raw_times" in name for name, _ in net.named_parameters())
    predict(net, batch).sum().backward()
    assert all(p.grad is not None for p in net.parameters())


def test_components_of_one_graph_add_up():
    """Two molecules as one graph: nothing flows between them, and the sum is over both."""
    a, b = decorate(molecule(9), 1), decorate(star(5), 2)
    bonds = np.zeros((15, 15), dtype=np.int64)
    bonds[:9, :9], bonds[9:, 9:] = a.bonds, b.bonds
    both = Molecule(disjoint(a.graph, b.graph), np.concatenate([a.atoms, b.atoms]), bonds)
    net = model(graph_norm=False, readout="sum", head=nn.Identity()).eval()
    apart = predict(net, collate([a, b]))
    torch.testing.assert_close(predict(net, collate([both]))[0], apart.sum(0), rtol=1e-5, atol=1e-4)
