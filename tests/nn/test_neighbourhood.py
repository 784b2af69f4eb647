"""Neighbourhood reductions: the fast kernel, its plain twin, and both against loops over nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gad.nn.neighbourhood import MOST_SLOTS, prefers_slots, reduce_plain, reduce_slots
from gad.operators import GraphOperators, MissingOperatorError
from tests.graphs import (
    ZOO,
    complete,
    disjoint,
    graph,
    graphs,
    isolated,
    molecule,
    molecules,
    path,
    renumber,
    ring,
    star,
)
from tests.nn.samples import AGGREGATORS, collate, read_zinc
from tests.reference import dense

TOWERS, CHANNELS = 2, 6
CASES = {**ZOO, "star32": star(32), "star33": star(33), "loose ends": disjoint(star(5), path(3))}
EVERY_GRAPH = pytest.mark.parametrize("case", CASES)
EVERY_AGGREGATOR = pytest.mark.parametrize("name", AGGREGATORS)
EDGES = pytest.mark.parametrize("edges", [True, False], ids=["bonds", "no bonds"])
# Each aggregator alone and all together; what dx subtracts is a choice of dx alone.
CHOICES = [
    (names, centre)
    for names in (AGGREGATORS, *((name,) for name in AGGREGATORS))
    for centre in ("message", "node")
    if "dx" in names or centre == "message"
]
EVERY_CHOICE = pytest.mark.parametrize(
    ("names", "centre"), CHOICES, ids=["+".join(names) + "-" + centre for names, centre in CHOICES]
)
PRECISIONS = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)], ids=["f64", "f32"]
)


@cache
def operators_of(case: str, dtype: torch.dtype = torch.float64) -> GraphOperators:
    """The operators of a named graph, built once."""
    return CASES[case].operators(dtype)


@cache
def field_of(case: str) -> np.ndarray:
    """F̂ by the reference, from a basis of the eigenspace turned at random."""
    A = CASES[case].adjacency
    return dense.field(A, dense.first_eigenspace(A, np.random.default_rng(0)))


@dataclass
class Parts:
    """The parts of messages in the operators' own order: p, q, z [C, N] and e [C, E]."""

    p: Tensor
    q: Tensor
    e: Tensor | None
    z: Tensor | None

    def leaves(self) -> Parts:
        """Copies that collect gradients."""
        return Parts(
            *(
                None if v is None else v.detach().clone().requires_grad_()
                for v in (self.p, self.q, self.e, self.z)
            )
        )

    @property
    def gradients(self) -> dict[str, Tensor]:
        return {name: v.grad for name, v in vars(self).items() if v is not None}


def random_parts(
    operators: GraphOperators, *, edges: bool, centre: str, seed: int = 0, whole: bool = False
) -> Parts:
    """Random parts; ``whole`` draws small whole numbers, so that many messages are equal."""
    rng = torch.Generator().manual_seed(seed)
    n, count = operators.num_nodes, operators.num_edges

    def draw(size: int) -> Tensor:
        if whole:
            return torch.randint(-1, 2, (CHANNELS, size), generator=rng).to(operators.dtype)
        return torch.randn(CHANNELS, size, generator=rng, dtype=torch.float64).to(operators.dtype)

    p, q, e, z = draw(n), draw(n), draw(count), draw(n)
    return Parts(p, q, e if edges else None, z if centre == "node" else None)


def plain(parts: Parts, operators: GraphOperators, names) -> Tensor:
    return reduce_plain(parts.p, parts.q, parts.e, parts.z, operators, names, TOWERS)


def fast(parts: Parts, operators: GraphOperators, names) -> Tensor:
    """The fast kernel on nodes and edges brought into its order, its result brought back."""
    layout = operators.neighbours
    order = torch.arange(operators.num_nodes) if layout.order is None else layout.order
    result = reduce_slots(
        parts.p[:, order],
        parts.q[:, order],
        None if parts.e is None else parts.e[:, layout.edges],
        None if parts.z is None else parts.z[:, order],
        operators,
        names,
        TOWERS,
    )
    return result[..., order.argsort()]


def by_hand(case: str, parts: Parts, name: str) -> Tensor:
    """One aggregate [C, N] node by node, as it is defined."""
    A, F, operators = CASES[case].adjacency, field_of(case), operators_of(case)
    p, q = parts.p.double().numpy(), parts.q.double().numpy()
    bond = np.zeros((CHANNELS, *A.shape))
    if parts.e is not None:
        bond[:, operators.source, operators.target] = parts.e.double().numpy()
    z = p + q if parts.z is None else parts.z.double().numpy()
    result = np.zeros_like(p)
    for i in range(len(A)):
        neighbours = np.flatnonzero(A[i])
        if neighbours.size == 0:
            continue
        m = np.stack([q[:, i] + p[:, j] + bond[:, j, i] for j in neighbours])
        f = F[:, i, neighbours]
        if name == "av":
            result[:, i] = np.linalg.norm(f, axis=0) @ m
        elif name == "dx":
            result[:, i] = np.linalg.norm(f @ (m - z[:, i]), axis=0)
        else:
            how = {"mean": np.mean, "max": np.max, "min": np.min, "sum": np.sum, "std": np.std}
            result[:, i] = how[name](m, axis=0)
    return torch.from_numpy(result)


