"""The numbers the paper prints, and nothing else: tables 1 and 2 (mean absolute errors)."""

from __future__ import annotations

from typing import TypeAlias

Error: TypeAlias = tuple[float, float | None]
"""A mean and its standard deviation over seeds, None where none is printed."""

ZINC: dict[str, tuple[Error | None, Error | None]] = {
    "gcn": ((0.469, 0.002), None),
    "gin": ((0.408, 0.008), None),
    "sage": ((0.410, 0.005), None),
    "gat": ((0.463, 0.002), None),
    "monet": ((0.407, 0.007), None),
    "gatedgcn": ((0.422, 0.006), (0.363, 0.009)),
    "pna": ((0.320, 0.032), (0.188, 0.004)),
    "dgn": ((0.219, 0.010), (0.168, 0.003)),
    "himp": (None, (0.151, 0.006)),
    "smp": ((0.219, None), (0.138, None)),
    "gsn": ((0.140, 0.006), (0.115, 0.012)),
    "gad-i": ((0.181, 0.004), (0.139, 0.007)),
    "gad-s": ((0.194, 0.006), (0.140, 0.004)),
}
"""Model → errors on ZINC without and with edge features, in the order of the paper's table."""

QM9: dict[str, dict[str, float]] = {
    "pna": {
        "mu": 0.365, "alpha": 0.255, "homo": 71.5, "lumo": 70.1, "gap": 100.2, "r2": 18.3,
        "zpve": 6.57,
    },
    "dgn": {
        "mu": 0.354, "alpha": 0.250, "homo": 71.1, "lumo": 68.0, "gap": 99.2, "r2": 17.2,
        "zpve": 6.03,
    },
    "gad-s": {
        "mu": 0.338, "alpha": 0.240, "homo": 64.3, "lumo": 63.0, "gap": 96.8, "r2": 16.5,
        "zpve": 4.84,
    },
}  # fmt: skip
"""Model → property → error on QM9, bonds on, one run each."""

PROPERTIES: dict[str, str] = {
    "mu": "D", "alpha": "a0^3", "homo": "meV", "lumo": "meV", "gap": "meV", "r2": "a0^2",
    "zpve": "meV",
}  # fmt: skip
"""The seven properties of QM9, with their units."""

TITLES: dict[str, str] = {
    "gcn": "GCN", "gin": "GIN", "sage": "GraphSage", "gat": "GAT", "monet": "MoNet",
    "gatedgcn": "GatedGCN", "pna": "PNA", "dgn": "DGN", "himp": "HIMP*", "smp": "SMP*",
    "gsn": "GSN*", "gad-i": "GAD-i", "gad-s": "GAD-s",
}  # fmt: skip
"""Names as printed; an asterisk marks tailored features such as cycles."""


def error(data: str, model: str, edges: bool, prop: str | None = None) -> Error | None:
    """What the paper prints for a cell, if it has one.

    >>> error("zinc", "gad-i", True), error("zinc", "gcn", True), error("qm9", "dgn", True, "mu")
    ((0.139, 0.007), None, (0.354, None))
    """
    if data == "zinc":
        return ZINC[model][int(edges)] if model in ZINC else None
    if not edges or prop not in QM9.get(model, {}):
        return None
    return QM9[model][str(prop)], None
