"""What is measured: our operators and layers, and what one would take instead."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from scipy.sparse import coo_matrix, csr_matrix, diags, identity
from scipy.sparse.linalg import cg, expm_multiply
from torch import Tensor

import gad
from gad.operators import GraphOperators, build_operators
from gad.operators.solvers.walk import Walk

CHANNELS = 16
SHORTEST, LONGEST = 0.5, 10.0
DENSE = 10_000
"""Nodes up to which a method that makes a matrix of all pairs is tried."""

Work = Callable[[], object]
Made = Callable[[Tensor, int], Work]
SPECTRAL_EPOCH, IMPLICIT_EPOCH = EPOCHS = ("spectral epoch", "implicit epoch")
"""Of ``NodeGAD``."""


def times() -> Tensor:
    """Of the channels."""
    return torch.linspace(SHORTEST, LONGEST, CHANNELS)


@cache
def signal(nodes: int) -> Tensor:
    """What diffuses, [N, C]."""
    return torch.randn(nodes, CHANNELS, generator=torch.Generator().manual_seed(1))


def operators_of(edges: Tensor, nodes: int, directions: bool = False) -> GraphOperators:
    """With directions by a potential of our own: how long φ₁ takes is told apart."""
    potential = signal(nodes)[:, 0] if directions else None
    built = build_operators(
        edges, nodes, basis=False, directions=directions, potential=potential, dtype=torch.float32
    )
    Walk.of(built, signal(nodes))  # made on first use: part of building, not of diffusing
    return built


def learned(layer: torch.nn.Module, x: Tensor, *given: object) -> Work:
    """There and back: the result, and all gradients."""

    def work() -> object:
        h = layer(x.clone().requires_grad_(), *given)
        h.square().mean().backward()
        return h.detach()

    return work


def build(edges: Tensor, nodes: int) -> Work:
    return lambda: operators_of(edges, nodes)


def directions(edges: Tensor, nodes: int) -> Work:
    return lambda: build_operators(edges, nodes, basis=False, dtype=torch.float32)


def spectral(edges: Tensor, nodes: int) -> Work:
    layer = gad.nn.SpectralDiffusion(CHANNELS, times=times())
    return learned(layer, signal(nodes), operators_of(edges, nodes))


def implicit(edges: Tensor, nodes: int) -> Work:
    layer, operators = gad.nn.ImplicitDiffusion(CHANNELS, times=times()), operators_of(edges, nodes)
    layer.choose_solver(operators)
    return learned(layer, signal(nodes), operators)


def step(edges: Tensor, nodes: int) -> Work:
    """A block forward and backward, and a step of the optimiser."""
    block = gad.nn.GADBlock(
        CHANNELS, diffusion=gad.nn.ImplicitDiffusion(CHANNELS, times=times()), towers=2
    )
    operators = operators_of(edges, nodes, directions=True)
    optimiser = torch.optim.Adam(block.parameters())
    train = learned(block, signal(nodes), operators)

    def work() -> object:
        optimiser.zero_grad()
        found = train()
        optimiser.step()
        return found

    return work


def epoch(diffusion: type[gad.nn.SpectralDiffusion | gad.nn.ImplicitDiffusion]) -> Made:
    """Of a node model of two blocks of 64 channels, with times that reach two bonds."""

    def make(edges: Tensor, nodes: int) -> Work:
        model = gad.nn.NodeGAD(CHANNELS, 7, channels=64, layers=2, diffusion=diffusion, time=5.0)
        return learned(model, signal(nodes), operators_of(edges, nodes))

    return make


# ------------------------------------------------------------------------------ instead


def laplacian(edges: Tensor, nodes: int) -> tuple[csr_matrix, np.ndarray]:
    """The symmetric M^(−1/2) L M^(−1/2), and √m."""
    source, target = edges.numpy()
    adjacency = coo_matrix((np.ones(source.size, np.float32), (target, source)), (nodes, nodes))
    root = np.sqrt(np.maximum(np.bincount(target, minlength=nodes), 1)).astype(np.float32)
    scale = diags(1 / root)
    return csr_matrix(identity(nodes, dtype=np.float32) - scale @ adjacency @ scale), root[:, None]


def scipy_expm_multiply(edges: Tensor, nodes: int) -> Work:
    """The heat equation of every channel for its own time, forward only."""
    matrix, root = laplacian(edges, nodes)
    x = signal(nodes).numpy() * root
    return lambda: np.stack(
        [expm_multiply(-float(t) * matrix, x[:, c]) for c, t in enumerate(times())], axis=1
    )


def scipy_cg(edges: Tensor, nodes: int) -> Work:
    """The implicit step of every channel for its own time, forward only."""
    matrix, root = laplacian(edges, nodes)
    x, one = signal(nodes).numpy() * root, identity(nodes, dtype=np.float32)
    return lambda: np.stack(
        [cg(one + float(t) * matrix, x[:, c], rtol=1e-6)[0] for c, t in enumerate(times())], axis=1
    )


def pyg_appnp(edges: Tensor, nodes: int) -> Work:
    """Ten steps of personalised PageRank, the usual number, forward and backward."""
    from torch_geometric.nn import APPNP

    return learned(APPNP(K=10, alpha=0.1), signal(nodes), edges)


def pyg_gdc(edges: Tensor, nodes: int) -> Work:
    """Graph diffusion convolution's new graph, by the inverse of a dense matrix."""
    from torch_geometric.data import Data
    from torch_geometric.transforms import GDC

    return lambda: GDC()(Data(edge_index=edges, num_nodes=nodes))


WORK: dict[str, Made] = {
    "build": build, "directions": directions, "spectral": spectral, "implicit": implicit,
    "step": step, "expm_multiply": scipy_expm_multiply, "cg": scipy_cg, "appnp": pyg_appnp,
    "gdc": pyg_gdc, SPECTRAL_EPOCH: epoch(gad.nn.SpectralDiffusion),
    IMPLICIT_EPOCH: epoch(gad.nn.ImplicitDiffusion),
}  # fmt: skip
OURS = ("build", "directions", "spectral", "implicit", "step")


def seconds(work: Work, often: int) -> tuple[float, float]:
    """The least processor time of so many calls, and the least by the clock."""
    best = waited = math.inf
    for _ in range(often):
        clock, start = time.perf_counter(), time.process_time()
        work()
        best = min(best, time.process_time() - start)
        waited = min(waited, time.perf_counter() - clock)
    return best, waited
