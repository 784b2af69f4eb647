"""The contenders as they take part: who, with how many threads, for how long, in which order."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.contenders import chemprop_python
from benchmarks.speed.workers import Worker, interleave, middle

MOLECULES = 6_000
OURS = "gad"
OWN_LOOP = "gad, its own training loop"
PNA = "PyTorch Geometric, PNAConv network"
DMPNN = "chemprop, D-MPNN"
FORWARD_ONLY = ", forward only"


@dataclass(frozen=True)
class Plan:
    """How long and how often."""

    seconds: float = 1.5
    rounds: int = 4
    threads: tuple[int, ...] = (1, 2)
    batches: tuple[int, ...] = (64, 128)
    compiles: bool = True
    compile_limit: float = 180.0
    rows: tuple[int, int] = (20_000, 100_000)
    predict_rounds: int = 2
    prepared: int = 2_000

    def quick(self) -> Plan:
        """Just enough to see that everything runs."""
        return replace(
            self, seconds=0.2, rounds=2, threads=(1,), compiles=False, rows=(256, 512),
            predict_rounds=1, prepared=200,
        )  # fmt: skip


class Entry(NamedTuple):
    """A contender as it takes part in the rounds.

    ``compiled``: by ``torch.compile``, or, on our side, with the compiled kernels that are the
    default; eager is PyTorch's own operations alone.
    """

    who: str
    batch: int
    threads: int
    compiled: bool = False

    @property
    def rival(self) -> tuple[str, int, bool]:
        """Entries that differ by their threads: the fastest of them counts."""
        return self.who, self.batch, self.compiled

    def __str__(self) -> str:
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        return f"{self.who}, {threads}{', compiled' if self.compiled else ''}"


Rates = dict[Entry, list[float]]


@dataclass
class Bench:
    """The contenders' processes, started when they are first needed."""

    plan: Plan
    tell: Callable[[str], None]
    work: Path
    tried: dict[str, Any] = field(default_factory=dict)
    _workers: dict[tuple[str, int], Worker] = field(default_factory=dict)
    _models: dict[str, dict[str, Any]] = field(default_factory=dict)
    _rates: dict[Entry, float] = field(default_factory=dict)

    def worker(self, module: str, threads: int) -> Worker:
        """The process of a contender with so many threads."""
        key = module, threads
        if key not in self._workers:
            python = chemprop_python() if module == "speed.chemprop" else Path(sys.executable)
            self._workers[key] = Worker(module, threads, python)
        return self._workers[key]

    def model(self, who: str) -> dict[str, Any]:
        """What a contender's model is."""
        if who not in self._models:
            self.load(who)
        return self._models[who]

    def load(self, *several: str) -> None:
        """Let contenders load their molecules, all at once."""
        waiting = []
        for who in several:
            request: dict[str, Any] = {} if who == "gad" else {"parameters": self.size}
            if who == "chemprop":
                request["molecules_used"] = MOLECULES
            for threads in self.plan.threads:
                worker = self.worker(f"speed.{who}", threads)
                worker.send("info", **request)
                waiting.append((who, worker))
        for who, worker in waiting:
            self._models[who] = worker.receive()

    @property
    def size(self) -> int:
        """How many parameters our model has."""
        return int(self.model("gad")["parameters"])

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers.values():
            worker.close()

    def go(
        self, entry: Entry, do: str, seconds: float | None = None, limit: float | None = None
    ) -> float:
        """Molecules per second of one go, which must end within the limit."""
        who, batch, threads, compiled = entry
        worker = self.worker(module_of(who), threads)
        seconds = self.plan.seconds if seconds is None else seconds
        request: dict[str, Any] = {"batch": batch, "compiled": compiled}
        if who in (DMPNN, OWN_LOOP):
            # A whole training loop: as many batches as fill the time, after the first few.
            do = "fit"
            request["batches"] = 10 + round(self._rates.get(entry, 0.0) * seconds / batch)
        else:
            request["seconds"] = seconds
        if who == DMPNN:
            request["molecules_used"] = MOLECULES
        if who.startswith((PNA, DMPNN)):
            request["parameters"] = self.size
        if who.endswith(FORWARD_ONLY):
            request["forward_only"] = True
        rate = float(worker.ask(do, limit=limit, **request)["rate"])
        self._rates[entry] = rate
        return rate

    def entries(self, *contenders: str) -> list[Entry]:
        """Every contender with every batch and number of threads; ours with its kernels, too."""
        return [
            Entry(who, batch, threads, compiled)
            for batch in self.plan.batches
            for who in contenders
            for threads in self.plan.threads
            for compiled in ((True, False) if module_of(who) == "speed.gad" else (False,))
        ]

    def compare(self, entries: Sequence[Entry], do: str) -> Rates:
        """Rounds of all entries; those far behind their own rivals drop out after the first."""
        for entry in entries:  # what is loaded on first use is loaded now
            self.go(entry, do, seconds=0.0)
        goes = {entry: (lambda entry=entry: self.go(entry, do)) for entry in entries}
        pilot = interleave(goes, 1, self.tell)
        best: dict[Any, float] = {}
        for entry, (rate,) in pilot.items():
            best[entry.rival] = max(rate, best.get(entry.rival, 0.0))
        kept = {e: goes[e] for e, (rate,) in pilot.items() if rate > 0.8 * best[e.rival]}
        found = interleave(kept, self.plan.rounds - 1, self.tell)
        return {entry: pilot[entry] + found.get(entry, []) for entry in entries}

    def compiled(self, who: str, do: str) -> list[Entry]:
        """A contender compiled, with its faster number of threads, if that succeeds in time."""
        if not self.plan.compiles:
            return []
        batch = self.plan.batches[0]
        rates = {n: self.go(Entry(who, batch, n), do, seconds=1.0) for n in self.plan.threads}
        entry = Entry(who, batch, max(rates, key=lambda n: rates[n]), compiled=True)
        name = f"{entry}, {do}"
        self.tell(f"compiling: {name}")
        start = time.perf_counter()
        try:
            self.go(entry, do, seconds=0.0, limit=self.plan.compile_limit)
        except (TimeoutError, RuntimeError) as error:
            self._workers.pop((module_of(who), entry.threads)).close()
            self.tried[name] = {"failed": str(error).splitlines()[0]}
            return []
        self.tried[name] = {"warm_up_seconds": time.perf_counter() - start}
        return [entry._replace(batch=batch) for batch in self.plan.batches]

    def note_compiled(self, found: Rates, do: str) -> None:
        """Take down what compiling gave."""
        for entry, rates in found.items():
            outcome = self.tried.get(f"{entry}, {do}")
            if entry.compiled and outcome is not None:
                eager = found[fastest(found, entry.who, entry.batch, eager=True)]
                outcome[f"gain at batch {entry.batch}"] = middle(rates) / middle(eager)


def module_of(who: str) -> str:
    """The module that has a contender's side."""
    return "speed.pna" if who.startswith(PNA) else "speed.chemprop" if who == DMPNN else "speed.gad"


def fastest(found: Rates, who: str, batch: int, *, eager: bool = False) -> Entry:
    """The entry that represents a contender."""
    mine = [e for e in found if e[:2] == (who, batch) and not (eager and e.compiled)]
    rounds = max(len(found[e]) for e in mine)  # one that dropped out does not come back
    return max((e for e in mine if len(found[e]) == rounds), key=lambda e: middle(found[e]))
