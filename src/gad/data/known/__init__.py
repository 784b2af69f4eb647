"""Known data sets by name, each with a checksum: nobody trains on something else by accident.

========  =========================================================================  ==============
name      what                                                                       returns
========  =========================================================================  ==============
``esol``  1,281 molecules with measured solubility in water; inside the package       `MoleculeSet`
``qm9``   130,831 molecules with twenty computed properties; Brockschmidt's split     `GraphSet`
``zinc``  ZINC-12k: 12,000 graphs, penalised logP; the benchmark's split              `GraphSet`
========  =========================================================================  ==============

The last two are read from the folder named by ``GAD_DATA`` when that is set, and otherwise come
from their public homes (PyTorch Geometric's download, the package ``qm9pack``), which give the same
graphs and numbers. What is downloaded or converted is kept in ``GAD_CACHE`` (by default the
platform's cache folder).

Example:
    >>> table = load("ESOL")
    >>> len(table), table.smiles[0], table.targets[0].tolist(), table.units
    (1281, 'CCCCC', [-3.18], ('log mol/L',))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gad.data.known.esol import MoleculeSet, load_esol
from gad.data.known.graphset import GraphSet
from gad.data.known.qm9 import load_qm9
from gad.data.known.zinc import load_zinc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["KNOWN", "GraphSet", "MoleculeSet", "load", "load_esol", "load_qm9", "load_zinc"]

KNOWN: Mapping[str, Callable[[], GraphSet | MoleculeSet]] = {
    "esol": load_esol,
    "qm9": load_qm9,
    "zinc": load_zinc,
}
"""Name → function that loads the set."""


def load(name: str) -> GraphSet | MoleculeSet:
    """Load a known data set by its name, in any case."""
    loader = KNOWN.get(name.lower())
    if loader is None:
        raise ValueError(f"no known data set is called {name!r}; there are {', '.join(KNOWN)}")
    return loader()
