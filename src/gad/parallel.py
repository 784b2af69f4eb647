"""Work in several processes, one thread each: results in order, only a few items under way."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_THREADS = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")}


def in_order(
    function: Callable[[_Item], _Result], items: Iterable[_Item], workers: int
) -> Iterator[_Result]:
    """``map(function, items)`` in so many processes; items are read as they are needed.

    On Linux the processes are copies of this one: what is loaded here (PyTorch, a model) is loaded
    there, and starting them takes no time. Elsewhere they are new and take seconds.

    >>> list(in_order(abs, [-1, 2, -3], workers=1))
    [1, 2, 3]
    """
    if workers <= 1:
        yield from map(function, items)
        return
    pool = _pool(workers)
    waiting: deque[Future[bytes]] = deque()
    try:
        for item in items:
            with warnings.catch_warnings():
                # Newer Pythons warn of copying a process with threads. Ours use what the copy has
                # not got (the pools of OpenMP and BLAS) no more than PyTorch's own loaders do.
                warnings.simplefilter("ignore", DeprecationWarning)
                waiting.append(pool.submit(_called, function, item))
            if len(waiting) > 2 * workers:
                yield pickle.loads(waiting.popleft().result())  # noqa: S301 - from our own process
        while waiting:
            yield pickle.loads(waiting.popleft().result())  # noqa: S301
    except BrokenExecutor as error:
        raise RuntimeError(
            "a worker process was killed, probably for want of memory: try with fewer workers"
        ) from error
    finally:
        for future in waiting:
            future.cancel()
        pool.shutdown()


def _called(function: Callable[[_Item], _Result], item: _Item) -> bytes:
    """A result as bytes: PyTorch would open a file for every tensor that travels as such."""
    return pickle.dumps(function(item), pickle.HIGHEST_PROTOCOL)


def _pool(workers: int) -> Executor:
    torch = sys.modules.get("torch")
    # A copy of a process cannot use the graphics card that this one has begun to use.
    if sys.platform == "linux" and not (torch and torch.cuda.is_initialized()):
        context = get_context("fork")
        return ProcessPoolExecutor(workers, context, _settle, (os.getpid(),))
    from joblib.externals import loky

    new: Executor = loky.ProcessPoolExecutor(workers, env=_THREADS)
    return new


def _settle(parent: int) -> None:
    """Make a copied process a worker: one thread, deaf to Ctrl-C, gone when its parent is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.freeze()  # what was copied is looked through no more, so its pages stay shared
    os.environ.update(_THREADS)
    with contextlib.suppress(KeyError):
        sys.modules["torch"].set_num_threads(1)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
