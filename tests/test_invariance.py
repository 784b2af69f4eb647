"""The same molecule gives the same prediction, however its atoms are numbered.

The bound everywhere: |y − y'| < 10⁻⁵ · max(|y|, spread of the outputs), in float32, with bonds.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from itertools import combinations_with_replacement

import numpy as np
import pytest
import torch
from torch import Tensor

from gad.nn import GAD
from gad.operators import GraphOperators
from gad.operators.eigenbasis import SAME_EIGENVALUE
from tests.graphs import (
    SYMMETRIC,
    Graph,
    benzene,
    c60,
    complete,
    complete_bipartite,
    disjoint,
    grid,
    hypercube,
    methane,
    molecules,
    ring,
    star,
)
from tests.nn.samples import (
    AGGREGATORS,
    SCHEMES,
    Batch,
    Molecule,
    collate,
    decorate,
    decorate_all,
    model,
    predict,
    solubilities,
)

BOUND = 1e-5
EVERY_AGGREGATOR = pytest.mark.parametrize("name", AGGREGATORS)


def symmetric_graphs(count: int) -> list[Graph]:
    """Highly symmetric graphs: families, and disjoint copies of their members."""
    single = [
        *map(ring, range(3, 25)),
        *map(star, range(2, 20)),
        *map(complete, range(2, 12)),
        *(complete_bipartite(a, b) for a, b in combinations_with_replacement(range(2, 7), 2)),
        *map(hypercube, range(2, 6)),
        *(grid(n, n) for n in range(2, 7)),
        *(grid(a, b, periodic=True) for a in range(3, 6) for b in range(a, 6)),
        methane(),
        benzene(),
        c60(),
    ]
    copies = [disjoint(*[g] * (2 + k % 3)) for k, g in enumerate(single) if g.num_nodes <= 30]
    pairs = [disjoint(a, b) for a, b in zip(single, single[5:], strict=False)]
    return [*single, *copies, *pairs][:count]


@cache
def zinc_like() -> list[Molecule]:
    """500 random molecules."""
    return decorate_all(molecules(500))


@cache
def symmetric(alike: bool) -> list[Molecule]:
    """200 symmetric graphs with all atoms and bonds alike, or at random."""
    return decorate_all(symmetric_graphs(200), alike=alike)


@cache
def trained(scheme: str, aggregators: tuple[str, ...] = AGGREGATORS, **options: str) -> GAD:
    """A model that has seen some training, so that its outputs are spread as targets are."""
    net = model(diffusion=SCHEMES[scheme], aggregators=aggregators, layers=3, **options)
    sample = zinc_like()[:64]
    batch = collate(sample)
    rings = torch.tensor([[1.0 + len(m.graph.pairs) - m.graph.num_nodes] for m in sample])
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(20):
        optimiser.zero_grad()
        (predict(net, batch) - rings).abs().mean().backward()
        optimiser.step()
    return net.eval()


def renumbered(sample: list[Molecule], seed: int = 0) -> list[Molecule]:
    rng = np.random.default_rng(seed)
    return [m.renumbered(rng.permutation(m.graph.num_nodes)) for m in sample]


def sample_of(kind: str) -> list[Molecule]:
    if kind == "zinc-like":
        return zinc_like()
    if kind == "few":
        return [*zinc_like()[:50], *symmetric(False)[::4]]
    return symmetric(alike=kind == "alike")


@cache
def both_writings(kind: str) -> tuple[Batch, Batch]:
    """The graphs as they are, and with their nodes renumbered."""
    return collate(sample_of(kind)), collate(renumbered(sample_of(kind)))


@torch.no_grad()
def outputs(net: GAD, sample: list[Molecule], **options: object) -> Tensor:
    return predict(net, collate(sample, **options))


@torch.no_grad()
def assert_writings_agree(net: GAD, kind: str) -> None:
    as_is, moved = both_writings(kind)
    assert_same(predict(net, moved), predict(net, as_is))


def assert_same(actual: Tensor, expected: Tensor, bound: float = BOUND) -> None:
    """Within the bound for every graph, or say which one is worst."""
    assert expected.std() > 1e-2, "outputs that are all alike prove nothing"
    error = (actual - expected).abs() / expected.abs().clamp_min(float(expected.std()))
    worst = int(error.argmax())
    assert error.max() < bound, f"graph {worst}: {float(error.max()):.1e}"


# ------------------------------------------------------------------------------ numbering


@pytest.mark.parametrize("kind", ["zinc-like", "symmetric", "alike"])
@pytest.mark.parametrize("dx_centre", ["message", "node"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_renumbering_changes_nothing(scheme, dx_centre, kind):
    assert_writings_agree(trained(scheme, dx_centre=dx_centre), kind)


@pytest.mark.slow
@EVERY_AGGREGATOR
@pytest.mark.parametrize("scheme", SCHEMES)
def test_renumbering_changes_nothing_for_any_aggregator(scheme, name):
    for kind in ("few", "alike"):
        assert_writings_agree(trained(scheme, (name,)), kind)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_renumbering_changes_nothing_in_real_molecules(scheme):
    sample, net = solubilities(500), trained(scheme)
    assert_same(outputs(net, renumbered(sample)), outputs(net, sample))


@pytest.mark.parametrize("options", [{"k": 4}, {"basis": False}], ids=["cut basis", "no basis"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_renumbering_changes_nothing_without_the_full_basis(scheme, options):
    """A cut at k never cuts through an eigenspace."""
    net, sample = trained(scheme), [*zinc_like()[:40], *symmetric(True)[::5]]
    assert_same(outputs(net, renumbered(sample), **options), outputs(net, sample, **options))


def test_the_bound_would_catch_a_single_eigenvector():
    """Reading one vector of a degenerate eigenspace breaks the promise by far."""

    def first_only(operators: GraphOperators) -> GraphOperators:
        none = torch.zeros_like(operators.field_others)
        norm = operators.field.abs()
        return dataclasses.replace(operators, field_others=none, field_norm=norm)

    net, results = trained("implicit"), []
    for batch in both_writings("symmetric"):
        changed = dataclasses.replace(batch, operators=first_only(batch.operators))
        results.append(predict(net, changed).detach())
    with pytest.raises(AssertionError, match="graph"):
        assert_same(*results, bound=1e-2)


# ------------------------------------------------------------------------------ batching


@pytest.mark.parametrize("scheme", SCHEMES)
def test_batch_is_one_by_one(scheme):
    net, sample = trained(scheme), sample_of("few")
    singles = torch.cat([outputs(net, [m]) for m in sample])
    assert_same(singles, outputs(net, sample))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_order_of_the_batch_changes_nothing(scheme):
    net, sample = trained(scheme), sample_of("few")
    order = np.random.default_rng(0).permutation(len(sample))
    assert_same(outputs(net, [sample[i] for i in order]), outputs(net, sample)[order])


# ------------------------------------------------------------------------------ basis


def turned(case: Graph, seed: int, *, only_signs: bool) -> GraphOperators:
    """The operators of a graph with its eigenvectors flipped, or turned inside their eigenspaces.

    The field is rebuilt from the turned φ₁'s.
    """
    rng = torch.Generator().manual_seed(seed)
    operators = case.operators()
    values, vectors, counts = operators.need_basis()
    blocks, lams = [], values.split(counts.tolist())
    parts = operators.members.split(operators.component_sizes.tolist())
    flat = vectors.split((operators.component_sizes * counts).tolist())
    spaces = []
    for lam, nodes, block in zip(lams, parts, flat, strict=True):
        phi = block.view(nodes.numel(), -1).clone()
        ends = [*((lam.diff() > SAME_EIGENVALUE).nonzero().flatten() + 1).tolist(), lam.numel()]
        for a, b in zip([0, *ends[:-1]], ends, strict=True):
            turn = torch.randn(b - a, b - a, generator=rng, dtype=torch.float64)
            turn = torch.linalg.qr(turn).Q
            if only_signs:
                turn = torch.diag(torch.randn(b - a, generator=rng, dtype=torch.float64).sign())
            phi[:, a:b] = phi[:, a:b] @ turn
            if a == 1:
                spaces.append((nodes, phi[:, a:b]))
        blocks.append(phi.reshape(-1))
    m = max((space.shape[1] for _, space in spaces), default=1)
    potential = torch.zeros(case.num_nodes, m, dtype=torch.float64)
    for nodes, space in spaces:
        potential[nodes, : space.shape[1]] = space
    rebuilt = case.operators(potential=potential)
    return dataclasses.replace(
        operators,
        eigenvectors=torch.cat(blocks),
        field=rebuilt.field,
        field_norm=rebuilt.field_norm,
        field_directions=rebuilt.field_directions,
        field_others=rebuilt.field_others,
    )


@pytest.mark.parametrize("only_signs", [True, False], ids=["signs", "rotations"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_choice_of_basis_changes_nothing(scheme, only_signs):
    net = trained(scheme)
    cases = [
        *SYMMETRIC.values(),
        *molecules(8, seed=7),
        disjoint(ring(6), star(4), *molecules(2, seed=3)),
    ]
    sample = decorate_all(cases)
    expected, actual = outputs(net, sample), []
    with torch.no_grad():
        for m in sample:
            operators = turned(m.graph, 1, only_signs=only_signs).to(torch.float32)
            batch = dataclasses.replace(collate([m]), operators=operators)
            actual.append(predict(net, batch))
    assert_same(torch.cat(actual), expected)


def test_turning_really_turns():
    operators, other = ring(6).operators(), turned(ring(6), 1, only_signs=False)
    assert (operators.eigenvectors - other.eigenvectors).abs().max() > 0.1
    assert (operators.field - other.field).abs().max() > 0.1
    flipped = turned(ring(6), 3, only_signs=True)
    torch.testing.assert_close(flipped.eigenvectors.abs(), operators.eigenvectors.abs())
    assert (operators.eigenvectors - flipped.eigenvectors).abs().max() > 0.1


def test_two_writings_of_one_molecule_in_one_batch():
    """Both copies stand side by side in one batch and get one answer."""
    net = trained("implicit")
    pairs = [decorate(benzene(), alike=True), decorate(methane(), alike=True), *zinc_like()[:20]]
    y = outputs(net, [*pairs, *renumbered(pairs, seed=4)])
    assert_same(y[len(pairs) :], y[: len(pairs)])
