"""Several batches as one, and some graphs out of many: flat arrays cut and joined.

Every array of the operators belongs to a level (one entry for each node, edge, component, …), and
some hold numbers that shift when graphs are put one after the other. Both are written down once,
where the fields of :class:`gad.operators.GraphOperators` are declared, by a :class:`Flat` each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gad.operators.eigenbasis import starts
from gad.operators.spans import Spans

if TYPE_CHECKING:
    from gad.operators.graph_operators import GraphOperators


@dataclass(frozen=True)
class Flat:
    """What an array of the operators holds.

    Attributes:
        level: it has one entry for each "node", "member" (nodes listed component by component),
            "edge", "unit" (component), "value" or "vector" (of the eigenbasis), "other" (direction
            after the first) or "graph".
        shift: it holds numbers of a "node", "edge", "given_edge" or "graph"; None if it does not.
    """

    level: str
    shift: str | None = None


def present(operators: GraphOperators) -> dict[str, tuple[Tensor, Flat]]:
    """The arrays that are there."""
    every = operators.arrays().items()
    return {
        name: (values, how)
        for name, how in every
        if (values := getattr(operators, name)) is not None
    }


def shifts(operators: GraphOperators) -> dict[str | None, int]:
    """How many nodes, edges and graphs there are: by so much those behind them shift."""
    return {
        "node": operators.num_nodes,
        "edge": operators.num_edges,
        "given_edge": operators.num_given_edges,
        "graph": operators.num_graphs,
        None: 0,
    }


def well_formed(operators: GraphOperators) -> bool:
    """Whether every array is as long as its level asks and points to what is there.

    That is so for all that :func:`gad.build_operators` makes; kernels that read memory must not
    rely on it. Arrays that have gradients are not for them either.
    """
    counts, sizes = operators.basis_counts, operators.component_sizes
    limit = shifts(operators)
    lengths = {"node": operators.num_nodes, "edge": operators.num_edges, "unit": sizes.numel()}
    lengths |= {"member": int(sizes.sum()), "graph": operators.num_graphs}
    if counts is not None and counts.shape == sizes.shape:
        lengths |= {"value": int(counts.sum()), "vector": int((counts * sizes).sum())}
    if operators.field_directions is not None:
        lengths["other"] = int((operators.field_directions - 1).clamp_min(0).sum())
    for values, how in present(operators).values():
        if values.shape != (lengths.get(how.level),) or values.requires_grad:
            return False
        if how.shift and values.numel():
            low, high = values.aminmax()
            if values.dtype != torch.int64 or low < 0 or high >= limit[how.shift]:
                return False
    return lengths["member"] == operators.num_nodes


def concatenate(parts: Sequence[GraphOperators]) -> GraphOperators:
    """Several batches as one, in order."""
    if not parts:
        raise ValueError("an empty batch: there are no graphs to concatenate")
    sizes = [shifts(part) for part in parts]
    values: dict[str, Any] = {}
    for name, how in parts[0].arrays().items():
        column = [getattr(part, name) for part in parts]
        tensors = [c for c in column if c is not None]
        if len(tensors) < len(parts):
            if tensors:
                what = "a basis" if "eigen" in name or "basis" in name else "directions"
                raise ValueError(f"some of these graphs have {what} and some have not")
            continue
        if how.shift:
            before = accumulate((size[how.shift] for size in sizes), initial=0)
            tensors = [tensor + start for tensor, start in zip(tensors, before, strict=False)]
        values[name] = torch.cat(tensors)
    return replace(
        parts[0],
        **values,
        num_graphs=sum(p.num_graphs for p in parts),
        num_given_edges=sum(p.num_given_edges for p in parts),
    )


def pick(operators: GraphOperators, graphs: Tensor) -> tuple[GraphOperators, Tensor, Tensor]:
    """The operators of some graphs [b], and where their nodes and edges stand in these."""
    if graphs.numel() == 0:
        raise ValueError("an empty batch: no graphs were chosen")
    levels, first, count = operators.once("spans", lambda: _spans(operators))
    first, count = first[:, graphs], count[:, graphs]
    totals = count.sum(1).tolist()
    rows = zip(first, count, totals, strict=True)
    at = {level: Spans(*row) for level, row in zip(levels, rows, strict=True)}
    # How far the numbers of a graph's nodes, edges and of itself move.
    less = dict(zip(levels, first - count.cumsum(1) + count, strict=True))
    nodes, edges = at["node"], at["edge"]
    at["member"] = nodes
    values: dict[str, Any] = {}
    for name, (array, how) in present(operators).items():
        if how.shift == "given_edge":
            # Features of edges are taken along in the operators' own order.
            values[name] = torch.arange(edges.total, device=operators.device)
        elif how.shift:
            values[name] = at[how.level].take_numbers(array, less[how.shift])
        else:
            values[name] = at[how.level].take(array)
    chosen = replace(operators, **values, num_graphs=graphs.numel(), num_given_edges=edges.total)
    chosen.once("graph_sizes", lambda: count[0])
    chosen.once("well_formed", lambda: operators.well_formed)
    chosen.once("origin", lambda: (operators, graphs, None))
    return chosen, nodes.places, edges.places


def _spans(operators: GraphOperators) -> tuple[tuple[str, ...], Tensor, Tensor]:
    """Levels, where the flat arrays of every graph begin, and how long they are [levels, B]."""

    def per_graph(graph: Tensor, amount: Tensor | None) -> Tensor:
        amount = torch.ones_like(graph) if amount is None else amount
        return torch.zeros_like(operators.graph_sizes).index_add_(0, graph, amount)

    if bool((operators.batch.diff() < 0).any()):
        raise ValueError("arranged operators are not cut again: select first, then arrange")
    edge_graph = operators.batch[operators.target]
    unit_graph = operators.batch[operators.members[starts(operators.component_sizes)]]
    per = {"node": operators.graph_sizes, "edge": per_graph(edge_graph, None)}
    per |= {"unit": per_graph(unit_graph, None), "graph": torch.ones_like(operators.graph_sizes)}
    if operators.basis_counts is not None:
        per["value"] = per_graph(unit_graph, operators.basis_counts)
        per["vector"] = per_graph(unit_graph, operators.basis_counts * operators.component_sizes)
    if operators.field_directions is not None:
        extra = (operators.field_directions - 1).clamp_min(0)
        per["other"] = per_graph(edge_graph, extra)
    counts = torch.stack(list(per.values()))
    return tuple(per), counts.cumsum(1) - counts, counts
