"""Sparse matrices as PyTorch's CSR tensors."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor


def csr_matrix(target: Tensor, source: Tensor, value: Tensor, mass: Tensor) -> Tensor:
    """A matrix of edges sorted by (target, source), with 1 on the diagonal of isolated nodes."""
    n = mass.shape[0]
    degree = torch.bincount(target, minlength=n)
    lonely = (degree == 0).nonzero().flatten()
    if lonely.numel():
        rows, columns = torch.cat([target, lonely]), torch.cat([source, lonely])
        value = torch.cat([value, value.new_ones(lonely.numel())])
        order = (rows * n + columns).argsort()
        source, value = columns[order], value[order]
        degree = degree + (degree == 0)
    starts = torch.cat([degree.new_zeros(1), degree.cumsum(0)])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(starts, source, value, (n, n), check_invariants=False)
