"""A trained node model: its file, and what it predicts.

The file is that of molecules: safetensors with a JSON card in its header. Opening it runs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor, nn

from gad.data.atomic import write_atomic
from gad.data.nodes import DEGREE_FEATURES, NodeColumns, NodeGraph, load_nodes, write_rejects
from gad.data.tables.writers import TableWriter
from gad.operators.sparse import with_values
from gad.prediction.sealed import NODES, damaged, read_sealed, sealed
from gad.reporter import Reporter
from gad.settings.nodes import NodeSettings, build_node_model

FORMAT = 1
"""Of the file."""


class NodesPredicted(TypedDict):
    """What became of the nodes of a graph; scores where some have classes of their own."""

    nodes: int
    edges: int
    labelled: int
    metrics: dict[str, float | None] | None
    confusion: list[list[int]] | None
    classes: list[str]
    rejected: int
    rejects: str | None
    output: str
    messages: list[str]


@dataclass(frozen=True, eq=False)
class NodeModel:
    """A network with all that is needed to use it on a graph.

    Attributes:
        network: features and operators in, one output for each class out.
        settings: how it was made.
        classes: their names.
        in_channels: features of a node.
        features: their names; empty if they have none.
        scale: mean and deviation of the features [2, D], used where ``settings.scale`` says so.
        metric: what it was chosen by.
        notes: everything else of the card: data, scores, times, versions.
    """

    network: nn.Module
    settings: NodeSettings
    classes: tuple[str, ...]
    in_channels: int
    features: tuple[str, ...]
    scale: Tensor
    metric: str = "accuracy"
    notes: dict[str, object] = field(default_factory=dict)

    @property
    def parameters(self) -> int:
        """How many numbers were learned."""
        return sum(p.numel() for p in self.network.parameters())

    def check(self, graph: NodeGraph) -> None:
        """Refuse a graph whose features are not those of the training."""
        if self.features and graph.features and self.features != graph.features:
            missing = [name for name in self.features if name not in graph.features]
            shown = ", ".join(missing[:5]) or "the same, in another order"
            raise ValueError(f"{graph.name}: the model wants the features {shown}")
        if graph.x.shape[1] != self.in_channels:
            raise ValueError(
                f"{graph.name} has {graph.x.shape[1]} features for each node; the model was "
                f"trained with {self.in_channels}"
            )

    @torch.no_grad()
    def probabilities(self, graph: NodeGraph) -> Tensor:
        """The probability of every class for every node [N, K]."""
        self.check(graph)
        operators = graph.operators(directions=self.settings.needs_directions)
        x = scaled(graph.x, self.settings.scale, self.scale)
        outputs: Tensor = self.network.eval()(x, operators)
        return outputs.softmax(dim=1)

    def card(self) -> dict[str, object]:
        """The JSON of the file."""
        return {
            "format": FORMAT,
            "kind": "nodes",
            "settings": self.settings.to_dict(),
            "classes": list(self.classes),
            "in_channels": self.in_channels,
            "features": list(self.features),
            "metric": self.metric,
            "parameters": self.parameters,
            "notes": self.notes,
        }

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all."""
        tensors = {f"network.{k}": t.contiguous() for k, t in self.network.state_dict().items()}
        card = json.dumps(self.card(), sort_keys=True)
        write_atomic(path, sealed(NODES, card, {**tensors, "scale": self.scale}))


def load_node_model(path: str | Path) -> NodeModel:
    """Read a model of nodes; refuse, with a sentence, what is not one."""
    card, tensors = read_sealed(path, NODES, FORMAT)
    try:
        return _restore(card, tensors)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise damaged(path, error) from error


def _restore(card: dict[str, Any], tensors: dict[str, Tensor]) -> NodeModel:
    settings = NodeSettings().override(card["settings"])
    classes = tuple(str(name) for name in card["classes"])
    inputs, scale = int(card["in_channels"]), tensors.pop("scale")
    own = {name.removeprefix("network."): tensor for name, tensor in tensors.items()}
    # A card may ask for anything: at least one matrix a layer, and the first one, must be there.
    least = settings.channels * max(inputs, settings.channels * settings.layers, len(classes))
    if least > sum(tensor.numel() for tensor in own.values()):
        raise ValueError("its card describes a model it does not hold")
    network = build_node_model(settings, inputs, len(classes))
    network.load_state_dict(own)
    if not all(bool(torch.isfinite(t).all()) for t in own.values() if t.is_floating_point()):
        raise ValueError("it has weights that are not finite")
    return NodeModel(
        network.eval().requires_grad_(False),
        settings,
        classes,
        inputs,
        tuple(str(name) for name in card["features"]),
        scale,
        str(card["metric"]),
        dict(card["notes"]),
    )


def scale_of(x: Tensor) -> Tensor:
    """Mean and deviation of every feature [2, D]; the deviation of a constant is 1."""
    dense = x if x.layout == torch.strided else x.to_dense()
    deviation = dense.std(dim=0, correction=0)
    return torch.stack([dense.mean(dim=0), torch.where(deviation > 0, deviation, 1.0)])


