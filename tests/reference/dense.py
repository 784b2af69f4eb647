"""Everything the operators do, once more: slow, dense, in float64, and obviously right.

Each function takes the dense adjacency matrix A [N, N] and is its definition written down.
L = D − A, and the mass M is D with 1 in place of 0.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh, expm

Array = np.ndarray

SAME_EIGENVALUE = 1e-8
NO_DIRECTION = 1e-9


def mass(A: Array) -> Array:
    """The diagonal of M, [N]."""
    degree = A.sum(1)
    return np.where(degree > 0, degree, 1.0)


def laplacian(A: Array) -> Array:
    """L = D − A."""
    return np.diag(A.sum(1)) - A


def eigenpairs(A: Array) -> tuple[Array, Array]:
    """λ ascending [N] and Φ [N, N] of L φ = λ M φ, with ΦᵀMΦ = I."""
    return eigh(laplacian(A), np.diag(mass(A)))


def components(A: Array) -> list[Array]:
    """The nodes of each connected component, in order of first nodes."""
    left, found = set(range(len(A))), []
    while left:
        reached, border = set(), {min(left)}
        while border:
            reached |= border
            border = {int(j) for i in border for j in np.flatnonzero(A[i])} - reached
        found.append(np.array(sorted(reached)))
        left -= reached
    return found


# ------------------------------------------------------------------------------ diffusion


def heat_matrix(A: Array, t: float) -> Array:
    """H = exp(−t M⁻¹L)."""
    return expm(-t * laplacian(A) / mass(A)[:, None])


def implicit_matrix(A: Array, t: float) -> Array:
    """H = (M + tL)⁻¹ M."""
    M = np.diag(mass(A))
    return np.linalg.solve(M + t * laplacian(A), M)


def heat_slope(A: Array, t: float) -> Array:
    """dH/dt of the heat equation, −M⁻¹L H."""
    return -laplacian(A) / mass(A)[:, None] @ heat_matrix(A, t)


def implicit_slope(A: Array, t: float) -> Array:
    """dH/dt of the implicit step, −H M⁻¹L H."""
    H = implicit_matrix(A, t)
    return -H @ (laplacian(A) / mass(A)[:, None]) @ H


def truncated_matrix(A: Array, k: int, response: Array) -> Array:
    """Φ r(Λ) ΦᵀM on the first k eigenpairs, for a response r(λ) [k]."""
    _, phi = eigenpairs(A)
    return phi[:, :k] * response @ phi[:, :k].T * mass(A)


# ------------------------------------------------------------------------------ directions


def first_eigenspace(A: Array, rng: np.random.Generator | None = None) -> Array:
    """φ₁'s whole eigenspace in every component, [N, m], zeros where a component has fewer than m.

    With ``rng`` the basis of each eigenspace is turned at random: nothing may depend on it.
    """
    blocks = []
    for nodes in components(A):
        if nodes.size == 1:
            continue
        lam, phi = eigenpairs(A[np.ix_(nodes, nodes)])
        m = 1
        while m + 1 < lam.size and lam[m + 1] - lam[m] <= SAME_EIGENVALUE:
            m += 1
        space = phi[:, 1 : m + 1]
        if rng is not None:
            space = space @ np.linalg.qr(rng.standard_normal((m, m)))[0]
        blocks.append((nodes, space))
    potentials = np.zeros((len(A), max((space.shape[1] for _, space in blocks), default=1)))
    for nodes, space in blocks:
        potentials[nodes, : space.shape[1]] = space
    return potentials


def field(A: Array, potentials: Array) -> Array:
    """F̂ [m, N, N]: F_ij = A_ij (φ_i − φ_j), row i divided by Z_i = Σ_j ‖F_ij‖ over directions."""
    phi = potentials.reshape(len(A), -1).T
    F = A * (phi[:, :, None] - phi[:, None, :])
    Z = np.linalg.norm(F, axis=0).sum(1)
    for nodes in components(A):
        largest = np.linalg.norm(phi[:, nodes], axis=0).max()
        Z[nodes[Z[nodes] <= NO_DIRECTION * largest]] = np.inf
    return F / Z[:, None]


def directional_average(F: Array, x: Array) -> Array:
    """B_av x, with |F̂_ij| the length over directions."""
    return np.linalg.norm(F, axis=0) @ x


def directional_derivative(F: Array, x: Array) -> Array:
    """|B_dx x|, the length over directions of F̂x − diag(Σ_j F̂_ij) x."""
    return np.linalg.norm([f @ x - f.sum(1)[:, None] * x for f in F], axis=0)


# ------------------------------------------------------------------------------ aggregation


def aggregate(name: str, target: Array, messages: Array, num_nodes: int) -> Array:
    """mean, max, min, sum or std of the messages [E, C] into each node; 0 where there are none."""
    how = {"mean": np.mean, "max": np.max, "min": np.min, "sum": np.sum, "std": np.std}[name]
    result = np.zeros((num_nodes, messages.shape[1]))
    for i in range(num_nodes):
        received = messages[target == i]
        if len(received):
            result[i] = how(received, axis=0)
    return result
