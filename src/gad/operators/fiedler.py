"""φ₁ of a large component by a sparse eigensolver, with its residual.

The smallest non-zero eigenvalue of L φ = λ M φ is the largest but one of the normalised adjacency
N = M^(−1/2) A M^(−1/2): 1 − λ, with the vector ψ = M^(1/2) φ. Two solvers find it:

- Lanczos, where news travels quickly (random, social graphs) and a hundred products with N tell
  φ₁ from the rest;
- LOBPCG preconditioned by a multilevel V-cycle, where it travels slowly (grids, meshes, roads).

λ₁ often belongs to several vectors, and all of them are needed. What comes out is checked, never
trusted: the residual ‖L_sym ψ − λ ψ‖ / λ is returned with the vectors.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, repeat

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh, eigh_tridiagonal
from scipy.linalg.blas import daxpy
from scipy.sparse import csr_matrix, identity
from scipy.sparse.linalg import lobpcg

from gad.operators.laplacian import GraphError
from gad.operators.multilevel import Hierarchy, hierarchy

# Components up to this size are decomposed densely, whatever was asked: it is exact and quick.
DENSE_LIMIT = 400
# Where the sparse solvers fail (many directions, weights of many magnitudes), up to this size too.
RESCUE_LIMIT = 4_000
# More directions than this are too many for the sparse solvers.
MAX_DIRECTIONS = 16
# Relative residuals: what the solvers work for, what is poor, and what the user must hear of.
GOAL = 1e-8
POOR = 1e-5
DOUBTFUL = 1e-2
# Eigenvalues that agree to this share of λ₁ are one eigenspace.
SAME_RELATIVE = 1e-5

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Fiedler:
    """φ₁'s eigenspace: ``vectors`` [n, m], ``eigenvalue`` λ₁ and the largest relative residual."""

    vectors: FloatArray
    eigenvalue: float
    residual: float


def fiedler(adjacency: csr_matrix, mass: FloatArray, *, seed: int = 0) -> Fiedler:
    """The eigenspace of the smallest non-zero eigenvalue of a connected component.

    ``adjacency`` is the symmetric n × n matrix A of the component, ``mass`` its degrees [n].

    >>> ring = csr_matrix(np.roll(np.eye(500), 1, axis=0) + np.roll(np.eye(500), -1, axis=0))
    >>> found = fiedler(ring, np.full(500, 2.0))
    >>> found.vectors.shape, bool(np.isclose(found.eigenvalue, 1 - np.cos(2 * np.pi / 500)))
    ((500, 2), True)
    """
    root, rng = np.sqrt(mass), np.random.default_rng(seed)
    normalised = adjacency.tocoo()
    normalised.data = normalised.data / (root[normalised.row] * root[normalised.col])
    normalised, null = csr_matrix(normalised), root / np.linalg.norm(root)
    found = _by_lanczos(normalised, null, rng) or _by_multilevel(normalised, null, rng)
    found = _rescued(found, normalised, null)
    if found.residual > DOUBTFUL:
        _warn(root.size, found.residual)
    return Fiedler(found.vectors[:, : found.count] / root[:, None], found.lowest, found.residual)


def _warn(n: int, residual: float) -> None:
    message = (
        f"φ₁ of a component of {n} nodes was found to a relative residual of {residual:.1g} only: "
        "its directions are approximate. Give a potential of your own (potential=…) or leave the "
        "directions out (directions=False)"
    )
    warnings.warn(message, RuntimeWarning, stacklevel=5)


# ------------------------------------------------------------------------------ what is found


@dataclass(frozen=True)
class Ritz:
    """The best eigenpairs of L_sym a block contains: ``values`` [b] ascending, ``vectors`` [n, b].

    ``errors`` [b] are ‖L_sym ψ − λ ψ‖: within that distance of each value there is an eigenvalue.
    """

    values: FloatArray
    vectors: FloatArray
    errors: FloatArray

    @property
    def lowest(self) -> float:
        """λ₁."""
        return float(self.values[0])

    @property
    def count(self) -> int:
        """How many values, one after the other, are not clearly above the lowest."""
        above = self.values - self.errors > self.lowest * (1 + SAME_RELATIVE) + self.errors[0]
        return int(above.argmax()) if above.any() else above.size

    @property
    def residual(self) -> float:
        """The largest error of the lowest eigenspace, relative to its eigenvalue."""
        return float(self.errors[: self.count].max() / max(self.lowest, np.finfo(float).tiny))