def one(result: Tensor) -> Tensor:
    """A single aggregate [T, 1, C/T, N] as [C, N]."""
    return result[:, 0].flatten(0, 1)


def assert_twins_agree(operators, parts, names, tolerance):
    """Values and gradients of both kernels agree, relative to the size of each."""
    a, b = parts.leaves(), parts.leaves()
    x, y = fast(a, operators, names), plain(b, operators, names)
    assert x.shape == (TOWERS, len(names), CHANNELS // TOWERS, operators.num_nodes)
    assert_relative(x, y, tolerance)
    rng = torch.Generator().manual_seed(9)
    pull = torch.randn(y.shape, generator=rng, dtype=torch.float64).to(y.dtype)
    (x * pull).sum().backward()
    (y * pull).sum().backward()
    used = [key for key, gradient in b.gradients.items() if gradient is not None]
    assert all(a.gradients[key] is not None for key in used)
    assert_relative(
        *(torch.cat([p.gradients[key] for key in used], dim=1) for p in (a, b)), tolerance
    )


def assert_relative(actual: Tensor, expected: Tensor, tolerance: float) -> None:
    """Compare lengths: one message of thousands may sit on a kink in float32, not in float64."""
    error = torch.linalg.vector_norm(actual - expected)
    assert error <= tolerance * torch.linalg.vector_norm(expected), f"off by {error:.1e}"


# ------------------------------------------------------------------------------ definitions


@pytest.mark.parametrize("kernel", [fast, plain])
@EDGES
@EVERY_GRAPH
def test_kernels_equal_loops_over_nodes(case, edges, kernel):
    operators = operators_of(case)
    for name in AGGREGATORS:
        for centre in ("message", "node"):
            parts = random_parts(operators, edges=edges, centre=centre)
            actual, expected = one(kernel(parts, operators, (name,))), by_hand(case, parts, name)
            torch.testing.assert_close(actual, expected, rtol=0, atol=1e-11)


@EVERY_AGGREGATOR
def test_loops_agree_with_the_reference(name):
    """The loops above and those of the reference package are written independently."""
    case = "with isolated"
    parts = random_parts(operators_of(case), edges=False, centre="message")
    A, p, q = CASES[case].adjacency, parts.p.numpy(), parts.q.numpy()
    target, source = np.nonzero(A)
    if name == "dx":
        theirs = dense.directional_derivative(field_of(case), p.T)
    elif name == "av":
        weights = np.linalg.norm(field_of(case), axis=0)
        theirs = weights @ p.T + weights.sum(1)[:, None] * q.T
    else:
        theirs = dense.aggregate(name, target, (p[:, source] + q[:, target]).T, len(A))
    np.testing.assert_allclose(by_hand(case, parts, name), theirs.T, rtol=0, atol=1e-12)


# ------------------------------------------------------------------------------ twins


@PRECISIONS
@EDGES
@EVERY_CHOICE
def test_twins_agree_on_the_zoo(names, centre, edges, dtype, tolerance):
    for case in CASES:
        operators = operators_of(case, dtype)
        parts = random_parts(operators, edges=edges, centre=centre)
        assert_twins_agree(operators, parts, names, tolerance)


@pytest.fixture(scope="module")
def zinc(data_dir):
    """The operators of many real molecules, in both precisions."""
    operators = collate(read_zinc(data_dir, 200, "val"), dtype=torch.float64).operators
    return {dtype: operators.to(dtype=dtype) for dtype in (torch.float64, torch.float32)}


@PRECISIONS
@EDGES
@EVERY_CHOICE
def test_twins_agree_on_real_molecules(zinc, names, centre, edges, dtype, tolerance):
    parts = random_parts(zinc[dtype], edges=edges, centre=centre)
    assert_twins_agree(zinc[dtype], parts, names, tolerance)


@settings(max_examples=60)
@given(
    st.lists(graphs(max_nodes=8), min_size=1, max_size=4),
    st.lists(st.sampled_from(AGGREGATORS), min_size=1, unique=True),
    st.booleans(),
    st.sampled_from(["message", "node"]),
    st.integers(0, 99),
)
def test_twins_agree_on_any_graphs_and_any_choice(several, names, edges, centre, seed):
    operators = disjoint(*several).operators()
    parts = random_parts(operators, edges=edges, centre=centre, seed=seed)
    assert_twins_agree(operators, parts, names, 1e-10)


@EDGES
def test_gradients_of_the_fast_kernel_are_those_of_finite_differences(edges):
    """Away from kinks, on a graph with unique and with degenerate directions."""
    operators = disjoint(molecule(6), star(3), isolated(1), ring(4)).operators()
    parts = random_parts(operators, edges=edges, centre="node").leaves()
    inputs = tuple(v for v in (parts.p, parts.q, parts.e, parts.z) if v is not None)
    kernel = partial(fast, parts, operators, AGGREGATORS)
    assert torch.autograd.gradcheck(lambda *_: kernel(), inputs, fast_mode=True)


@EVERY_AGGREGATOR
def test_a_choice_of_aggregators_is_cut_from_all(name):
    operators = operators_of("components")
    parts = random_parts(operators, edges=True, centre="message")
    everything = fast(parts, operators, AGGREGATORS)
    alone = fast(parts, operators, (name,))
    expected = everything[:, [AGGREGATORS.index(name)]]
    torch.testing.assert_close(alone, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("towers", [1, 2, 3, 6])
@pytest.mark.parametrize("kernel", [reduce_slots, reduce_plain])
def test_towers_only_cut_the_channels(kernel, towers):
    operators = ring(5).operators()
    parts = random_parts(operators, edges=False, centre="message")
    arguments = (parts.p, parts.q, None, None, operators, AGGREGATORS)
    whole = kernel(*arguments, 1)[0]
    cut = kernel(*arguments, towers).transpose(1, 2).flatten(0, 1).transpose(0, 1)
    torch.testing.assert_close(cut, whole, rtol=0, atol=1e-15)


# ------------------------------------------------------------------------------ order and degree


@pytest.mark.parametrize("count", [2, 20])
def test_nodes_sorted_by_degree_or_not(count):
    """Nodes that already stand in order of degree are not moved; the result is the same."""
    parts_of = molecules(count, seed=3)
    mixed = disjoint(*parts_of, star(6))
    degree = mixed.operators().degree
    permutation = degree.argsort(descending=True, stable=True).argsort().numpy()
    sorted_graph = renumber(mixed, permutation)
    a, b = mixed.operators(), sorted_graph.operators()
    assert a.neighbours.order is not None
    assert b.neighbours.order is None
    assert b.neighbours.rank is None
    parts = random_parts(a, edges=False, centre="message")
    moved = Parts(*(v[:, permutation.argsort()] for v in (parts.p, parts.q)), None, None)
    torch.testing.assert_close(
        fast(moved, b, AGGREGATORS)[..., permutation],
        fast(parts, a, AGGREGATORS),
        rtol=0,
        atol=1e-12,
    )
    assert_twins_agree(b, random_parts(b, edges=True, centre="node"), AGGREGATORS, 1e-10)


@pytest.mark.parametrize("leaves", [1, 2, 31, 32, 33, 40, 100])
def test_many_neighbours_take_the_plain_path(leaves):
    operators = disjoint(star(leaves), ring(5)).operators()
    assert prefers_slots(operators) == (leaves <= MOST_SLOTS)
    parts = random_parts(operators, edges=True, centre="message")
    assert_twins_agree(operators, parts, AGGREGATORS, 1e-10)


@pytest.mark.parametrize("kernel", [fast, plain])
@pytest.mark.parametrize("count", [1, 3])
def test_without_any_edge_everything_is_zero(kernel, count):
    operators = isolated(count).operators()
    parts = random_parts(operators, edges=True, centre="node").leaves()
    result = kernel(parts, operators, AGGREGATORS)
    assert result.shape[-1] == count
    assert not result.detach().any()
    result.sum().backward()
    for gradient in parts.gradients.values():
        assert gradient is None or not gradient.any()


@pytest.mark.parametrize("kernel", [fast, plain])
@pytest.mark.parametrize("name", ["av", "dx"])
def test_directional_aggregators_need_directions(kernel, name):
    operators = molecule().operators(directions=False)
    parts = random_parts(operators, edges=False, centre="message")
    with pytest.raises(MissingOperatorError, match="directions=True"):
        kernel(parts, operators, (name,))
    assert kernel(parts, operators, ("mean", "std")).shape[1] == 2


# ------------------------------------------------------------------------------ ties and kinks


@pytest.mark.parametrize("names", [("max",), ("min",), ("std",), ("max", "min", "std")])
@EDGES
def test_twins_agree_on_equal_messages(names, edges):
    """Small whole numbers: many messages are equal, many are 0."""
    for case in CASES:
        operators = operators_of(case)
        for seed in range(2):
            parts = random_parts(operators, edges=edges, centre="message", seed=seed, whole=True)
            assert_twins_agree(operators, parts, names, 1e-10)


@pytest.mark.parametrize("kernel", [fast, plain])
@pytest.mark.parametrize(("name", "sign"), [("max", 1.0), ("min", -1.0)])
@pytest.mark.parametrize("best", [2.0, 0.0, -2.0])
def test_equal_messages_share_the_gradient_evenly(kernel, name, sign, best):
    """The centre of a star hears its leaves: three say the same, one says less."""
    operators = star(4).operators()
    p = torch.zeros(CHANNELS, 5, dtype=torch.float64)
    p[:, 1:] = sign * torch.tensor([best, best - 1, best, best])
    parts = Parts(p, torch.zeros_like(p), None, None).leaves()
    result = one(kernel(parts, operators, (name,)))
    assert result[:, 0].tolist() == [sign * best] * CHANNELS
    result[:, 0].sum().backward()
    expected = torch.tensor([0, 1 / 3, 0, 1 / 3, 1 / 3], dtype=torch.float64).expand_as(p)
    torch.testing.assert_close(parts.p.grad, expected, rtol=0, atol=1e-15)
    assert parts.q.grad[:, 0].tolist() == [1.0] * CHANNELS
    assert not parts.q.grad[:, 1:].any()


@pytest.mark.parametrize("kernel", [fast, plain])
@pytest.mark.parametrize("name", ["std", "dx"])
def test_equal_messages_vanish_with_their_gradient(name, kernel):
    """A constant signal has neither spread nor slope: 0 to rounding, and a gradient of 0.

    At 0 both are the length of a vanishing vector, whose direction is rounding: it must not be
    passed on as a gradient of full size.
    """
    cases = [star(3), star(4), star(5), ring(6), complete(4), molecule(), CASES["benzene"]]
    for case, dtype in product(cases, (torch.float64, torch.float32)):
        operators = case.operators(dtype)
        for value in (0.1, 0.3, 0.7, 1.1, 1e4):
            p = torch.full((CHANNELS, case.num_nodes), value, dtype=dtype)
            parts = Parts(p, 0.37 * p, None, None).leaves()
            result = kernel(parts, operators, (name,))
            limit = 20 * torch.finfo(dtype).eps * value
            torch.testing.assert_close(result, torch.zeros_like(result), rtol=0, atol=limit)
            result.sum().backward()
            for gradient in (parts.p.grad, parts.q.grad):
                torch.testing.assert_close(gradient, torch.zeros_like(p), rtol=0, atol=0.01)


@pytest.mark.parametrize("kernel", [fast, plain])
def test_std_of_one_message_is_zero(kernel):
    operators = path(2).operators()
    parts = random_parts(operators, edges=True, centre="message").leaves()
    result = kernel(parts, operators, ("std",))
    assert not result.detach().any()
    result.sum().backward()
    assert all(not g.any() for g in parts.gradients.values() if g is not None)


@pytest.mark.parametrize("kernel", [fast, plain])
def test_std_is_centred_first(kernel):
    """A spread of 1 on a mean of 10⁴ survives float32, where E[m²] − E[m]² would not."""
    operators = star(4).operators(torch.float32)
    p = torch.zeros(CHANNELS, 5)
    p[:, 1:] = torch.tensor([1e4, 1e4 + 1, 1e4 + 2, 1e4 + 3])
    parts = Parts(p, torch.zeros_like(p), None, None)
    measured = one(kernel(parts, operators, ("std",)))[:, 0]
    torch.testing.assert_close(measured, torch.full((CHANNELS,), 1.25**0.5), rtol=1e-3, atol=0)


@pytest.mark.parametrize("kernel", [fast, plain])
def test_float32_operators_serve_float64_messages(kernel):
    case = CASES["benzene"]
    parts = random_parts(case.operators(), edges=True, centre="message")
    expected = kernel(parts, case.operators(), AGGREGATORS)
    actual = kernel(parts, case.operators(torch.float32), AGGREGATORS)
    assert actual.dtype == torch.float64
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-6)


def test_graphs_given_one_pair_at_a_time():
    """The smallest example, by eye: a path a – b – c with p = (1, 2, 4) and nothing else."""
    operators = graph(3, [(0, 1), (1, 2)]).operators()
    p = torch.tensor([[1.0, 2.0, 4.0]], dtype=torch.float64).expand(CHANNELS, 3)
    parts = Parts(p, torch.zeros_like(p), None, None)
    expected = {
        "mean": [2, 2.5, 2],
        "max": [2, 4, 2],
        "min": [2, 1, 2],
        "sum": [2, 5, 2],
        "std": [0, 1.5, 0],
        "av": [2, 2.5, 2],
        "dx": [1, 1.5, 2],
    }
    for name, values in expected.items():
        row = torch.tensor(values, dtype=torch.float64).expand(CHANNELS, 3)
        torch.testing.assert_close(one(fast(parts, operators, (name,))), row)
