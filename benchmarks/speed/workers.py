"""Contenders in processes of their own, asked in turn; and commands with their time and memory.

The number of threads is fixed before PyTorch is imported, so every contender with every number of
threads is a process. It loads its data once and then waits: a request is a line of JSON, and so is
the answer. A process that waits takes no processor time, so rounds can go from one contender to the
next, and whatever disturbs the machine disturbs them all alike.

Only the standard library at import time: a contender's own environment has no more of ours.
"""

from __future__ import annotations

import json
import os
import queue
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from benchmarks import ROOT

Handler = Callable[..., dict[str, Any]]
_T = TypeVar("_T")


def threads_only(count: int) -> dict[str, str]:
    """The environment with so many threads for every library that has an opinion."""
    names = ("OMP", "MKL", "OPENBLAS", "NUMEXPR")
    return {**os.environ, **{f"{name}_NUM_THREADS": str(count) for name in names}}


# ------------------------------------------------------------------------ the parent's side


class Worker:
    """A contender with a fixed number of threads, in a process of its own.

    ``root`` is the repository whose program it runs: this one, or another commit's.
    """

    def __init__(
        self,
        module: str,
        threads: int,
        python: Path | str = sys.executable,
        root: Path = ROOT,
    ) -> None:
        self.name, self.threads = module, threads
        environment = threads_only(threads)
        if root != ROOT:
            environment["PYTHONPATH"] = str(root / "src")
        self._process = subprocess.Popen(
            [str(python), "-m", f"benchmarks.{module}"],
            cwd=root, env=environment, text=True, encoding="utf-8",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._complaints: list[str] = []
        for pump in (self._listen, self._collect):
            threading.Thread(target=pump, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def _collect(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._complaints = [*self._complaints[-40:], line]

    def send(self, do: str, **request: Any) -> None:
        """Ask without waiting; :meth:`receive` has the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
        self._process.stdin.flush()

    def receive(self, limit: float | None = None) -> dict[str, Any]:
        """The answer to the oldest request.

        Raises:
            TimeoutError: after ``limit`` seconds; the process is ended, for it is still busy.
        """
        try:
            line = self._answers.get(timeout=limit)
        except queue.Empty:
            self._process.kill()
            raise TimeoutError(f"{self.name}: no answer within {limit:g} s") from None
        if line is None:
            raise RuntimeError(f"{self.name} ended unexpectedly:\n{''.join(self._complaints)}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {answer['error']}")
        return answer

    def ask(self, do: str, limit: float | None = None, **request: Any) -> dict[str, Any]:
        """Ask and wait."""
        self.send(do, **request)
        return self.receive(limit)

    def processor_seconds(self) -> float:
        """What the process has spent so far, of Linux's clock for it."""
        return time.clock_gettime((~self._process.pid << 3) | 2)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def interleave(
    goes: Mapping[Any, Callable[[], _T]], rounds: int, tell: Callable[[str], None]
) -> dict[Any, list[_T]]:
    """Let all have a go, round after round, each round beginning with another."""
    found: dict[Any, list[_T]] = {key: [] for key in goes}
    keys = list(goes)
    for number in range(rounds):
        tell(f"round {number + 1} of {rounds}")
        shift = number % len(keys)
        for key in keys[shift:] + keys[:shift]:
            found[key].append(goes[key]())
    return found


def middle(values: Iterable[float]) -> float:
    """The median."""
    return statistics.median(values)


# ------------------------------------------------------------------------ the child's side


def serve(handlers: Mapping[str, Handler]) -> None:
    """Answer requests until there are no more."""
    # What libraries print must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = handlers[request.pop("do")](**request)
        except Exception as error:  # noqa: BLE001 - it is passed on to the one who asked
            import traceback

            answer = {"error": f"{error!r}\n{traceback.format_exc()}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


class Goes:
    """Endless work in steps, timed a few seconds at a time; every kind goes on where it was."""

    def __init__(self, warm_up: int = 3) -> None:
        self.warm_up = warm_up
        self._known: dict[Any, Iterator[int]] = {}

    def __call__(
        self, key: Any, make: Callable[[], Iterator[int]], seconds: float
    ) -> dict[str, Any]:
        """Molecules per second of steps that each tell how many molecules they took."""
        if key not in self._known:
            self._known[key] = make()
            for _ in range(self.warm_up):
                next(self._known[key])
        steps = self._known[key]
        molecules = count = 0
        start = time.perf_counter()
        while (passed := time.perf_counter() - start) < seconds or count < 3:
            molecules += next(steps)
            count += 1
        return {"rate": molecules / passed, "steps": count}


def steady(stamps: list[float], batch: int, skip: int = 5) -> float:
    """Molecules per second between the moments at which a training loop took full batches."""
    later = stamps[skip:]
    if len(later) < 2:
        raise ValueError(f"{len(stamps)} batches are too few to tell a speed")
    return batch * (len(later) - 1) / (later[-1] - later[0])


# ------------------------------------------------------------------------ whole commands


def run_command(
    command: list[str], *, threads: int | None, log: Path | None = None, memory: bool = False
) -> dict[str, float]:
    """Run a command to its end: ``seconds``, and with ``memory`` the peak ``megabytes``.

    ``processor_seconds`` are those of the command with all its processes.

    The memory is that of the process and all its descendants together, pages they share counted
    once, looked at several times a second.
    """
    environment = threads_only(threads) if threads else dict(os.environ)
    # Compiled modules are kept, as in any installation.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = _processor_seconds()
    with (log or Path(os.devnull)).open("w", encoding="utf-8") as talk:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=talk, stderr=talk)
        peak = _watch(process) if memory else 0.0
        code = process.wait()
        seconds = time.perf_counter() - start
    if code:
        said = log.read_text(encoding="utf-8")[-2000:] if log else ""
        raise RuntimeError(f"{' '.join(command)} failed:\n{said}")
    spent = {"seconds": seconds, "processor_seconds": _processor_seconds() - before}
    return {**spent, **({"megabytes": peak} if memory else {})}


def _processor_seconds() -> float:
    """Of all processes that were started here and have ended."""
    done = os.times()
    return done.children_user + done.children_system


def _watch(process: subprocess.Popen[Any], pause: float = 0.2) -> float:
    """The most memory a process and its descendants hold until it ends, in MB (10⁶ bytes)."""
    import psutil

    peak = 0.0
    root = psutil.Process(process.pid)
    while True:
        try:
            process.wait(pause)
        except subprocess.TimeoutExpired:
            pass
        else:
            return peak
        total = 0
        try:
            family = [root, *root.children(recursive=True)]
        except psutil.Error:
            continue
        for member in family:
            try:
                held = member.memory_full_info()
            except (psutil.Error, OSError):
                continue
            total += getattr(held, "pss", held.rss)
        peak = max(peak, total / 1e6)
