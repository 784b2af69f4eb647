"""Mini-batches of one graph: the same numbers as the whole graph, and a training on them."""

from __future__ import annotations

import itertools

import numpy as np
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


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"hops": -1}, {"most": 0}])
def test_settings_that_make_no_sense(wrong):
    data = Data(x=torch.zeros(3, 1), edge_index=ring(3).edge_index)
    with pytest.raises(ValueError, match="too small"):
        gad.NodeSampler(data, **wrong)


@pytest.mark.parametrize(
    "nodes", [torch.tensor([3, 1]), [3, 1], np.array([3, 1]), torch.arange(5) % 2 == 1]
)
def test_nodes_may_be_named_in_any_way(nodes):
    data = Data(x=torch.zeros(5, 1), edge_index=ring(5).edge_index)
    (part,) = gad.NodeSampler(data, hops=0, nodes=nodes)
    assert sorted(part.n_id.tolist()) == [1, 3]


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([-1], "nodes are numbers from 0 to 4"),
        ([5], "nodes are numbers from 0 to 4"),
        (torch.ones(3, dtype=torch.bool), r"a mask of nodes is \[5\], not \[3\]"),
    ],
)
def test_nodes_that_are_not_there(nodes, said):
    data = Data(x=torch.zeros(5, 1), edge_index=ring(5).edge_index)
    with pytest.raises(ValueError, match=said):
        gad.NodeSampler(data, nodes=nodes)


def test_no_nodes_are_no_batches():
    data = Data(x=torch.zeros(5, 1), edge_index=ring(5).edge_index)
    assert list(gad.NodeSampler(data, nodes=torch.zeros(5, dtype=torch.bool))) == []


@pytest.mark.parametrize("sparse", [torch.Tensor.to_sparse_csr, torch.Tensor.to_sparse])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
def test_sparse_features_and_lists_are_cut_as_well(sparse):
    x = torch.eye(6)[:, :4] + torch.eye(6)[:, 2:]
    names = [f"n{i}" for i in range(6)]
    data = Data(x=sparse(x), edge_index=ring(6).edge_index, names=names)
    for part in gad.NodeSampler(data, hops=1, batch_size=2):
        torch.testing.assert_close(part.x.to_dense(), x[part.n_id])
        assert part.names == [names[i] for i in part.n_id.tolist()]


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
