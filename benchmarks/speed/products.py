"""The matrix products of a piece of work: which they are, and how long they take alone.

Every product that PyTorch carries out while the work runs is taken down with the shapes and the
memory layouts of its operands; the same products are then repeated on random numbers, and nothing
else. What they take is the time no arrangement of the rest can save.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_PRODUCTS = frozenset({"mm", "bmm", "addmm", "baddbmm", "mv", "addmv"})
Product = tuple[Any, tuple[Any, ...], dict[str, Any]]


class _Recorder(TorchDispatchMode):
    """Takes down operands like those of every matrix product."""

    def __init__(self) -> None:
        super().__init__()
        self.products: list[Product] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        del types
        kwargs = kwargs or {}
        if func.overloadpacket.__name__ in _PRODUCTS:
            like = tuple(_like(a) for a in args), {k: _like(v) for k, v in kwargs.items()}
            self.products.append((func, *like))
        return func(*args, **kwargs)


def _like(value: Any) -> Any:
    """Random numbers in the shape and memory layout of a tensor; anything else as it is."""
    if not isinstance(value, Tensor):
        return value
    # Made while the recorder is asleep, so that this is no part of the work. An expanded tensor has
    # a stride of 0: its numbers are fewer than its entries.
    reach = [(n - 1) * step for n, step in zip(value.shape, value.stride(), strict=True)]
    numbers = torch.randn(sum(reach) + 1 if value.numel() else 0, dtype=value.dtype)
    return numbers.as_strided(value.shape, value.stride())


def record_products(work: Callable[[], None]) -> list[Product]:
    """The matrix products of some work, forward and backward.

    >>> a = torch.randn(3, 4, requires_grad=True)
    >>> products = record_products(lambda: (a @ torch.randn(4, 2)).sum().backward())
    >>> [tuple(tuple(x.shape) for x in operands) for _, operands, _ in products]
    [((3, 4), (4, 2)), ((3, 2), (2, 4))]
    """
    with _Recorder() as recorder:
        work()
    return recorder.products


@torch.no_grad()
def replay(products: list[Product]) -> None:
    """Carry the products out, and nothing else."""
    for func, operands, named in products:
        func(*operands, **named)
