"""A zoo of graphs to test on: named ones, random molecules, and strategies that draw any graph."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from gad.operators import GraphOperators, build_operators


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph: N nodes and each pair of neighbours once, ``pairs`` [P, 2]."""

    num_nodes: int
    pairs: np.ndarray
    weights: np.ndarray | None = None

    @property
    def edge_index(self) -> Tensor:
        """Both directions, [2, 2P]: all pairs one way, then all the other way."""
        pairs = torch.from_numpy(self.pairs.T.copy())
        return torch.cat([pairs, pairs.flip(0)], dim=1)

    @property
    def edge_weight(self) -> Tensor | None:
        """Weights of ``edge_index``, float64 [2P]."""
        return None if self.weights is None else torch.from_numpy(np.tile(self.weights, 2))

    @property
    def adjacency(self) -> np.ndarray:
        """The dense adjacency matrix A, float64 [N, N]."""
        A = np.zeros((self.num_nodes, self.num_nodes))
        i, j = self.pairs.T
        A[i, j] = A[j, i] = 1.0 if self.weights is None else self.weights
        return A

    def operators(self, dtype: torch.dtype = torch.float64, **options: Any) -> GraphOperators:
        """The operators under test."""
        return build_operators(
            self.edge_index, self.num_nodes, edge_weight=self.edge_weight, dtype=dtype, **options
        )

    def signal(self, channels: int = 4, seed: int = 0) -> np.ndarray:
        """Random numbers on the nodes, float64 [N, C]."""
        return np.random.default_rng(seed).standard_normal((self.num_nodes, channels))

    def __repr__(self) -> str:
        weights = "" if self.weights is None else f", weights={self.weights.tolist()}"
        return f"graph({self.num_nodes}, {self.pairs.tolist()}{weights})"


def graph(
    num_nodes: int, pairs: Iterable[Sequence[int]], weights: Iterable[float] | None = None
) -> Graph:
    """A graph from a list of pairs."""
    array = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
    return Graph(num_nodes, array, None if weights is None else np.array(list(weights), float))


# ------------------------------------------------------------------------------ named graphs


def path(n: int) -> Graph:
    return graph(n, zip(range(n - 1), range(1, n), strict=True))


def ring(n: int) -> Graph:
    return graph(n, [(i, (i + 1) % n) for i in range(n)])


def star(leaves: int) -> Graph:
    return graph(leaves + 1, [(0, i) for i in range(1, leaves + 1)])


def complete(n: int) -> Graph:
    return graph(n, combinations(range(n), 2))


def complete_bipartite(a: int, b: int) -> Graph:
    return graph(a + b, product(range(a), range(a, a + b)))


def hypercube(dimension: int) -> Graph:
    bits = [1 << b for b in range(dimension)]
    return graph(2**dimension, [(i, i | b) for i in range(2**dimension) for b in bits if not i & b])


def grid(*shape: int, periodic: bool = False) -> Graph:
    """A grid of any dimension, or a torus."""
    index = np.arange(np.prod(shape)).reshape(shape)
    pairs = []
    for axis, length in enumerate(shape):
        steps = length if periodic else length - 1
        here = np.take(index, np.arange(steps), axis)
        there = np.take(index, (np.arange(steps) + 1) % length, axis)
        pairs.append(np.stack([here.ravel(), there.ravel()], axis=1))
    return Graph(index.size, np.concatenate(pairs))


def c60() -> Graph:
    """Buckminsterfullerene: the icosahedron with its corners cut off.

    Its atoms are the directed edges u → v of the icosahedron; u → v is bonded to v → u and to
    u → w for the two triangles u, v, w.
    """
    golden = (1 + 5**0.5) / 2
    corners = np.array(
        [np.roll((0, s, t * golden), shift) for shift, s, t in product(range(3), (1, -1), (1, -1))]
    )
    near = np.isclose(np.linalg.norm(corners[:, None] - corners, axis=-1), 2)
    atoms = {(int(u), int(v)): k for k, (u, v) in enumerate(np.argwhere(near))}
    bonds = set()
    for (u, v), k in atoms.items():
        bonds.add(frozenset((k, atoms[v, u])))
        bonds |= {frozenset((k, atoms[u, int(w)])) for w in np.flatnonzero(near[u] & near[v])}
    return graph(60, sorted(tuple(sorted(bond)) for bond in bonds))


