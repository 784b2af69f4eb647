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
    return from_rows(torch.cat([degree.new_zeros(1), degree.cumsum(0)]), source, value, (n, n))


def compressed(row: Tensor, column: Tensor, value: Tensor, size: tuple[int, int]) -> Tensor:
    """A matrix of entries in any order; those of one place add up.

    >>> at = torch.tensor([1, 0, 1])
    >>> compressed(at, at, torch.tensor([1.0, 2.0, 3.0]), (2, 2)).to_dense()
    tensor([[2., 0.],
            [0., 4.]])
    """
    place, entry = torch.unique(row * size[1] + column, return_inverse=True)
    total = value.new_zeros(place.numel()).index_add_(0, entry, value)
    counts = torch.bincount(place // size[1], minlength=size[0])
    return from_rows(
        torch.cat([counts.new_zeros(1), counts.cumsum(0)]), place % size[1], total, size
    )


def with_values(matrix: Tensor, values: Tensor) -> Tensor:
    """A sparse matrix with other numbers in the same places."""
    return from_rows(matrix.crow_indices(), matrix.col_indices(), values, tuple(matrix.shape))


def to_csr(matrix: Tensor) -> Tensor:
    """A matrix in compressed rows, of a dense one or of a sparse one."""
    if matrix.layout == torch.sparse_csr:
        return matrix
    if matrix.layout == torch.sparse_coo:
        (row, column), value = matrix.coalesce().indices(), matrix.coalesce().values()
    else:
        row, column = matrix.nonzero().unbind(1)
        value = matrix[row, column]
    return compressed(row, column, value, (matrix.shape[0], matrix.shape[1]))


def rows_of(matrix: Tensor, rows: Tensor) -> Tensor:
    """Some rows of a matrix in compressed rows, which PyTorch cannot index.

    >>> rows_of(to_csr(torch.tensor([[1, 0], [0, 2], [3, 4]])), torch.tensor([2, 0])).to_dense()
    tensor([[3, 4],
            [1, 0]])
    """
    starts = matrix.crow_indices()
    count = starts.diff()[rows]
    ends = torch.cat([count.new_zeros(1), count.cumsum(0)])
    at = (starts[rows] - ends[:-1]).repeat_interleave(count) + torch.arange(int(ends[-1]))
    size = (rows.numel(), matrix.shape[1])
    return from_rows(ends, matrix.col_indices()[at], matrix.values()[at], size)


def from_rows(starts: Tensor, column: Tensor, value: Tensor, size: tuple[int, ...]) -> Tensor:
    """A matrix in compressed rows, of its parts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(starts, column, value, size, check_invariants=False)
