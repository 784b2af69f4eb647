"""Batches: many graphs at once are the same graphs one by one; operators move and copy."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

from gad.operators import (
    HEAT,
    IMPLICIT,
    Chebyshev,
    Cholesky,
    ConjugateGradient,
    Eigenbasis,
    GraphOperators,
    MissingOperatorError,
    build_operators,
)
from tests.graphs import ZOO, disjoint, isolated, molecule, molecules, path, ring, star, weighted

STRUCTURE = (
    "batch", "source", "target", "edge_position", "members", "component_sizes",
    "basis_counts", "field_directions",
)  # fmt: skip
VALUES = ("mass", "weight", "eigenvalues", "field_norm", "residual")

PLAIN = [*molecules(20, seed=3), isolated(1), ring(6), path(2), star(4), ring(6), isolated(2)]
WEIGHTED = [weighted(molecule(10 + k), seed=k) for k in range(4)]
MIXED = list(ZOO.values())


def as_batch(parts, **options):
    """All parts in one call, as PyTorch Geometric would batch them."""
    union = disjoint(*parts)
    batch = torch.repeat_interleave(torch.tensor([p.num_nodes for p in parts]))
    starts = np.cumsum([0, *(p.num_nodes for p in parts)])
    edges = torch.cat(
        [p.edge_index + int(s) for p, s in zip(parts, starts[:-1], strict=True)], dim=1
    )
    weight = None
    if union.weights is not None:
        weight = torch.cat([
            torch.ones(2 * len(p.pairs)).double() if p.edge_weight is None else p.edge_weight
            for p in parts
        ])  # fmt: skip
    return build_operators(
        edges, union.num_nodes, batch=batch, edge_weight=weight, dtype=torch.float64, **options
    )


def one_by_one(parts, **options):
    return [p.operators(**options) for p in parts]


def results(operators, x):
    """Everything the operators do, on signals of four channels."""
    times = torch.tensor([0.0, 0.5, 3.0, 50.0], dtype=torch.float64)
    yield Eigenbasis()(operators, x, times, HEAT)
    yield Eigenbasis()(operators, x, times, IMPLICIT)
    yield Chebyshev()(operators, x, times, HEAT)
    yield Cholesky()(operators, x, times, IMPLICIT)
    yield ConjugateGradient()(operators, x, times, IMPLICIT)
    yield operators.directional_average(x)
    yield operators.directional_derivative(x)


@pytest.mark.parametrize("k", [None, 3])
@pytest.mark.parametrize("parts", [PLAIN, WEIGHTED, MIXED], ids=["plain", "weighted", "mixed"])
def test_batch_is_one_by_one_is_concatenated(parts, k):
    singles = one_by_one(parts, k=k)
    together, joined = as_batch(parts, k=k), GraphOperators.concatenate(singles)
    for operators in (together, joined):
        assert operators.num_graphs == len(parts)
        assert operators.truncated == any(s.truncated for s in singles)
        np.testing.assert_array_equal(operators.graph_sizes, [p.num_nodes for p in parts])
        for number, single in enumerate(singles):
            torch.testing.assert_close(
                operators.spectrum(number), single.spectrum(), rtol=0, atol=1e-13
            )
    for name in STRUCTURE:
        assert torch.equal(getattr(together, name), getattr(joined, name)), name
    for name in VALUES:
        torch.testing.assert_close(
            getattr(together, name), getattr(joined, name), rtol=0, atol=1e-12
        )
    signals = [torch.from_numpy(p.signal(seed=s)) for s, p in enumerate(parts)]
    alone = zip(*(results(o, x) for o, x in zip(singles, signals, strict=True)), strict=True)
    every = zip(
        alone, results(together, torch.cat(signals)), results(joined, torch.cat(signals)),
        strict=True,
    )  # fmt: skip
    for pieces, batched, concatenated in every:
        torch.testing.assert_close(batched, torch.cat(pieces), rtol=0, atol=1e-11)
        torch.testing.assert_close(concatenated, torch.cat(pieces), rtol=0, atol=1e-11)


def test_many_graphs_at_once():
    parts = molecules(300, seed=100)
    together = as_batch(parts)
    x = torch.cat([torch.from_numpy(p.signal(2)) for p in parts])
    times = torch.tensor([1.0, 20.0]).double()
    h, dx = Eigenbasis()(together, x, times, HEAT), together.directional_derivative(x)
    sizes = [p.num_nodes for p in parts]
    for single, part, h_part, dx_part in zip(
        one_by_one(parts), parts, h.split(sizes), dx.split(sizes), strict=True
    ):
        x = torch.from_numpy(part.signal(2))
        torch.testing.assert_close(h_part, Eigenbasis()(single, x, times, HEAT), rtol=0, atol=1e-12)
        torch.testing.assert_close(dx_part, single.directional_derivative(x), rtol=0, atol=1e-9)


@pytest.mark.parametrize("k", [None, 3])
@pytest.mark.parametrize("parts", [PLAIN, WEIGHTED, MIXED], ids=["plain", "weighted", "mixed"])
def test_graphs_chosen_out_of_a_batch(parts, k):
    """Any graphs in any order, some twice: the same as building them alone."""
    batch = as_batch(parts, k=k)
    numbers = torch.from_numpy(np.random.default_rng(0).integers(0, len(parts), len(parts)))
    chosen = batch.select(numbers)
    wanted = as_batch([parts[n] for n in numbers.tolist()], k=k)
    signals = [torch.from_numpy(p.signal(seed=s)) for s, p in enumerate(parts)]
    x = torch.cat([signals[n] for n in numbers.tolist()])
    _, nodes, edges = batch.pick(numbers)
    assert torch.equal(torch.cat(signals)[nodes], x)
    for name in {*STRUCTURE, "reverse"} - {"edge_position"}:
        assert torch.equal(getattr(chosen, name), getattr(wanted, name)), name
    for name in VALUES:
        torch.testing.assert_close(getattr(chosen, name), getattr(wanted, name), rtol=0, atol=1e-12)
    for a, b in zip(results(chosen, x), results(wanted, x), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11)
    # Features of edges come along in the operators' own order.
    feature = torch.rand(batch.num_edges)[edges]
    assert feature.numel() == chosen.num_edges == chosen.num_given_edges
    assert torch.equal(chosen.edge_position, torch.arange(chosen.num_edges))


def test_what_is_chosen_is_itself():
    """Choosing every graph in order gives the batch; choosing again chooses from the choice."""
    batch = as_batch(PLAIN)
    whole = batch.select(torch.arange(len(PLAIN)))
    for name in {*STRUCTURE, *VALUES, "reverse", "field", "eigenvectors"} - {"edge_position"}:
        assert torch.equal(getattr(whole, name), getattr(batch, name)), name
    twice = batch.select(torch.tensor([3, 5, 1])).select(torch.tensor([2, 0]))
    once = batch.select(torch.tensor([1, 3]))
    assert torch.equal(twice.source, once.source)
    assert torch.equal(twice.eigenvectors, once.eigenvectors)
    bare = as_batch(PLAIN, basis=False, directions=False).select(torch.tensor([4]))
    assert not bare.has_basis
    assert not bare.has_directions


def test_a_whole_basis_chosen_out_of_cut_ones_is_whole():
    batch = as_batch([path(2), path(10)], k=4)
    assert batch.truncated
    assert not batch.select(torch.tensor([0])).truncated
    assert batch.select(torch.tensor([1])).truncated


def test_choosing_nothing():
    with pytest.raises(ValueError, match="an empty batch: no graphs were chosen"):
        as_batch(PLAIN).select(torch.tensor([], dtype=torch.int64))


def test_the_given_edges_are_found_again():
    """edge_position leads from the sorted edges back to any feature of the given ones."""
    parts = [molecule(9), path(1), ring(4)]
    for operators in (as_batch(parts), GraphOperators.concatenate(one_by_one(parts))):
        starts = np.cumsum([0, *(p.num_nodes for p in parts)])
        given = torch.cat(
            [p.edge_index + int(s) for p, s in zip(parts, starts[:-1], strict=True)], dim=1
        )
        assert torch.equal(given[0, operators.edge_position], operators.source)
        assert torch.equal(given[1, operators.edge_position], operators.target)
        assert operators.num_given_edges == given.shape[1]


def test_self_loops_keep_their_place_in_the_given_list():
    edges = torch.tensor([[0, 0, 1, 1, 2, 1], [0, 1, 0, 2, 1, 1]])
    one = build_operators(edges, 3)
    two = GraphOperators.concatenate([one, one])
    given = torch.cat([edges, edges + 3], dim=1)
    assert torch.equal(given[:, two.edge_position], torch.stack([two.source, two.target]))


def test_concatenation_needs_like_parts():
    with pytest.raises(ValueError, match="an empty batch"):
        GraphOperators.concatenate([])
    full, bare = path(3).operators(), path(3).operators(basis=False, directions=False)
    with pytest.raises(ValueError, match=r"some of these graphs have a basis and some have not"):
        GraphOperators.concatenate([full, bare])
    with pytest.raises(ValueError, match="have directions and some have not"):
        GraphOperators.concatenate([full, path(3).operators(directions=False)])


def test_sizes_and_degrees():
    operators = as_batch([star(3), isolated(2), path(2)])
    assert (operators.num_graphs, operators.num_nodes, operators.num_edges) == (3, 8, 8)
    assert operators.degree.tolist() == [3, 1, 1, 1, 0, 0, 1, 1]
    assert operators.mass.tolist() == [3, 1, 1, 1, 1, 1, 1, 1]
    assert operators.component.tolist() == [0, 0, 0, 0, 1, 2, 3, 3]
    assert operators.graph_sizes.tolist() == [4, 2, 2]
    size = torch.tensor([4, 4, 4, 4, 2, 2, 2, 2]).double()
    torch.testing.assert_close(operators.inverse_root_size, size**-0.5)
    assert repr(operators) == (
        "GraphOperators(3 graphs, 8 nodes, 8 edges, 4 components, full basis, directions)"
    )
    assert "cut basis, no directions" in repr(path(5).operators(k=2, directions=False))
    assert "no basis" in repr(path(5).operators(basis=False))


# ------------------------------------------------------------------------------ moving and copying

GRAPH = disjoint(molecule(12), isolated(1), ring(5))


def used(dtype=torch.float64):
    """Operators that have worked out every layout they keep."""
    operators = GRAPH.operators(dtype)
    x = torch.from_numpy(GRAPH.signal()).to(dtype)
    if dtype == torch.float64:
        list(results(operators, x))
    assert operators.neighbours.degree.numel() == GRAPH.num_nodes
    return operators


def assert_same_results(operators, original):
    x = torch.from_numpy(GRAPH.signal())
    for a, b in zip(results(operators, x), results(original, x), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "used"])
@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o)), lambda o: o.to("cpu")],
    ids=["copy", "deepcopy", "pickle", "to"],
)
def test_copies_do_the_same(duplicate, fresh):
    original = GRAPH.operators() if fresh else used()
    again = duplicate(original)
    assert repr(again) == repr(original)
    assert_same_results(again, GRAPH.operators())


@pytest.mark.parametrize("argument", [{"dtype": torch.float64}, {"device": torch.float64}])
def test_to_another_precision(argument):
    single = used(torch.float32)
    double = single.to(**argument)
    assert single.dtype == torch.float32
    assert double.dtype == torch.float64
    assert double.source.dtype == torch.int64
    x, times = torch.from_numpy(GRAPH.signal(1)), torch.tensor([2.0]).double()
    for solver in (Eigenbasis(), Chebyshev()):
        h = solver(double, x, times, HEAT)
        exact = solver(GRAPH.operators(), x, times, HEAT)
        torch.testing.assert_close(h, exact, rtol=0, atol=1e-6)
    torch.testing.assert_close(
        double.directional_average(x), GRAPH.operators().directional_average(x), rtol=0, atol=1e-6
    )


def test_to_a_device():
    operators = used().to(torch.device("cpu"), torch.float32)
    assert operators.device == torch.device("cpu")
    assert operators.dtype == torch.float32


def test_the_default_type():
    edges = path(3).edge_index
    assert build_operators(edges, 3).dtype == torch.float32
    assert build_operators(edges, 3, edge_weight=torch.ones(4).double()).dtype == torch.float64
    assert build_operators(edges, 3, edge_weight=torch.ones(4)).dtype == torch.float32
    assert build_operators(edges, 3, edge_weight=torch.ones(4).long()).dtype == torch.float32


def test_operators_are_immutable():
    with pytest.raises(AttributeError):
        path(3).operators().mass = torch.ones(3)


def test_what_was_not_built_is_asked_for_politely():
    x = torch.ones(3, 1).double()
    bare = path(3).operators(basis=False, directions=False)
    assert not bare.has_basis
    assert not bare.has_directions
    with pytest.raises(MissingOperatorError, match=r"without a basis: build them with basis=True"):
        Eigenbasis()(bare, x, torch.ones(1).double(), HEAT)
    with pytest.raises(MissingOperatorError, match="without a basis"):
        bare.spectrum()
    for name in ("directional_average", "directional_derivative"):
        with pytest.raises(MissingOperatorError, match=r"build them with directions=True"):
            getattr(bare, name)(x)
