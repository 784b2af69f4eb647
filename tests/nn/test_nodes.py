"""The node form of the network."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

import gad
from gad.data.known.nodes import load_known_nodes
from gad.nn import ImplicitDiffusion, NodeBlock, NodeGAD, SpectralDiffusion
from gad.nn.node_baselines import NODE_BASELINES, ConvNetwork, graph_for
from gad.operators.sparse import to_csr
from gad.settings.nodes import NodeSettings, build_node_model
from tests.graphs import disjoint, isolated, molecules, path, ring, star

FORMS = {
    "few labels": {"layers": 0, "smooth": True, "symmetric": True, "norm": "none"},
    "blocks": {"layers": 2, "filters": ("mean", "av", "dx")},
    "jumping": {"layers": 2, "jumping": "cat", "norm": "batch", "smooth": True},
    "sum": {"layers": 1, "jumping": "sum", "residual": False},
    "no diffusion": {"layers": 2, "diffusion": None},
    "no filters": {"layers": 1, "filters": (), "time": 2.0},
}


def graph():
    return disjoint(ring(6), star(4), isolated(2), path(3))


def features(n: int, d: int = 5) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("scheme", [ImplicitDiffusion, SpectralDiffusion])
@pytest.mark.parametrize("form", FORMS)
def test_every_parameter_receives_a_gradient(form, scheme):
    torch.manual_seed(0)
    operators = graph().operators(torch.float32, basis=False)
    options = {"diffusion": scheme, **FORMS[form]}
    model = NodeGAD(5, 3, channels=8, dropout=0.0, input_dropout=0.0, **options)
    y = model(features(operators.num_nodes), operators)
    assert y.shape == (operators.num_nodes, 3)
    y.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool((parameter.grad != 0).any()), name


@pytest.mark.parametrize("form", FORMS)
def test_renumbering_the_nodes_changes_nothing(form):
    g = next(iter(molecules(1, seed=4)))
    torch.manual_seed(0)
    model = NodeGAD(5, 3, channels=8, **FORMS[form]).eval()
    x = features(g.num_nodes)
    order = torch.randperm(g.num_nodes, generator=torch.Generator().manual_seed(1))
    place = order.argsort()
    one = model(x, gad.build_operators(g.edge_index, g.num_nodes, basis=False))
    other = model(x[order], gad.build_operators(place[g.edge_index], g.num_nodes, basis=False))
    torch.testing.assert_close(other, one[order], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_sparse_features_give_the_same_as_dense_ones(form):
    torch.manual_seed(0)
    model = NodeGAD(5, 3, channels=8, **FORMS[form]).eval()
    operators = graph().operators(torch.float32, basis=False)
    x = features(operators.num_nodes).relu()
    torch.testing.assert_close(model(to_csr(x), operators), model(x, operators))


def test_sparse_features_train_the_embedding():
    model = NodeGAD(5, 3, channels=8, input_dropout=0.5)
    operators = graph().operators(torch.float32, basis=False)
    model(to_csr(features(operators.num_nodes)), operators).sum().backward()
    assert bool((model.embed.weight.grad != 0).any())


def test_without_time_a_block_reads_what_a_layer_of_graphsage_reads():
    torch.manual_seed(0)
    block = NodeBlock(4, ImplicitDiffusion(4, times=0.0))
    g = graph()
    x = features(g.num_nodes, 4)
    A = torch.from_numpy(g.adjacency).float()
    mean = (A @ x) / A.sum(1, keepdim=True).clamp_min(1)
    expected = x + block.mlp(torch.cat([x, mean], 1))
    torch.testing.assert_close(block(x, g.operators(torch.float32, basis=False)), expected)


def test_symmetric_outputs_are_a_function_of_the_symmetric_laplacian():
    torch.manual_seed(0)
    g = star(5)
    model = NodeGAD(5, 2, layers=0, smooth=True, symmetric=True, time=2.0).eval()
    plain = NodeGAD(5, 2, smooth=False).eval()
    plain.load_state_dict(model.state_dict(), strict=False)
    operators = g.operators(torch.float32, basis=False)
    x = features(g.num_nodes)
    degree = torch.from_numpy(g.adjacency.sum(1)).float()
    normal = torch.from_numpy(g.adjacency).float() / (degree[:, None] * degree).sqrt()
    system = 3 * torch.eye(g.num_nodes) - 2 * normal
    expected = torch.linalg.solve(system, plain(x, operators))
    torch.testing.assert_close(model(x, operators), expected, atol=1e-3, rtol=1e-3)


def test_the_learned_times_are_told_by_their_place():
    model = NodeGAD(5, 2, channels=8, layers=1, smooth=True, time=3.0)
    times = model.diffusion_times()
    assert {name: values.tolist() for name, values in times.items()} == {
        "blocks.0.diffusion": [3.0] * 8,
        "smooth": [3.0] * 2,
    }


def test_alone_it_is_the_form_for_few_labels():
    alone = NodeGAD(5, 2)
    assert {name: values.tolist() for name, values in alone.diffusion_times().items()} == {
        "smooth": [9.0] * 2
    }
    blocks = NodeGAD(5, 2, channels=1, layers=1).diffusion_times()
    assert {name: values.tolist() for name, values in blocks.items()} == {
        "blocks.0.diffusion": [pytest.approx(0.1)]
    }


@pytest.mark.slow
def test_alone_it_learns_cora_from_its_public_split(data_dir):
    """As a new user would: no setting, a plain loop, what the papers say as it is."""
    graph = load_known_nodes("cora")
    train, _, test = (torch.from_numpy(rows) for _, rows in graph.splits[0].parts())
    torch.manual_seed(0)
    model = NodeGAD(graph.x.shape[1], 7)
    operators = graph.operators(directions=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(200):
        optimizer.zero_grad()
        cross_entropy(model(graph.x, operators)[train], graph.y[train]).backward()
        optimizer.step()
    right = model.eval()(graph.x, operators).argmax(1) == graph.y
    assert right[test].float().mean() > 0.8


def test_operators_are_asked_for():
    with pytest.raises(TypeError, match=r"not Tensor: model\(data.x, data.operators\)"):
        NodeGAD(5, 2)(features(3), torch.tensor([[0, 1], [1, 0]]))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"norm": "group"}, "norm is one of none, layer, batch"),
        ({"layers": 1, "filters": ("max",)}, "no filter is called 'max'; there are mean, av, dx"),
        ({"jumping": "max"}, "jumping is one of last, sum, cat"),
    ],
)
def test_a_wrong_word_is_an_error_that_names_the_right_ones(wrong, said):
    with pytest.raises(ValueError, match=said):
        NodeGAD(5, 2, **wrong)


# ------------------------------------------------------------------------------ baselines


@pytest.mark.parametrize("layers", [0, 2])
@pytest.mark.parametrize("kind", NODE_BASELINES)
def test_baselines_train_on_dense_and_on_sparse_features(kind, layers):
    torch.manual_seed(0)
    settings = NodeSettings(model=kind, layers=layers, channels=8, dropout=0.0)
    model = build_node_model(settings, 5, 3)
    operators = graph().operators(torch.float32, basis=False)
    x = features(operators.num_nodes).relu()
    y = model(x, operators)
    torch.testing.assert_close(model(to_csr(x), operators), y)
    y.square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("kind", NODE_BASELINES)
def test_a_baseline_is_the_layer_of_pytorch_geometric(kind):
    from torch_geometric.nn import GATConv, GCNConv, SAGEConv

    torch.manual_seed(0)
    g = graph()
    net = ConvNetwork(kind, 5, 4, 8, dropout=0.0, input_dropout=0.0)
    theirs = {"gcn": GCNConv(5, 8), "sage": SAGEConv(5, 8), "gat": GATConv(5, 2, heads=4)}[kind]
    theirs.load_state_dict(net.first.state_dict())
    x = features(g.num_nodes)
    operators = g.operators(torch.float32, basis=False)
    ours = net.first(x, graph_for(net.first, operators))
    torch.testing.assert_close(ours, theirs(x, g.edge_index))


def test_heads_must_fit():
    with pytest.raises(ValueError, match="GAT has 4 heads: 6 is not a multiple"):
        build_node_model(NodeSettings(model="gat", channels=6), 5, 3)
