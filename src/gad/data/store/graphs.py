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
    firsts = range(0, len(graphs), _GRAPHS_AT_ONCE)
    return PackedMolecules.concatenate([_pack_some(graphs, preparation, first) for first in firsts])


def _pack_some(graphs: GraphSet, preparation: Preparation, first: int) -> PackedMolecules:
    last = min(first + _GRAPHS_AT_ONCE, len(graphs))
    nodes, edges = graphs.node_ptr[first : last + 1], graphs.edge_ptr[first : last + 1]
    node, edge = slice(nodes[0], nodes[-1]), slice(edges[0], edges[-1])
    start = torch.from_numpy(nodes[:-1] - nodes[0]).repeat_interleave(
        torch.from_numpy(np.diff(edges))
    )
    packed = pack_arrays(
        sizes=torch.from_numpy(np.diff(nodes)),
        bonds=torch.from_numpy(graphs.bonds[edge]).to(torch.int64) + start[:, None],
        atoms=torch.from_numpy(graphs.atom_categories[node]),
        atom_values=torch.from_numpy(graphs.atom_values[node]),
        bond_categories=torch.from_numpy(graphs.bond_categories[edge]),
        k=preparation.k,
        random_walk=preparation.random_walk,
        cycles=preparation.cycles,
        combinatorial=preparation.combinatorial,
        transposed=preparation.transposed,
    )
    return replace(packed, rows=packed.rows + first)
