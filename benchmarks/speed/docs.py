"""Write the records into the tables of ``docs/performance.md`` and of the README.

A page is prose with marked places, ``<!-- speed -->`` to ``<!-- /speed -->`` and so on; what
stands between the marks is replaced by what ``results/`` says now, and nothing else is touched::

    python -m benchmarks docs           # write
    python -m benchmarks docs --check   # are the pages up to date?
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import curves as learning
from benchmarks.large_graphs import page
from benchmarks.speed.record import RESULTS, ROOT, load
from gad.data.atomic import write_atomic

TITLES = {
    "train_vs_pna": "training, against a PyTorch Geometric `PNAConv` network of the same size",
    "train_vs_chemprop": "training, against chemprop's training of a D-MPNN of the same size",
    "implicit_vs_spectral": "training, implicit scheme against spectral scheme",
    "matmul_share": "the matrix products of a training step, timed alone, as a share of it",
    "infer_vs_pna": "inference, against the `PNAConv` network",
    "predict_vs_chemprop": (
        "SMILES file to prediction file, against `chemprop predict` with a model of the same size"
    ),
    "predict_default_vs_chemprop": (
        "the same by the default recipe's model (with its blend), against chemprop's default"
    ),
    "prepare_per_core": "parse, featurise and decompose on one core",
    "startup": "`gad --help`, one second divided by its time",
}
Rows = list[list[str]]


def grid(headings: Sequence[str], rows: Rows) -> str:
    """A table in Markdown, the first column to the left and the others to the right."""
    rule = ["---", *("---:" for _ in headings[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (list(headings), rule, *rows))


def number(value: float) -> str:
    """Three or four digits that matter.

    >>> number(1234.56), number(0.28361), number(2.5)
    ('1,235', '0.284', '2.5')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def where(record: dict[str, Any]) -> str:
    """One line on what was measured, when and on what."""
    machine, versions = record["machine"], record["versions"]
    named = {"torch": "PyTorch", "torch-geometric": "PyTorch Geometric", "chemprop": "chemprop"}
    known = ", ".join(f"{title} {versions[k]}" for k, title in named.items() if k in versions)
    return (
        f"{record['when'][:10]}, commit {str(record['commit'])[:12]}, {machine['processor']}, "
        f"{machine['cores']} cores; {known}."
    )


def speed(record: dict[str, Any]) -> str:
    """The figures."""
    rows = []
    for f in record["figures"]:
        spread = " – ".join(number(s) for s in f["spread"])
        rows.append([
            TITLES[f["name"]], number(f["ours"]), number(f["theirs"]), f["unit"],
            f"**{number(f['ratio'])}**", spread, number(f["must"]), number(f["aim"]),
        ])  # fmt: skip
    headings = ("figure", "ours", "theirs", "unit", "ratio", "spread", "must", "aim")
    (startup,) = [f for f in record["figures"] if f["name"] == "startup"]
    told = (
        f"Compiling the kernels takes {number(startup['compiling_seconds'])} s, once on a machine."
    )
    return f"{grid(headings, rows)}\n\n{where(record)} {told}"


def settings(record: dict[str, Any]) -> str:
    """Every contender with every number of threads, eager and compiled."""
    rows: Rows = []
    seen = set()
    for f in record["figures"]:
        for name, rate in f.get("settings", {}).items():
            # A time in seconds, not a rate, stands with the files.
            kind = "inference" if f["name"].startswith("infer") else "training"
            if not f["name"].startswith("predict") and (kind, name) not in seen:
                seen.add((kind, name))
                rows.append([f"{kind}: {name}", number(rate)])
    lines = [grid(("contender", "molecules/s"), rows)]
    for name, outcome in record.get("compiled", {}).items():
        told = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in outcome.items())
        lines.append(f"- {name}, compiled by `torch.compile`: {told}")
    return "\n".join([lines[0], "", *lines[1:]]) if len(lines) > 1 else lines[0]


