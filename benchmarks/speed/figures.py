"""The eight figures: what is measured for each, and how it becomes one ratio."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.speed.bench import (
    DMPNN,
    FORWARD_ONLY,
    OURS,
    OWN_LOOP,
    PNA,
    Bench,
    Rates,
    fastest,
)
from benchmarks.speed.prediction import measure_prediction
from benchmarks.speed.workers import interleave, middle, run_command

Figures = dict[str, dict[str, Any]]
SPECTRAL = "gad, spectral scheme"


def ratio(found: Rates, ours: str, theirs: str, batches: Sequence[int]) -> dict[str, Any]:
    """Ours over theirs for each batch; the figure is the less favourable of them."""
    by_batch: dict[int, dict[str, Any]] = {}
    for batch in batches:
        us, them = fastest(found, ours, batch), fastest(found, theirs, batch)
        each = [a / b for a, b in zip(found[us], found[them], strict=False)]
        entry: dict[str, Any] = {
            "ours": middle(found[us]),
            "theirs": middle(found[them]),
            "ratio": middle(found[us]) / middle(found[them]),
            "spread": [min(each), max(each)],
            "threads": {"ours": us.threads, "theirs": them.threads},
            "compiled": {"ours": us.compiled, "theirs": them.compiled},
            "rounds": len(each),
        }
        if {ours, theirs} <= {e.who for e in found if not e.compiled}:
            # Where there is no compiler, neither side has one.
            entry["ours_eager"] = middle(found[fastest(found, ours, batch, eager=True)])
            entry["theirs_eager"] = middle(found[fastest(found, theirs, batch, eager=True)])
            entry["ratio_eager"] = entry["ours_eager"] / entry["theirs_eager"]
            entry["ratio_eager_to_compiled"] = entry["ours_eager"] / entry["theirs"]
        by_batch[batch] = entry
    least = min(by_batch, key=lambda batch: by_batch[batch]["ratio"])
    settings = {
        f"{entry}, batch {entry.batch}": middle(rates)
        for entry, rates in found.items()
        if entry.who in (ours, theirs)
    }
    return {
        **by_batch[least],
        "unit": "molecules/s",
        "batch": least,
        "by_batch": {str(batch): entry for batch, entry in by_batch.items()},
        "settings": settings,
    }


def measure_training(bench: Bench, wanted: set[str]) -> Figures:
    """Training: against both peers."""
    pairs = {
        "train_vs_pna": (OURS, PNA),
        "train_vs_chemprop": (OWN_LOOP, DMPNN),
    }
    pairs = {name: pair for name, pair in pairs.items() if name in wanted}
    if not pairs:
        return {}
    bench.tell("training")
    who = list(dict.fromkeys(name for pair in pairs.values() for name in pair))
    bench.load(*(name for name, peer in (("pna", PNA), ("chemprop", DMPNN)) if peer in who))
    entries = bench.entries(*who)
    for contender in (PNA, DMPNN):
        if contender in who:
            entries += bench.compiled(contender, "train")
    found = bench.compare(entries, "train")
    bench.note_compiled(found, "train")
    figures = {name: ratio(found, *pair, bench.plan.batches) for name, pair in pairs.items()}
    for name, contender, peer in (
        ("train_vs_pna", PNA, "pna"),
        ("train_vs_chemprop", DMPNN, "chemprop"),
    ):
        if name in figures:
            figures[name]["contender"] = contender
            figures[name]["parameters"] = {
                "ours": bench.size, "theirs": bench.model(peer)["parameters"]
            }  # fmt: skip
    return figures


def measure_schemes(bench: Bench, wanted: set[str]) -> Figures:
    """One scheme against the other, step by step in turn: what disturbs one disturbs both."""
    if "implicit_vs_spectral" not in wanted:
        return {}
    bench.tell("schemes")
    plan, by = bench.plan, {}
    for batch in plan.batches:
        goes = {
            (threads, compiled): lambda threads=threads, compiled=compiled, batch=batch: (
                bench.worker("speed.gad", threads).ask(
                    "schemes", batch=batch, seconds=plan.seconds, compiled=compiled
                )
            )
            for threads in plan.threads
            for compiled in (True, False)
        }
        found = interleave(goes, plan.rounds, bench.tell)
        rates = {key: middle(go["implicit"] for go in found[key]) for key in found}
        best = max(rates, key=lambda key: rates[key])
        plain = max((key for key in rates if not key[1]), key=lambda key: rates[key])
        each, eager = (
            [go["implicit"] / go["spectral"] for go in found[key]] for key in (best, plain)
        )
        by[batch] = {
            "ours": rates[best],
            "theirs": middle(go["spectral"] for go in found[best]),
            "ratio": middle(each),
            "ratio_eager": middle(eager),
            "spread": [min(each), max(each)],
            "threads": {"ours": best[0], "theirs": best[0]},
            "rounds": plan.rounds,
        }
    least = min(by, key=lambda batch: by[batch]["ratio"])
    figure = {**by[least], "unit": "molecules/s", "batch": least, "contender": SPECTRAL}
    return {"implicit_vs_spectral": {**figure, "by_batch": {str(b): e for b, e in by.items()}}}


def measure_products(bench: Bench, wanted: set[str]) -> Figures:
    """The matrix products of a training step, alone, as a share of the step."""
    if "matmul_share" not in wanted:
        return {}
    bench.tell("matrix products alone")
    plan, by = bench.plan, {}
    for batch in plan.batches:
        goes = {
            threads: lambda threads=threads, batch=batch: bench.worker("speed.gad", threads).ask(
                "products", batch=batch, seconds=plan.seconds
            )
            for threads in plan.threads
        }
        found = interleave(goes, plan.rounds, bench.tell)
        step = {n: middle(go["step_ms"] for go in found[n]) for n in found}
        threads = min(step, key=lambda n: step[n])
        shares = [go["products_ms"] / go["step_ms"] for go in found[threads]]
        alone = middle(go["products_ms"] for go in found[threads])
        by[batch] = {
            "ours": alone,
            "theirs": step[threads],
            "ratio": alone / step[threads],
            "spread": [min(shares), max(shares)],
            "threads": {"ours": threads},
            "products": found[threads][0]["products"],
            "rounds": plan.rounds,
        }
    least = min(by, key=lambda batch: by[batch]["ratio"])
    figure = {**by[least], "unit": "ms", "batch": least, "contender": "the whole training step"}
    return {"matmul_share": {**figure, "by_batch": {str(b): e for b, e in by.items()}}}


def measure_inference(bench: Bench, wanted: set[str]) -> Figures:
    """Inference: batches made and predicted; and predicted only."""
    if "infer_vs_pna" not in wanted:
        return {}
    bench.tell("inference")
    bench.model("pna")
    entries = bench.entries(OURS, PNA, OURS + FORWARD_ONLY, PNA + FORWARD_ONLY)
    found = bench.compare([*entries, *bench.compiled(PNA, "infer")], "infer")
    bench.note_compiled(found, "infer")
    figure = ratio(found, OURS, PNA, bench.plan.batches)
    only = ratio(found, OURS + FORWARD_ONLY, PNA + FORWARD_ONLY, bench.plan.batches)
    figure["contender"] = PNA
    figure["forward_only"] = {k: only[k] for k in ("ours", "theirs", "ratio", "spread", "batch")}
    figure["parameters"] = {"ours": bench.size, "theirs": bench.model("pna")["parameters"]}
    return {"infer_vs_pna": figure}


def measure_preparation(bench: Bench, wanted: set[str]) -> Figures:
    """Parse, featurise and decompose on one core, with and without descriptors."""
    if "prepare_per_core" not in wanted:
        return {}
    bench.tell("preparation")
    worker = bench.worker("speed.gad", 1)
    goes = {
        descriptors: lambda descriptors=descriptors: worker.ask(
            "prepare", count=bench.plan.prepared, descriptors=descriptors
        )["rate"]
        for descriptors in (True, False)
    }
    found = interleave(goes, bench.plan.rounds, bench.tell)
    from gad.settings.recipe import load_recipe

    default = found[load_recipe("default").molecules.descriptors]
    return {
        "prepare_per_core": {
            "ours": middle(default),
            "contender": "one molecule a second",
            "theirs": 1,
            "ratio": middle(default),
            "spread": [min(default), max(default)],
            "unit": "molecules/s",
            "batch": bench.plan.prepared,
            "threads": {"ours": 1},
            "with_descriptors": middle(found[True]),
            "without_descriptors": middle(found[False]),
            "rounds": bench.plan.rounds,
        }
    }


def measure_startup(bench: Bench, wanted: set[str]) -> Figures:
    """The time of ``gad --help``; and, once on a machine, of compiling the kernels."""
    if "startup" not in wanted:
        return {}
    bench.tell("start-up")
    with tempfile.TemporaryDirectory() as cache:
        load = ["env", f"GAD_CACHE={cache}", sys.executable, "-c"]
        load.append("from gad import native; native.library()")
        compiling, again = (run_command(load, threads=None)["seconds"] for _ in range(2))
    command = [str(Path(sys.executable).with_name("gad")), "--help"]
    times = [run_command(command, threads=None)["seconds"] for _ in range(10)]
    best = min(times)
    return {
        "startup": {
            "ours": best,
            "contender": "one second",
            "theirs": 1,
            "ratio": 1 / best,
            "spread": [1 / max(times), 1 / best],
            "unit": "s",
            "batch": None,
            "threads": {"ours": 1},
            "rounds": len(times),
            "compiling_seconds": compiling - again,
        }
    }


MEASURES = (
    measure_training,
    measure_schemes,
    measure_products,
    measure_inference,
    measure_prediction,
    measure_preparation,
    measure_startup,
)
