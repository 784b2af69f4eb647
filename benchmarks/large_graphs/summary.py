"""What the measurements say together: how cost grows, and how one compares with another."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.large_graphs.graphs import CORA, GRAPHS
from benchmarks.large_graphs.work import IMPLICIT_EPOCH, OURS, SPECTRAL_EPOCH

Row = dict[str, Any]
FEW_MEGABYTES = 10.0
"""Less is found in what a process has at hand, and says nothing of the graph."""


def slopes(rows: list[Row]) -> list[Row]:
    """The exponents p of seconds and megabytes ∝ edges^p, by least squares in logarithms."""
    found = []
    for kind in GRAPHS:
        for what in OURS:
            some = [r for r in rows if (r["graph"], r["what"]) == (kind, what)]
            for name, least in (("all", 0), ("over 50,000 nodes", 50_000)):
                chosen = [r for r in some if r["nodes"] > least]
                line = {
                    "graph": kind, "what": what, "sizes": name,
                    "seconds": _exponent(chosen, "seconds", 0),
                    "megabytes": _exponent(chosen, "megabytes", FEW_MEGABYTES),
                }  # fmt: skip
                if line["seconds"] is not None:
                    found.append(line)
    return found


def _exponent(rows: list[Row], what: str, least: float) -> float | None:
    chosen = [r for r in rows if r[what] > least]
    if len(chosen) < 2:
        return None
    x, y = (np.log([r[name] for r in chosen]) for name in ("edges", what))
    return round(float(np.polyfit(x, y, 1)[0]), 3)


def ratios(rows: list[Row]) -> list[Row]:
    """Implicit to spectral diffusion, and a hub to a random graph, at every size."""
    at = {key(row): row["seconds"] for row in rows}
    pairs = [((kind, "implicit"), (kind, "spectral")) for kind in GRAPHS]
    pairs += [(("cora", IMPLICIT_EPOCH), ("cora", SPECTRAL_EPOCH))]
    pairs += [(("hub", what), ("random", what)) for what in OURS]
    return [
        {
            "what": f"{' '.join(one)} / {' '.join(other)}",
            "nodes": size,
            "ratio": round(at[(*one, size)] / at[(*other, size)], 2),
        }
        for one, other in pairs
        for size in sorted({size for _, _, size in at})
        if (*one, size) in at and (*other, size) in at
    ]


def key(row: Row) -> tuple[str, str, int]:
    """Graph, work and the size that was asked for: grids are square and have nearly as many."""
    size = CORA if row["graph"] == "cora" else int(10 ** round(np.log10(row["nodes"])))
    return row["graph"], row["what"], size
