"""Neighbourhoods against breadth-first search on the dense matrix."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gad.operators.sampling import Neighbours
from tests.graphs import disjoint, graph, isolated, path, ring, star


def random_graph(n: int = 40, pairs: int = 70):
    rng = np.random.default_rng(5)
    drawn = {tuple(sorted(rng.choice(n, 2, replace=False).tolist())) for _ in range(pairs)}
    return graph(n, sorted(drawn))


@pytest.mark.parametrize("hops", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "g", [random_graph(), star(9), ring(8), disjoint(path(4), isolated(3), ring(5))], ids=repr
)
def test_all_within_k_steps_and_every_edge_between(g, hops):
    seeds = torch.tensor([g.num_nodes - 1, 0])
    nodes, edge_index, edges = Neighbours(g.edge_index, g.num_nodes).around(seeds, hops)
    step = g.adjacency + np.eye(g.num_nodes)
    near = np.linalg.matrix_power(step, hops)[seeds.numpy()].sum(0) > 0
    assert nodes[:2].tolist() == seeds.tolist()
    assert sorted(nodes.tolist()) == np.flatnonzero(near).tolist()
    inside = torch.from_numpy(near)[g.edge_index].all(0).nonzero().flatten()
    assert sorted(edges.tolist()) == inside.tolist()
    assert torch.equal(nodes[edge_index], g.edge_index[:, edges])


def test_a_draw_takes_no_more_neighbours_than_it_may():
    g = star(50)
    drawn = Neighbours(g.edge_index, g.num_nodes)
    generator = torch.Generator().manual_seed(0)
    hub = int(g.adjacency.sum(1).argmax())
    part = drawn.around(torch.tensor([hub]), 1, most=7, generator=generator)
    assert part.nodes.numel() == part.nodes.unique().numel() == 8
    assert part.edge_index.shape == (2, 14)
    other = drawn.around(torch.tensor([hub]), 1, most=7, generator=generator)
    assert set(other.nodes.tolist()) != set(part.nodes.tolist())


def test_a_seed_given_twice_is_an_error():
    with pytest.raises(ValueError, match="twice"):
        Neighbours(path(3).edge_index, 3).around(torch.tensor([1, 1]), 1)