def rayleigh_ritz(normalised: csr_matrix, locked: FloatArray, block: FloatArray) -> Ritz:
    """Clean a block of approximate eigenvectors [n, b] of those already ``locked`` [n, p]."""
    for _ in range(2):
        block = block - locked @ (locked.T @ block)
        block, _ = np.linalg.qr(block)
    image = block - normalised @ block
    values, mix = np.linalg.eigh(block.T @ image)
    vectors = block @ mix
    return Ritz(values, vectors, np.linalg.norm(image @ mix - vectors * values, axis=0))


# ------------------------------------------------------------------------------ Lanczos

# Steps between looks at what was found; after so many φ₁ must stand out from the rest, or the gap
# is too narrow for Lanczos; after so many it must have been found.
_LOOK = 25
_STAND_OUT = 100
_STEPS = 1500


@dataclass(frozen=True)
class Run:
    """λ from a Krylov space, within ``error``: ψ is Σ ``weights``[k] q_k of ``coefficients``."""

    value: float
    error: float
    weights: FloatArray
    coefficients: list[tuple[float, float]]


def _by_lanczos(normalised: csr_matrix, null: FloatArray, rng: np.random.Generator) -> Ritz | None:
    """φ₁'s eigenspace, vector by vector, or None where the gap is narrow.

    A Krylov space has one vector of each eigenspace only. So what is found is locked, and the next
    run starts at random without it, until one ends clearly above λ₁. There it can stop early: the
    start has as much of a missing copy of λ₁ as of the vector it found instead.
    """
    found, locked = None, null[:, None]
    while found is None or found.count <= MAX_DIRECTIONS:
        start = rng.standard_normal(null.size)
        known = np.inf if found is None else found.lowest
        run = _lanczos(normalised, locked, start, known)
        if run is None:
            return None
        if run.value - run.error > known * (1 + SAME_RELATIVE):
            break
        block = _combine(normalised, locked, start, run)[:, None]
        if found is not None:
            block = np.hstack([found.vectors[:, : found.count], block])
        found = rayleigh_ritz(normalised, null[:, None], block)
        locked = np.hstack([null[:, None], found.vectors[:, : found.count]])
    return found


def _lanczos(
    normalised: csr_matrix, locked: FloatArray, start: FloatArray, known: float
) -> Run | None:
    """The lowest λ outside ``locked``, to the goal or far better than its distance to ``known``."""
    coefficients: list[tuple[float, float]] = []
    for _, alpha, beta in _krylov(normalised, locked, start):
        coefficients.append((alpha, beta))
        step, exhausted = len(coefficients), beta < 1e-13
        if step % _LOOK and not exhausted:
            continue
        diagonal, beside = np.array(coefficients).T
        top = (step - 1, step - 1)
        theta, weights = eigh_tridiagonal(diagonal, beside[:-1], select="i", select_range=top)
        run = Run(1 - theta[0], beta * abs(weights[-1, 0]), weights[:, 0], coefficients)
        if exhausted or run.error <= max(GOAL * run.value, 0.05 * (run.value - known)):
            return run
        if step == _STEPS or (step == _STAND_OUT and run.error > 0.1 * run.value):
            break
    return None


def _combine(normalised: csr_matrix, locked: FloatArray, start: FloatArray, run: Run) -> FloatArray:
    """Σ weights[k] q_k, the basis made a second time rather than kept: memory for four vectors."""
    total = np.zeros_like(start)
    basis = _krylov(normalised, locked, start, run.coefficients)
    for weight, (q, _, _) in zip(run.weights, basis, strict=False):
        total = daxpy(q, total, a=weight)
    return total


def _krylov(
    normalised: csr_matrix,
    locked: FloatArray,
    start: FloatArray,
    given: Sequence[tuple[float, float]] = (),
) -> Iterator[tuple[FloatArray, float, float]]:
    """Orthonormal q_k with N q_k = β_{k−1} q_{k−1} + α_k q_k + β_k q_{k+1}: q_k, α_k and β_k.

    α and β are worked out, or ``given``. The locked vectors are moved to the other end of the
    spectrum, where rounding cannot bring them back. (daxpy is y + a x, in the place of y.)
    """
    q = start - locked @ (locked.T @ start)
    q /= np.linalg.norm(q)
    before, beta = np.zeros_like(q), 0.0
    for k in count():
        following = normalised @ q - locked @ (2 * (locked.T @ q))
        following = daxpy(before, following, a=-beta)
        alpha = given[k][0] if given else float(q @ following)
        following = daxpy(q, following, a=-alpha)
        beta = given[k][1] if given else float(np.linalg.norm(following))
        yield q, alpha, beta
        following /= beta
        before, q = q, following


