"""Directional aggregation: messages, aggregators, scalers and towers against their formulas."""

from __future__ import annotations

import math
from itertools import combinations, permutations, product

import numpy as np
import pytest
import torch
from torch import Tensor

from gad.nn import DirectionalAggregation, mean_log_degree
from gad.nn.aggregation import AGGREGATORS as AGGREGATORS_BY_NAME
from gad.operators import MissingOperatorError, build_operators
from tests.graphs import ZOO, Graph, disjoint, graph, isolated, molecule, path, ring, star
from tests.nn.samples import AGGREGATORS
from tests.reference import dense

SCALERS = ("identity", "amplification", "attenuation")
EVERY_AGGREGATOR = pytest.mark.parametrize("name", AGGREGATORS)
EDGE_CHANNELS = 3
SOME = {
    name: (ZOO | {"star33": star(33)})[name]
    for name in ("one", "k2", "molecule", "benzene", "with isolated", "star33", "weighted parts")
}


def layer(channels: int = 6, seed: int = 0, **options) -> DirectionalAggregation:
    torch.manual_seed(seed)
    return DirectionalAggregation(channels, **{"delta": 0.9, **options}).double()


def features(case: Graph, channels: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(case.signal(channels, seed))


def bonds(case: Graph, seed: int = 5) -> Tensor:
    """Edge features, different in the two directions."""
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(2 * len(case.pairs), EDGE_CHANNELS, generator=rng, dtype=torch.float64)


def aggregate(name: str, messages: Tensor, centre: Tensor, F: Tensor) -> Tensor:
    """One aggregate of the messages [d, C] into a node, for its row F̂ [m, d] of the field."""
    if name == "av":
        return F.norm(dim=0) @ messages
    if name == "dx":
        return (F @ (messages - centre)).norm(dim=0)
    if name == "std":
        return messages.std(0, correction=0)
    return {"mean": torch.mean, "max": torch.amax, "min": torch.amin, "sum": torch.sum}[name](
        messages, 0
    )


def by_definition(
    module: DirectionalAggregation,
    h: Tensor,
    case: Graph,
    edge_attr: Tensor | None,
    *,
    nonlinear: bool,
) -> Tensor:
    """Node by node and tower by tower, in the words of the docstring."""
    width = module.channels // module.towers
    A = case.adjacency
    F = torch.from_numpy(dense.field(A, dense.first_eigenspace(A, np.random.default_rng(0))))
    row = {edge: e for e, edge in enumerate(map(tuple, case.edge_index.t().tolist()))}
    result = torch.empty_like(h)
    for tower, i in product(range(module.towers), range(case.num_nodes)):
        part = slice(tower * width, (tower + 1) * width)
        own, neighbours = h[:, part], np.flatnonzero(A[i]).tolist()
        W = module.mix_weight[tower].chunk(len(module.scalers))

        def message(j: int, i: int = i, tower: int = tower, part: slice = part) -> Tensor:
            m = module.target_weight[tower] @ h[i, part] + module.source_weight[tower] @ h[j, part]
            if edge_attr is not None and i != j:
                m = m + module.edge_weight[part] @ edge_attr[row[j, i]]
            m = m + module.bias[part]
            return torch.where(m > 0, m, 0.01 * m) if nonlinear else m

        y = module.own_weight[tower] @ own[i] + module.mix_bias[part]
        if neighbours:
            centre = own[i] if module.dx_centre == "node" else message(i)
            messages = torch.stack([message(j) for j in neighbours])
            field = F[:, i, neighbours]
            a = torch.cat([aggregate(n, messages, centre, field) for n in module.aggregators])
            d, delta = len(neighbours), float(module.delta)
            scale = {
                "identity": 1.0,
                "amplification": math.log(d + 1) / delta,
                "attenuation": delta / math.log(max(d, 1) + 1),
            }
            y = y + sum(scale[name] * (W[s] @ a) for s, name in enumerate(module.scalers))
        result[i, part] = y
    return result


# ------------------------------------------------------------------------------ values


@pytest.mark.parametrize("case", SOME)
@pytest.mark.parametrize("towers", [1, 2, 3])
@pytest.mark.parametrize("edges", [True, False], ids=["bonds", "no bonds"])
@pytest.mark.parametrize("dx_centre", ["message", "node"])
@pytest.mark.parametrize("messages", ["linear", "nonlinear", "plain"])
def test_layer_equals_its_definition(case, towers, edges, dx_centre, messages):
    module = layer(
        aggregators=AGGREGATORS,
        towers=towers,
        edge_channels=EDGE_CHANNELS if edges else 0,
        dx_centre=dx_centre,
        messages=messages,
    )
    h, operators = features(SOME[case], 6), SOME[case].operators()
    edge_attr = bonds(SOME[case]) if edges else None
    with torch.no_grad():
        expected = by_definition(
            module, h, SOME[case], edge_attr, nonlinear=messages == "nonlinear"
        )
        torch.testing.assert_close(module(h, operators, edge_attr), expected, rtol=0, atol=1e-11)


def test_nonlinear_messages_see_which_bond_leads_where():
    """C=O beside C–N and C–O beside C=N: the same atoms, the same bonds, another molecule."""
    h = torch.eye(3, 16, dtype=torch.float64)  # C between O and N
    ends, kinds = torch.tensor([[0, 1, 0, 2], [1, 0, 2, 0]]), torch.eye(2, dtype=torch.float64)
    operators = build_operators(ends, 3)
    for messages, same in (("linear", True), ("nonlinear", False)):
        module = layer(16, aggregators=("mean",), edge_channels=2, messages=messages)
        one, other = (
            module(h, operators, kinds[torch.tensor([to_o, to_o, 1 - to_o, 1 - to_o])])[0]
            for to_o in (0, 1)
        )
        assert torch.allclose(one, other) == same


@pytest.mark.parametrize("case", SOME)
def test_plain_messages_are_the_neighbours(case):
    case = SOME[case]
    module = layer(aggregators=("mean",), scalers=("identity",), towers=3, messages="plain")
    with torch.no_grad():
        module.own_weight.zero_()
        module.mix_bias.zero_()
        module.mix_weight.copy_(torch.eye(2))
    h, A = features(case, 6), torch.from_numpy(np.asarray(case.adjacency != 0, float))
    expected = A @ h / A.sum(1, keepdim=True).clamp_min(1)
    torch.testing.assert_close(module(h, case.operators()), expected, rtol=0, atol=1e-12)
    learned = {name for name, _ in module.named_parameters()}
    assert learned == {"own_weight", "mix_weight", "mix_bias"}


@pytest.mark.parametrize("scalers", [s for n in (1, 2, 3) for s in permutations(SCALERS, n)])
def test_any_choice_of_scalers(scalers):
    case = SOME["with isolated"]
    module = layer(aggregators=("dx", "mean"), scalers=scalers, towers=2)
    h, operators = features(case, 6), case.operators()
    with torch.no_grad():
        expected = by_definition(module, h, case, None, nonlinear=False)
        torch.testing.assert_close(module(h, operators), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_any_choice_and_order_of_aggregators(size):
    """A layer cut out of one with all seven, in any order, gives the sum of its parts."""
    case = SOME["benzene"]
    h, operators, width = features(case, 6), case.operators(), 3
    every = layer(aggregators=AGGREGATORS, towers=2)
    for subset in combinations(AGGREGATORS, size):
        for order in (subset, subset[::-1]):
            module = layer(aggregators=order, towers=2)
            state = every.state_dict()
            blocks = state["mix_weight"].split(width, dim=2)
            state["mix_weight"] = torch.cat([blocks[AGGREGATORS.index(a)] for a in order], dim=2)
            module.load_state_dict(state)
            # The same with zeros in place of the other aggregators' weights.
            silenced = layer(aggregators=AGGREGATORS, towers=2)
            zeros = torch.zeros_like(blocks[0])
            state["mix_weight"] = torch.cat(
                [blocks[i] if a in subset else zeros for i, a in enumerate(AGGREGATORS)], dim=2
            )
            silenced.load_state_dict(state)
            with torch.no_grad():
                torch.testing.assert_close(
                    module(h, operators), silenced(h, operators), rtol=0, atol=1e-12
                )


def test_an_aggregator_of_ones_own(monkeypatch):
    """One line in the table is enough: the kernels do not know it, and decline."""
    monkeypatch.setitem(AGGREGATORS_BY_NAME, "twice", lambda m: 2 * m.sum(m.values))
    case = SOME["molecule"]
    own, known = (
        layer(aggregators=(name,), scalers=("identity",)).float() for name in ("twice", "sum")
    )
    with torch.no_grad():
        known.mix_weight.mul_(2)
    h, operators = features(case, 6).float(), case.operators(torch.float32)
    torch.testing.assert_close(own(h, operators), known(h, operators), rtol=1e-5, atol=1e-5)


def test_column_major_and_row_major_inputs():
    case = SOME["molecule"]
    module, h, operators = layer(), features(case, 6), case.operators()
    rows, columns = module(h, operators), module(h.t().contiguous().t(), operators)
    torch.testing.assert_close(rows, columns, rtol=0, atol=1e-14)


def test_nodes_in_order_of_degree_or_not():
    """Renumbering the nodes renumbers the output, whether or not they stand in order of degree."""
    case = disjoint(star(4), molecule(12))
    module = layer(aggregators=AGGREGATORS, edge_channels=EDGE_CHANNELS)
    h, edge_attr, operators = features(case, 6), bonds(case), case.operators()
    expected = module(h, operators, edge_attr)
    rank = operators.degree.argsort(descending=True, stable=True).argsort()
    moved = build_operators(rank[case.edge_index], case.num_nodes, dtype=torch.float64)
    assert moved.neighbours.order is None
    assert operators.neighbours.order is not None
    y = module(h[rank.argsort()], moved, edge_attr)
    torch.testing.assert_close(y[rank], expected, rtol=0, atol=1e-12)


# ------------------------------------------------------------------------------ edges


@EVERY_AGGREGATOR
def test_edge_features_enter_every_message(name):
    """Changing one edge's features changes its target under every aggregator, and nothing else."""
    case = molecule(15)
    module = layer(aggregators=(name,), scalers=("identity",), edge_channels=EDGE_CHANNELS)
    h, edge_attr, operators = features(case, 6), bonds(case), case.operators()
    with torch.no_grad():
        before = module(h, operators, edge_attr)
        for e, (_, target) in enumerate(case.edge_index.t().tolist()):
            changed = edge_attr.clone()
            # Far enough to move a maximum or a minimum whatever the other messages are.
            weight = module.edge_weight
            changed[e] += 50 * weight[0] / weight[0].norm() ** 2 * (-1 if name == "min" else 1)
            difference = (module(h, operators, changed) - before).abs().amax(1)
            alone = name == "std" and operators.degree[target] == 1
            assert (difference[target] > 1e-3) == (not alone)
            difference[target] = 0
            assert difference.max() < 1e-12


@pytest.mark.parametrize("leaves", [4, 40], ids=["slots", "plain"])
def test_self_loops_are_ignored_and_rows_stay_aligned(leaves):
    """Loops may stand anywhere in edge_index; their rows of edge_attr are skipped."""
    case = disjoint(star(leaves), molecule(8))
    module = layer(aggregators=AGGREGATORS, edge_channels=EDGE_CHANNELS)
    h, edge_attr, index = features(case, 6), bonds(case), case.edge_index
    expected = module(h, case.operators(), edge_attr)
    torch.manual_seed(1)
    count, n = index.shape[1], case.num_nodes
    order = torch.randperm(count + n)
    looped = torch.cat([index, torch.arange(n).repeat(2, 1)], dim=1)[:, order]
    rows = torch.cat([edge_attr, torch.full((n, EDGE_CHANNELS), 1e6).double()])[order]
    operators = build_operators(looped, n, dtype=torch.float64)
    assert operators.num_given_edges == count + n
    torch.testing.assert_close(module(h, operators, rows), expected, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="expected edge features"):
        module(h, operators, edge_attr)


def test_gradient_of_edge_features_is_in_their_own_order():
    case = molecule(10)
    module = layer(aggregators=("sum",), scalers=("identity",), edge_channels=EDGE_CHANNELS)
    edge_attr = bonds(case).requires_grad_()
    y = module(features(case, 6), case.operators(), edge_attr)
    target = 3
    y[target].sum().backward()
    touched = edge_attr.grad.abs().sum(1) > 0
    assert touched.tolist() == (case.edge_index[1] == target).tolist()


# ------------------------------------------------------------------------------ special cases


@pytest.mark.parametrize("count", [1, 4])
def test_isolated_nodes_keep_only_their_own_part(count):
    module = layer(aggregators=AGGREGATORS, towers=2, edge_channels=EDGE_CHANNELS)
    case = disjoint(ring(5), isolated(count))
    h = features(case, 6)
    y = module(h, case.operators(), bonds(case))[5:]
    parts = [module.own_weight[t] @ h[5:, 3 * t : 3 * t + 3].t() for t in range(2)]
    expected = torch.cat(parts).t() + module.mix_bias
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-13)
    alone = isolated(count)
    y = module(h[5:], alone.operators(), torch.zeros(0, EDGE_CHANNELS).double())
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("case", ["molecule", "benzene", "star33", "with isolated"])
def test_a_constant_signal_has_no_derivative(case, dtype):
    """dx of a constant without bonds is 0 to rounding, so the output is that of a lonely node."""
    module = layer(aggregators=("dx",), dx_centre="message").to(dtype)
    n = SOME[case].num_nodes
    constant = features(path(2), 6)[:1].to(dtype)
    y = module(constant.expand(n, 6), SOME[case].operators(dtype))
    expected = module(constant, isolated(1).operators(dtype)).expand(n, 6)
    torch.testing.assert_close(y, expected, rtol=0, atol=100 * torch.finfo(dtype).eps)


def test_dgn_centre_has_a_derivative_of_a_constant():
    """With the node itself as centre m_ij − h_i does not vanish: the two variants differ."""
    module = layer(aggregators=("dx",), dx_centre="node")
    case = SOME["molecule"]
    y = module(torch.ones(case.num_nodes, 6).double(), case.operators())
    assert y.std(0).max() > 1e-3


def test_scales_use_the_number_of_neighbours_not_their_weight():
    weighted = SOME["weighted parts"]
    plain = Graph(weighted.num_nodes, weighted.pairs)
    module = layer(aggregators=("mean",))
    h = features(plain, 6)
    torch.testing.assert_close(
        module(h, weighted.operators()), module(h, plain.operators()), rtol=0, atol=1e-12
    )


def test_mean_log_degree():
    operators = graph(4, [(0, 1), (1, 2)]).operators(torch.float32)
    expected = (2 * math.log(2) + math.log(3) + math.log(1)) / 4
    assert mean_log_degree(operators) == pytest.approx(expected, rel=1e-12)
    assert layer(delta=1.25).state_dict()["delta"].item() == 1.25


# ------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aggregators": ["mean", "median"]}, "unknown aggregator 'median'"),
        ({"aggregators": ["mean", "dx", "mean"]}, "named twice"),
        ({"aggregators": []}, "at least one aggregator"),
        ({"aggregators": "mean"}, "a list of names"),
        ({"scalers": ["identity", "identity"]}, "named twice"),
        ({"scalers": ["linear"]}, "unknown scaler 'linear'"),
        ({"scalers": []}, "at least one scaler"),
        ({"dx_centre": "middle"}, "unknown dx_centre 'middle'"),
        ({"towers": 4}, "6 channels cannot be cut into 4 equal towers"),
        ({"towers": 0}, "cannot be cut into 0"),
        ({"delta": 0.0}, "delta"),
        ({"delta": math.nan}, "delta"),
    ],
)
def test_impossible_layers_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DirectionalAggregation(6, **options)


