"""The kernels' library: compiled on first use, kept in the cache folder, done without elsewhere."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from gad.folders import cache_folder
from gad.native.bindings import check_sizes

_SOURCES = (
    *("kernels.h", "block.h", "block.c", "infer.c", "norm.c", "products.c"),
    *("reduce.c", "spans.c", "spectra.c", "trees.c", "unpack.c", "walk.c"),
)
_FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fPIC", "-shared", "-fopenmp", "-fno-math-errno",
          "-fno-trapping-math")  # fmt: skip
# With GAD_NATIVE=sanitize: every access and every arithmetic step is watched (make sanitize).
_SANITIZE = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@dataclass(frozen=True)
class KernelStatus:
    """Whether the compiled kernels are in use, why (not), and where their library is."""

    active: bool
    reason: str
    library: Path | None = None


# Seconds that a compilation may take; it takes a few where the machine is not busy.
_PATIENCE = 300


class _UnavailableError(Exception):
    """The kernels cannot be had; says why."""


def status() -> KernelStatus:
    """Whether the compiled kernels are in use, and why not; compiles them if nobody has yet."""
    return _load()[1]


def library() -> ctypes.CDLL | None:
    """The compiled kernels, or None where they cannot be had."""
    return _load()[0]


@cache
def _load() -> tuple[ctypes.CDLL | None, KernelStatus]:
    try:
        path = _path()
        loaded = ctypes.CDLL(str(path))
        check_sizes(loaded)
    except (_UnavailableError, OSError) as error:
        return None, KernelStatus(False, str(error))
    return loaded, KernelStatus(True, "compiled for this machine", path)


def _path() -> Path:
    """The library's file, made if it is not there; a compilation that failed is not tried again."""
    wanted = os.environ.get("GAD_NATIVE", "")
    if wanted == "0":
        raise _UnavailableError("switched off by GAD_NATIVE=0")
    if sys.platform != "linux":
        raise _UnavailableError(f"the kernels are made for Linux, not {sys.platform}")
    name = os.environ.get("CC", "cc")
    compiler = shutil.which(name)
    if compiler is None:
        raise _UnavailableError(f"there is no C compiler ({name})")
    flags = (*_FLAGS, *_SANITIZE) if wanted == "sanitize" else _FLAGS
    texts = {name: (resources.files(__package__) / name).read_bytes() for name in _SOURCES}
    told = subprocess.run([compiler, "--version"], capture_output=True, check=False, timeout=60)  # noqa: S603
    parts = [*texts.values(), compiler.encode(), told.stdout, " ".join(flags).encode()]
    key = hashlib.sha256(b"".join([*parts, _processor()])).hexdigest()[:24]
    folder = cache_folder() / "kernels"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path, failed = folder / f"kernels-{key}.so", folder / f"kernels-{key}.failed"
    if _is_ours(path):
        return path
    if failed.exists():
        reason = failed.read_text(encoding="utf-8", errors="replace")
        raise _UnavailableError(f"{reason}; delete {failed} to try again")
    try:
        _compile([compiler, *flags], texts, path)
    except subprocess.TimeoutExpired as error:  # a busy machine: the next process tries again
        reason = f"{compiler} did not compile the kernels within {_PATIENCE} s"
        warnings.warn(f"{reason}. PyTorch is used alone, which is slower", stacklevel=2)
        raise _UnavailableError(reason) from error
    except subprocess.SubprocessError as error:
        output = getattr(error, "stderr", None) or b""
        last = output.decode("utf-8", "replace").strip()[-2000:] or "no message"
        reason = f"{compiler} could not compile the kernels: {last}"
        failed.write_text(reason, encoding="utf-8")
        warnings.warn(f"{reason}. PyTorch is used alone, which is slower", stacklevel=2)
        raise _UnavailableError(reason) from error
    return path


def _compile(command: list[str], texts: dict[str, bytes], path: Path) -> None:
    """Compile the sources beside the library's place and move it there whole."""
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        for name, text in texts.items():
            (Path(work) / name).write_bytes(text)
        units = [name for name in texts if name.endswith(".c")]
        make = [*command, "-o", path.name, *units, "-lm"]
        subprocess.run(  # noqa: S603
            make, cwd=work, capture_output=True, check=True, timeout=_PATIENCE
        )
        made = Path(work) / path.name
        if not made.exists():
            raise subprocess.SubprocessError
        made.chmod(0o700)
        made.replace(path)


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
