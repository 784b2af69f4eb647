"""The baseline networks: what each layer computes, and what holds for all of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from gad.nn import GAD, CategoricalEncoder, count_parameters, decay_groups
from gad.nn.baselines import (
    NETWORKS,
    WITHOUT_EDGES,
    BaselineBlock,
    CycleMessages,
    DegreeKernels,
    baseline_blocks,
)
from gad.operators import build_operators
from gad.operators.cycles import count_cycles
from tests.graphs import disjoint, graph, isolated, molecule, molecules, ring
from tests.nn.samples import ATOMS, BONDS, collate, decorate, decorate_all, predict

CASES = [(name, edges) for name in NETWORKS for edges in (0, 4)]
CASES = [(n, e) for n, e in CASES if not (e and n in WITHOUT_EDGES) and not (n == "gsn" and not e)]
EVERY_NETWORK = pytest.mark.parametrize(("network", "edges"), CASES)


def model(network, edges, channels=16, **options):
    torch.manual_seed(0)
    return GAD(
        channels,
        encoder=CategoricalEncoder([ATOMS], channels),
        edge_encoder=CategoricalEncoder([BONDS], edges) if edges else None,
        blocks=baseline_blocks(network, channels, layers=3, edge_channels=edges, **options),
    )


def settled(net, batch):
    """The model after some training steps' statistics, ready to predict."""
    for _ in range(3):
        predict(net, batch)
    return net.eval()


@EVERY_NETWORK
def test_every_parameter_is_trained(network, edges):
    net = model(network, edges)
    batch = collate(decorate_all(molecules(12, seed=1)))
    nn.functional.l1_loss(predict(net, batch), batch.y).backward()
    idle = [n for n, p in net.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not idle
    decaying, free = decay_groups(net, 0.1)
    assert sum(p.numel() for p in decaying["params"]) == count_parameters(net)
    assert not free["params"]
    assert net.diffusions() == []
    assert net.delta == 1


@EVERY_NETWORK
def test_numbering_and_company_do_not_matter(network, edges):
    several = decorate_all([*molecules(8, seed=2), disjoint(molecule(9), isolated(2), ring(5))])
    net = settled(model(network, edges), collate(several)).double()
    options = {"dtype": torch.float64}
    together = predict(net, collate(several, **options))
    rng = np.random.default_rng(0)
    for one, wanted in zip(several, together, strict=True):
        other = one.renumbered(rng.permutation(one.graph.num_nodes))
        for case in (one, other):
            found = predict(net, collate([case], **options))
            torch.testing.assert_close(found[0], wanted, rtol=0, atol=1e-9)


@EVERY_NETWORK
@pytest.mark.parametrize("alone", [isolated(1), isolated(3), disjoint(isolated(1), ring(3))])
def test_atoms_without_neighbours(network, edges, alone):
    net = model(network, edges)
    batch = collate([decorate(alone)])
    loss = predict(net, batch).sum()
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None)
    assert torch.isfinite(predict(net.eval(), batch)).all()


@EVERY_NETWORK
def test_bonds_matter_where_they_are_used(network, edges):
    one = decorate(molecule(12))
    net = settled(model(network, edges), collate([one]))
    batch = collate([one])
    other = net(batch.x, batch.operators, (batch.edge_attr + 1) % BONDS if edges else None)
    assert torch.equal(other, predict(net, batch)) == (edges == 0)


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_learns_a_few_molecules(network):
    edges = 0 if network in WITHOUT_EDGES else 4
    net, batch = model(network, edges, 24), collate(decorate_all(molecules(8, 3, smallest=6)))
    optimiser = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(120):
        optimiser.zero_grad()
        loss = nn.functional.l1_loss(predict(net, batch), batch.y)
        loss.backward()
        optimiser.step()
    assert float(loss.detach()) < 0.15


# ------------------------------------------------------------------------------ single layers


def layer_of(network, channels=8, **options):
    torch.manual_seed(1)
    return baseline_blocks(network, channels, layers=1, **options)[0].layer.double()


def on(of, network, x, **options):
    with torch.no_grad():
        return layer_of(network, **options)(x, of.edge_index)