def methane() -> Graph:
    """One carbon and its four hydrogens."""
    return star(4)


def benzene() -> Graph:
    """Six carbons in a ring, a hydrogen on each."""
    return graph(12, [*((i, (i + 1) % 6) for i in range(6)), *((i, i + 6) for i in range(6))])


# ------------------------------------------------------------------------------ random graphs


def random_tree(n: int, seed: int = 0, max_degree: int = 10**9) -> Graph:
    """Nodes join one after the other, each at a random node that has room."""
    rng = np.random.default_rng(seed)
    degree, pairs = np.zeros(n, dtype=int), []
    for new in range(1, n):
        parent = int(rng.choice(np.flatnonzero(degree[:new] < max_degree)))
        degree[[parent, new]] += 1
        pairs.append((parent, new))
    return graph(n, pairs)


def molecule(n: int = 23, rings: int = 3, seed: int = 0) -> Graph:
    """A graph like the molecules of ZINC: a tree closed into rings of 5 or 6, no degree above 4.

    Chains are preferred over branches (degree 3 in the tree), as in real molecules.
    """
    rng = np.random.default_rng(seed)
    tree = random_tree(n, seed, max_degree=3)
    pairs = {(int(i), int(j)) for i, j in tree.pairs}
    for _ in range(rings):
        neighbours = _neighbours(n, pairs)
        candidates = [
            (i, j)
            for i in range(n)
            for j, d in _distances(neighbours, i).items()
            if i < j and d in {4, 5} and len(neighbours[i]) < 4 and len(neighbours[j]) < 4
        ]
        if candidates:
            pairs.add(candidates[int(rng.integers(len(candidates)))])
    return graph(n, sorted(pairs))


