"""``gad predict --engine ray`` beside the local engine: a million rows, two workers.

A table of ZINC molecules, one row in a hundred garbage, is predicted by a model of the default size
(trained for one epoch: what it predicts does not matter here) three times::

    python -m benchmarks ray_scoring                 # half an hour on two quiet cores
    python -m benchmarks ray_scoring --rows 20000    # shows that it runs; writes into build/

by the local engine with two processes, on a Ray cluster of two workers which the benchmark starts,
and there again while a worker is killed. All rows of the three are compared. The rate on the
cluster counts the time after the first rows were done, as does the rate of the local engine; what
starting takes is told apart. Memory is the sum over all processes of their proportional share,
looked at every second. Results go to ``results/ray_scoring.json``; ``python -m
benchmarks.ray_scoring.plan`` writes them into ``docs/scale.md``.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks import ROOT
from benchmarks.predict_memory import commit, look
from gad.data.atomic import write_atomic
from gad.data.known import load_esol
from gad.data.tables import open_table
from gad.machine import machine
from gad.prediction.engines import LocalEngine, PredictionSummary, Request
from gad.reporter import Reporter

RECORD = "results/ray_scoring.json"
FULL, WORKERS, FILES = 1_000_000, 2, 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=FULL)
    rows = parser.parse_args().rows
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as name:
        record = measured(Path(name), rows)
    out = ROOT / (RECORD if rows >= FULL else "build/ray_scoring.json")
    out.parent.mkdir(exist_ok=True)
    write_atomic(out, (json.dumps(record, indent=1) + "\n").encode())
    print(json.dumps({k: v for k, v in record.items() if k not in {"machine", "what"}}, indent=1))


def measured(folder: Path, rows: int) -> dict[str, Any]:
    """The record."""
    import ray

    train = [sys.executable, "-m", "gad.cli", "train", "esol", "--set", "epochs=1"]
    subprocess.run(
        [*train, "--no-baselines", "--out", folder / "run"], check=True, capture_output=True
    )
    write_tables(folder, rows)
    model = folder / "run" / "model.gad"
    local = watched(
        lambda listener: LocalEngine(WORKERS).predict(
            Request(model, folder / "all.csv", folder / "local.parquet"), listener
        )
    )
    began = time.monotonic()
    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
    started = time.monotonic() - began

    from gad.prediction.engines.ray import RayEngine

    def on_ray(name: str, kill: bool = False) -> dict[str, Any]:
        request = Request(model, folder / "parts", folder / name)
        return watched(lambda listener: RayEngine().predict(request, listener), rows // 2 * kill)

    cluster = on_ray("ray")
    killed = on_ray("killed", kill=True)
    ray.shutdown()
    size = sum(path.stat().st_size for path in (folder / "ray").glob("*.parquet"))
    return {
        "what": str(__doc__).splitlines()[0],
        "commit": commit(),
        "machine": machine(),
        "load": round(os.getloadavg()[0], 2),
        "rows": rows,
        "workers": WORKERS,
        "start_seconds": round(started, 1),
        "local": local,
        "ray": cluster,
        "ray, a worker killed": killed,
        "ratio": round(cluster["rows_per_second"] / local["rows_per_second"], 3),
        "output_bytes_per_row": round(size / rows, 1),
        "largest_difference": {
            name: difference(folder / "local.parquet", folder / name) for name in ("ray", "killed")
        },
    }


class Watch(Reporter):
    """Notes when which rows were done, how much memory there is; kills a worker if told to."""

    def __init__(self, kill_at: int) -> None:
        self.seen: list[tuple[float, int]] = []
        self.memory: list[int] = []
        self.kill_at, self.killed = kill_at, False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(1):
            self.memory.append(look(os.getpid(), {}))

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def progress(self, what: str, done: int, total: int | None) -> None:
        del what, total
        self.seen.append((time.monotonic(), done))
        if self.kill_at and done >= self.kill_at and not self.killed:
            self.killed = kill_an_actor()


def kill_an_actor() -> bool:
    """Kill a process that scores; whether there was one."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has just ended
            if any("MapWorker" in word for word in process.cmdline()):
                os.kill(process.pid, signal.SIGKILL)
                return True
    return False


def watched(work: Callable[[Reporter], PredictionSummary], kill_at: int = 0) -> dict[str, Any]:
    """Do the work; its rate after the first rows, the time until these, and the memory."""
    watch, began = Watch(kill_at), time.monotonic()
    try:
        told = work(watch)
    finally:
        watch.close()
    (first, some), (last, rows) = watch.seen[0], watch.seen[-1]
    third = max(1, len(watch.memory) // 3)
    assert not kill_at or watch.killed
    return {
        "rows": told.rows,
        "rejected": told.rejected,
        "seconds": round(time.monotonic() - began, 1),
        "seconds_to_first": round(first - began, 1),
        "rows_per_second": round((rows - some) / max(last - first, 1e-9), 1),
        "peak_megabytes": round(max(watch.memory) / 2**20, 1),
        "peak_megabytes_middle": round(max(watch.memory[third : 2 * third]) / 2**20, 1),
        "peak_megabytes_end": round(max(watch.memory[2 * third :]) / 2**20, 1),
    }


def write_tables(folder: Path, rows: int) -> None:
    """One table, and the same in several: every hundredth row is garbage."""
    data = os.environ.get("GAD_DATA")
    smiles = list(load_esol().smiles)
    if data:
        table = open_table(Path(data) / "zinc12k" / "zinc12k_smiles.csv.gz")
        smiles = [text for chunk in table.chunks() for text in chunk.columns["smiles"]]
    lines = [
        (i, text if i % 100 else text + "((") for i, text in enumerate(islice(cycle(smiles), rows))
    ]
    (folder / "parts").mkdir()
    step = -(-rows // FILES)
    files = {f"parts/{k}.csv": lines[k * step : (k + 1) * step] for k in range(FILES)}
    for name, some in {"all.csv": lines, **files}.items():
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("id", "smiles"), *some])


def difference(local: Path, folder: Path) -> float:
    """The largest difference of two outputs; that rows and rejects are the same is asserted."""
    import pyarrow.parquet as pq

    one, other = pq.read_table(local), pq.read_table(folder)
    for name in ("id", "smiles", "reject_reason"):
        assert one[name].equals(other[name]), name
    values = [table["logS_pred"].to_numpy().astype(float) for table in (one, other)]
    assert (np.isnan(values[0]) == np.isnan(values[1])).all()
    return float(np.nanmax(np.abs(values[0] - values[1])))