def test_gcn_is_the_normalised_adjacency_with_loops():
    of = molecule(14)
    x = torch.from_numpy(of.signal(8))
    A = torch.from_numpy(of.adjacency) + torch.eye(14)
    root = A.sum(1).rsqrt()
    weight = layer_of("gcn").lin.weight.detach()
    wanted = root[:, None] * A * root @ (x @ weight.t())
    torch.testing.assert_close(on(of, "gcn", x), wanted)


def test_monet_weighs_neighbours_by_degrees():
    of = molecule(14)
    x = torch.from_numpy(of.signal(8))
    layer = layer_of("monet")
    assert isinstance(layer, DegreeKernels)
    inverse = (torch.from_numpy(of.adjacency).sum(1) + 1).rsqrt()
    mu, sigma, g = (getattr(layer.kernels, name).detach() for name in ("mu", "sigma", "g"))
    assert (sigma == 1).all()
    wanted = torch.zeros_like(x)
    for j, i in of.edge_index.t().tolist():
        u = torch.tanh(layer.project(torch.stack([inverse[j], inverse[i]]))).detach()
        for k in range(3):
            w = torch.exp(-0.5 * ((u - mu[k]) ** 2).sum())
            wanted[i] += w * (x[j] @ g[:, 8 * k : 8 * (k + 1)])
    torch.testing.assert_close(on(of, "monet", x), wanted)


def test_gsn_is_its_equation():
    of = molecule(11)
    x, e = torch.from_numpy(of.signal(8)), torch.randn(2 * len(of.pairs), 3, dtype=torch.float64)
    torch.manual_seed(0)
    layer = CycleMessages(8, 3).double()
    total = torch.zeros_like(x)
    for (j, i), bond in zip(of.edge_index.t().tolist(), e, strict=True):
        total[i] = total[i] + layer.message(torch.cat([x[i], x[j], bond]))
    wanted = layer.update(torch.cat([x, total], dim=1))
    torch.testing.assert_close(layer(x, of.edge_index, e), wanted)


def test_a_block_is_what_surrounds_its_layer():
    of = molecule(10)
    x = torch.from_numpy(of.signal(8))
    layer = layer_of("gcn")
    inside = layer(x, of.edge_index)
    plain = BaselineBlock(layer, 8, batch_norm=False).double()
    torch.testing.assert_close(plain(x, of.operators()), x + inside.relu())
    bare = BaselineBlock(layer, 8, batch_norm=False, graph_norm=True, residual=False).double()
    torch.testing.assert_close(bare(x, of.operators()), (inside / 10**0.5).relu())
    normed = BaselineBlock(layer, 8).double()
    wanted = (inside - inside.mean(0)) / (inside.var(0, correction=0) + 1e-5).sqrt()
    torch.testing.assert_close(normed(x, of.operators()), x + wanted.relu())
    dropped = BaselineBlock(layer, 8, batch_norm=False, dropout=0.5).double()
    torch.manual_seed(0)
    changed = dropped(x, of.operators()) - x
    kept = changed != 0
    torch.testing.assert_close(changed[kept], 2 * inside.relu()[kept])
    assert (inside.relu()[~kept] != 0).any()
    torch.testing.assert_close(dropped.eval()(x, of.operators()), x + inside.relu())


def test_cycles_tell_apart_what_neighbours_cannot():
    """Two triangles and a hexagon: every atom sees two neighbours alike, however far it looks."""
    pair = (disjoint(ring(3), ring(3)), ring(6))

    def outputs(network, longest):
        results = []
        for of in pair:
            torch.manual_seed(0)
            _, counts = count_cycles(of.edge_index, 6, max(longest, 3))
            seen = counts.clamp_max(1) if longest else torch.zeros_like(counts)
            net = GAD(
                8,
                edge_encoder=CategoricalEncoder([2] * counts.shape[1], 4),
                blocks=baseline_blocks(network, 8, edge_channels=4),
            )
            results.append(net.eval()(torch.ones(6, 8), build_operators(of.edge_index, 6), seen))
        return results

    torch.testing.assert_close(*outputs("gin", 0))
    torch.testing.assert_close(*outputs("gsn", 0))
    triangles, hexagon = outputs("gsn", 6)
    assert not torch.allclose(triangles, hexagon, atol=1e-3)


