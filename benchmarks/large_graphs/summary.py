"""What the measurements say together: how cost grows, and how one compares with another."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.large_graphs.graphs import CORA, GRAPHS
from benchmarks.large_graphs.work import IMPLICIT_EPOCH, OURS, SPECTRAL_EPOCH

Row = dict[str, Any]


def slopes(rows: list[Row]) -> list[Row]:
    """The exponents p of seconds and megabytes ∝ edges^p, by least squares in logarithms."""
    found = []
    for kind in GRAPHS:
        for what in OURS:
            some = [r for r in rows if (r["graph"], r["what"]) == (kind, what)]
            large = [r for r in some if r["nodes"] > 50_000]
            for name, chosen in (("all", some), ("over 50,000 nodes", large)):
                if len(chosen) < 2:
                    continue
                x = np.log([r["edges"] for r in chosen])

                def exponent(key: str, of: list[Row] = chosen, x: Any = x) -> float:
                    y = np.log([max(r[key], 1e-4) for r in of])
                    return round(float(np.polyfit(x, y, 1)[0]), 3)

                found.append({
                    "graph": kind, "what": what, "sizes": name,
                    "seconds": exponent("seconds"), "megabytes": exponent("megabytes"),
                })  # fmt: skip
    return found


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