def molecules(count: int, seed: int = 0, smallest: int = 1, largest: int = 38) -> list[Graph]:
    """Random molecules of many sizes."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(smallest, largest + 1, count)
    return [molecule(int(n), int(rng.integers(0, 5)), seed + k) for k, n in enumerate(sizes)]


def random_rings(n: int, rings: int = 2, seed: int = 0) -> Graph:
    """Rings through all nodes in random orders: connected, of degree at most 2 · rings."""
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(n) for _ in range(rings)]
    pairs = np.concatenate([np.stack([o, np.roll(o, 1)], axis=1) for o in orders])
    return Graph(n, np.unique(np.sort(pairs, axis=1), axis=0))


def weighted(plain: Graph, seed: int = 0) -> Graph:
    """The same graph with random weights between 0.2 and 5."""
    rng = np.random.default_rng(seed)
    return Graph(plain.num_nodes, plain.pairs, 5 ** rng.uniform(-1, 1, len(plain.pairs)))


# ------------------------------------------------------------------------------ new from old


def disjoint(*parts: Graph) -> Graph:
    """Several graphs side by side as one, without an edge between them."""
    starts = np.cumsum([0, *(p.num_nodes for p in parts)])
    pairs = [p.pairs + start for p, start in zip(parts, starts[:-1], strict=True)]
    weights = None
    if any(p.weights is not None for p in parts):
        weights = np.concatenate(
            [np.ones(len(p.pairs)) if p.weights is None else p.weights for p in parts]
        )
    return Graph(int(starts[-1]), np.concatenate(pairs), weights)


def isolated(count: int) -> Graph:
    """Nodes without an edge."""
    return graph(count, [])


def renumber(original: Graph, permutation: np.ndarray | Sequence[int]) -> Graph:
    """The same graph with node i called ``permutation[i]``, its pairs turned round and shuffled.

    A signal x moves with its nodes: the renumbered graph carries y with ``y[permutation] = x``.
    """
    permutation = np.asarray(permutation)
    rng = np.random.default_rng(int(permutation[0]) if permutation.size else 0)
    order = rng.permutation(len(original.pairs))
    pairs = rng.permuted(permutation[original.pairs], axis=1)[order]
    weights = None if original.weights is None else original.weights[order]
    return Graph(original.num_nodes, pairs, weights)


def _neighbours(n: int, pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    lists: list[list[int]] = [[] for _ in range(n)]
    for i, j in pairs:
        lists[i].append(j)
        lists[j].append(i)
    return lists


def _distances(neighbours: list[list[int]], start: int) -> dict[int, int]:
    """Bonds from one node to every other, breadth first."""
    distance, queue = {start: 0}, deque([start])
    while queue:
        i = queue.popleft()
        for j in neighbours[i]:
            if j not in distance:
                distance[j] = distance[i] + 1
                queue.append(j)
    return distance


# Graphs with a degenerate φ₁, where the choice of one eigenvector would be arbitrary.
SYMMETRIC: dict[str, Graph] = {
    "ring6": ring(6),
    "ring7": ring(7),
    "cube": hypercube(3),
    "tesseract": hypercube(4),
    "methane": methane(),
    "star7": star(7),
    "k33": complete_bipartite(3, 3),
    "k25": complete_bipartite(2, 5),
    "k5": complete(5),
    "grid4x4": grid(4, 4),
    "torus4x5": grid(4, 5, periodic=True),
    "benzene": benzene(),
    "c60": c60(),
}

# One of everything, small enough for dense matrices.
ZOO: dict[str, Graph] = {
    **SYMMETRIC,
    "one": isolated(1),
    "k2": path(2),
    "path9": path(9),
    "star50": star(50),
    "grid5x3": grid(5, 3),
    "tree": random_tree(20),
    "molecule": molecule(23),
    "weighted": weighted(molecule(25, seed=4)),
    "three isolated": isolated(3),
    "two halves": disjoint(molecule(12), molecule(12)),
    "with isolated": disjoint(isolated(1), molecule(9), isolated(2), ring(5), isolated(1)),
    "components": disjoint(path(4), ring(3), star(3), path(2)),
    "weighted parts": disjoint(weighted(ring(5)), isolated(1), weighted(path(6), seed=1)),
}


# ------------------------------------------------------------------------------ strategies


def examples(count: int) -> settings:
    """Draw so many examples, or in proportion more where the profile asks for more than 100."""
    return settings(max_examples=max(1, count * settings.default.max_examples // 100))


@st.composite
def graphs(
    draw: st.DrawFn,
    min_nodes: int = 1,
    max_nodes: int = 10,
    *,
    connected: bool | None = None,
    weighted: bool | None = None,
) -> Graph:
    """Any graph; None leaves the choice to the draw."""
    n = draw(st.integers(min_nodes, max_nodes))
    every = list(combinations(range(n), 2))
    some = st.lists(st.sampled_from(every), unique=True, max_size=2 * n) if every else st.just([])
    pairs = set(draw(some))
    if draw(st.booleans()) if connected is None else connected:
        pairs |= {(draw(st.integers(0, new - 1)), new) for new in range(1, n)}
    weights = None
    if draw(st.booleans()) if weighted is None else weighted:
        size = len(pairs)
        weights = draw(st.lists(st.floats(0.1, 10), min_size=size, max_size=size))
    return graph(n, sorted(pairs), weights)


@st.composite
def renumbered(draw: st.DrawFn, of: st.SearchStrategy[Graph]) -> tuple[Graph, Graph, np.ndarray]:
    """A graph, the same graph with its nodes in another order, and the permutation."""
    original = draw(of)
    permutation = np.array(draw(st.permutations(range(original.num_nodes))))
    return original, renumber(original, permutation), permutation


def diffusion_times(max_time: float = 100.0) -> st.SearchStrategy[list[float]]:
    """Times of one to four channels, 0 among them."""
    return st.lists(st.one_of(st.just(0.0), st.floats(0, max_time)), min_size=1, max_size=4)
