"""How fast we are, beside what people use today: nine figures, as ratios measured in one run.

ZINC-12k molecules, about 100,000 parameters, batches of 64 and 128, two cores::

    GAD_DATA=... python -m benchmarks speed                      # everything, ten minutes
    GAD_DATA=... python -m benchmarks speed --only train_vs_pna  # one figure, the rest is kept
    GAD_DATA=... python -m benchmarks speed --quick              # does it run? the numbers are idle

All contenders of a figure take turns, round after round; a figure is the ratio of the medians, and
its spread the lowest and highest ratio of a round. Each contender is represented by its faster
number of threads. The record is ``results/speed.json``; ``benchmarks/README.md`` says what is
measured and what is not.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.speed.bench import Bench, Plan
from benchmarks.speed.figures import MEASURES
from benchmarks.speed.record import (
    RESULTS,
    all_versions,
    commit,
    load,
    machine,
    need_data,
    now,
    rounded,
    save,
)

# Name → what must be reached and what is aimed at, in the order of the table.
FIGURES: dict[str, tuple[float, float]] = {
    "train_vs_pna": (2.5, 4),
    "train_vs_chemprop": (1.2, 2),
    "implicit_vs_spectral": (0.95, 1),
    "matmul_share": (0.3, 0.5),
    "infer_vs_pna": (1.5, 2.5),
    "predict_vs_chemprop": (3, 4),
    "predict_default_vs_chemprop": (2, 3),
    "prepare_per_core": (2_000, 3_000),
    "startup": (1, 2),
}
OUTPUT = RESULTS / "speed.json"


def update(record: dict[str, Any], figures: dict[str, dict[str, Any]]) -> None:
    """Put new figures in the place of old ones, in the order of the table."""
    known = {figure["name"]: figure for figure in record.get("figures", [])}
    stamp = {"when": now(), "commit": commit()}
    for name, figure in figures.items():
        must, aim = FIGURES[name]
        known[name] = rounded({
            "name": name,
            **{key: figure.pop(key) for key in ("ours", "contender", "theirs", "ratio")},
            **({"ratio_eager": figure.pop("ratio_eager")} if "ratio_eager" in figure else {}),
            "must": must, "aim": aim, **figure, **stamp,
        })  # fmt: skip
    record["figures"] = [known[name] for name in FIGURES if name in known]


def show(console: Console, record: dict[str, Any]) -> None:
    """The table."""
    table = Table(title="Speed, side by side")
    for heading in ("figure", "against"):
        table.add_column(heading)
    for heading in ("ours", "theirs", "ratio", "spread", "batch", "threads", "must", "aim", ""):
        table.add_column(heading, justify="right")
    for f in record["figures"]:
        reached = "aim" if f["ratio"] >= f["aim"] else "must" if f["ratio"] >= f["must"] else "no"
        threads = [
            str(t if isinstance(t, int) else f"{t['processes']}×{t['threads']}")
            for t in f["threads"].values()
        ]
        table.add_row(
            f["name"], f["contender"], f"{f['ours']:,.4g}", f"{f['theirs']:,.4g}",
            f"{f['ratio']:,.3g}", "–".join(f"{s:,.3g}" for s in f["spread"]),
            str(f["batch"] or ""), " / ".join(threads), f"{f['must']:g}", f"{f['aim']:g}", reached,
        )  # fmt: skip
    console.print(table)
    for f in record["figures"]:
        for name, m in f.get("measures", {}).items():
            told = f"ours {m['ours']:,.4g}, theirs {m['theirs']:,.4g}, ratio {m['ratio']:.3g}"
            console.print(f"{f['name']}, rows per second by {name}: {told}")
    for name, outcome in record.get("compiled", {}).items():
        console.print(f"{name}: {outcome}", style="dim")


def options(parser: argparse.ArgumentParser) -> None:
    """What can be chosen."""
    parser.add_argument(
        "--only", action="append", choices=FIGURES, metavar="NAME",
        help=f"measure this figure and keep the others: {', '.join(FIGURES)}",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="see that it runs; recorded apart")
    parser.add_argument("--seconds", type=float, help="of one go (1.5)")
    parser.add_argument("--rounds", type=int, help="how often everybody has a go (4)")
    parser.add_argument("--threads", type=int, nargs="+", help="numbers to choose from (1 2)")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--output", type=Path, help="the record (results/speed.json)")


def plan_of(chosen: argparse.Namespace) -> Plan:
    """The plan with what was chosen."""
    plan = Plan().quick() if chosen.quick else Plan()
    given = {key: getattr(chosen, key) for key in ("seconds", "rounds")}
    given["threads"] = tuple(chosen.threads) if chosen.threads else None
    given["compiles"] = False if chosen.no_compile else None
    return replace(plan, **{key: value for key, value in given.items() if value is not None})


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks speed", description=(__doc__ or "").partition("\n")[0]
    )
    options(parser)
    chosen = parser.parse_args(arguments)
    need_data()
    plan = plan_of(chosen)
    # A quick look must not overwrite what was measured.
    output = chosen.output or (RESULTS.parent / "build" / "speed.json" if chosen.quick else OUTPUT)
    console = Console(width=150)
    with tempfile.TemporaryDirectory(prefix="gad-speed-") as work:
        bench = Bench(plan, lambda text: console.print(f"{text} …", style="dim"), Path(work))
        before = load(output)
        record: dict[str, Any] = {
            "what": (__doc__ or "").partition("\n")[0],
            "machine": machine(),
            "versions": all_versions(),
            "commit": commit(),
            "when": now(),
            "plan": asdict(plan),
            "model": bench.model("gad"),
            "compiled": before.get("compiled", {}),
            "figures": before.get("figures", []),
        }
        try:
            for measure in MEASURES:
                if figures := measure(bench, set(chosen.only or FIGURES)):
                    update(record, figures)
                    record["compiled"] |= rounded(bench.tried)
                    save(output, record)
        finally:
            bench.close()
    show(console, record)
    console.print(f"written to {output}")


if __name__ == "__main__":
    main()
