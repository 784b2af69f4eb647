"""The graphs of a known set, packed with their operators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from gad.data.known.graphset import GraphSet
from gad.data.store.molecules import PackedMolecules, Preparation, pack_arrays

# Graphs packed together.
_GRAPHS_AT_ONCE = 8192


def pack_graphs(graphs: GraphSet, preparation: Preparation) -> PackedMolecules:
    """Operators and features of a known set's graphs; from the graphs alone, see ``pack_arrays``.

    Some thousands at a time: what is worked out on the way takes several times the result's memory.
    """
    parts = []
    for first in range(0, len(graphs), _GRAPHS_AT_ONCE):
        rows = np.arange(first, min(first + _GRAPHS_AT_ONCE, len(graphs)))
        some = graphs.take(rows)
        start = np.repeat(some.node_ptr[:-1], np.diff(some.edge_ptr))
        packed = pack_arrays(
            sizes=torch.from_numpy(np.diff(some.node_ptr)),
            bonds=torch.from_numpy(some.bonds + start[:, None]),
            atoms=torch.from_numpy(some.atom_categories),
            atom_values=torch.from_numpy(some.atom_values),
            bond_categories=torch.from_numpy(some.bond_categories),
            preparation=preparation,
        )
        parts.append(replace(packed, rows=torch.from_numpy(rows)))
    return PackedMolecules.concatenate(parts)