def files(record: dict[str, Any]) -> str:
    """Prediction of files: time and memory for both sizes, and the rates that follow."""
    found = [f for f in record["figures"] if f["name"].startswith("predict_")]
    if not found:
        return "Not measured yet: `python -m benchmarks speed --only predict_vs_chemprop`."
    rows, measures = [], []
    for figure in found:
        models = "default" if "default" in figure["name"] else "equal"
        for who, side in (("gad", "ours"), ("chemprop", "theirs")):
            size = f"{models} ({figure['parameters'][side]:,} parameters)"
            each = ("seconds", "processor_seconds", "peak_megabytes")
            values = [number(v) for key in each for v in figure[key][who]]
            rows.append([f"`{who} predict`, {size}", *values])
        measures += [
            [
                f"{models}: {name}",
                number(m["ours"]),
                number(m["theirs"]),
                f"**{number(m['ratio'])}**",
            ]
            for name, m in figure["measures"].items()
        ]
    sizes = [f"{count:,} rows" for count in found[0]["rows"]]
    headings = ("", *(f"{what}, {size}" for what in ("s", "processor s", "MB") for size in sizes))
    told = grid(("rows per second", "ours", "theirs", "ratio"), measures)
    return f"{grid(headings, rows)}\n\n{told}"


def profile(record: dict[str, Any]) -> str:
    """Where the time goes."""
    training, inference = record["training"], record["inference"]
    parts = list(dict.fromkeys([*training["shares"], *inference["shares"]]))
    rows = [
        [part, *(f"{p['shares'][part]:.0%}" if part in p["shares"] else "–"
                 for p in (training, inference))]
        for part in parts
    ]  # fmt: skip
    headings = (
        "", f"training step, batch {training['batch']}, {training['wall_ms']:.1f} ms",
        f"forward pass, batch {inference['batch']}, {inference['wall_ms']:.1f} ms",
    )  # fmt: skip
    prediction = record["prediction"]
    stages = [
        [stage, f"{us:.0f}", f"{prediction['shares'][stage]:.0%}"]
        for stage, us in prediction["microseconds_per_molecule"].items()
    ]
    whole = f"{number(prediction['molecules_per_second'])} molecules/s on one core"
    return "\n\n".join(
        [
            grid(headings, rows),
            f"A prediction from SMILES, stage by stage ({whole}):",
            grid(("stage", "µs per molecule", "share"), stages),
        ]
    )


def growth(record: dict[str, Any]) -> str:
    """Time and memory against sizes, with slopes."""
    rows = [
        [row["varied"].replace("joined", "atoms"), f"{row['molecules']:,}", str(row["width"]),
         str(row["layers"]), f"{row['atoms']:.0f}", number(row["epoch_seconds"]),
         number(row["molecules_per_second"]), number(row["peak_megabytes"])]
        for row in record["rows"]
    ]  # fmt: skip
    headings = ("varied", "molecules", "width", "blocks", "atoms each", "s per epoch",
                "molecules/s", "peak MB")  # fmt: skip
    slopes = [
        [f"per {line['against']}", f"{line['epoch_seconds']:.2f}", f"{line['peak_megabytes']:.2f}"]
        for line in record["slopes"]
    ]
    return "\n\n".join(
        [
            grid(headings, rows),
            "Exponents (time or memory ∝ size to this power):",
            grid(("", "time", "memory"), slopes),
            where(record),
        ]
    )


def cores(record: dict[str, Any]) -> str:
    """Threads or processes; and the share outside the model."""
    found, outside = record["cores"], record["outside"]
    titles = {
        "one_thread": "one process, one thread",
        "two_threads": "one process, two threads",
        "two_processes": "two processes, one thread each, together",
    }
    rows = [[title, number(found[key])] for key, title in titles.items()]
    told = (
        f"Of a training step, {outside['outside_share']:.1%} is spent outside the model: "
        f"{outside['batching_share']:.1%} on taking the batch out of the store and "
        f"{outside['layouts_share']:.1%} on laying its operators out. With everything the training "
        f"loop does around it a step takes {outside['fit_step_ms']:.1f} ms, of which the model "
        f"{outside['model_ms']:.1f} ms."
    )
    return f"{grid(('training', 'molecules/s'), rows)}\n\n{told}"


def brief(record: dict[str, Any]) -> str:
    """The figures against others, in a few words."""
    rows = [
        [TITLES[f["name"]], number(f["ours"]), number(f["theirs"]), f"**{number(f['ratio'])}×**"]
        for f in record["figures"]
        if "_vs_" in f["name"]
    ]
    return grid(("molecules per second", "ours", "theirs", "ratio"), rows)


