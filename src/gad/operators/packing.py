"""Several batches as one, and some graphs out of many: flat arrays cut and joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gad.operators.eigenbasis import starts
from gad.operators.spans import Spans

if TYPE_CHECKING:
    from gad.operators.graph_operators import GraphOperators


def concatenate(parts: Sequence[GraphOperators]) -> GraphOperators:
    """Several batches as one, in order."""
    if not parts:
        raise ValueError("an empty batch: there are no graphs to concatenate")
    shifts = {
        "batch": [p.num_graphs for p in parts],
        "source": [p.num_nodes for p in parts],
        "target": [p.num_nodes for p in parts],
        "members": [p.num_nodes for p in parts],
        "reverse": [p.num_edges for p in parts],
        "edge_position": [p.num_given_edges for p in parts],
    }
    values: dict[str, Any] = {}
    for f in fields(parts[0]):
        column = [getattr(p, f.name) for p in parts]
        tensors = [c for c in column if isinstance(c, Tensor)]
        if len(tensors) < len(parts):
            if tensors:
                what = "a basis" if "eigen" in f.name or "basis" in f.name else "directions"
                raise ValueError(f"some of these graphs have {what} and some have not")
            continue
        if f.name in shifts:
            start = 0
            for position, (tensor, step) in enumerate(zip(tensors, shifts[f.name], strict=True)):
                tensors[position] = tensor + start
                start += step
        values[f.name] = torch.cat(tensors)
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
    # How far the nodes and edges of a graph move.
    by_node, by_edge = (first - count.cumsum(1) + count)[:2]
    nodes, edges = at["node"], at["edge"]

    def take(values: Tensor | None, level: str) -> Tensor | None:
        return None if values is None else at[level].take(values)

    chosen = replace(
        operators,
        batch=nodes.each(torch.arange(graphs.numel(), device=operators.device)),
        num_graphs=graphs.numel(),
        mass=nodes.take(operators.mass),
        source=edges.take_numbers(operators.source, by_node),
        target=edges.take_numbers(operators.target, by_node),
        weight=edges.take(operators.weight),
        reverse=edges.take_numbers(operators.reverse, by_edge),
        # Features of edges are taken along in the operators' own order.
        edge_position=torch.arange(edges.total, device=operators.device),
        num_given_edges=edges.total,
        members=nodes.take_numbers(operators.members, by_node),
        component_sizes=at["unit"].take(operators.component_sizes),
        eigenvalues=take(operators.eigenvalues, "value"),
        eigenvectors=take(operators.eigenvectors, "vector"),
        basis_counts=take(operators.basis_counts, "unit"),
        field=take(operators.field, "edge"),
        field_norm=take(operators.field_norm, "edge"),
        field_directions=take(operators.field_directions, "edge"),
        field_others=take(operators.field_others, "other"),
        residual=None if operators.residual is None else operators.residual[graphs],
    )
    chosen.once("graph_sizes", lambda: count[0])
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
    per["unit"] = per_graph(unit_graph, None)
    if operators.basis_counts is not None:
        per["value"] = per_graph(unit_graph, operators.basis_counts)
        per["vector"] = per_graph(unit_graph, operators.basis_counts * operators.component_sizes)
    if operators.field_directions is not None:
        extra = (operators.field_directions - 1).clamp_min(0)
        per["other"] = per_graph(edge_graph, extra)
    counts = torch.stack(list(per.values()))
    return tuple(per), counts.cumsum(1) - counts, counts
