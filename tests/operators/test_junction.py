"""The junction graph: rings, the bonds between them, and the atoms in which several meet."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from gad.operators import GraphOperators, build_operators
from gad.operators.junction import ATOM, BOND, LONGEST, RING, junction
from tests.graphs import Graph, disjoint, graph, isolated, molecules, path, renumber, ring, star

NAPHTHALENE = graph(10, [*pairwise(range(10)), (9, 0), (0, 5)])
CUBANE = graph(8, [(i, i ^ bit) for i in range(8) for bit in (1, 2, 4) if i < i ^ bit])
# Two rings of five that share three atoms; the ring of six around them is no shortest cycle.
NORBORNANE = graph(7, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 6), (6, 3)])
SPIRO = graph(7, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (4, 5), (5, 6), (6, 0)])


def clusters(operators: GraphOperators) -> tuple[list, list]:
    """Clusters as (kind, atoms), and links as pairs of these, in an order of their own."""
    found = junction(operators)
    atoms = [found.atom[found.cluster == k].tolist() for k in range(len(found.kind))]
    named = [(kind, tuple(sorted(of))) for kind, of in zip(found.kind.tolist(), atoms, strict=True)]
    links = zip(found.source.tolist(), found.target.tolist(), strict=True)
    return sorted(named), sorted((named[a], named[b]) for a, b in links)


def counts(of: Graph) -> tuple[int, int, int, int]:
    """Bonds, rings, atoms, links."""
    found = junction(of.operators())
    kinds = [int((found.kind == kind).sum()) for kind in (BOND, RING, ATOM)]
    return (*kinds, found.source.numel() // 2)


@pytest.mark.parametrize(
    ("of", "wanted"),
    [
        (isolated(1), (0, 0, 1, 0)),
        (path(2), (1, 0, 0, 0)),
        (path(5), (4, 0, 0, 3)),
        (star(4), (4, 0, 1, 4)),
        (ring(6), (0, 1, 0, 0)),
        (NAPHTHALENE, (0, 2, 0, 1)),
        (SPIRO, (0, 2, 0, 1)),
        (CUBANE, (0, 6, 8, 24)),
        (NORBORNANE, (0, 2, 0, 1)),
        # A ring beyond the longest is as many bonds, in a circle.
        (ring(LONGEST + 1), (LONGEST + 1, 0, 0, LONGEST + 1)),
        (disjoint(ring(3), isolated(1), path(3)), (2, 1, 1, 1)),
    ],
)
def test_known_graphs(of, wanted):
    assert counts(of) == wanted


def shortest_cycles(of: Graph) -> set[frozenset[int]]:
    """For every bond: take it away, and list all shortest paths between its ends."""
    near = {i: set(np.flatnonzero(of.adjacency[i])) for i in range(of.num_nodes)}
    found = set()
    for i, j in of.pairs.tolist():
        paths = [[i]]
        for _ in range(LONGEST - 1):
            paths = [
                [*p, k] for p in paths for k in near[p[-1]] if k not in p and {p[-1], k} != {i, j}
            ]
            if ends := [p for p in paths if p[-1] == j]:
                found |= {frozenset(map(int, p)) for p in ends}
                break
    return found


@pytest.mark.parametrize("of", [*molecules(12, seed=5), CUBANE, NORBORNANE, NAPHTHALENE])
def test_rings_are_the_shortest_cycles_through_a_bond(of):
    named, links = clusters(of.operators())
    rings = shortest_cycles(of)
    assert {frozenset(atoms) for kind, atoms in named if kind == RING} == rings
    free = {frozenset((i, j)) for i, j in of.pairs.tolist() if not any({i, j} <= r for r in rings)}
    # On these graphs a bond between two atoms of a ring lies on a ring.
    assert {frozenset(atoms) for kind, atoms in named if kind == BOND} == free
    assert all(set(a[1]) & set(b[1]) for a, b in links)
    seen = {atom for _, atoms in named for atom in atoms}
    assert seen == set(range(of.num_nodes))


@pytest.mark.parametrize("of", [*molecules(6, seed=6), CUBANE, NORBORNANE, SPIRO, star(5)])
def test_numbering_does_not_matter(of):
    permutation = np.random.default_rng(1).permutation(of.num_nodes)

    def renamed(cluster):
        return (cluster[0], tuple(sorted(int(permutation[a]) for a in cluster[1])))

    named, links = clusters(of.operators())
    other = clusters(renumber(of, permutation).operators())
    assert other[0] == sorted(map(renamed, named))
    assert other[1] == sorted((renamed(a), renamed(b)) for a, b in links)


def test_a_selection_has_what_the_whole_has():
    several = [*molecules(8, seed=7), CUBANE, isolated(1)]
    starts = np.cumsum([0, *(of.num_nodes for of in several)])
    index = [of.edge_index + int(start) for of, start in zip(several, starts, strict=False)]
    sizes = torch.tensor([of.num_nodes for of in several])

    whole = build_operators(
        torch.cat(index, dim=1),
        int(starts[-1]),
        batch=torch.arange(len(several)).repeat_interleave(sizes),
    )
    chosen = whole.select(torch.tensor([9, 3, 8, 3]))
    alone = disjoint(isolated(1), several[3], CUBANE, several[3])
    assert clusters(chosen) == clusters(alone.operators())
    again = chosen.select(torch.tensor([2, 1])).to(dtype=torch.float64)
    assert clusters(again) == clusters(disjoint(CUBANE, several[3]).operators())
    arranged = chosen.arranged()
    rank = chosen.neighbours.rank
    moved = [(k, tuple(sorted(rank[list(a)].tolist()))) for k, a in clusters(chosen)[0]]
    assert clusters(arranged)[0] == sorted(moved)
