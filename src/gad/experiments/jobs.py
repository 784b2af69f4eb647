"""Several runs, some of them at once, each in a process and on a core of its own.

``python -m gad.experiments.jobs JOB`` is such a process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from gad.experiments.harness import check, job_of, perform, read_job
from gad.experiments.models import Run, recipe_of
from gad.experiments.records import read_record, record_path
from gad.experiments.sheet import Place
from gad.reporter import Reporter

_ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}
# Seconds that an interrupted process has for leaving.
_GRACE = 20.0
_LINES = 30


def perform_all(
    runs: Sequence[Run],
    place: Place,
    *,
    jobs: int = 1,
    reporter: Reporter | None = None,
    quiet: bool = False,
) -> list[dict[str, object]]:
    """Perform all runs, up to ``jobs`` at once; their records, or a note in place of one.

    A single run is performed in this process, and its failure raised. One of several does not stop
    the others. Where the time is up before a run has begun, its note
    has the status "not started". Processes tell how they go on stderr, unless ``quiet``.
    """
    reporter = reporter or Reporter()
    for run in runs:
        recipe_of(run)
        check(run, place)
    if len(runs) == 1:
        return [{"name": runs[0].name, **perform(runs[0], place, reporter).to_dict()}]
    failed = _at_once(runs, place, jobs, reporter, quiet)
    return [_outcome(run, place, run in failed) for run in runs]


def _outcome(run: Run, place: Place, failed: bool) -> dict[str, object]:
    record = read_record(record_path(place.results, run))
    told = {"status": "not started"} if record is None else record.to_dict()
    return {"name": run.name, **told, **({"status": "failed"} if failed else {})}


def _at_once(
    runs: Sequence[Run], place: Place, jobs: int, reporter: Reporter, quiet: bool
) -> set[Run]:
    """The runs that failed, when all are over."""
    waiting, failed = list(runs), set()
    working: dict[subprocess.Popen[bytes], Run] = {}
    with _ended(working):
        while (waiting and not place.is_over) or working:
            while waiting and len(working) < jobs and not place.is_over:
                run = waiting.pop(0)
                reporter.message(f"{run.name} begins")
                working[_start(run, place, quiet)] = run
            time.sleep(0.2)
            for process in [p for p in working if p.poll() is not None]:
                run = working.pop(process)
                if process.returncode:
                    failed.add(run)
                reporter.message(f"{run.name}: {_outcome(run, place, run in failed)['status']}")
    return failed


def _start(run: Run, place: Place, quiet: bool) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603  # this very program
        [sys.executable, "-m", "gad.experiments.jobs", job_of(run, place)],
        env={**os.environ, **_ONE_THREAD},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if quiet else None,
    )


@contextmanager
def _ended(working: Mapping[subprocess.Popen[bytes], Run]) -> Iterator[None]:
    """Whatever ends this process, its processes end as well."""

    def leave(number: int, frame: object) -> None:
        del frame
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        for process in working:
            process.terminate()
        end = time.monotonic() + _GRACE
        while time.monotonic() < end and any(process.poll() is None for process in working):
            time.sleep(0.05)
        for process in working:
            process.kill()


class _Lines(Reporter):
    """A line now and then, with the name of the run."""

    def message(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")

    def epoch(self, name: str, row: Mapping[str, float], epochs: int) -> None:
        number = int(row["epoch"]) + 1
        if number in {1, epochs} or number % max(1, epochs // _LINES) == 0:
            sys.stderr.write(
                f"{name}: epoch {number} of {epochs}, train {row['train_loss']:.4g}, "
                f"validation {row['val_loss']:.4g}, {row['seconds'] / 60:.1f} minutes\n"
            )


def _interrupt(number: int, frame: object) -> None:
    """Interrupt the run, once, and let it leave in peace."""
    del number, frame
    for again in (signal.SIGINT, signal.SIGTERM):
        signal.signal(again, lambda *_: None)
    raise KeyboardInterrupt


def main() -> None:
    """Perform one run."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    run, place = read_job(sys.argv[1])
    try:
        perform(run, place, _Lines())
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # noqa: BLE001  # the record has it, too
        sys.exit(f"{run.name} failed: {error}")


if __name__ == "__main__":
    main()
