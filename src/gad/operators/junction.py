"""Rings, and the bonds between them: the junction graph of a molecule.

Its nodes are *clusters* of atoms: every ring, every bond that lies on none, and every atom in which
three or more of these meet. Two rings or bonds that meet in an atom are linked, and an atom that is
a cluster is linked to all that meet in it, instead of these to one another. For most molecules that
is the junction tree (Jin et al. 2018; HIMP, Fey et al. 2020).

A junction tree proper needs choices: a basis of cycles, and a spanning tree where links form a
circle. Both depend on the numbering of atoms where several are equally good (cubane, norbornane).
Here nothing is chosen: a ring is *any* shortest cycle through one of its bonds, and all links stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gad.operators.cycles import find_cycles
from gad.operators.eigenbasis import ragged_arange
from gad.operators.laplacian import Edges

if TYPE_CHECKING:
    from gad.operators.graph_operators import GraphOperators

BOND, RING, ATOM = range(3)
"""Kinds of clusters."""
LONGEST = 12
"""Of longer rings every bond is a cluster of its own."""


@dataclass(frozen=True)
class Junction:
    """The junction graphs of a batch: K clusters, P pairs of an atom and a cluster it lies in.

    Attributes:
        kind: BOND, RING or ATOM [K].
        graph: the graph of each cluster, ascending [K].
        atom, cluster: the pairs, by cluster [P].
        source, target: links between clusters, both directions, by target [J].
    """

    kind: Tensor
    graph: Tensor
    atom: Tensor
    cluster: Tensor
    source: Tensor
    target: Tensor

    def select(self, graphs: Tensor, sizes: Tensor) -> Junction:
        """Those of some graphs [b]; the atoms of each are consecutive, ``sizes`` [B] of them."""
        count = sizes.numel()
        levels = (self.graph, self.graph[self.cluster], self.graph[self.target])
        counts = torch.stack([sizes, *(torch.bincount(x, minlength=count) for x in levels)])
        first, counts = (counts.cumsum(1) - counts)[:, graphs], counts[:, graphs]
        # How far the atoms and clusters of a graph move.
        move = first - (counts.cumsum(1) - counts)
        chosen = [
            first[level].repeat_interleave(counts[level]) + ragged_arange(counts[level])
            for level in (1, 2, 3)
        ]
        at, pairs, links = chosen
        by_pair, by_link = (move[:2].repeat_interleave(counts[k], dim=1) for k in (2, 3))
        return Junction(
            kind=self.kind[at],
            graph=torch.arange(graphs.numel(), device=graphs.device).repeat_interleave(counts[1]),
            atom=self.atom[pairs] - by_pair[0],
            cluster=self.cluster[pairs] - by_pair[1],
            source=self.source[links] - by_link[1],
            target=self.target[links] - by_link[1],
        )

    def to(self, device: torch.device) -> Junction:
        """The same on another device."""
        return Junction(**{name: values.to(device) for name, values in vars(self).items()})


def junction(operators: GraphOperators) -> Junction:
    """The junction graphs of operators, worked out once; those of a selection from the whole's.

    Example:
        Toluene: a ring, the bond to the methyl group, and a link between them:

        >>> import gad
        >>> pairs = torch.tensor([[0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 0, 6]])
        >>> toluene = gad.build_operators(torch.cat([pairs, pairs.flip(0)], dim=1), 7)
        >>> junction(toluene).kind.tolist(), junction(toluene).source.tolist()
        ([0, 1], [1, 0])
    """
    return operators.once("junction", lambda: _junction(operators))


def _junction(operators: GraphOperators) -> Junction:
    if operators.origin is None:
        return _find(operators).to(operators.device)
    whole, graphs, rank = operators.origin
    found = junction(whole).select(graphs, whole.graph_sizes).to(operators.device)
    if rank is None:
        return found
    return Junction(**{**vars(found), "atom": rank.to(operators.device)[found.atom]})


def _find(operators: GraphOperators) -> Junction:
    """Look for rings, then put clusters together."""
    names = ("source", "target", "weight", "edge_position", "reverse")
    edges = Edges(*(getattr(operators, name).to("cpu") for name in names))
    graph, n = operators.batch.to("cpu"), operators.num_nodes
    rings, free = _rings(edges, graph, operators.num_graphs)
    bonds = torch.stack([edges.source[free], edges.target[free]])
    # Atoms of every cluster, one after the other.
    parts = [bonds, *rings]
    count = sum(part.shape[1] for part in parts)
    sizes = torch.cat([torch.full((part.shape[1],), part.shape[0]) for part in parts])
    atom = torch.cat([part.t().flatten() for part in parts])
    cluster = torch.arange(count).repeat_interleave(sizes)
    kind = torch.full((count,), RING)
    kind[: bonds.shape[1]] = BOND
    meeting = torch.bincount(atom, minlength=n)
    order = atom.argsort(stable=True)
    # Where two meet they are linked, once however many atoms they share.
    two = cluster[order[meeting[atom[order]] == 2]].view(-1, 2).sort(1).values.unique(dim=0)
    # Where more meet, or none, the atom is a cluster.
    own = ((meeting > 2) | (meeting == 0)).nonzero().flatten()
    number = torch.full((n,), -1)
    number[own] = count + torch.arange(own.numel())
    linked = number[atom] >= 0
    links = torch.cat([two, torch.stack([cluster[linked], number[atom[linked]]], dim=1)])
    return _sorted(
        torch.cat([kind, torch.full_like(own, ATOM)]),
        graph,
        torch.cat([atom, own]),
        torch.cat([cluster, number[own]]),
        torch.cat([links, links.flip(1)]),
    )


def _rings(edges: Edges, graph: Tensor, num_graphs: int) -> tuple[list[Tensor], Tensor]:
    """Atoms [ℓ, …] of the rings of each length, and the bonds that lie on none."""
    found: dict[int, list[tuple[Tensor, Tensor]]] = {}
    for nodes, bonds in find_cycles(edges, graph, num_graphs, LONGEST):
        found.setdefault(len(nodes), []).append((nodes, bonds))
    on_ring = torch.zeros(edges.source.numel(), dtype=torch.bool)
    rings = []
    for length in sorted(found):
        nodes, bonds = (torch.cat(part, dim=1) for part in zip(*found[length], strict=True))
        # The shortest cycles through a bond are the first that are found to have it.
        new = ~on_ring[bonds].all(0)
        on_ring[bonds] = True
        rings.append(nodes[:, new])
    first = torch.arange(edges.source.numel()) < edges.reverse
    return rings, (first & ~on_ring).nonzero().flatten()


def _sorted(kind: Tensor, graph: Tensor, atom: Tensor, cluster: Tensor, links: Tensor) -> Junction:
    """The same with clusters by graph, and all else by cluster."""
    of_cluster = torch.empty_like(kind)
    of_cluster[cluster] = graph[atom]
    order = of_cluster.argsort(stable=True)
    number = torch.empty_like(order)
    number[order] = torch.arange(order.numel())
    cluster, links = number[cluster], number[links]
    pairs, by_target = cluster.argsort(stable=True), links[:, 1].argsort(stable=True)
    source, target = links[by_target].t()
    return Junction(kind[order], of_cluster[order], atom[pairs], cluster[pairs], source, target)
