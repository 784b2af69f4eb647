"""``python -m benchmarks [NAME …]``: run benchmarks one after the other, ``speed`` by default.

What follows a single name goes to that benchmark: ``python -m benchmarks speed --only startup``.
"""

from __future__ import annotations

import importlib
import sys

NAMES = {
    "speed": "training, inference, prediction and start-up beside other programs (make bench)",
    "profile": "where the time of a training step and of a prediction goes",
    "before": "training, inference and preparation beside an earlier commit of this program",
    "growth": "time and memory against molecules, width, depth and size; threads or processes",
    "docs": "write the records into the tables of docs/performance.md",
    "ray_scoring": "a million rows on a Ray cluster, beside the local engine",
    "serve": "gad serve under load: latency, throughput, harm, memory, a stop",
    "large_graphs": "graphs of up to a million nodes",
    "trust": "whether intervals and sets hold what they promise, and how narrow they are",
    "accuracy": "test errors beside other programs, hours",
    "curves": "what 50 to 1,000 measured molecules are worth to four methods, hours",
}
MODULES = {
    "speed": "speed.run",
    "profile": "speed.profile",
    "before": "speed.before",
    "docs": "speed.docs",
    "serve": "serve.run",
}


def main(words: list[str]) -> None:
    names = []
    while words and not words[0].startswith("-"):
        names.append(words.pop(0))
    if not names and words in (["-h"], ["--help"]):
        print(__doc__)
        for name, what in NAMES.items():
            print(f"  {name:14}{what}")
        return
    names = names or ["speed"]
    if unknown := [name for name in names if name not in NAMES]:
        sys.exit(f"no benchmark is called {unknown[0]!r}: choose from {', '.join(NAMES)}")
    if words and len(names) > 1:
        sys.exit(f"{words[0]} belongs to one benchmark: name only that")
    for name in names:
        module = importlib.import_module(f"benchmarks.{MODULES.get(name, name)}")
        sys.argv = [f"python -m benchmarks {name}", *words]
        module.main()


if __name__ == "__main__":
    main(sys.argv[1:])
