"""Backward passes that are written by hand know first derivatives only, and say so."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch

_B = TypeVar("_B", bound=Callable[..., Any])


def first_only(instead: str) -> Callable[[_B], _B]:
    """A backward pass that refuses ``create_graph=True``, rather than to give second derivatives 0.

    Args:
        instead: what to do for second derivatives.
    """

    def decorate(backward: _B) -> _B:
        @wraps(backward)
        def guarded(*arguments: Any) -> Any:
            if torch.is_grad_enabled():
                raise RuntimeError(f"second derivatives are not known here: {instead}")
            return backward(*arguments)

        return guarded  # type: ignore[return-value]

    return decorate


def without_kernels(backward: _B) -> _B:
    """As :func:`first_only`, for compiled kernels, whose definition in PyTorch has all of them."""
    return first_only("call the model inside `with gad.native.plain():`")(backward)