def test_himp_is_its_equations():
    """Toluene: a ring, and a bond that shares atom 0 with it."""
    of = graph(7, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 6)])
    torch.manual_seed(0)
    (net,) = baseline_blocks("himp", 8, layers=1, batch_norm=False)
    net = net.double()
    x = torch.from_numpy(of.signal(8))
    rings, bonds = list(range(6)), [0, 6]
    h = net.atoms[0](x, of.operators())
    z = net.kind.weight[:2]  # a bond, a ring
    z = z + net.up[0](torch.stack([h[bonds].mean(0), h[rings].mean(0)])).relu()
    z = z + net.clusters[0](z + z.flip(0)).relu()
    seen = torch.stack([z.mean(0), *z[[1] * 5], z[0]])
    torch.testing.assert_close(net(x, of.operators()), h + net.down[0](seen).relu())


@pytest.mark.parametrize("edges", [0, 3])
def test_smp_is_its_equations(edges):
    """Against contexts as dense [N, N, C], node by node."""
    of = molecule(9)
    torch.manual_seed(0)
    (net,) = baseline_blocks("smp", 12, layers=2, edge_channels=edges, batch_norm=False)
    net = net.double()
    x = torch.from_numpy(of.signal(12))
    e = torch.randn(of.edge_index.shape[1], edges, dtype=torch.float64)
    U = torch.diag_embed(net.begin(x).t()).permute(1, 2, 0)
    for layer in net.layers:
        V = layer.row(U) + layer.all_rows(U.mean(1))[:, None]
        S = torch.zeros_like(U)
        for (j, i), bond in zip(of.edge_index.t().tolist(), e, strict=True):
            S[i] = S[i] + V[j] * (1 + layer.edge(bond) if edges else 1)
        own, total = layer.own(U), layer.sum(S)
        U = U + (own[..., :4] + total[..., :4] + own[..., 4:] * total[..., 4:]).relu()
    itself = torch.stack([U[i, i] for i in range(9)])
    seen = torch.cat([net.each(U).relu().mean(1), itself], dim=1)
    found = net(x, of.operators(), e if edges else None)
    torch.testing.assert_close(found, x + net.end(seen).relu())


@pytest.mark.parametrize("network", ["himp", "smp"])
def test_rings_and_contexts_tell_apart_what_neighbours_cannot(network):
    torch.manual_seed(0)
    net = GAD(8, blocks=baseline_blocks(network, 8)).eval()
    pair = (disjoint(ring(3), ring(3)), ring(6))
    x = torch.ones(6, 8)
    triangles, hexagon = (net(x, build_operators(of.edge_index, 6)) for of in pair)
    # HIMP sees rings, but not how long they are: there are two of them, or one.
    assert torch.allclose(triangles, hexagon, atol=1e-6) == (network == "himp")


def test_edges_in_another_order_bring_their_features_along():
    one = graph(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
    order = torch.tensor([9, 3, 5, 0, 7, 1, 8, 2, 6, 4])
    x, e = torch.randn(4, 8), torch.randn(10, 3)
    for network in ("gin", "gat", "gatedgcn", "gsn", "himp", "smp"):
        (block,) = baseline_blocks(network, 8, layers=1, edge_channels=3)
        given = block(x, build_operators(one.edge_index, 4), e)
        other = block(x, build_operators(one.edge_index[:, order], 4), e[order])
        torch.testing.assert_close(other, given)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="unknown network 'gnc': choose from gcn"):
        baseline_blocks("gnc", 8)
    with pytest.raises(ValueError, match="monet cannot use features of edges"):
        baseline_blocks("monet", 8, edge_channels=4)
    with pytest.raises(ValueError, match="gsn needs features of edges"):
        baseline_blocks("gsn", 8)
    with pytest.raises(ValueError, match="12 channels cannot be cut into 8"):
        baseline_blocks("gat", 12)
