"""Aggregators: every one against a loop over nodes, its gradients, ties and kinks."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from gad.nn.aggregation import AGGREGATORS, Messages
from gad.operators import GraphOperators, MissingOperatorError
from tests.graphs import ZOO, complete, disjoint, graph, isolated, molecule, path, ring, star
from tests.reference import dense

CHANNELS = 6
CASES = {**ZOO, "star33": star(33), "loose ends": disjoint(star(5), path(3))}
EVERY_GRAPH = pytest.mark.parametrize("case", CASES)
EVERY_AGGREGATOR = pytest.mark.parametrize("name", AGGREGATORS)


@cache
def operators_of(case: str, dtype: torch.dtype = torch.float64) -> GraphOperators:
    """The operators of a named graph, built once."""
    return CASES[case].operators(dtype)


@cache
def field_of(case: str) -> np.ndarray:
    """F̂ by the reference, from a basis of the eigenspace turned at random."""
    A = CASES[case].adjacency
    return dense.field(A, dense.first_eigenspace(A, np.random.default_rng(0)))


def messages(operators: GraphOperators, *, whole: bool = False, seed: int = 0) -> Messages:
    """Random messages; ``whole`` draws small whole numbers, so that many are equal."""
    rng = torch.Generator().manual_seed(seed)

    def draw(size: int) -> Tensor:
        if whole:
            values = torch.randint(-1, 2, (size, CHANNELS), generator=rng).to(operators.dtype)
        else:
            values = torch.randn(size, CHANNELS, generator=rng, dtype=operators.dtype)
        return values.requires_grad_()

    return Messages(draw(operators.num_edges), draw(operators.num_nodes), operators)


def by_hand(case: str, given: Messages, name: str) -> Tensor:
    """One aggregate [N, C] node by node, as it is defined."""
    A, F, operators = CASES[case].adjacency, field_of(case), given.operators
    m = torch.zeros(*A.shape, CHANNELS, dtype=torch.float64)
    m[operators.target, operators.source] = given.values
    rows = []
    for i in range(len(A)):
        neighbours = np.flatnonzero(A[i])
        own, f = m[i, neighbours], torch.from_numpy(F[:, i, neighbours])
        if neighbours.size == 0:
            rows.append(torch.zeros(CHANNELS, dtype=torch.float64))
        elif name == "av":
            rows.append(f.norm(dim=0) @ own)
        elif name == "dx":
            rows.append((f @ (own - given.centre[i])).norm(dim=0))
        elif name == "std":
            rows.append(own.std(0, correction=0) if len(own) > 1 else 0 * own[0])
        else:
            how = {"mean": torch.mean, "max": torch.amax, "min": torch.amin, "sum": torch.sum}
            rows.append(how[name](own, 0))
    return torch.stack(rows)


@EVERY_AGGREGATOR
@EVERY_GRAPH
def test_aggregators_equal_loops_over_nodes(case, name):
    """Values and gradients, of messages of any size and of messages that are equal."""
    for whole in (False, True):
        given = messages(operators_of(case), whole=whole)
        actual, expected = AGGREGATORS[name](given), by_hand(case, given, name)
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-11)
        if (whole and name in ("std", "dx")) or not given.values.numel():
            continue  # where they vanish, their gradients are a choice: see below
        pull = torch.randn(actual.shape, generator=torch.Generator().manual_seed(1)).double()
        found, wanted = (
            torch.autograd.grad((y * pull).sum(), given.values, allow_unused=True)[0]
            for y in (actual, expected)
        )
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


@EVERY_AGGREGATOR
def test_gradients_and_their_gradients_are_those_of_finite_differences(name):
    """Away from kinks, on a graph with unique and with degenerate directions."""
    operators = disjoint(molecule(6), star(3), isolated(1), ring(4)).operators()
    given = messages(operators)

    def aggregate(values: Tensor, centre: Tensor) -> Tensor:
        return AGGREGATORS[name](Messages(values, centre, operators))

    inputs = (given.values, given.centre)
    assert torch.autograd.gradcheck(aggregate, inputs, fast_mode=True)
    if name in ("std", "dx"):
        assert torch.autograd.gradgradcheck(aggregate, inputs, fast_mode=True, atol=1e-4)


@EVERY_AGGREGATOR
@pytest.mark.parametrize("count", [1, 3])
def test_without_any_edge_everything_is_zero(name, count):
    given = messages(isolated(count).operators())
    result = AGGREGATORS[name](given)
    assert result.shape == (count, CHANNELS)
    assert not result.detach().any()
    result.sum().backward()
    assert given.centre.grad is None or not given.centre.grad.any()


@pytest.mark.parametrize("name", ["av", "dx"])
def test_directional_aggregators_need_directions(name):
    with pytest.raises(MissingOperatorError, match="directions=True"):
        AGGREGATORS[name](messages(molecule().operators(directions=False)))


@pytest.mark.parametrize(("name", "sign"), [("max", 1.0), ("min", -1.0)])
@pytest.mark.parametrize("best", [2.0, 0.0, -2.0])
def test_equal_messages_share_the_gradient_evenly(name, sign, best):
    """The centre of a star hears its leaves: three say the same, one says less."""
    operators = star(4).operators()
    sent = sign * torch.tensor([9.0, best, best - 1, best, best], dtype=torch.float64)
    values = sent[operators.source, None].expand(-1, CHANNELS).clone().requires_grad_()
    result = AGGREGATORS[name](Messages(values, torch.zeros(5, CHANNELS).double(), operators))
    assert result[0].tolist() == [sign * best] * CHANNELS
    result[0].sum().backward()
    shares = torch.tensor([0, 1 / 3, 0, 1 / 3, 1 / 3], dtype=torch.float64)[operators.source]
    expected = (shares * (operators.target == 0))[:, None].expand_as(values)
    torch.testing.assert_close(values.grad, expected, rtol=0, atol=1e-15)


@EVERY_AGGREGATOR
def test_a_message_that_is_not_a_number_is_not_hidden(name):
    operators = star(4).operators()
    given = messages(operators)
    values = given.values.detach().clone()
    values[operators.target == 0] = torch.nan
    result = AGGREGATORS[name](Messages(values, given.centre, operators))
    assert result[0].isnan().all()
    assert result[1:].isfinite().all()


@pytest.mark.parametrize("name", ["std", "dx"])
def test_equal_messages_vanish_with_their_gradient(name):
    """A constant signal has neither spread nor slope: 0 to rounding, and a gradient of 0.

    At 0 both are the length of a vanishing vector, whose direction is rounding: it must not be
    passed on as a gradient of full size.
    """
    cases = [star(3), star(5), ring(6), complete(4), molecule(), CASES["benzene"]]
    for case, dtype in product(cases, (torch.float64, torch.float32)):
        operators = case.operators(dtype)
        for value in (0.1, 0.7, 1.1, 1e4):
            values = torch.full((operators.num_edges, CHANNELS), value, dtype=dtype)
            centre = torch.full((operators.num_nodes, CHANNELS), value, dtype=dtype)
            values.requires_grad_()
            result = AGGREGATORS[name](Messages(values, centre, operators))
            limit = 20 * torch.finfo(dtype).eps * value
            torch.testing.assert_close(result, torch.zeros_like(result), rtol=0, atol=limit)
            result.sum().backward()
            torch.testing.assert_close(values.grad, torch.zeros_like(values), rtol=0, atol=0.01)


def test_std_is_centred_first():
    """A spread of 1 on a mean of 10⁴ survives float32, where E[m²] − E[m]² would not."""
    operators = star(4).operators(torch.float32)
    sent = torch.tensor([0, 1e4, 1e4 + 1, 1e4 + 2, 1e4 + 3])
    given = Messages(sent[operators.source, None], torch.zeros(5, 1), operators)
    torch.testing.assert_close(
        AGGREGATORS["std"](given)[0], torch.tensor([1.25**0.5]), rtol=1e-3, atol=0
    )


@EVERY_AGGREGATOR
def test_float32_operators_serve_float64_messages(name):
    exact, rough = operators_of("benzene"), operators_of("benzene", torch.float32)
    given = messages(exact)
    actual = AGGREGATORS[name](Messages(given.values, given.centre, rough))
    assert actual.dtype == torch.float64
    torch.testing.assert_close(actual, AGGREGATORS[name](given), rtol=0, atol=1e-6)


def test_graphs_given_one_pair_at_a_time():
    """The smallest example, by eye: a path a – b – c that sends (1, 2, 4) and nothing else."""
    operators = graph(3, [(0, 1), (1, 2)]).operators()
    sent = torch.tensor([[1.0], [2.0], [4.0]], dtype=torch.float64)
    given = Messages(sent[operators.source], sent, operators)
    expected = {
        "mean": [2, 2.5, 2],
        "max": [2, 4, 2],
        "min": [2, 1, 2],
        "sum": [2, 5, 2],
        "std": [0, 1.5, 0],
        "av": [2, 2.5, 2],
        "dx": [1, 1.5, 2],
    }
    assert expected.keys() == AGGREGATORS.keys()
    for name, values in expected.items():
        row = torch.tensor(values, dtype=torch.float64)[:, None]
        torch.testing.assert_close(AGGREGATORS[name](given), row)
