"""Kernels in C, compiled on first use where there is a compiler; everywhere else nothing changes.

Every kernel has a twin in PyTorch that gives the same results and is used on other devices, other
floating types, and where no compiler is found. The library is kept in the cache folder, named by
what went into it. ``GAD_NATIVE=0`` leaves the kernels out.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from ctypes import Structure
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gad.folders import cache_folder

_SOURCES = ("kernels.h", "block.c", "norm.c", "products.c", "reduce.c", "spans.c")
_FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fPIC", "-shared", "-fopenmp", "-fno-math-errno",
          "-fno-trapping-math")  # fmt: skip


def usable(*tensors: Tensor | None) -> bool:
    """Whether the compiled kernels can work on these tensors: float32, on the CPU."""
    return (
        all(t is None or (t.dtype is torch.float32 and t.is_cpu) for t in tensors)
        and not torch.compiler.is_compiling()
        and library() is not None
    )


def call(name: str, *arguments: Tensor | Structure | int | None) -> None:
    """Call a kernel: tensors and structures are given by their address."""
    _function(name, len(arguments))(*map(address, arguments))


def address(argument: Any) -> Any:
    """Where a tensor, a structure or an array is; a number or None is what it is."""
    if isinstance(argument, Structure | ctypes.Array):
        return ctypes.addressof(argument)
    return argument.data_ptr() if isinstance(argument, Tensor) else argument


@cache
def _function(name: str, arguments: int) -> Any:
    function = getattr(library(), name)
    # Addresses and whole numbers alike are as wide as a pointer.
    function.argtypes, function.restype = [ctypes.c_void_p] * arguments, None
    return function


@cache
def library() -> ctypes.CDLL | None:
    """The compiled kernels, or None where they cannot be had."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if os.environ.get("GAD_NATIVE") == "0" or compiler is None or sys.platform != "linux":
        return None
    try:
        return ctypes.CDLL(str(_compiled(compiler)))
    except (OSError, subprocess.SubprocessError):
        return None


def _compiled(compiler: str) -> Path:
    """The library's file, made if it is not there: written beside its place and moved whole."""
    texts = {name: (resources.files(__package__) / name).read_bytes() for name in _SOURCES}
    version = [compiler, "--version"]
    told = subprocess.run(version, capture_output=True, check=True, timeout=60)  # noqa: S603
    parts = [*texts.values(), told.stdout, " ".join(_FLAGS).encode(), _processor()]
    folder, key = _folder(), hashlib.sha256(b"".join(parts)).hexdigest()
    path = folder / f"kernels-{key[:24]}.so"
    if not _is_ours(path):
        with tempfile.TemporaryDirectory(dir=folder) as work:
            for name, text in texts.items():
                (Path(work) / name).write_bytes(text)
            units = [name for name in texts if name.endswith(".c")]
            make = [compiler, *_FLAGS, "-o", path.name, *units, "-lm"]
            subprocess.run(make, cwd=work, capture_output=True, check=True, timeout=120)  # noqa: S603
            made = Path(work) / path.name
            made.chmod(0o700)
            made.replace(path)
    return path


def _folder() -> Path:
    folder = cache_folder() / "kernels"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _is_ours(path: Path) -> bool:
    """Whether the file is there and nobody else could have written it."""
    try:
        stat = path.stat()
    except OSError:
        return False
    return stat.st_uid == os.getuid() and not stat.st_mode & 0o022


def _processor() -> bytes:
    """What the machine code depends on: a home folder may be shared by different machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor().encode()
    kinds = [line for line in lines if line.startswith(("model name", "flags", "Features"))]
    return "\n".join(sorted(set(kinds))).encode()
