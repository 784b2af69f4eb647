"""Diffusion is a function of the Laplacian; the scheme says which function.

Both schemes solve ∂x/∂t = −M⁻¹L x, exactly or by one implicit step, and both read
``h = Φ r_t(Λ) Φᵀ M x``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class Scheme(ABC):
    """The response r_t(λ) of one channel that diffuses for time t.

    A scheme of your own defines :meth:`response` in PyTorch, and nothing else: gradients to the
    times (and to parameters of its own) are those of autograd.

    >>> class Lazy(Scheme):
    ...     def response(self, eigenvalues, times):
    ...         return torch.exp(-times * eigenvalues**2)
    >>> Lazy().response(torch.tensor(2.0), torch.tensor(0.25))
    tensor(0.3679)
    """

    @abstractmethod
    def response(self, eigenvalues: Tensor, times: Tensor) -> Tensor:
        """r_t(λ), broadcast over ``eigenvalues`` and ``times``."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Heat(Scheme):
    """The spectral expansion of the heat equation, r_t(λ) = exp(−tλ).

    >>> Heat().response(torch.tensor(2.0), torch.tensor(0.5))
    tensor(0.3679)
    """

    def response(self, eigenvalues: Tensor, times: Tensor) -> Tensor:
        """exp(−tλ)."""
        return torch.exp(-times * eigenvalues)


class ImplicitStep(Scheme):
    """One implicit Euler step, r_t(λ) = 1 / (1 + tλ): exactly (M + tL)⁻¹ M x.

    >>> ImplicitStep().response(torch.tensor(2.0), torch.tensor(0.5))
    tensor(0.5000)
    """

    def response(self, eigenvalues: Tensor, times: Tensor) -> Tensor:
        """1 / (1 + tλ)."""
        return 1 / (1 + times * eigenvalues)


HEAT = Heat()
IMPLICIT = ImplicitStep()
