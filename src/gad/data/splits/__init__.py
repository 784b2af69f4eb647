"""Train, validation and test rows: drawn by chance, by class, by scaffold, or given by the user.

One rule holds for every split drawn here: **all rows of one molecule fall on the same side**. Rows
are told apart by a *key*, any hashable value that is equal for two spellings of one molecule (a
canonical SMILES, say), so nothing in this module needs to know chemistry. A split that the user
gives is kept as it is, and what it leaks is reported.

Every random choice comes from ``numpy.random.Generator(PCG64(seed))``, through its ``random()``
alone (the part of the stream that is the same everywhere), so a seed means the same rows on every
machine.

Example:
    >>> split = random_split(["CCO", "CC", "OCC", "CO", "C"], (0.6, 0.2, 0.2), seed=0)
    >>> [len(rows) for _, rows in split.parts()]
    [3, 1, 1]
"""

from __future__ import annotations

from gad.data.splits.drawn import k_fold, random_split, scaffold_split, stratified_split
from gad.data.splits.given import column_split, index_split
from gad.data.splits.report import Duplicate, duplicates, leakage
from gad.data.splits.split import Split
from gad.data.splits.time import said_of_time, time_split

__all__ = [
    "Duplicate",
    "Split",
    "column_split",
    "duplicates",
    "index_split",
    "k_fold",
    "leakage",
    "random_split",
    "said_of_time",
    "scaffold_split",
    "stratified_split",
    "time_split",
]
