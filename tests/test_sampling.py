"""Mini-batches of one graph: the same numbers as the whole graph, and a training on them."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data

import gad
from gad.data.known.nodes import load_known_nodes
from gad.data.nodes import NodeGraph
from tests.graphs import ring
from tests.node_graphs import two_groups


def to_data(graph: NodeGraph) -> Data:
    x = graph.x if graph.x.layout == torch.strided else graph.x.to_dense()
    return Data(x=x, edge_index=graph.edge_index, y=graph.y)


def test_every_node_is_asked_for_once_and_attributes_follow():
    g = ring(10)
    data = Data(x=torch.arange(10.0)[:, None], edge_index=g.edge_index, name="ring")
    data.edge_attr = g.edge_index.sum(0).float()[:, None]
    mask = torch.arange(10) % 2 == 0
    sampler = gad.NodeSampler(data, hops=1, batch_size=2, nodes=mask, shuffle=True)
    parts = list(sampler)
    assert len(parts) == len(sampler) == 3
    asked = torch.cat([part.n_id[: part.batch_size] for part in parts])
    assert sorted(asked.tolist()) == [0, 2, 4, 6, 8]
    for part in parts:
        assert part.name == "ring"
        torch.testing.assert_close(part.x[:, 0], part.n_id.float())
        ends = part.n_id[part.edge_index].sum(0).float()
        torch.testing.assert_close(part.edge_attr[:, 0], ends)
        assert part.is_undirected()
    again = torch.cat([part.n_id[: part.batch_size] for part in sampler])
    assert again.tolist() != asked.tolist()  # a new order every time


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"hops": -1}, {"most": -1}])
def test_settings_that_make_no_sense(wrong):
    data = Data(x=torch.zeros(3, 1), edge_index=ring(3).edge_index)
    with pytest.raises(ValueError, match="too small"):
        gad.NodeSampler(data, **wrong)


def test_a_block_without_diffusion_gives_the_same_numbers_as_on_the_whole_graph():
    data = to_data(two_groups(60))
    torch.manual_seed(0)
    model = gad.nn.NodeGAD(data.num_features, 2, channels=8, layers=2, diffusion=None).eval()
    operators = gad.AddGraphOperators(basis=False, directions=False)
    whole = model(data.x, operators(data).operators)
    for part in gad.NodeSampler(data, hops=2, batch_size=16, transform=operators):
        # A node at the rim lacks neighbours, but two blocks read those within two steps only:
        # the mean at one step is right if all its neighbours are there.
        own = model(part.x, part.operators)[: part.batch_size]
        torch.testing.assert_close(own, whole[part.n_id[: part.batch_size]])


def train(data: Data, nodes: torch.Tensor, classes: int, *, batch: int, steps: int) -> float:
    """Accuracy on nodes that were not trained on, after some steps over samples."""
    torch.manual_seed(0)
    transform = gad.AddGraphOperators(basis=False, directions=False)
    model = gad.nn.NodeGAD(data.num_features, classes, channels=32, layers=1, dropout=0.2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    sampler = gad.NodeSampler(
        data, hops=2, batch_size=batch, nodes=nodes, most=8, shuffle=True, transform=transform
    )
    model.train()
    passes = itertools.chain.from_iterable(itertools.repeat(sampler))
    for part in itertools.islice(passes, steps):
        optimizer.zero_grad()
        outputs = model(part.x, part.operators)[: part.batch_size]
        F.cross_entropy(outputs, part.y[: part.batch_size]).backward()
        optimizer.step()
    rest = torch.ones(data.num_nodes, dtype=torch.bool)
    rest[nodes] = False
    rest = rest.nonzero().flatten()[:300]
    model.eval()
    test = gad.NodeSampler(data, hops=2, batch_size=100, nodes=rest, transform=transform)
    right = 0
    for part in test:
        guess = model(part.x, part.operators)[: part.batch_size].argmax(1)
        right += int((guess == part.y[: part.batch_size]).sum())
    return right / rest.numel()


def test_a_training_on_samples_learns():
    graph = two_groups(400)
    # By its own features alone a node is found in 69 of 100 cases.
    assert train(to_data(graph), torch.arange(200), 2, batch=50, steps=40) > 0.8


@pytest.mark.slow
def test_a_training_on_samples_of_the_coauthors_learns(data_dir):
    graph = load_known_nodes("cs")
    nodes = torch.from_numpy(graph.splits[0].train)
    # Chance is 0.07, the largest class 0.23.
    assert train(to_data(graph), nodes, 15, batch=128, steps=12) > 0.6
