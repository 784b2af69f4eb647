"""``gad serve`` under load, on the loopback address: latency, throughput, harm, memory, stop.

Every loop is bounded by a count, and every request by a time. The service is a process of its own
with two models of the default size, trained for an epoch: what they predict does not matter here::

    python -m benchmarks serve            # a quarter of an hour on two quiet cores
    python -m benchmarks serve --quick    # shows that everything runs, and writes into build/

===============  =========================================================================
figure           what
===============  =========================================================================
latency          single molecules at 50 requests a second: p50 below 30 ms, p99 below 150 ms
throughput       requests of 256 over two lines, beside ``gad predict --workers 1`` on the same
                 molecules: additional rows by additional time, in turns; at least 0.8 of it
hostile          a thousand bodies that mean harm: all 4xx, and the service answers afterwards
memory           resident memory over 20,000 requests: how much the last quarter has more than
                 the second
models           two models in turns give what each gives alone
stop             SIGTERM in the middle of an upload: the request beside it is answered
===============  =========================================================================
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np

from benchmarks import ROOT
from benchmarks.serve.client import Line, closed, paced
from benchmarks.serve.hostile import bodies
from benchmarks.speed.record import RESULTS, commit, machine, now, our_versions, rounded, save
from gad.data.known.esol import load_esol
from gad.prediction.predictor import load

RATE, BATCH = 50.0, 256


@dataclass(frozen=True)
class Size:
    """How much of each."""

    seconds: int = 60
    rows: int = 20_480
    rounds: int = 3
    hostile: int = 1_000
    requests: int = 20_000


QUICK = Size(seconds=4, rows=1_024, rounds=1, hostile=45, requests=400)


@dataclass(frozen=True)
class Service:
    """A running service."""

    process: subprocess.Popen[str]
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def megabytes(self) -> float:
        """Its resident memory, as it tells itself."""
        text = httpx.get(f"{self.url}/metrics", timeout=60).text
        found = re.search(r"^process_resident_memory_bytes (\d+)", text, re.MULTILINE)
        assert found, text
        return int(found[1]) / 2**20


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "gad.cli", *map(str, words)]


@contextmanager
def serving(*words: object) -> Iterator[Service]:
    """``gad serve`` at a free port; killed if it does not end by itself."""
    process = subprocess.Popen(
        command("serve", *words, "--port", 0), stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r":(\d+)/", line)
        assert found, line + process.stderr.read()
        yield Service(process, int(found[1]))
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def molecules(count: int) -> list[str]:
    return list(islice(cycle(load_esol().smiles), count))


def latency(service: Service, size: Size) -> dict[str, Any]:
    count = round(RATE * size.seconds)
    asyncio.run(paced(service.port, molecules(round(RATE)), RATE))
    times = np.array(asyncio.run(paced(service.port, molecules(count), RATE))) * 1000
    p50, p99 = np.percentile(times, [50, 99]).tolist()
    told = {"requests": count, "rate": RATE, "p50_ms": p50, "p99_ms": p99}
    return {**told, "slowest_ms": float(times.max()), "holds": p50 < 30 and p99 < 150}


def throughput(service: Service, size: Size, model: Path, folder: Path) -> dict[str, Any]:
    smiles = molecules(size.rows)
    small, large = folder / "small.csv", folder / "large.csv"
    for path, count in ((small, size.rows // 4), (large, size.rows)):
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["smiles"], *([text] for text in smiles[:count])])
    ours, theirs = [], []
    for _ in range(size.rounds):
        first, second = (predicted(model, path, folder) for path in (small, large))
        theirs.append((size.rows - size.rows // 4) / max(second - first, 1e-9))
        batches = iter([smiles[k : k + BATCH] for k in range(0, size.rows, BATCH)])
        start = time.perf_counter()
        done = asyncio.run(closed(service.port, batches, lines=2))
        ours.append(done / (time.perf_counter() - start))
    ratio = median(a / b for a, b in zip(ours, theirs, strict=True))
    return {
        "batch": BATCH,
        "rows": size.rows,
        "molecules_per_second": median(ours),
        "gad_predict": median(theirs),
        "ratio": ratio,
        "holds": ratio >= 0.8,
    }


def predicted(model: Path, table: Path, folder: Path) -> float:
    """Seconds of ``gad predict --workers 1``."""
    start = time.perf_counter()
    words = ("predict", model, table, "-o", folder / "out.csv", "--workers", 1)
    subprocess.run(command(*words), check=True, capture_output=True, timeout=600)
    return time.perf_counter() - start


def hostile(service: Service, size: Size) -> dict[str, Any]:
    codes: dict[str, dict[str, int]] = {}
    with httpx.Client(base_url=service.url, timeout=60) as client:
        for kind, path, content, headers in bodies(size.hostile, random.Random(0)):
            code = str(client.post(path, content=content, headers=headers).status_code)
            own = codes.setdefault(kind, {})
            own[code] = own.get(code, 0) + 1
        good = client.post("/v1/predict", json={"smiles": ["CCO"]}).status_code
    refused = all(code.startswith("4") for own in codes.values() for code in own)
    return {"bodies": size.hostile, "codes": codes, "after": good, "holds": refused and good == 200}


def memory(service: Service, size: Size) -> dict[str, Any]:
    """Sixteen looks, each after as many requests."""
    smiles = cycle(load_esol().smiles)
    step = size.requests // 16
    seen = []
    for _ in range(16):
        batches = iter([[next(smiles)] for _ in range(step)])
        asyncio.run(closed(service.port, batches, lines=8))
        seen.append(round(service.megabytes(), 1))
    grown = round(max(seen[12:]) - max(seen[4:8]), 1)
    told = {"requests": 16 * step, "megabytes": seen, "grown_megabytes": grown}
    return {**told, "holds": grown < 0.02 * seen[4]}


def models(service: Service, paths: dict[str, Path]) -> dict[str, Any]:
    smiles = molecules(200)
    alone = {name: load(path).predict(smiles) for name, path in paths.items()}

    async def ask() -> float:
        worst = 0.0
        async with Line(service.port) as line:
            for k, text in enumerate(smiles):
                for name in paths:
                    (row,) = await line.predict([text], name)
                    value = next(iter(row["values"].values()))
                    worst = max(worst, abs(value - float(alone[name][k])))
        return worst

    worst = asyncio.run(ask())
    return {
        "models": list(paths),
        "requests": 400,
        "largest_difference": worst,
        "holds": worst < 1e-3,
    }


def stop(model: Path) -> dict[str, Any]:
    """SIGTERM while a table is half received and a request is being predicted."""
    with serving(model, "--grace", 5) as service:
        upload = socket.create_connection(("127.0.0.1", service.port), timeout=30)
        upload.sendall(
            b"POST /v1/predict/file HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\n"
            b"Content-Length: 1000000\r\n\r\nsmiles\nCCO\n"
        )

        async def ask() -> int:
            async with Line(service.port) as line:
                asked = asyncio.create_task(line.predict(molecules(1024)))
                await asyncio.sleep(0.2)
                service.process.send_signal(signal.SIGTERM)
                return len(await asyncio.wait_for(asked, 60))

        answered = asyncio.run(ask())
        code = service.process.wait(60)
        upload.close()
    return {"answered": answered, "exit_code": code, "holds": answered == 1024 and code == 0}


def trained(folder: Path) -> dict[str, Path]:
    """Two models of the default size."""
    found = {}
    for scheme in ("implicit", "spectral"):
        settings = ("--set", "epochs=1", "--set", f"scheme={scheme}", "--no-baselines")
        words = ("train", "esol", *settings, "--out", folder / scheme)
        subprocess.run(command(*words), check=True, capture_output=True, timeout=600)
        found[scheme] = folder / scheme / "model.gad"
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a little of each, into build/")
    parser.add_argument("--out", type=Path, help="the record")
    options = parser.parse_args(arguments)
    size = QUICK if options.quick else Size()
    os.environ["OMP_NUM_THREADS"] = "1"
    record: dict[str, Any] = {
        "what": str(__doc__).splitlines()[0],
        "date": now(),
        "commit": commit("src", "benchmarks/serve"),
        "machine": machine(),
        "versions": our_versions(),
        "size": asdict(size),
    }
    with tempfile.TemporaryDirectory(prefix="gad-serve-") as name:
        folder = Path(name)
        paths = trained(folder)
        words = [f"{name}={path}" for name, path in paths.items()]
        with serving(*words) as service:
            for figure, found in (
                ("latency", lambda: latency(service, size)),
                ("throughput", lambda: throughput(service, size, paths["implicit"], folder)),
                ("hostile", lambda: hostile(service, size)),
                ("models", lambda: models(service, paths)),
                ("memory", lambda: memory(service, size)),
            ):
                record[figure] = found()
                print(figure, record[figure], flush=True)
        record["stop"] = stop(paths["implicit"])
        print("stop", record["stop"])
    place = ROOT / "build" if options.quick else RESULTS
    save(options.out or place / "serve.json", rounded(record))


if __name__ == "__main__":
    main()
