"""The record of large graphs as Markdown, for ``python -m benchmarks docs``."""

from __future__ import annotations

from benchmarks.large_graphs.graphs import GRAPHS
from benchmarks.large_graphs.summary import Row, key
from benchmarks.large_graphs.work import IMPLICIT_EPOCH, OURS, SPECTRAL_EPOCH

SHOWN = 10_000
"""Smaller graphs are in the record and in the exponents."""
OTHERS = ("expm_multiply", "cg", "appnp", "gdc")
SIZES = "all"


def large_graphs(record: Row) -> str:
    """What each piece of work costs, ours and others', and what follows."""
    at = {key(row): row for row in record["rows"]}
    places = sorted({(kind, size) for kind, _, size in at if size >= SHOWN or kind == "cora"},
                    key=lambda place: (list(GRAPHS).index(place[0]), place[1]))  # fmt: skip

    def seconds(kind: str, what: str, size: int) -> str:
        return f"{at[kind, what, size]['seconds']:.3g}" if (kind, what, size) in at else ""

    lines = [
        "| graph | nodes | edges | build | directions | spectral | implicit | step | MB |",
        "| --- |" + " ---: |" * 8,
    ]
    for kind, size in places:
        some = [at[kind, what, size] for what in OURS if (kind, what, size) in at]
        if not some:
            continue
        cells = [seconds(kind, what, size) for what in OURS]
        step = at.get((kind, "step", size))
        # Cora is what every process warms up with: it has no memory of its own to show.
        memory = f"{step['megabytes']:,.0f}" if step and kind != "cora" else ""
        lines.append(
            f"| {kind} | {some[0]['nodes']:,} | {some[0]['edges']:,} | {' | '.join(cells)} | "
            f"{memory} |"
        )
    lines += [
        "",
        "What one would take instead: scipy's, which go forward only; `APPNP` with its ten steps;",
        "and `GDC`, whose matrix of all pairs ends it at 10,000 nodes.",
        "",
        "| graph | nodes | " + " | ".join(f"`{name}`" for name in OTHERS) + " |",
        "| --- |" + " ---: |" * (1 + len(OTHERS)),
    ]
    for kind, size in places:
        cells = [seconds(kind, what, size) for what in OTHERS]
        if any(cells):
            lines.append(f"| {kind} | {size:,} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *_told(record), "", _where(record)])


def brief(record: Row) -> str:
    """The same in two sentences."""
    largest = max((row for row in record["rows"] if row["graph"] == "social"), key=_nodes)
    cost = {r["what"]: r for r in record["rows"] if _same(r, largest)}
    names = {"build": "operators", "directions": "operators with directions",
             "spectral": "spectral diffusion forward and backward", "implicit": "implicit",
             "step": "a training step of a block of 16 channels"}  # fmt: skip
    told = ", ".join(
        f"{name} {cost[what]['seconds']:.3g} s" for what, name in names.items() if what in cost
    )
    peak = max(cost[what]["megabytes"] for what in OURS if what in cost) / 1000
    return (
        f"On a social network of {largest['nodes']:,} nodes and {largest['edges']:,} directed "
        f"edges, one core: {told}; at most {peak:.1f} GB. {_growth(record)}"
    ).strip()


def _told(record: Row) -> list[str]:
    found = {(line["what"], line["nodes"]): line["ratio"] for line in record["ratios"]}
    schemes = {
        place: r
        for place, r in found.items()
        if place[0].endswith(" spectral") and " implicit / " in place[0]
    }
    lines = []
    if schemes:
        low, high = min(schemes.values()), max(schemes.values())
        (where, size), _ = max(schemes.items(), key=lambda item: item[1])
        lines.append(
            f"- Implicit to spectral diffusion: {low:.2f} to {high:.2f} "
            f"({where.split()[0]}, {size:,} nodes)"
        )
        epoch = f"cora {IMPLICIT_EPOCH} / cora {SPECTRAL_EPOCH}"
        if (ratio := next((r for (n, _), r in found.items() if n == epoch), None)) is not None:
            lines[-1] += f"; an epoch of `NodeGAD` on Cora: {ratio:.2f}"
        lines[-1] += "."
    hubs = {n.split()[1]: r for (n, size), r in found.items()
            if n.startswith("hub ") and "/ random" in n and size == 1_000_000}  # fmt: skip
    if hubs:
        told = ", ".join(f"{what} {ratio:.2f}" for what, ratio in hubs.items())
        lines.append(
            f"- One hub of 100,000 neighbours to a random graph of as many edges, a million nodes: "
            f"{told}."
        )
    growth = _growth(record)
    return [*lines, f"- {growth}"] if growth else lines


def _growth(record: Row) -> str:
    # An exponent of small graphs alone says nothing of large ones.
    whole = {(row["graph"], row["what"]) for row in record["rows"] if row["nodes"] > 900_000}
    lines = [
        line
        for line in record["slopes"]
        if line["sizes"] == SIZES and (line["graph"], line["what"]) in whole
    ]
    ranges = []
    for name in ("seconds", "megabytes"):
        some = [line[name] for line in lines if line[name] is not None]
        if not some:
            return ""
        ranges.append((min(some), max(some)))
    time, memory = (f"edges^{low:.2f} to edges^{high:.2f}" for low, high in ranges)
    return f"From a thousand to a million nodes time grows as {time}, memory as {memory}."


def _where(record: Row) -> str:
    versions = record["versions"]
    known = {"torch": "PyTorch", "torch_geometric": "PyTorch Geometric", "scipy": "SciPy"}
    told = ", ".join(f"{name} {versions[key]}" for key, name in known.items())
    return f"{record['date']}, {record['machine']['processor']}, one thread; {told}."


def _nodes(row: Row) -> int:
    return int(row["nodes"])


def _same(one: Row, other: Row) -> bool:
    return all(one[k] == other[k] for k in ("graph", "nodes"))
