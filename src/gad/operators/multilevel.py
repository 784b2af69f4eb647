"""A multilevel solver for the Laplacian of a large graph: smoothed aggregation.

What a few local averages leave of an error is smooth, and a smooth function is well described by
one number for each small neighbourhood. So nodes are gathered into aggregates, the aggregates are
the nodes of a smaller graph, and the rest of the error is removed there: by the same means, until
the graph is small enough for a dense solve. One way down and up again, a V-cycle, costs a few
products with the matrix, and does on grids, meshes and roads, where news travels slowly from node
to node, nearly what an exact solve would do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# A graph of this many nodes is coarse enough for a dense solve.
COARSEST = 400
# A neighbour is strong if its entry is at least this share of the largest in one of the two rows.
STRONG = 0.8
# No coarse matrix may have this many times the entries of the finest, nor take so many products.
MAX_ENTRIES = 2
MAX_PRODUCTS = 50


@dataclass(frozen=True)
class Level:
    """One graph of the hierarchy, n nodes above the n′ of the next.

    ``matrix`` A [n, n]; ``relaxation`` ω/diag(A) [n]; ``prolongation`` P [n, n′], which carries
    values from the coarser graph to this one.
    """

    matrix: csr_matrix
    relaxation: FloatArray
    prolongation: csr_matrix


@dataclass(frozen=True)
class Hierarchy:
    """The graphs from fine to coarse, and the pseudo-inverse of the coarsest matrix."""

    levels: list[Level]
    coarsest: FloatArray

    def __call__(self, rhs: FloatArray) -> FloatArray:
        """One V-cycle: roughly A⁺ times the right-hand sides [n, b], symmetric and linear in them.

        >>> path = np.diag([1.0, 2, 2, 1]) - np.eye(4, k=1) - np.eye(4, k=-1)
        >>> solve = hierarchy(csr_matrix(path), np.ones(4), np.random.default_rng(0))
        >>> rhs = np.array([[1.0], [0], [0], [-1]])
        >>> bool(np.allclose(path @ solve(rhs), rhs))
        True
        """
        return self._cycle(rhs, 0)

    def _cycle(self, rhs: FloatArray, depth: int) -> FloatArray:
        if depth == len(self.levels):
            return np.asarray(self.coarsest @ rhs)
        level = self.levels[depth]
        A, P, relaxation = level.matrix, level.prolongation, level.relaxation[:, None]
        x = relaxation * rhs
        x += relaxation * (rhs - A @ x)
        x += P @ self._cycle(P.T @ (rhs - A @ x), depth + 1)
        x += relaxation * (rhs - A @ x)
        x += relaxation * (rhs - A @ x)
        return x


def hierarchy(matrix: csr_matrix, null: FloatArray, rng: np.random.Generator) -> Hierarchy:
    """Coarsen the Laplacian of a connected graph, whose null vector ``null`` is positive."""
    levels, entries = [], matrix.nnz
    while null.size > COARSEST:
        level, matrix, null = coarsen(matrix, null, rng, entries)
        levels.append(level)
    # The null vector is known: lift its eigenvalue from 0 to 1, invert, and take it out again.
    constant = np.outer(null, null) / (null @ null)
    return Hierarchy(levels, np.linalg.inv(matrix.toarray() + constant) - constant)


def coarsen(
    matrix: csr_matrix, null: FloatArray, rng: np.random.Generator, entries: int
) -> tuple[Level, csr_matrix, FloatArray]:
    """One level, and the coarser matrix PᵀAP with its null vector.

    Column a of the tentative prolongation T is the null vector on aggregate a: T carries the null
    vector exactly. A Jacobi step, P = (1 − ω D⁻¹ A) T, makes the columns smooth and lets them
    overlap, and keeps that, since A null = 0. Where neighbourhoods grow too quickly for overlaps
    (random graphs), so that PᵀAP would fill in beside the ``entries`` of the finest matrix, P is T.
    """
    owner = aggregate(strong(matrix), rng)
    coarse_null = np.sqrt(np.bincount(owner, weights=null**2))
    tentative = csr_matrix((null / coarse_null[owner], (np.arange(null.size), owner)))
    diagonal = matrix.diagonal()
    # Gershgorin: no eigenvalue of D⁻¹A is above its largest row sum of absolute values.
    bound = float((abs(matrix) @ np.ones(null.size) / diagonal).max())
    relaxation = 4 / (3 * bound * diagonal)
    prolongation = smooth(matrix, relaxation, tentative)
    coarse = None
    if products(matrix, prolongation) <= MAX_PRODUCTS * entries:
        coarse = galerkin(matrix, prolongation)
    if coarse is None or coarse.nnz > MAX_ENTRIES * entries:
        prolongation, coarse = tentative, galerkin(matrix, tentative)
    return Level(matrix, relaxation, prolongation), coarse, coarse_null


def smooth(matrix: csr_matrix, relaxation: FloatArray, tentative: csr_matrix) -> csr_matrix:
    """P = T − ω D⁻¹ A T."""
    step = csr_matrix(matrix @ tentative)
    step.data *= np.repeat(relaxation, np.diff(step.indptr))
    return csr_matrix(tentative - step)


def galerkin(matrix: csr_matrix, prolongation: csr_matrix) -> csr_matrix:
    """PᵀAP: the matrix as the coarser graph sees it."""
    return csr_matrix(prolongation.T @ (matrix @ prolongation))


def products(matrix: csr_matrix, prolongation: csr_matrix) -> int:
    """How many products of entries PᵀAP adds up, at most: known before it is made."""
    pattern = csr_matrix((np.ones(matrix.nnz), matrix.indices, matrix.indptr), matrix.shape)
    counts = np.diff(prolongation.indptr)
    return int(counts @ (pattern @ counts))


def strong(matrix: csr_matrix) -> csr_matrix:
    """The strong neighbours of every node: a symmetric pattern without a diagonal."""
    row, column = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices
    size = np.where(row == column, 0, abs(matrix.data))
    largest = np.maximum.reduceat(size, matrix.indptr[:-1])
    keep = (row != column) & (size >= STRONG * np.minimum(largest[row], largest[column]))
    return csr_matrix((size[keep], (row[keep], column[keep])), shape=matrix.shape)


def aggregate(neighbours: csr_matrix, rng: np.random.Generator) -> IntArray:
    """The aggregate of each node [n]: a root and its neighbours, and who stands beside them.

    >>> path = csr_matrix(np.eye(6, k=1) + np.eye(6, k=-1))
    >>> aggregate(path, np.random.default_rng(0))
    array([0, 0, 0, 0, 1, 1])
    """
    roots = scattered(neighbours, rng)
    owner = np.full(neighbours.shape[0], -1)
    owner[roots] = np.arange(roots.size)
    for _ in range(2):
        owner = np.where(owner < 0, around(neighbours, owner), owner)
    return owner


def scattered(neighbours: csr_matrix, rng: np.random.Generator) -> IntArray:
    """As many nodes as fit, no two of them within two steps of each other.

    Every node draws a number. Who holds the largest within two steps is in, who is within two steps
    of those is out, and the others go on.
    """
    n = neighbours.shape[0]
    drawn = rng.permutation(n)
    chosen, undecided = np.zeros(n, dtype=bool), np.ones(n, dtype=bool)
    while undecided.any():
        best = np.where(undecided, drawn, -1)
        for _ in range(2):
            best = np.maximum(best, around(neighbours, best))
        winners = undecided & (best == drawn)
        chosen |= winners
        covered = winners.astype(np.int64)
        for _ in range(2):
            covered = np.maximum(covered, around(neighbours, covered))
        undecided &= covered == 0
    return np.flatnonzero(chosen)


def around(neighbours: csr_matrix, values: IntArray) -> IntArray:
    """The largest value among the neighbours of each node [n]; every node has a neighbour."""
    return np.asarray(np.maximum.reduceat(values[neighbours.indices], neighbours.indptr[:-1]))
