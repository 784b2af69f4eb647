"""A numbering of the nodes under which neighbours lie close together in memory.

On a mesh, a road map or nearest neighbours in space, numbered at random, a sparse product waits for
memory most of the time: by reverse Cuthill-McKee it takes a third. Graphs that mix quickly (random
and social ones) have no such numbering.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix as scipy_csr
from scipy.sparse.csgraph import reverse_cuthill_mckee
from torch import Tensor

from gad.operators.sparse import from_rows

# Signals of fewer nodes stay in the processor's cache however they are numbered.
_MANY = 30_000
# Neighbours that are, in the mean, closer than this share of the nodes are close already.
_CLOSE = 0.05
# A numbering is worth its while if neighbours come closer by this factor.
_CLOSER = 4.0
# Cuthill-McKee sorts the neighbours of every node by insertion, which hubs make slow; where the
# mean neighbour has so many times the mean degree there are hubs, and little to win.
_HUBS = 3.0


class Numbering(NamedTuple):
    """``order[i]`` [N] is the old number of node i, ``back`` [N] the new number of an old one."""

    order: Tensor
    back: Tensor

    def of_matrix(self, matrix: Tensor) -> Tensor:
        """A square matrix in compressed rows, its rows and columns renumbered."""
        rows, columns, values = _scipy(matrix)
        order = self.order.numpy()
        moved = scipy_csr((values, columns, rows), matrix.shape)[order]
        moved.indices = self.back.numpy().astype(moved.indices.dtype)[moved.indices]
        moved.sort_indices()
        parts = (moved.indptr, moved.indices, moved.data)
        starts, column, value = (torch.from_numpy(part) for part in parts)
        return from_rows(starts.long(), column.long(), value, tuple(matrix.shape))


def better_numbering(matrix: Tensor) -> Numbering | None:
    """A numbering that brings the neighbours of a symmetric pattern together, or None.

    >>> from gad.operators.sparse import to_csr
    >>> better_numbering(to_csr(torch.ones(3, 3))) is None
    True
    """
    n = matrix.shape[0]
    if n < _MANY:
        return None
    starts, columns, _ = _scipy(matrix)
    degree = np.diff(starts)
    row = np.repeat(np.arange(n, dtype=np.int32), degree)
    distance = _distance(row, columns)
    with_hubs = float(np.square(degree, dtype=np.float64).sum()) > _HUBS * degree.sum() ** 2 / n
    if distance < _CLOSE * n or with_hubs:
        return None
    pattern = scipy_csr((np.ones(columns.size, np.int8), columns, starts), (n, n))
    order = reverse_cuthill_mckee(pattern, symmetric_mode=True).copy()
    back = np.empty_like(order)
    back[order] = np.arange(n, dtype=order.dtype)
    if _distance(back[row], back[columns]) * _CLOSER > distance:
        return None
    return Numbering(torch.from_numpy(order).long(), torch.from_numpy(back).long())


def _distance(one: NDArray[np.int32], other: NDArray[np.int32]) -> float:
    return float(np.abs(one - other).mean(dtype=np.float64)) if one.size else 0.0


def _scipy(matrix: Tensor) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.floating]]:
    starts, columns = matrix.crow_indices().numpy(), matrix.col_indices().numpy()
    return starts.astype(np.int32), columns.astype(np.int32), matrix.values().numpy()
