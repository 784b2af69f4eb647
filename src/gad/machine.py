"""What this program runs on: the machine, and this process's share of it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict


def cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Let scikit-learn, NumPy and PyTorch use one thread.

    Small problems are cut into pieces of microseconds, after each of which all threads wait for the
    last. Where another process has one of the cores, that takes ten times as long as one thread.
    """
    import sklearn.ensemble  # noqa: F401  what is loaded later would not be limited
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield


def is_first() -> bool:
    """Whether this process is the one that writes and speaks, when several train one model."""
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0


def join_slurm() -> None:
    """Take the number that ``srun`` gave this process, when several tasks train one model."""
    if int(os.environ.get("SLURM_NTASKS", "1")) > 1 and "SLURM_PROCID" in os.environ:
        os.environ.setdefault("RANK", os.environ["SLURM_PROCID"])


class Machine(TypedDict):
    """What minutes depend on."""

    processor: str
    cores: int | None
    threads: int
    system: str
    python: str


def machine(threads: int = 1) -> Machine:
    """What minutes depend on, for records: processor, cores, threads, system and Python.

    >>> list(machine(threads=2))
    ['processor', 'cores', 'threads', 'system', 'python']
    """
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": threads,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