def accuracy(record: dict[str, Any]) -> str:
    """Test errors of every set and method, the lowest in bold, and who wins where."""
    named = {"gad": "gad", "chemprop": "chemprop", "ridge": "ridge", "trees": "boosted trees"}
    methods = {
        m: title for m, title in named.items() if all(m in by for by in record["errors"].values())
    }
    rows = []
    for name, by in record["errors"].items():
        for error in ("mae", "rmse"):
            lowest = min(by[method][error] for method in by)
            cells = (
                f"**{by[m][error]:.3f}**" if by[m][error] == lowest else f"{by[m][error]:.3f}"
                for m in methods
            )
            ratio = record["ratios"][error]["chemprop"][name]
            rows.append([f"{SETS[name]}, {error.upper()}", *cells, f"{ratio:.2f}"])
    seeds = {by[method]["seeds"] for by in record["errors"].values() for method in by}
    known = (
        f"Means over {', '.join(map(str, seeds))} seeds; chemprop {record['versions']['chemprop']}."
    )
    mean = record["mean_ratios"]
    told = f"Mean of the three ratios to chemprop: {mean['mae']['chemprop']:.2f} (MAE), "
    told += f"{mean['rmse']['chemprop']:.2f} (RMSE). {known}"
    return f"{grid(('test error', *methods.values(), 'gad / chemprop'), rows)}\n\n{told}"


def admet(record: dict[str, Any]) -> str:
    """Every task of the suite, our mean over seeds and others', the best of a row in bold."""
    others = (
        "leaderboard's best",
        "MapLight",
        "MapLight + GNN",
        "MiniMol",
        "Chemprop-RDKit",
        "Chemprop",
    )
    rows, ahead = [], dict.fromkeys(("trees", *others), (0, 0))
    for name, task in record["tasks"].items():
        if not task["gad"]:
            continue
        up = -1 if task["metric"] == "MAE" else 1
        values = {"gad": task["gad"], "trees": task["trees"]}
        means = {m: sum(own) / len(own) if own else None for m, own in values.items()}
        means |= dict(zip(others, task["published"] or [None] * len(others), strict=True))
        for other in ahead:
            if (theirs := means[other]) is not None:
                won, of = ahead[other]
                ahead[other] = won + (up * means["gad"] > up * theirs), of + 1
        best = max(up * value for value in means.values() if value is not None)
        cells = []
        for method, value in means.items():
            text = "–" if value is None else f"{value:.2f}" if value >= 5 else f"{value:.3f}"
            if method in values and len(own := values[method]) > 1:
                text += f" ± {statistics.pstdev(own):.{2 if value >= 5 else 3}f}"
            cells.append(f"**{text}**" if value is not None and up * value == best else text)
        rows.append([name, task["metric"], str(len(task["gad"])), *cells])
    headings = ("task", "metric", "seeds", "gad", "trees", *others)
    told = ", ".join(f"{other} on {won} of {of}" for other, (won, of) in ahead.items())
    short = [name for name, task in record["tasks"].items() if 0 < len(task["gad"]) < 5]
    missing = record["missing"]
    said = f"Ahead of {told}."
    if short:
        said += f" Fewer than five seeds so far: {len(short)} tasks."
    if missing:
        said += f" Not run yet: {', '.join(missing)}."
    return f"{grid(headings, rows)}\n\n{said}"


def worth(record: dict[str, Any]) -> str:
    """What base, blend and ensemble change on held-out rows, by kind of metric, one seed."""
    titles = {
        "start=scratch": "from scratch", "blend=false": "without the blend",
        "ensemble=3": "three members in place of one",
    }  # fmt: skip
    held = {(r["variant"], r["task"]): r for r in record["rows"] if r["seed"] == 1}
    rows = []
    for variant, title in titles.items():
        pairs = [
            (r["metric"], r["held"], held["start=base", task]["held"])
            for (own, task), r in held.items()
            if own == variant and ("start=base", task) in held
        ]
        if not pairs:
            continue
        worse = sum((value > usual) == (metric == "MAE") for metric, value, usual in pairs)
        cells = [f"{worse} of {len(pairs)}"]
        for metric in ("MAE", "AUROC", "AUPRC", "Spearman"):
            own = [(value, usual) for m, value, usual in pairs if m == metric]
            changes = [
                value / usual - 1 if metric == "MAE" else value - usual for value, usual in own
            ]
            mean = sum(changes) / len(changes) if own else None
            shape = "{:+.1%} ({})" if metric == "MAE" else "{:+.3f} ({})"
            cells.append("–" if mean is None else shape.format(mean, len(own)))
        rows.append([title, *cells])
    if not rows:
        return "Not measured yet: `python -m benchmarks accuracy --suite admet --ablation`."
    headings = ("", "worse than the default", "MAE", "AUROC", "AUPRC", "Spearman")
    return grid(headings, rows)