def test_unknown_names_are_told_what_there_is():
    with pytest.raises(ValueError, match="choose from mean, max, min, sum, std, av, dx"):
        DirectionalAggregation(6, aggregators=["median"])


def test_errors_name_what_is_wrong_with_the_inputs():
    case = ring(5)
    operators = case.operators(torch.float32)
    plain, bonded = DirectionalAggregation(4), DirectionalAggregation(4, edge_channels=2)
    h, edge_attr = torch.zeros(5, 4), torch.zeros(10, 2)
    with pytest.raises(ValueError, match="2 edge channels, but edge_attr is missing"):
        bonded(h, operators)
    with pytest.raises(ValueError, match="no edge features, but edge_attr was given"):
        plain(h, operators, edge_attr)
    with pytest.raises(ValueError, match=r"\[10, 2\].*not \[9, 2\]"):
        bonded(h, operators, edge_attr[1:])
    with pytest.raises(ValueError, match=r"\[10, 2\].*not \[10, 3\]"):
        bonded(h, operators, torch.zeros(10, 3))
    with pytest.raises(ValueError, match=r"\[5, 4\].*not \[6, 4\]"):
        plain(torch.zeros(6, 4), operators)
    with pytest.raises(ValueError, match=r"\[5, 4\].*not \[5, 3\]"):
        plain(torch.zeros(5, 3), operators)
    with pytest.raises(ValueError, match=r"not \[20\]"):
        plain(torch.zeros(20), operators)


@pytest.mark.parametrize("name", ["av", "dx"])
def test_missing_directions_are_an_error_only_where_they_are_needed(name):
    operators = ring(5).operators(torch.float32, directions=False)
    with pytest.raises(MissingOperatorError, match="directions=True"):
        DirectionalAggregation(4, aggregators=[name])(torch.zeros(5, 4), operators)
    without = [a for a in AGGREGATORS if a not in ("av", "dx")]
    y = DirectionalAggregation(4, aggregators=without)(torch.zeros(5, 4), operators)
    assert y.shape == (5, 4)


def test_repr_says_what_it_is():
    text = repr(DirectionalAggregation(4, aggregators=["dx"], towers=2, edge_channels=3))
    for piece in ("4", "dx", "towers=2", "edge_channels=3", "attenuation"):
        assert piece in text
