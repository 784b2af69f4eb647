"""Random-walk return probabilities: how likely a walk is back where it began."""

from __future__ import annotations

import torch
from torch import Tensor

from gad.operators.graph_operators import GraphOperators


def return_probabilities(operators: GraphOperators, steps: int) -> Tensor:
    """(P^s)_ii for s = 1 … steps with P = M⁻¹A, from the full eigenbasis: [N, steps].

    P = Φ (I − Λ) Φᵀ M, so (P^s)_ii = m_i Σ_k (1 − λ_k)^s φ_ik². An isolated node is always back.

    >>> import gad
    >>> pair = gad.build_operators(torch.tensor([[0, 1], [1, 0]]), 2)
    >>> return_probabilities(pair, 4)[0].abs().round(decimals=5)
    tensor([0., 1., 0., 1.])
    """
    if operators.truncated:
        raise ValueError("return probabilities need the whole eigenbasis: build without k")
    layout = operators.padded_basis
    power = torch.arange(1, steps + 1, device=operators.device)
    pieces = []
    for bucket in layout.buckets:
        # φ_ik² m_i is the product of the two sides; padded eigenpairs have φ = 0.
        share = (bucket.analysis * bucket.synthesis).transpose(1, 2)
        decay = (1 - bucket.eigenvalues)[:, :, None] ** power
        pieces.append(torch.bmm(share, decay).flatten(0, 1))
    return torch.cat(pieces)[layout.position]
