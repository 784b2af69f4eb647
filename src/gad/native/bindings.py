"""What Python knows of the kernels: their structures, described once, and how they are called.

Every kernel takes addresses and whole numbers and returns 0, or why it failed. Structures follow
``kernels.h`` and ``block.c`` field by field; their sizes are compared when the library is loaded.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import Structure, c_float, c_int64, c_void_p
from functools import cache
from typing import Any, TypeVar

from torch import Tensor

_S = TypeVar("_S", bound=Structure)
_NO_MEMORY = 1

# In the order of the enumeration in reduce.c.
AGGREGATORS = ("mean", "max", "min", "sum", "std", "av", "dx")
# A block's weights in the order of its gradients.
WEIGHTS = (
    "source", "target", "own", "bias", "mix_bias", "mix", "gain", "shift",
    "across", "across_bias", "combine", "combine_bias", "edge_weight", "times",
)  # fmt: skip


def _pointers(*names: str) -> tuple[tuple[str, type[Any]], ...]:
    return tuple((name, c_void_p) for name in names)


def _numbers(*names: str) -> tuple[tuple[str, type[Any]], ...]:
    return tuple((name, c_int64) for name in names)


class Graphs(Structure):
    """Nodes by decreasing degree, edges slot by slot, and the field on them."""

    _fields_ = (
        *_numbers("nodes", "edges", "slots", "groups"),
        *_pointers("count", "begin", "source", "reverse", "degree"),
        *_pointers("first", "norm", "first_sum", "norm_sum"),
        *_numbers("rows", "entries"),
        *_pointers("node", "row", "edge", "value", "row_sum"),
    )


class Basis(Structure):
    """The eigenbases of all components, flat."""

    _fields_ = (
        *_numbers("units"),
        *_pointers("size", "count", "members", "mass", "vectors", "values"),
    )


class Norm(Structure):
    """Batch norm: its weights and running statistics."""

    _fields_ = (
        *_pointers("gain", "shift", "mean", "var"),
        *(("eps", c_float), ("momentum", c_float), ("training", c_int64)),
    )


class Response(Structure):
    """r_t(λ), given as it is, or by times and the power of the scheme."""

    _fields_ = (*_pointers("given", "times"), *_numbers("power"))


class Block(Structure):
    """A block, or its filters alone."""

    _fields_ = (
        *_pointers("graphs", "basis", "norm"),
        ("response", Response),
        *_numbers("channels", "towers", "aggregators", "scalers"),
        *_pointers("names", "scales", "factor", *WEIGHTS[:6], *WEIGHTS[8:12]),
        *_pointers("edges", "edge_weight"),
        *_numbers("edge_channels", "centre_is_node", "residual"),
        *(("slope", c_float), ("message_slope", c_float)),
    )


class Gradients(Structure):
    """Where the gradients of a block's weights and of its edges' features go."""

    _fields_ = _pointers(*WEIGHTS, "edges")


_STRUCTURES = (Graphs, Basis, Norm, Response, Block, Gradients)


def check_sizes(library: ctypes.CDLL) -> None:
    """Refuse a library whose structures are not those described here."""
    theirs = (c_int64 * len(_STRUCTURES))()
    library.struct_sizes(theirs)
    for kind, size in zip(_STRUCTURES, theirs, strict=True):
        if ctypes.sizeof(kind) != size:
            raise OSError(f"{kind.__name__} has {size} bytes in C, {ctypes.sizeof(kind)} here")


def struct(kind: type[_S], **values: Any) -> _S:
    """A structure that points to tensors, arrays and structures, and keeps them alive."""
    made = kind()
    for name, value in values.items():
        if value is not None:
            # A response is part of the block itself; everything else is pointed to.
            setattr(made, name, value if isinstance(value, Response) else _address(value))
    made.kept = values
    return made


def integers(values: Sequence[int]) -> ctypes.Array[c_int64]:
    """Whole numbers as an array of C."""
    return (c_int64 * len(values))(*values)


@cache
def numbers_of(aggregators: tuple[str, ...]) -> ctypes.Array[c_int64]:
    """The kernels' numbers of aggregators."""
    return integers([AGGREGATORS.index(name) for name in aggregators])


def call(library: ctypes.CDLL, name: str, *arguments: Any) -> None:
    """Call a kernel: tensors, arrays and structures are given by their address.

    Raises:
        MemoryError: if it found no room to work in.
        RuntimeError: if it failed otherwise.
    """
    code = _function(library, name, len(arguments))(*map(_address, arguments))
    if code == _NO_MEMORY:
        raise MemoryError(f"no memory left for the compiled kernel {name!r}")
    if code:
        raise RuntimeError(f"the compiled kernel {name!r} failed with code {code}")


@cache
def _function(library: ctypes.CDLL, name: str, arguments: int) -> Any:
    function = getattr(library, name)
    # Addresses and whole numbers alike are as wide as a pointer.
    function.argtypes, function.restype = [c_void_p] * arguments, ctypes.c_int
    return function


def _address(argument: Any) -> Any:
    """Where a tensor, an array or a structure is; a number or None is what it is."""
    if argument is None or isinstance(argument, (int, float)):
        return argument
    if isinstance(argument, Tensor):
        return argument.data_ptr()
    return ctypes.addressof(argument)
