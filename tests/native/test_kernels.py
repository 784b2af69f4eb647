"""Compiled kernels: the same values and gradients as their twins in PyTorch."""

from __future__ import annotations

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
from gad.nn.norm import BatchNorm
from gad.operators import GraphOperators
from tests.graphs import ZOO, complete, disjoint, isolated, molecules, path, star
from tests.nn.samples import AGGREGATORS, read_zinc

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


def results(module: torch.nn.Module, monkeypatch, compiled: bool, *inputs) -> list[Tensor]:
    """The output, and the gradients of all inputs and parameters, of a random weighting of it."""
    if not compiled:
        monkeypatch.setattr(native, "usable", lambda *_: False)
    leaves = [
        v.clone().requires_grad_() if isinstance(v, Tensor) and v.is_floating_point() else v
        for v in inputs
    ]
    module.zero_grad()
    out = module(*leaves)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    (out * weights).sum().backward()
    monkeypatch.undo()
    tensors = [v for v in leaves if isinstance(v, Tensor) and v.requires_grad]
    return [out.detach(), *(v.grad.clone() for v in (*tensors, *module.parameters()))]


def compare(module: torch.nn.Module, monkeypatch, *inputs) -> None:
    fast = results(module, monkeypatch, True, *inputs)
    plain = results(module, monkeypatch, False, *inputs)
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


@EVERY_GRAPH
@pytest.mark.parametrize("names", SETS, ids="+".join)
@pytest.mark.parametrize("centre", ["message", "node"])
@pytest.mark.parametrize("edges", [0, 3])
def test_filters(case, names, centre, edges, monkeypatch):
    operators = CASES[case].operators(torch.float32)
    torch.manual_seed(0)
    layer = DirectionalAggregation(
        10, aggregators=names, towers=2, edge_channels=edges, dx_centre=centre
    )
    bonds = torch.randn(operators.num_given_edges, edges) if edges else None
    compare(layer, monkeypatch, features(operators, 10), operators, bonds)


@EVERY_GRAPH
def test_equal_messages_share_alike(case, monkeypatch):
    operators = CASES[case].operators(torch.float32)
    layer = DirectionalAggregation(4, aggregators=("max", "min"), towers=2)
    with torch.no_grad():
        for weight in (layer.source_weight, layer.target_weight):
            weight.copy_(torch.eye(2).expand(2, 2, 2))
        layer.bias.zero_()
    compare(layer, monkeypatch, features(operators, 4, whole=True), operators)


@EVERY_GRAPH
@pytest.mark.parametrize("diffusion", [ImplicitDiffusion, SpectralDiffusion])
@pytest.mark.parametrize("channels", [7, 16])
def test_diffusion(case, diffusion, channels, monkeypatch):
    operators = CASES[case].operators(torch.float32)
    compare(diffusion(channels), monkeypatch, features(operators, channels), operators)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_diffusion_on_a_cut_basis(k, monkeypatch):
    operators = CASES["molecules"].operators(torch.float32, k=k)
    compare(SpectralDiffusion(5), monkeypatch, features(operators, 5), operators)


@pytest.mark.parametrize("nodes", [1, 2, 17, 1000])
@pytest.mark.parametrize("factor", [True, False])
def test_norm(nodes, factor, monkeypatch):
    torch.manual_seed(0)
    norm = BatchNorm(6)
    torch.nn.init.normal_(norm.weight)
    x = 3 + 2 * torch.randn(nodes, 6)
    sizes = torch.rand(nodes) + 0.1 if factor else None

    class Norm(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = norm

        def forward(self, given: Tensor) -> Tensor:
            return self.norm(given, sizes)

    compare(Norm(), monkeypatch, x)


@pytest.mark.parametrize("graph_norm", [True, False])
def test_a_block_on_real_molecules_of_every_degree(graph_norm, monkeypatch, data_dir):
    parts = read_zinc(data_dir, 60)
    operators = GraphOperators.concatenate([m.graph.operators(torch.float32) for m in parts])
    assert set(operators.degree.tolist()) >= {1, 2, 3, 4}
    torch.manual_seed(0)
    block = GADBlock(
        20, diffusion=ImplicitDiffusion(20), towers=5, edge_channels=4, graph_norm=graph_norm
    )
    bonds = torch.randn(operators.num_given_edges, 4)
    compare(block, monkeypatch, features(operators, 20), operators, bonds)


def test_two_threads_give_what_one_gives(monkeypatch):
    operators = CASES["molecules"].operators(torch.float32)
    block = GADBlock(20, diffusion=ImplicitDiffusion(20), towers=5)
    threads = torch.get_num_threads()
    found = []
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            found.append(results(block, monkeypatch, True, features(operators, 20), operators))
    finally:
        torch.set_num_threads(threads)
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)
