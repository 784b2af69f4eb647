"""Counts and times in Prometheus' text format."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock

Labels = tuple[tuple[str, str], ...]

SECONDS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.3, 1.0, 3.0, 10.0, 60.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Histogram:
    """How often a number was at most so large."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count one."""
        place = next((k for k, bound in enumerate(self.bounds) if value <= bound), -1)
        self.counts[place] += 1
        self.sum += value

    def lines(self, name: str, labels: Labels = ()) -> Iterator[str]:
        """As Prometheus wants it: each bucket has what the smaller ones have."""
        total = 0
        bounds = [*map(str, self.bounds), "+Inf"]
        for bound, count in zip(bounds, self.counts, strict=True):
            total += count
            yield f"{name}_bucket{_labels((*labels, ('le', bound)))} {total}"
        yield f"{name}_sum{_labels(labels)} {self.sum:.6f}"
        yield f"{name}_count{_labels(labels)} {total}"


class Metrics:
    """What the service has done so far.

    Example:
        >>> metrics = Metrics()
        >>> metrics.request("/v1/predict", 200, 0.012)
        >>> [line for line in metrics.text().splitlines() if line.startswith("gad_requests")]
        ['gad_requests_total{path="/v1/predict",code="200"} 1']
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, Histogram] = defaultdict(lambda: Histogram(SECONDS))
        self._molecules: Counter[tuple[str, str]] = Counter()
        self._batches = Histogram(SIZES)
        self._started = time.time()
        self.waiting = 0

    @property
    def requests(self) -> int:
        """Requests answered so far."""
        with self._lock:
            return self._requests.total()

    def request(self, path: str, code: int, seconds: float) -> None:
        """A request was answered."""
        with self._lock:
            self._requests[path, code] += 1
            self._seconds[path].add(seconds)

    def molecules(self, model: str, predicted: int, rejected: int) -> None:
        """Molecules were predicted, or could not be."""
        with self._lock:
            self._molecules[model, "predicted"] += predicted
            self._molecules[model, "rejected"] += rejected

    def batch(self, molecules: int) -> None:
        """So many molecules were predicted together."""
        with self._lock:
            self._batches.add(molecules)

    def text(self) -> str:
        """All of it."""
        with self._lock:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _about("gad_requests_total", "counter", "Requests by path and answer.")
        for (path, code), count in sorted(self._requests.items()):
            labels = (("path", path), ("code", str(code)))
            yield f"gad_requests_total{_labels(labels)} {count}"
        yield from _about("gad_request_seconds", "histogram", "Time until a request was answered.")
        for path, times in sorted(self._seconds.items()):
            yield from times.lines("gad_request_seconds", (("path", path),))
        yield from _about("gad_molecules_total", "counter", "Molecules by model and outcome.")
        for (model, outcome), count in sorted(self._molecules.items()):
            labels = (("model", model), ("outcome", outcome))
            yield f"gad_molecules_total{_labels(labels)} {count}"
        yield from _about("gad_batch_molecules", "histogram", "Molecules predicted together.")
        yield from self._batches.lines("gad_batch_molecules")
        yield from _about("gad_waiting_molecules", "gauge", "Molecules in the queue.")
        yield f"gad_waiting_molecules {self.waiting}"
        yield from _about("process_start_time_seconds", "gauge", "When the service started.")
        yield f"process_start_time_seconds {self._started:.3f}"
        memory = resident_bytes()
        if memory is not None:
            yield from _about("process_resident_memory_bytes", "gauge", "Physical memory in use.")
            yield f"process_resident_memory_bytes {memory}"


def resident_bytes() -> int | None:
    """Physical memory of this process; None where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _about(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _labels(labels: Labels) -> str:
    escaped = (
        f'{name}="{value}"'
        for name, value in (
            (name, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n"))
            for name, value in labels
        )
    )
    return "{" + ",".join(escaped) + "}" if labels else ""
