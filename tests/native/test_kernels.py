"""Compiled kernels: the same values and gradients as their twins in PyTorch."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from gad import native
from gad.nn import (
    DirectionalAggregation,
    GADBlock,
    ImplicitDiffusion,
    SpectralDiffusion,
)
from gad.operators import GraphOperators
from tests.graphs import ZOO, complete, disjoint, isolated, molecules, path, star
from tests.nn.samples import AGGREGATORS, collate, solubilities

CASES = {
    **ZOO,
    "star32": star(32),
    "no edges": isolated(3),
    "loose ends": disjoint(star(5), path(3), isolated(2)),
    "dense": complete(20),
    "molecules": disjoint(*molecules(30)),
}
EVERY_GRAPH = pytest.mark.parametrize("case", CASES)
SETS = [AGGREGATORS, *((name,) for name in AGGREGATORS), ("mean", "max", "min", "dx")]

pytestmark = pytest.mark.skipif(native.library() is None, reason="there is no C compiler")


def results(module: torch.nn.Module, compiled: bool, *inputs) -> list[Tensor]:
    """The output, and the gradients of all inputs and parameters, of a random weighting of it."""
    leaves = [
        v.clone().requires_grad_() if isinstance(v, Tensor) and v.is_floating_point() else v
        for v in inputs
    ]
    module.zero_grad()
    with nullcontext() if compiled else native.plain():
        out = module(*leaves)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    (out * weights).sum().backward()
    tensors = [v for v in leaves if isinstance(v, Tensor) and v.requires_grad]
    return [out.detach(), *(v.grad.clone() for v in (*tensors, *module.parameters()))]


def compare(module: torch.nn.Module, *inputs) -> None:
    fast = results(module, True, *inputs)
    plain = results(module, False, *inputs)
    # A gradient that is 0 but for rounding is compared on the scale of the others.
    scale = max(1.0, *(float(b.abs().max()) for b in plain if b.numel()))
    for a, b in zip(fast, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * scale)


def features(operators: GraphOperators, channels: int, *, whole: bool = False) -> Tensor:
    rng = torch.Generator().manual_seed(0)
    shape = (operators.num_nodes, channels)
    # Small whole numbers: many equal messages, so that ties are shared.
    return (
        torch.randint(-1, 2, shape, generator=rng).float()
        if whole
        else torch.randn(shape, generator=rng)
    )


@pytest.mark.slow
@EVERY_GRAPH
@pytest.mark.parametrize("names", SETS, ids="+".join)
@pytest.mark.parametrize("centre", ["message", "node"])
@pytest.mark.parametrize("edges", [0, 3])
def test_filters(case, names, centre, edges):
    operators = CASES[case].operators(torch.float32)
    torch.manual_seed(0)
    layer = DirectionalAggregation(
        10, aggregators=names, towers=2, edge_channels=edges, dx_centre=centre
    )
    bonds = torch.randn(operators.num_given_edges, edges) if edges else None
    compare(layer, features(operators, 10), operators, bonds)


@EVERY_GRAPH
@pytest.mark.parametrize("edges", [0, 3])
@pytest.mark.parametrize("about", [
    {"messages": "plain"}, {"messages": "nonlinear"},
    {"messages": "nonlinear", "aggregators": ("std", "av", "sum", "dx"), "dx_centre": "node"},
], ids=str)  # fmt: skip
def test_other_messages(case, edges, about):
    operators = CASES[case].operators(torch.float32)
    torch.manual_seed(0)
    layer = DirectionalAggregation(10, towers=2, edge_channels=edges, **about)
    bonds = torch.randn(operators.num_given_edges, edges) if edges else None
    compare(layer, features(operators, 10), operators, bonds)


@EVERY_GRAPH
def test_equal_messages_share_alike(case):
    operators = CASES[case].operators(torch.float32)
    layer = DirectionalAggregation(4, aggregators=("max", "min"), towers=2)
    with torch.no_grad():
        for weight in (layer.source_weight, layer.target_weight):
            weight.copy_(torch.eye(2).expand(2, 2, 2))
        layer.bias.zero_()
    compare(layer, features(operators, 4, whole=True), operators)


@EVERY_GRAPH
@pytest.mark.parametrize("diffusion", [ImplicitDiffusion, SpectralDiffusion])
@pytest.mark.parametrize("channels", [7, 16])
def test_diffusion(case, diffusion, channels):
    operators = CASES[case].operators(torch.float32)
    compare(diffusion(channels), features(operators, channels), operators)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_diffusion_on_a_cut_basis(k):
    operators = CASES["molecules"].operators(torch.float32, k=k)
    compare(SpectralDiffusion(5), features(operators, 5), operators)


PARTS = {
    "whole": {},
    "no norm": {"batch_norm": False},
    "no norms": {"batch_norm": False, "graph_norm": False},
    "no graph norm": {"graph_norm": False},
    "no residual": {"residual": False},
    "no diffusion": {"diffusion": None},
    "spectral": {"diffusion": SpectralDiffusion},
    "one scaler": {"scalers": ("identity",)},
    "from the node": {"dx_centre": "node"},
    "no bonds": {"edge_channels": 0},
}


def block_of(channels: int, **options) -> GADBlock:
    torch.manual_seed(0)
    options = {"diffusion": ImplicitDiffusion, "towers": 5, "edge_channels": 4} | options
    diffusion = options.pop("diffusion")
    block = GADBlock(channels, diffusion=diffusion and diffusion(channels), **options)
    if block.norm is not None:
        for values in (block.norm.weight, block.norm.bias, block.norm.running_mean):
            torch.nn.init.normal_(values)
    return block


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("channels", [20, 65])
def test_a_block_on_real_molecules_of_every_degree(channels, parts, training):
    operators = collate(solubilities(60)).operators
    assert set(operators.degree.tolist()) >= {1, 2, 3, 4}
    block = block_of(channels, **PARTS[parts]).train(training)
    edges = block.aggregation.edge_channels
    bonds = torch.randn(operators.num_given_edges, edges) if edges else None
    compare(block, features(operators, channels), operators, bonds)


@EVERY_GRAPH
def test_a_block_on_every_graph(case):
    operators = CASES[case].operators(torch.float32)
    block = block_of(10)
    bonds = torch.randn(operators.num_given_edges, 4)
    compare(block, features(operators, 10), operators, bonds)


@pytest.mark.parametrize("diffusion", [ImplicitDiffusion, SpectralDiffusion])
def test_a_time_that_is_not_a_number_is_not_hidden(diffusion):
    operators = CASES["molecules"].operators(torch.float32)
    block = block_of(10, edge_channels=0, diffusion=diffusion)
    with torch.no_grad():
        block.diffusion.raw_times[3] = torch.nan
        assert bool(block(features(operators, 10), operators).isnan().all())


def test_the_norm_follows_its_batches_alike():
    operators = CASES["molecules"].operators(torch.float32)
    blocks = [block_of(10, edge_channels=0) for _ in range(2)]
    for compiled, block in zip((True, False), blocks, strict=True):
        for _ in range(3):
            results(block, compiled, features(operators, 10), operators)
    fast, plain = (dict(block.norm.named_buffers()) for block in blocks)
    for name, values in fast.items():
        torch.testing.assert_close(values, plain[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_dropout_is_drawn_alike(dropout):
    operators = CASES["molecules"].operators(torch.float32)
    block = block_of(10, edge_channels=0, dropout=dropout)
    found = []
    for compiled in (True, False):
        torch.manual_seed(3)
        found.append(results(block, compiled, features(operators, 10), operators)[0])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_two_threads_give_what_one_gives():
    operators = CASES["molecules"].operators(torch.float32)
    block = GADBlock(20, diffusion=ImplicitDiffusion(20), towers=5)
    threads = torch.get_num_threads()
    found = []
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            found.append(results(block, True, features(operators, 20), operators))
    finally:
        torch.set_num_threads(threads)
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)
