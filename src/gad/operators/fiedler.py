"""φ₁ of a large component by a sparse eigensolver, with its residual.

The smallest non-zero λ of L φ = λ M φ is sought in the space M-orthogonal to the constants. Lanczos
on the normalised adjacency finds it quickly where the spectral gap is wide (social, random graphs);
where it is narrow (grids, meshes, chains) a factorised shift makes it wide. What comes out is
checked, never trusted: the residual ‖L_sym ψ − λ ψ‖ is returned with the vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_matrix, csr_matrix, identity
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, lobpcg, spilu, splu

# Components up to this size are decomposed densely, whatever was asked: it is exact and quick.
DENSE_LIMIT = 400
# A residual relative to λ₁ below which a vector counts as found.
CONVERGED = 1e-6
# Eigenvalues of a sparse solve that agree to this share of λ₁ are one eigenspace.
SAME_RELATIVE = 1e-5
_BLOCK = 6
_FACTOR_LIMIT = 300_000

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
    """
    root = np.sqrt(mass)
    scale = csr_matrix((1 / root, (np.arange(root.size), np.arange(root.size))))
    normalised = csr_matrix(scale @ adjacency @ scale)
    null = root / np.linalg.norm(root)
    rng = np.random.default_rng(seed)
    best = _measure(normalised, null, *_lanczos(normalised, null, rng))
    if best.residual > CONVERGED:
        if root.size <= _FACTOR_LIMIT:
            candidate = _shift_invert(normalised, null, rng)
        else:
            candidate = _preconditioned(normalised, null, rng)
        better = _measure(normalised, null, *candidate)
        best = better if better.residual < best.residual else best
    return Fiedler(best.vectors / root[:, None], best.eigenvalue, best.residual)


def _measure(normalised: csr_matrix, null: FloatArray, lam: FloatArray, psi: FloatArray) -> Fiedler:
    """Clean a block of approximate eigenvectors and keep those that share the lowest eigenvalue."""
    if lam.size == 0:
        return Fiedler(np.zeros((null.size, 0)), 0.0, np.inf)
    psi = psi - np.outer(null, null @ psi)
    psi, _ = np.linalg.qr(psi)
    # Rayleigh–Ritz in the block: the best eigenpairs these vectors contain.
    image = psi - normalised @ psi
    lam, mix = np.linalg.eigh(psi.T @ image)
    psi, image = psi @ mix, image @ mix
    lowest = float(max(lam[0], np.finfo(np.float64).tiny))
    errors = np.linalg.norm(image - psi * lam, axis=0)
    slack = SAME_RELATIVE * lowest + 2 * errors[0]
    same = int(np.searchsorted(lam, lowest + slack, side="right"))
    same = max(1, min(same, psi.shape[1]))
    return Fiedler(psi[:, :same], lowest, float(errors[:same].max() / lowest))


def _lanczos(
    normalised: csr_matrix, null: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Lanczos on the normalised adjacency with the constants moved out of the way."""
    n = null.size

    def apply(x: FloatArray) -> FloatArray:
        x = x.reshape(n)
        return np.asarray(normalised @ x - 3 * null * (null @ x))

    operator = LinearOperator((n, n), matvec=apply, dtype=np.float64)
    try:
        mu, psi = eigsh(
            operator, k=_BLOCK, which="LA", v0=rng.standard_normal(n), tol=1e-12, maxiter=60
        )
    except ArpackNoConvergence as partial:
        mu, psi = partial.eigenvalues, partial.eigenvectors
    return 1 - mu, psi


def _shift_invert(
    normalised: csr_matrix, null: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Lanczos on (L_sym + σ)⁻¹, factorised once: quick where the graph is nearly planar."""
    n = null.size
    # A shift far below any λ₁ of interest, far above the rounding of the factorisation.
    shift = 1e-9
    factor = splu(csc_matrix(identity(n) * (1 + shift) - normalised), permc_spec="MMD_AT_PLUS_A",
                  diag_pivot_thresh=0.0, options={"SymmetricMode": True})  # fmt: skip

    def apply(x: FloatArray) -> FloatArray:
        x = x.reshape(n) - null * (null @ x.reshape(n))
        y = factor.solve(x)
        return np.asarray(y - null * (null @ y))

    operator = LinearOperator((n, n), matvec=apply, dtype=np.float64)
    mu, psi = eigsh(operator, k=_BLOCK, which="LA", v0=rng.standard_normal(n), tol=1e-12)
    return 1 / mu - shift, psi


def _preconditioned(
    normalised: csr_matrix, null: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """LOBPCG with an incomplete factorisation, for components too large to factorise."""
    n = null.size
    laplacian = csc_matrix(identity(n) - normalised)
    factor = spilu(csc_matrix(laplacian + 1e-6 * identity(n)), drop_tol=1e-3, fill_factor=8)
    precondition = LinearOperator((n, n), matvec=factor.solve, dtype=np.float64)
    start = rng.standard_normal((n, _BLOCK))
    lam, psi = lobpcg(
        laplacian, start, M=precondition, Y=null[:, None], tol=1e-10, maxiter=200, largest=False
    )
    return np.asarray(lam), np.asarray(psi)
