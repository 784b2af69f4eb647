"""From a file of SMILES to a file of predictions, by the two command lines, each on all cores.

Two files, 20,000 and 100,000 rows, and two pairs of models: the networks of the other figures, with
as many parameters on either side, and what each program trains by default (ours a network with
its blend beside it). A rate is rows divided by the whole time of the command, start and all;
and, once more, the additional rows of the larger file divided by its additional time. A figure is
the least favourable of the three ratios. Both commands are given as many worker processes as there
are cores; chemprop also runs with its other ways to use them all, and its fastest counts.

Everybody takes turns in one run. Processor seconds, of a command with all its processes, are
recorded beside: they hardly depend on what else the machine does.
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

# Figure → which models of both sides.
PAIRS = {"predict_vs_chemprop": "equal", "predict_default_vs_chemprop": "default"}
WHO = ("gad", "chemprop")
Setting = tuple[int, int]  # worker processes, threads of each
Go = dict[str, float]


def measure_prediction(bench: Bench, wanted: set[str]) -> dict[str, dict[str, Any]]:
    """Both commands on both files, in turn; either figure is measured with the other."""
    if not wanted & PAIRS.keys():
        return {}
    bench.tell("prediction of files")
    plan, race, every = bench.plan, Race(bench), cores()
    settings: dict[str, list[Setting]] = {
        "gad": [(every, 1)],
        "chemprop": [(every, 1), (every, every), (0, every)],
    }
    # These goes also leave every module compiled, as it is in any installation.
    tried = {
        (who, pair): {
            setting: race.go(who, pair, plan.rows[0], setting)
            for setting in dict.fromkeys(settings[who])
        }
        for pair in PAIRS.values()
        for who in WHO
    }
    best = {side: min(goes, key=lambda s: goes[s]["seconds"]) for side, goes in tried.items()}
    goes = {
        (*side, rows): lambda side=side, rows=rows: race.go(*side, rows, best[side])
        for rows in plan.rows
        for side in tried
    }
    found = interleave(goes, plan.predict_rounds, bench.tell)
    return {name: _figure(bench, race, pair, tried, found) for name, pair in PAIRS.items()}


def _figure(
    bench: Bench,
    race: Race,
    pair: str,
    tried: dict[tuple[str, str], dict[Setting, Go]],
    found: dict[tuple[str, str, int], list[Go]],
) -> dict[str, Any]:
    """All that was measured with one pair of models."""
    plan = bench.plan
    own = {(who, rows): found[who, pair, rows] for who in WHO for rows in plan.rows}
    measures = rates(own, plan.rows)
    least = min(measures, key=lambda name: measures[name]["ratio"])
    best = {who: min(goes := tried[who, pair], key=lambda s: goes[s]["seconds"]) for who in WHO}
    columns = {
        name: {who: [pick(go[key] for go in own[who, rows]) for rows in plan.rows] for who in WHO}
        for name, key, pick in (
            ("seconds", "seconds", middle),
            ("processor_seconds", "processor_seconds", middle),
            ("peak_megabytes", "megabytes", max),
        )
    }
    spent = columns["processor_seconds"]
    return {
        **measures[least],
        "contender": "chemprop predict",
        "unit": f"rows/s, {least}",
        "batch": "each command's own",
        "threads": {
            side: {"processes": best[who][0], "threads": best[who][1]}
            for side, who in zip(("ours", "theirs"), WHO, strict=True)
        },
        "rows": list(plan.rows),
        "measures": measures,
        "processor_ratio": [b / a for a, b in zip(spent["gad"], spent["chemprop"], strict=True)],
        **columns,
        "parameters": race.parameters[pair],
        "settings": {
            f"{who}, {p} worker processes, {t} threads, {plan.rows[0]} rows": go["seconds"]
            for who in WHO
            for (p, t), go in tried[who, pair].items()
        },
        "rounds": plan.predict_rounds,
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
    """The files, the models of both sides, and the commands."""

    def __init__(self, bench: Bench) -> None:
        from benchmarks.speed.gad import smiles

        self.work = bench.work
        for rows in bench.plan.rows:
            with self.table(rows).open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([["smiles"], *([text] for text in smiles(rows))])
        threads = bench.plan.threads[0]
        ours, theirs = (bench.worker(f"speed.{who}", threads) for who in WHO)
        self.parameters = {}
        for pair in PAIRS.values():
            path = str(self.model("gad", pair).parent)
            own = ours.ask("model", folder=path, default=pair == "default")["parameters"]
            # Its own default has the width that it has.
            asked = {"parameters": own if pair == "equal" else None}
            path = str(self.model("chemprop", pair))
            other = theirs.ask("model", path=path, **asked)["parameters"]
            self.parameters[pair] = {"ours": own, "theirs": other}

    def table(self, rows: int) -> Path:
        """The file with so many molecules."""
        return self.work / f"{rows}.csv"

    def model(self, who: str, pair: str) -> Path:
        """The model file of one side."""
        return self.work / f"{who}-{pair}" / ("model.gad" if who == "gad" else "model.pt")

    def command(self, who: str, pair: str, rows: int, out: Path, processes: int) -> list[str]:
        """What a user would type."""
        table, model = str(self.table(rows)), str(self.model(who, pair))
        if who == "gad":
            return [sys.executable, "-m", "gad.cli", "predict", model, table, "-o", str(out),
                    "--workers", str(processes)]  # fmt: skip
        return [str(chemprop_python().with_name("chemprop")), "predict", "-i", table,
                "-o", str(out), "-s", "smiles", "--model-paths", model, "--accelerator", "cpu",
                "--num-workers", str(processes)]  # fmt: skip

    def go(self, who: str, pair: str, rows: int, setting: Setting) -> Go:
        """Run a command; every row must have come out."""
        processes, threads = setting
        out = self.work / f"{who}.csv"
        out.unlink(missing_ok=True)
        command = self.command(who, pair, rows, out, processes)
        done = run_command(command, threads=threads, log=self.work / f"{who}.log", memory=True)
        with out.open(encoding="utf-8", newline="") as file:
            written = sum(1 for _ in csv.reader(file)) - 1
        if written != rows:
            raise RuntimeError(f"{who} predicted {written} of {rows} rows")
        return done