def curves(record: dict[str, Any]) -> str:
    """The figure, every error with its standard error, and how often the base is level or ahead."""
    parts, level, places = ["![Learning curves of four methods](figures/curves.svg)"], 0, 0
    for name, by in record["curves"].items():
        told = {m: dict(zip(own["sizes"], own["mae"], strict=True)) for m, own in by.items()}
        spread = {
            m: dict(zip(own["sizes"], own["standard_error"], strict=True)) for m, own in by.items()
        }
        rows = []
        lowest = {n: min(own[n] for own in told.values() if n in own) for n in learning.SIZES}
        for method, title in learning.METHODS.items():
            cells = []
            for n in learning.SIZES:
                mae, error = told[method].get(n), spread[method].get(n)
                text = "–" if mae is None else f"{mae:.3f}"
                text += f" ± {error:.3f}" if error is not None else ""
                cells.append(f"**{text}**" if mae == lowest[n] else text)
            rows.append([title, *cells])
        small = [n for n in learning.SIZES if n <= 500 and n in told["base"]]
        level += sum(told["base"][n] <= lowest[n] + (spread["base"][n] or 0) for n in small)
        places += len(small)
        parts.append(grid((learning.TITLES[name], *(f"{n:,} rows" for n in learning.SIZES)), rows))
    seeds = sorted({n for by in record["curves"].values() for m in by.values() for n in m["seeds"]})
    counted = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    parts.append(
        f"Test MAE, mean of {counted} seeds and its standard error. Up to 500 rows the base is "
        f"lowest, or within its standard error of it, in {level} of {places} places."
    )
    return "\n\n".join(parts)


SETS = {"esol": "ESOL (log mol/L)", "freesolv": "FreeSolv (kcal/mol)", "aqsol": "AqSol (log mol/L)"}
# Page → place → its record, and what makes the text.
PAGES: dict[str, dict[str, tuple[str, Callable[[dict[str, Any]], str]]]] = {
    "docs/performance.md": {
        "speed": ("speed.json", speed),
        "settings": ("speed.json", settings),
        "files": ("speed.json", files),
        "profile": ("profile.json", profile),
        "growth": ("growth.json", growth),
        "cores": ("growth.json", cores),
        "large graphs": ("large_graphs.json", page.large_graphs),
    },
    "docs/base.md": {
        "admet": ("admet.json", admet),
        "worth": ("admet_variants.json", worth),
        "curves": ("curves.json", curves),
    },
    "README.md": {
        "accuracy": ("accuracy.json", accuracy),
        "admet": ("admet.json", admet),
        "speed": ("speed.json", brief),
        "large graphs": ("large_graphs.json", page.brief),
    },
}


def fill(name: str, page: str) -> str:
    """The page with every place filled from its record; a place without a record is left alone."""
    for place, (file, make) in PAGES[name].items():
        pattern = re.compile(f"(<!-- {place} -->\n).*?(<!-- /{place} -->)", re.DOTALL)
        if not pattern.search(page):
            raise ValueError(f"{name} has no place <!-- {place} --> … <!-- /{place} -->")
        record = load(RESULTS / file)
        if record:
            # Backslashes of a text are its own, not the pattern's.
            text = make(record).replace("\\", "\\\\")
            page = pattern.sub(rf"\g<1>\n{text}\n\n\g<2>", page)
    return page


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only say whether it is up to date")
    chosen = parser.parse_args(arguments)
    for name in PAGES:
        before = (ROOT / name).read_text(encoding="utf-8")
        after = fill(name, before)
        if chosen.check and before != after:
            sys.exit(f"{name} is out of date: python -m benchmarks docs")
        if not chosen.check:
            write_atomic(ROOT / name, after.encode())
            print(f"{name}: {'changed' if after != before else 'up to date already'}")


if __name__ == "__main__":
    main()
