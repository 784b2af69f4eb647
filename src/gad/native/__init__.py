"""Kernels in C, compiled on first use on Linux with a C compiler; elsewhere nothing changes.

Every kernel has a definition in PyTorch that gives the same results and is used on other devices,
for other floating types, and where the kernels cannot be had (:func:`status` says why). The library
is kept in the cache folder, named by what went into it. ``GAD_NATIVE=0`` leaves the kernels out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from gad.native import bindings
from gad.native.build import KernelStatus, library, status

__all__ = ["KernelStatus", "accepts", "call", "is_ordinary", "library", "plain", "status"]

_left_out: ContextVar[bool] = ContextVar("_left_out", default=False)


@contextmanager
def plain() -> Iterator[None]:
    """Inside, everything is done by PyTorch alone: for comparison, and for second derivatives."""
    token = _left_out.set(True)
    try:
        yield
    finally:
        _left_out.reset(token)


def accepts(*tensors: Tensor | None) -> bool:
    """Whether the kernels can work on these tensors, here and now.

    They read memory: every tensor must be an ordinary one of float32 on the CPU. They run outside
    of PyTorch: not while it traces, compiles, transforms (``torch.func``), differentiates forward,
    watches what is called (dispatch modes) or chooses other floating types (autocast).
    """
    return (
        not torch.compiler.is_compiling()
        and not _left_out.get()
        and all(t is None or is_ordinary(t) for t in tensors)
        and torch._C._get_tracing_state() is None
        and not torch.is_autocast_enabled("cpu")
        and torch._C._functorch.peek_interpreter_stack() is None
        and torch._C._len_torch_dispatch_stack() == 0
        and torch.autograd.forward_ad._current_level < 0
        and library() is not None
    )


def is_ordinary(tensor: object) -> bool:
    """Whether this is a tensor of float32 on the CPU that is what its memory says."""
    return (
        isinstance(tensor, Tensor)
        and type(tensor) in (Tensor, nn.Parameter)
        and tensor.dtype is torch.float32
        and tensor.is_cpu
        and tensor.layout is torch.strided
        and not tensor.is_neg()
    )


def call(name: str, *arguments: Any) -> None:
    """Call a kernel on as many threads as PyTorch uses; see :func:`gad.native.bindings.call`."""
    loaded = library()
    assert loaded is not None
    bindings.call(loaded, "set_threads", torch.get_num_threads())
    bindings.call(loaded, name, *arguments)
