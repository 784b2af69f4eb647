"""What this program runs on: the machine, and this process's share of it."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

# A batch of small molecules has no work for more.
MOST_THREADS = 4
_RUNNING = Path("/proc/loadavg")


def cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def idle_cores() -> int:
    """The cores that nobody else computes on at this moment, of those this process may use.

    At least one. Where the system does not say how many processes run, all are.
    """
    try:
        running = []
        for _ in range(10):
            running.append(int(_RUNNING.read_text().split()[3].split("/")[0]))
            time.sleep(0.01)
    except (OSError, ValueError, IndexError):
        return cores()
    others = sum(running) / len(running) - 1  # this process is one of them
    return max(1, min(cores(), round((os.cpu_count() or 1) - others)))


@contextmanager
def as_many_threads(wanted: int | None = None) -> Iterator[None]:
    """Let PyTorch use so many threads; as many as there are idle cores if left out.

    More of them would wait for one another: on two busy cores two take much longer than one.
    Those that ``OMP_NUM_THREADS`` asks for are used in any case. What is computed is the same.
    """
    import torch

    before = torch.get_num_threads()
    if wanted is None:
        asked = "OMP_NUM_THREADS" in os.environ
        wanted = before if asked else min(before, MOST_THREADS, idle_cores())
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Let scikit-learn, NumPy and PyTorch use one thread.

    Small problems are cut into pieces of microseconds, after each of which all threads wait for the
    last. Where another process has one of the cores, that takes much longer than one thread.
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
