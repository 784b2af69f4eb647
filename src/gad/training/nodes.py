"""Training a node model: one graph, full steps, early stopping on validation nodes."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gad.data.atomic import write_atomic
from gad.data.nodes import NodeColumns, NodeGraph, load_nodes, write_rejects
from gad.data.splits import Split
from gad.nn.nodes import NodeGAD
from gad.operators import GraphOperators
from gad.prediction.nodes import NodeModel, confusion, node_scores, scale_of, scaled
from gad.report.nodes import NodeSummary, node_report
from gad.reporter import Reporter
from gad.settings.nodes import FEW_LABELS, MANY_LABELS, NodeSettings, build_node_model
from gad.training.folder import new_folder

# With fewer training nodes of a class than this, on average, labels are few.
_FEW = 50
# Layers whose weights are not decayed: they map to classes.
_LAST = ("head.", "second.")


@dataclass(frozen=True, eq=False)
class NodeFit:
    """A fitted network.

    Attributes:
        network: with the weights of its best epoch.
        probabilities: of all nodes by these weights [N, K].
        curve: epoch by epoch: train_loss, val_loss, val_score.
        best_epoch: counted from 0.
        seconds: it took.
    """

    network: nn.Module
    probabilities: Tensor
    curve: list[dict[str, float]]
    best_epoch: int
    seconds: float


@dataclass(frozen=True, eq=False)
class NodeRun:
    """A finished training: the model, its summary, and the folder with both."""

    model: NodeModel
    summary: NodeSummary
    directory: Path


def settings_for(graph: NodeGraph, split: Split) -> NodeSettings:
    """What fits the number of labels: few parameters for few, blocks for many."""
    return FEW_LABELS if len(split.train) < _FEW * len(graph.classes) else MANY_LABELS


def train_nodes(
    data: str | Path | NodeGraph,
    *,
    edges: str | Path | None = None,
    columns: NodeColumns | None = None,
    settings: Mapping[str, Any] | None = None,
    metric: str | None = None,
    split: int = 0,
    out: str | Path | None = None,
    reporter: Reporter | None = None,
) -> NodeRun:
    """Train a classifier of nodes, and leave model, report, summary and predictions in a folder.

    Args:
        data: a known set, a saved ``Data``, a table of nodes, a folder of tables, or a graph.
        edges: the table of edges; see :func:`gad.data.nodes.load_nodes`.
        columns: which columns are what.
        settings: what differs from the settings chosen by the number of labels.
        metric: what the best epoch is chosen by: "accuracy" or "roc_auc" (two classes).
        split: which of several given splits.
        out: the folder; a new one in ``gad-runs`` if left out.
        reporter: hears how it goes.
    """
    reporter = reporter or Reporter()
    graph = data if isinstance(data, NodeGraph) else load_nodes(data, edges, columns)
    graph = graph.checked()
    metric = metric or graph.metric
    if metric == "roc_auc" and len(graph.classes) != 2:
        raise ValueError(f"roc_auc is for two classes; {graph.name} has {len(graph.classes)}")
    folder = Path(out) if out is not None else new_folder(Path(graph.name).stem)
    if (folder / "summary.json").exists():
        raise FileExistsError(f"{folder} already holds a run: name another --out")
    changes = dict(settings or {})
    parts, drawn = graph.split(split, int(str(changes.get("seed", 0)) or 0))
    chosen = settings_for(graph, parts)
    if graph.features and "scale" not in changes:
        changes["scale"] = "standard"
    chosen = chosen.override(changes)
    for text in (*graph.messages, *filter(None, [drawn])):
        reporter.message(text)
    scale = scale_of(graph.x) if chosen.scale == "standard" else torch.zeros(2, 0)
    fitted = fit_nodes(graph, parts, chosen, metric=metric, scale=scale, reporter=reporter)
    summary = _summary(graph, parts, chosen, metric, fitted, drawn)
    kept = ("data", "metrics", "times", "versions", "best_epoch")
    notes = {key: value for key, value in summary.items() if key in kept}
    model = NodeModel(
        fitted.network.requires_grad_(False), chosen, graph.classes, graph.x.shape[1],
        graph.features, scale, metric, notes,
    )  # fmt: skip
    _write(folder, model, summary, graph)
    return NodeRun(model, summary, folder)


def fit_nodes(
    graph: NodeGraph,
    split: Split,
    settings: NodeSettings,
    *,
    metric: str,
    scale: Tensor | None = None,
    operators: GraphOperators | None = None,
    reporter: Reporter | None = None,
) -> NodeFit:
    """Fit one network on the training nodes; the best epoch is that of the validation nodes."""
    reporter = reporter or Reporter()
    begun = time.perf_counter()
    if operators is None:
        operators = graph.operators(directions=settings.needs_directions)
    x = scaled(graph.x, settings.scale, torch.zeros(2, 0) if scale is None else scale)
    train, val = (torch.from_numpy(rows) for rows in (split.train, split.val))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        network = build_node_model(settings, x.shape[1], len(graph.classes))
        optimizer = torch.optim.Adam(_groups(network, settings), lr=settings.learning_rate)
        best: tuple[float, float] = (-1.0, float("-inf"))
        best_epoch, best_state = 0, copy.deepcopy(network.state_dict())
        curve: list[dict[str, float]] = []
        for epoch in range(settings.epochs):
            network.train()
            optimizer.zero_grad()
            loss = F.cross_entropy(network(x, operators)[train], graph.y[train])
            loss.backward()
            optimizer.step()
            outputs = _evaluate(network, x, operators)[val]
            val_loss = float(F.cross_entropy(outputs, graph.y[val]))
            score = _score(graph.y[val], outputs, metric)
            row = {"train_loss": float(loss.detach()), "val_loss": val_loss, "val_score": score}
            curve.append(row)
            told = {"epoch": epoch, "lr": settings.learning_rate, **row}
            told["seconds"] = time.perf_counter() - begun
            reporter.epoch(graph.name, told, settings.epochs)
            if (score, -val_loss) > best:
                best, best_epoch = (score, -val_loss), epoch
                best_state = copy.deepcopy(network.state_dict())
            if not torch.isfinite(loss) or epoch - best_epoch >= settings.patience:
                break
    network.load_state_dict(best_state)
    probabilities = _evaluate(network, x, operators).softmax(dim=1)
    return NodeFit(network.eval(), probabilities, curve, best_epoch, time.perf_counter() - begun)


@torch.no_grad()
def _evaluate(network: nn.Module, x: Tensor, operators: GraphOperators) -> Tensor:
    outputs: Tensor = network.eval()(x, operators)
    return outputs


def _score(y: Tensor, outputs: Tensor, metric: str) -> float:
    """The score of validation nodes; by accuracy where they are of one class only."""
    if metric == "roc_auc" and int(y.unique().numel()) == 2:
        from sklearn.metrics import roc_auc_score

        return float(roc_auc_score(y.numpy(), outputs.softmax(dim=1)[:, 1].numpy()))
    return float((outputs.argmax(dim=1) == y).float().mean())


def _groups(network: nn.Module, settings: NodeSettings) -> list[dict[str, object]]:
    """Weights that are decayed; the map to classes, norms and biases; times."""
    groups: dict[str, list[nn.Parameter]] = {"decayed": [], "plain": [], "times": []}
    for name, parameter in network.named_parameters():
        plain = parameter.dim() < 2 or name.startswith(_LAST)
        kind = "times" if name.endswith("raw_times") else "plain" if plain else "decayed"
        groups[kind].append(parameter)
    return [
        {"params": groups["decayed"], "weight_decay": settings.weight_decay},
        {"params": groups["plain"]},
        {"params": groups["times"], "lr": settings.learning_rate * settings.time_rate},
    ]


def _summary(
    graph: NodeGraph,
    split: Split,
    settings: NodeSettings,
    metric: str,
    fitted: NodeFit,
    drawn: str | None,
) -> NodeSummary:
    """Everything worth knowing about a run, as JSON can hold it."""
    parts = {part: torch.from_numpy(rows) for part, rows in split.parts()}
    probabilities = fitted.probabilities
    scores = {part: node_scores(graph.y[at], probabilities[at]) for part, at in parts.items()}
    network = fitted.network
    times = network.diffusion_times() if isinstance(network, NodeGAD) else {}
    return {
        "data": {
            "name": graph.name,
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "features": graph.x.shape[1],
            "classes": list(graph.classes),
            "labelled": int((graph.y >= 0).sum()),
            "fingerprint": graph.fingerprint(),
        },
        "split": {
            **{part: len(rows) for part, rows in split.parts()},
            "how": drawn or "given with the data",
        },
        "metric": metric,
        "accuracy": scores["test"]["accuracy"],
        "metrics": scores,
        "confusion": {
            "classes": list(graph.classes),
            "test": confusion(graph.y[parts["test"]], probabilities[parts["test"]]),
        },
        "times": {name: values.tolist() for name, values in times.items()},
        "settings": settings.to_dict(),
        "parameters": sum(p.numel() for p in network.parameters()),
        "epochs": len(fitted.curve),
        "best_epoch": fitted.best_epoch + 1,
        "seconds": round(fitted.seconds, 3),
        "rows": {"rejected": len(graph.rejects)},
        "versions": {
            name: version(name)
            for name in ("graph-anisotropic-diffusion", "torch", "torch-geometric", "numpy")
        },
        "messages": [*graph.messages, *filter(None, [drawn])],
        "curve": fitted.curve,
    }


def _write(folder: Path, model: NodeModel, summary: NodeSummary, graph: NodeGraph) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_rejects(folder, graph.rejects)
    model.save(folder / "model.gad")
    write_atomic(folder / "report.html", node_report(summary).encode())
    write_atomic(folder / "summary.json", json.dumps(summary, indent=1).encode())
