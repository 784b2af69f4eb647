"""From a file of SMILES to a file of predictions, by the two command lines, each on all cores.

Two files, 20,000 and 100,000 rows. A rate is rows divided by the whole time of the command, start
and all; and, once more, the additional rows of the larger file divided by its additional time. The
figure is the least favourable of the three ratios. Both commands are given as many worker processes
as there are cores; chemprop also runs with its other ways to use them all, and its fastest counts.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

from benchmarks.contenders import chemprop_python
from benchmarks.speed.bench import Bench
from benchmarks.speed.workers import interleave, middle, run_command
from gad.machine import cores

NAME = "predict_vs_chemprop"
Setting = tuple[int, int]  # worker processes, threads of each
Go = dict[str, float]


def measure_prediction(bench: Bench, wanted: set[str]) -> dict[str, dict[str, Any]]:
    """Both commands on both files, in turn."""
    if NAME not in wanted:
        return {}
    bench.tell("prediction of files")
    plan, race = bench.plan, Race(bench)
    small = plan.rows[0]
    every = cores()
    settings: dict[str, list[Setting]] = {
        "gad": [(every, 1)],
        "chemprop": [(every, 1), (every, every), (0, every)],
    }
    # These goes also leave every module compiled, as it is in any installation.
    tried = {
        who: {setting: race.go(who, small, setting) for setting in dict.fromkeys(several)}
        for who, several in settings.items()
    }
    best = {who: min(goes, key=lambda s: goes[s]["seconds"]) for who, goes in tried.items()}
    goes = {
        (who, rows): lambda who=who, rows=rows: race.go(who, rows, best[who])
        for who in settings
        for rows in plan.rows
    }
    found = interleave(goes, plan.predict_rounds, bench.tell)
    measures = rates(found, plan.rows)
    least = min(measures, key=lambda name: measures[name]["ratio"])
    return {
        NAME: {
            **measures[least],
            "contender": "chemprop predict",
            "unit": f"rows/s, {least}",
            "batch": "each command's own",
            "threads": {
                side: {"processes": best[who][0], "threads": best[who][1]}
                for side, who in (("ours", "gad"), ("theirs", "chemprop"))
            },
            "rows": list(plan.rows),
            "measures": measures,
            **{
                name: {
                    who: [pick(go[key] for go in found[who, rows]) for rows in plan.rows]
                    for who in settings
                }
                for name, key, pick in (
                    ("seconds", "seconds", middle),
                    ("processor_seconds", "processor_seconds", middle),
                    ("peak_megabytes", "megabytes", max),
                )
            },
            "parameters": race.parameters,
            "settings": {
                f"{who}, {p} worker processes, {t} threads, {small} rows": go["seconds"]
                for who, several in tried.items()
                for (p, t), go in several.items()
            },
            "rounds": plan.predict_rounds,
        }
    }


def rates(
    found: dict[tuple[str, int], list[Go]], sizes: tuple[int, int]
) -> dict[str, dict[str, Any]]:
    """Rows per second of both, by the whole time of each file and by the difference of the two.

    >>> ours = {("gad", 2): [{"seconds": 2.0}], ("gad", 4): [{"seconds": 3.0}]}
    >>> theirs = {("chemprop", 2): [{"seconds": 3.0}], ("chemprop", 4): [{"seconds": 5.0}]}
    >>> {name: m["ratio"] for name, m in rates({**ours, **theirs}, (2, 4)).items()}
    {'whole time of 2 rows': 1.5, 'whole time of 4 rows': 1.666..., 'additional rows': 2.0}
    """

    def each(who: str, rows: int | None) -> list[float]:
        if rows is not None:
            return [rows / go["seconds"] for go in found[who, rows]]
        pairs = zip(*(found[who, size] for size in sizes), strict=True)
        return [(sizes[1] - sizes[0]) / (b["seconds"] - a["seconds"]) for a, b in pairs]

    named = {f"whole time of {rows:,} rows": rows for rows in sizes}
    measures = {}
    for name, rows in {**named, "additional rows": None}.items():
        ours, theirs = each("gad", rows), each("chemprop", rows)
        measures[name] = {
            "ours": middle(ours),
            "theirs": middle(theirs),
            "ratio": middle(ours) / middle(theirs),
            "spread": [min(ours) / max(theirs), max(ours) / min(theirs)],
        }
    return measures


class Race:
    """The files, a model of each side with as many parameters, and the commands."""

    def __init__(self, bench: Bench) -> None:
        from benchmarks.speed.gad import smiles

        self.work = bench.work
        for rows in bench.plan.rows:
            with self.table(rows).open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([["smiles"], *([text] for text in smiles(rows))])
        threads = bench.plan.threads[0]
        model = {"folder": str(self.work / "gad")}
        ours = bench.worker("speed.gad", threads).ask("model", **model)["parameters"]
        asked = {"path": str(self.work / "chemprop.pt"), "parameters": ours}
        theirs = bench.worker("speed.chemprop", threads).ask("model", **asked)["parameters"]
        self.parameters = {"ours": ours, "theirs": theirs}

    def table(self, rows: int) -> Path:
        """The file with so many molecules."""
        return self.work / f"{rows}.csv"

    def command(self, who: str, rows: int, out: Path, processes: int) -> list[str]:
        """What a user would type."""
        if who == "gad":
            model = str(self.work / "gad" / "model.gad")
            return [sys.executable, "-m", "gad.cli", "predict", model, str(self.table(rows)),
                    "-o", str(out), "--workers", str(processes)]  # fmt: skip
        return [str(chemprop_python().with_name("chemprop")), "predict", "-i",
                str(self.table(rows)), "-o", str(out), "-s", "smiles",
                "--model-paths", str(self.work / "chemprop.pt"), "--accelerator", "cpu",
                "--num-workers", str(processes)]  # fmt: skip

    def go(self, who: str, rows: int, setting: Setting) -> Go:
        """Run a command; every row must have come out."""
        processes, threads = setting
        out = self.work / f"{who}.csv"
        out.unlink(missing_ok=True)
        command = self.command(who, rows, out, processes)
        done = run_command(command, threads=threads, log=self.work / f"{who}.log", memory=True)
        with out.open(encoding="utf-8", newline="") as file:
            written = sum(1 for _ in csv.reader(file)) - 1
        if written != rows:
            raise RuntimeError(f"{who} predicted {written} of {rows} rows")
        return done