# ------------------------------------------------------------------------------ multilevel

# Vectors at a time: the torus, of four directions, and one to see that there are no more.
_BLOCK = 5
# Iterations of LOBPCG from one look at what was found to the next, and steps of polishing at most.
_ITERATIONS = (12, 24, 36, 48, 60, 72)
_POLISHES = 6
# Errors LOBPCG does not get below, whatever λ is: its Gram matrices are rounded.
_ROUNDING = 1e-13

Step = Callable[[Ritz], FloatArray]


def _by_multilevel(normalised: csr_matrix, null: FloatArray, rng: np.random.Generator) -> Ritz:
    """φ₁'s eigenspace, block by block until a block has a vector clearly above λ₁."""
    laplacian = csr_matrix(identity(null.size) - normalised)
    cycle = hierarchy(laplacian, null, rng)
    locked = null[:, None]
    while True:
        # A⁺ A⁺ of a random vector is rich in what is wanted.
        start = cycle(cycle(rng.standard_normal((null.size, _BLOCK))))
        block = rayleigh_ritz(normalised, locked, start)
        block = _while_better(_optimisations(laplacian, cycle, locked), block, normalised, locked)
        block = _while_better(_polishes(laplacian, cycle), block, normalised, locked)
        locked = np.hstack([locked, block.vectors])
        found = rayleigh_ritz(normalised, null[:, None], locked[:, 1:])
        full = found.count == found.values.size and found.residual <= DOUBTFUL
        if not full or found.count > MAX_DIRECTIONS:
            return found


def _optimisations(laplacian: csr_matrix, cycle: Hierarchy, locked: FloatArray) -> Iterator[Step]:
    """More and more iterations of LOBPCG: the best of ψ, its V-cycled residual and last step."""

    def optimise(ritz: Ritz, iterations: int) -> FloatArray:
        with warnings.catch_warnings():
            # It warns of not having reached its tolerance; we look for ourselves.
            warnings.simplefilter("ignore")
            tolerance = max(0.1 * GOAL * ritz.lowest, _ROUNDING)
            _, vectors = lobpcg(
                laplacian, ritz.vectors, M=cycle, Y=locked,
                largest=False, tol=tolerance, maxiter=iterations,
            )  # fmt: skip
        return np.asarray(vectors)

    return (partial(optimise, iterations=iterations) for iterations in _ITERATIONS)


def _polishes(laplacian: csr_matrix, cycle: Hierarchy) -> Iterator[Step]:
    """Steps of inverse iteration, ψ − A⁺(A − λ)ψ = λ A⁺ψ: they remove LOBPCG's rounding noise.

    It is what limits φ₁ where λ is tiny, on a path of 100,000 nodes.
    """

    def polish(ritz: Ritz) -> FloatArray:
        return ritz.vectors - cycle(laplacian @ ritz.vectors - ritz.vectors * ritz.values)

    return repeat(polish, _POLISHES)


def _while_better(
    steps: Iterator[Step], ritz: Ritz, normalised: csr_matrix, locked: FloatArray
) -> Ritz:
    """Step on until the goal is reached, or a step does not bring it much nearer."""
    for step in steps:
        if ritz.residual <= GOAL:
            break
        better = rayleigh_ritz(normalised, locked, step(ritz))
        gain = ritz.residual / better.residual
        ritz = better if gain > 1 else ritz
        if gain < 1.5:
            break
    return ritz


# ------------------------------------------------------------------------------ dense


def _rescued(found: Ritz, normalised: csr_matrix, null: FloatArray) -> Ritz:
    """What was found, or what a dense solve finds where it has too many vectors or is poor."""
    n = null.size
    if n <= RESCUE_LIMIT and (found.count > MAX_DIRECTIONS or found.residual > POOR):
        # A Ritz value is never below its eigenvalue, so λ₁ is in this range, the first after λ₀.
        laplacian, top = np.eye(n) - normalised.toarray(), found.lowest * (1 + 2 * SAME_RELATIVE)
        _, vectors = eigh(laplacian, subset_by_value=(-1, top), overwrite_a=True)
        return rayleigh_ritz(normalised, null[:, None], vectors[:, 1:])
    if found.count > MAX_DIRECTIONS:
        raise GraphError(
            f"a component of {n} nodes is so symmetric that more than {MAX_DIRECTIONS} vectors "
            "share the place of φ₁: they give no direction to speak of. Give a potential of your "
            "own (potential=…) or leave the directions out (directions=False)"
        )
    return found
