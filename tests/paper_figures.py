"""The paper's own numbers: what its Figures 1(a) and 3 draw, on their 13-node molecular graph.

A hexagon (nodes 0 to 5) with a branched chain hanging from node 0.
"""

from __future__ import annotations

from tests.graphs import graph

EDGES = [
    (0, 1), (0, 5), (1, 2), (5, 4), (4, 3), (2, 3), (0, 6),
    (6, 7), (6, 8), (8, 9), (9, 10), (10, 11), (10, 12),
]  # fmt: skip
GRAPH = graph(13, EDGES)

# Figure 1(a): percent of a unit of heat placed at node 0, after an implicit step of each time.
# Rounded or cut to the digits shown.
FIGURE_1A = {
    1.0: [56.9, 15.33, 4.38, 2.19, 4.38, 15.32, 10.88, 5.44, 2.91, 0.77, 0.15, 0.07, 0.07],
    5.0: [29.75, 16.88, 10.78, 8.98, 10.78, 16.88, 13.33, 11.11, 7.13, 3.78, 1.95, 1.63, 1.63],
}

# Figure 3: the anisotropic kernel of node 0, node → value, after an implicit step of this time. The
# figure draws the *transposed* field: row 0 of (F̂ᵀ − diag(column sums of F̂)) (M + tL)⁻¹ M.
FIGURE_3_TIME = 1.1
FIGURE_3 = {
    1: -0.2652,
    2: -0.080502,
    3: -0.042168,
    4: -0.080502,
    5: -0.2652,
    6: 0.32982,
    7: 0.057587,
    8: 0.062099,
    9: 0.017228,
    10: 0.0055223,
    11: 0.00096421,
    12: 0.00096421,
}
