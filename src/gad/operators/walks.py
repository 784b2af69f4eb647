"""Random walks: how likely one is back where it began, or at the other end of an edge."""

from __future__ import annotations

import torch
from torch import Tensor

from gad.operators.graph_operators import GraphOperators
from gad.operators.layouts import PaddedBasis


def return_probabilities(operators: GraphOperators, steps: int) -> Tensor:
    """(P^s)_ii for s = 1 … steps with P = M⁻¹A, from the full eigenbasis: [N, steps].

    P = Φ (I − Λ) Φᵀ M, so (P^s)_ii = m_i Σ_k (1 − λ_k)^s φ_ik². An isolated node is always back.

    >>> import gad
    >>> pair = gad.build_operators(torch.tensor([[0, 1], [1, 0]]), 2)
    >>> return_probabilities(pair, 4)[0].abs().round(decimals=5)
    tensor([0., 1., 0., 1.])
    """
    layout = _whole_basis(operators)
    power = torch.arange(1, steps + 1, device=operators.device)
    pieces = []
    for bucket in layout.buckets:
        # φ_ik² m_i is the product of the two sides; padded eigenpairs have φ = 0.
        share = (bucket.analysis * bucket.synthesis).transpose(1, 2)
        decay = (1 - bucket.eigenvalues)[:, :, None] ** power
        pieces.append(torch.bmm(share, decay).flatten(0, 1))
    return torch.cat(pieces)[layout.position]


def edge_probabilities(operators: GraphOperators, steps: int) -> Tensor:
    """(P^s)_ij for s = 1 … steps and every edge j → i, from the full eigenbasis: [E, steps].

    How likely a walk from i is at its neighbour j after s steps, Σ_k φ_ik (1 − λ_k)^s φ_jk m_j. An
    edge and its reverse differ by the masses: m_i (P^s)_ij = m_j (P^s)_ji. Rows are in the order of
    the operators' own edges.

    >>> import gad
    >>> path = gad.build_operators(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3)
    >>> path.source.tolist(), path.target.tolist()
    ([1, 0, 2, 1], [0, 1, 1, 2])
    >>> edge_probabilities(path, 3)[:, [0, 2]].abs()  # one step, and three
    tensor([[1.0000, 1.0000],
            [0.5000, 0.5000],
            [0.5000, 0.5000],
            [1.0000, 1.0000]])
    """
    layout = _whole_basis(operators)
    found = operators.mass.new_empty(operators.num_edges, steps)
    target, source = layout.position[operators.target], layout.position[operators.source]
    first = 0
    for bucket in layout.buckets:
        units, count, n = bucket.analysis.shape
        edge = ((target >= first) & (target < first + units * n)).nonzero().flatten()
        # Rows of Φ and of MΦ, node by node.
        synthesis = bucket.synthesis.transpose(1, 2).reshape(-1, count)
        analysis = bucket.analysis.transpose(1, 2).reshape(-1, count)
        share = synthesis[target[edge] - first] * analysis[source[edge] - first]
        decay = 1 - bucket.eigenvalues[(target[edge] - first) // n]
        for step in range(steps):
            share = share * decay
            found[edge, step] = share.sum(1)
        first += units * n
    return found


def _whole_basis(operators: GraphOperators) -> PaddedBasis:
    if operators.truncated:
        raise ValueError("probabilities of walks need the whole eigenbasis: build without k")
    return operators.padded_basis