def scaled(x: Tensor, kind: str, scale: Tensor) -> Tensor:
    """Features as the network reads them: see :class:`gad.settings.nodes.NodeSettings`.

    >>> scaled(torch.tensor([[1.0, 3.0], [0.0, 0.0]]), "rows", torch.zeros(2, 0))
    tensor([[0.2500, 0.7500],
            [0.0000, 0.0000]])
    """
    if kind == "standard":
        dense = x if x.layout == torch.strided else x.to_dense()
        return (dense - scale[0]) / scale[1]
    if kind != "rows":
        return x
    if x.layout == torch.strided:
        total = x.abs().sum(dim=1, keepdim=True)
        return x / torch.where(total > 0, total, 1.0)
    starts = x.crow_indices()
    row = torch.arange(x.shape[0]).repeat_interleave(starts.diff())
    total = torch.zeros(x.shape[0]).index_add_(0, row, x.values().abs())
    total = torch.where(total > 0, total, 1.0)
    return with_values(x, x.values() / total[row])


def node_scores(y: Tensor, probabilities: Tensor) -> dict[str, float | None]:
    """How good predictions are for labelled nodes: y [n], probabilities [n, K].

    ``accuracy``, ``macro_f1``, ``log_loss``, and for two classes ``roc_auc`` of the second; None
    where a number does not exist.
    """
    from sklearn.metrics import f1_score, roc_auc_score

    truth, guess = y.numpy(), probabilities.argmax(dim=1).numpy()
    if not len(truth):
        return dict.fromkeys(("accuracy", "macro_f1", "log_loss"))
    right = probabilities.gather(1, y[:, None]).clamp_min(1e-12)
    found: dict[str, float | None] = {
        "accuracy": float((truth == guess).mean()),
        "macro_f1": float(f1_score(truth, guess, average="macro", zero_division=0.0)),
        "log_loss": float(-right.log().mean()),
    }
    if probabilities.shape[1] == 2:
        both = len(np.unique(truth)) == 2
        found["roc_auc"] = (
            float(roc_auc_score(truth, probabilities[:, 1].numpy())) if both else None
        )
    return found


def confusion(y: Tensor, probabilities: Tensor) -> list[list[int]]:
    """Counts [K, K]: row the true class, column the predicted one."""
    classes = probabilities.shape[1]
    cell = y * classes + probabilities.argmax(dim=1)
    counts: list[list[int]] = torch.bincount(cell, minlength=classes**2).view(classes, -1).tolist()
    return counts


def predict_nodes(
    model: str | Path,
    data: str | Path,
    out: str | Path,
    *,
    edges: str | Path | None = None,
    columns: Callable[[tuple[str, ...] | None], NodeColumns] | None = None,
    reporter: Reporter | None = None,
) -> NodesPredicted:
    """Predict every node of a graph into a table; what JSON can hold about it.

    Args:
        model: the model's file.
        data: a known set, a saved ``Data``, a table of nodes or a folder of tables.
        out: the table to write: a row for each node, with its name (``node``), ``prediction`` and
            a column ``p(CLASS)`` for every class. Rows of the tables that could not be used go to
            ``rejects.csv`` beside it.
        edges: the table of edges.
        columns: gives the columns, once the model has said which features it reads.
        reporter: hears what was left out.
    """
    loaded = load_node_model(model)
    # Features that were made of degrees are made again: no table has them as columns.
    wanted = () if loaded.features == DEGREE_FEATURES else loaded.features or None
    graph = load_nodes(data, edges, (columns or _of_features)(wanted))
    for text in graph.messages:
        (reporter or Reporter()).message(text)
    probabilities = loaded.probabilities(graph)
    names = graph.ids or tuple(str(number) for number in range(graph.num_nodes))
    chances = {f"p({name})": probabilities[:, i].numpy() for i, name in enumerate(loaded.classes)}
    with TableWriter(out, ["node", "prediction", *chances]) as writer:
        guess = [loaded.classes[i] for i in probabilities.argmax(dim=1).tolist()]
        writer.write({"node": list(names), "prediction": guess, **chances})
        writer.commit()
    rejects = write_rejects(Path(out).parent, graph.rejects)
    y = renamed(graph, loaded.classes)
    known = (y >= 0).nonzero().flatten()
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "labelled": known.numel(),
        "metrics": node_scores(y[known], probabilities[known]) if known.numel() else None,
        "confusion": confusion(y[known], probabilities[known]) if known.numel() else None,
        "classes": list(loaded.classes),
        "rejected": len(graph.rejects),
        "rejects": rejects,
        "output": str(out),
        "messages": list(graph.messages),
    }


def renamed(graph: NodeGraph, classes: tuple[str, ...]) -> Tensor:
    """The graph's classes by the model's numbers, −1 for those the model does not know."""
    place = {name: number for number, name in enumerate(classes)}
    table = torch.tensor([*(place.get(name, -1) for name in graph.classes), -1])
    return table[graph.y]


def _of_features(features: tuple[str, ...] | None) -> NodeColumns:
    return NodeColumns(features=features)
