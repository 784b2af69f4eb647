"""Node classification: GAD beside PyTorch Geometric's GCN, SAGE and GAT, by one harness.

Every model tries the same eight settings on the validation nodes with seed 0, and its best is then
trained with ten seeds; on Minesweeper seed i has the official split i. The test nodes are looked at
with the chosen settings only.
"""

from __future__ import annotations

import json
import math
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import TypedDict

from gad.data.atomic import write_atomic
from gad.data.nodes import NodeGraph
from gad.experiments.grid import Grid
from gad.experiments.records import FINISHED, rounded
from gad.machine import Machine, as_many_threads, machine
from gad.nn.node_baselines import NODE_BASELINES
from gad.reporter import Reporter
from gad.settings.nodes import FEW_LABELS, MANY_LABELS, NODE_MODELS, NodeSettings

NODE_SETS = ("cora", "citeseer", "photo", "cs", "minesweeper")
SEEDS = 10
FOLDER = "nodes"

PUBLISHED = {"cora": 0.847, "citeseer": 0.733, "photo": 0.968, "cs": 0.964, "minesweeper": 0.979}
"""Cora and Citeseer: GRAND (Chamberlain et al. 2021); the others: the best of the tuned classics
(Luo et al. 2024), which train ten times as long."""

_FEW = [
    {"dropout": dropout, "input_dropout": dropout, "weight_decay": decay, "learning_rate": rate}
    for dropout, decay, rate in product((0.5, 0.8), (5e-4, 5e-3), (0.01, 0.03))
]
_MANY = [
    {"layers": layers, "dropout": dropout, "learning_rate": rate}
    for layers, dropout, rate in product((1, 3), (0.3, 0.6), (0.003, 0.01))
]
_DEEP = [
    {"layers": layers, "dropout": dropout, "learning_rate": rate}
    for layers, dropout, rate in product((4, 10), (0.0, 0.2), (0.003, 0.01))
]
_FEW_BASE = FEW_LABELS.override({"epochs": 500})
_MANY_BASE = MANY_LABELS.override({"epochs": 200, "patience": 60, "weight_decay": 5e-5})
SEARCH: dict[str, tuple[NodeSettings, list[dict[str, float]]]] = {
    "cora": (_FEW_BASE, _FEW),
    "citeseer": (_FEW_BASE, _FEW),
    "photo": (_MANY_BASE, _MANY),
    "cs": (_MANY_BASE.override({"epochs": 100, "patience": 40}), _MANY),
    "minesweeper": (
        MANY_LABELS.override({"channels": 32, "norm": "batch", "epochs": 300, "patience": 100}),
        _DEEP,
    ),
}
"""Set → what all its trainings share, and the eight settings that every model tries."""
FORM: dict[str, dict[str, object]] = {"cs": {"filters": (), "time": 1.0, "smooth": True}}
"""Set → what GAD's blocks read there and whether its outputs diffuse, by the validation nodes."""


@dataclass(frozen=True)
class Cell:
    """One model on one set: what a record is about.

    >>> Cell("minesweeper", "gad-i", (("directions", "true"),)).name
    'minesweeper_gad-i+directions=true'
    """

    data: str
    model: str
    changes: tuple[tuple[str, str], ...] = ()

    @property
    def title(self) -> str:
        """The model with what was changed."""
        told = ", ".join(f"{key}={value}" for key, value in self.changes)
        return f"{self.model} ({told})" if told else self.model

    @property
    def name(self) -> str:
        """Of the record."""
        return "+".join([f"{self.data}_{self.model}", *(f"{k}={v}" for k, v in self.changes)])

    @property
    def command(self) -> str:
        """What makes the record."""
        more = "".join(f" --set {shlex.quote(f'{k}={v}')}" for k, v in self.changes)
        return f"gad reproduce nodes --data {self.data} --model {self.model}{more}"

    def trials(self) -> list[NodeSettings]:
        """The settings that are tried, each whole."""
        base, search = SEARCH[self.data]
        form = {} if self.model in NODE_BASELINES else FORM.get(self.data, {})
        base = base.override({"model": self.model, **form})
        return [base.override({**trial, **dict(self.changes)}) for trial in search]


class NodeTrial(TypedDict, total=False):
    """A setting that is tried: its score on the validation nodes, None until it is trained."""

    settings: dict[str, object]
    val: float | None
    epochs: int
    best_epoch: int
    minutes: float | None


class NodeRun(TypedDict, total=False):
    """A training with the chosen settings; ``curve`` has a number for every epoch."""

    val: float
    epochs: int
    best_epoch: int
    minutes: float | None
    seed: int
    test: float | None
    parameters: int
    curve: dict[str, list[float | None]]


class NodeRecord(TypedDict, total=False):
    """What is written of a cell, from its beginning on."""

    status: str
    command: str
    data: str
    model: str
    commit: str | None
    versions: dict[str, str]
    machine: Machine
    search: list[NodeTrial]
    runs: list[NodeRun]
    metric: str
    fingerprint: str
    settings: dict[str, object]
    parameters: int


class Against(TypedDict):
    """How a model stands beside the best baseline."""

    model: str
    difference: float
    standard_error: float | None
    holds: bool | None


@dataclass(frozen=True)
class NodePlace:
    """Where records are kept, until when trainings may begin, and whether to go on."""

    results: Path = Path("results")
    until: float | None = None
    resume: bool = False
    seeds: int = SEEDS

    def path(self, cell: Cell) -> Path:
        """Of a record."""
        return self.results / FOLDER / f"{cell.name}.json"

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.until is not None and time.time() >= self.until


def reproduce_nodes(
    cells: Sequence[Cell], place: NodePlace, reporter: Reporter | None = None
) -> list[NodeRecord]:
    """Search and train every cell, one after the other, or go on with it; the records.

    A record is written when its cell begins and after every training, so that what is stopped at
    any moment goes on from its last training.
    """
    reporter = reporter or Reporter()
    for cell in cells:
        path = place.path(cell)
        if path.exists() and not place.resume:
            raise FileExistsError(
                f"{path} is there already: go on with it (--resume), or name another --results"
            )
    graphs: dict[str, NodeGraph] = {}
    return [_perform(cell, place, reporter, graphs) for cell in cells]


def _perform(
    cell: Cell, place: NodePlace, reporter: Reporter, graphs: dict[str, NodeGraph]
) -> NodeRecord:
    from gad.training.folder import code_commit

    path = place.path(cell)
    record: NodeRecord = read_node_record(path) if path.exists() else {}
    if record.get("status") == FINISHED and len(record["runs"]) >= place.seeds:
        reporter.message(f"{cell.name} is finished")
        return record
    if place.is_over:
        return record or {"data": cell.data, "model": cell.title, "status": "not started"}
    trials = [trial.to_dict() for trial in cell.trials()]
    if record and [trial["settings"] for trial in record["search"]] != trials:
        raise ValueError(f"{path} was made with other settings: name another --results")
    if not record:
        packages = ("graph-anisotropic-diffusion", "torch", "torch-geometric", "numpy")
        record = {
            "status": "started",
            "command": cell.command,
            "data": cell.data,
            "model": cell.title,
            "commit": code_commit(),
            "versions": {name: version(name) for name in packages},
            "machine": machine(),
            "search": [{"settings": trial, "val": None} for trial in trials],
            "runs": [],
        }
    graph = graphs.get(cell.data)
    if graph is None:
        from gad.data.known.nodes import load_known_nodes

        graph = graphs[cell.data] = load_known_nodes(cell.data)
    record["metric"], record["fingerprint"] = graph.metric, graph.fingerprint()
    _write(path, record)
    for _ in _trainings(cell, graph, record, place, reporter):
        _write(path, record)
        if place.is_over and record["status"] != FINISHED:
            record["status"] = "unfinished"
            _write(path, record)
            reporter.message(f"{cell.name}: the time is up; go on with --resume")
            break
    return record


def _trainings(
    cell: Cell, graph: NodeGraph, record: NodeRecord, place: NodePlace, reporter: Reporter
) -> Iterator[None]:
    """Train what is missing, entering it in the record; yields after each training."""
    record["status"] = "started"
    trials = cell.trials()
    for number, entry in enumerate(record["search"]):
        if entry["val"] is None:
            tried = _train(graph, trials[number], 0, test=False)
            entry["val"], entry["epochs"] = tried["val"], tried["epochs"]
            entry["best_epoch"], entry["minutes"] = tried["best_epoch"], tried["minutes"]
            reporter.message(f"{cell.name}: setting {number + 1}, validation {tried['val']:.4f}")
            yield
    scores = [entry["val"] or 0.0 for entry in record["search"]]
    chosen = trials[scores.index(max(scores))]
    record["settings"] = chosen.to_dict()
    for seed in range(len(record["runs"]), place.seeds):
        run = _train(graph, chosen, seed, test=True)
        record["runs"].append(run)
        record["parameters"] = run.pop("parameters")
        reporter.message(f"{cell.name}: seed {seed}, test {run['test'] or 0:.4f}")
        if len(record["runs"]) == place.seeds:
            record["status"] = FINISHED
        yield


def _train(graph: NodeGraph, settings: NodeSettings, seed: int, *, test: bool) -> NodeRun:
    """One training; the test nodes are looked at only if that is asked for."""
    import torch

    from gad.prediction.nodes import node_scores
    from gad.training.nodes import fit_nodes

    split, _ = graph.split(seed if len(graph.splits) > 1 else 0, seed)
    with as_many_threads(1):
        fitted = fit_nodes(graph, split, settings.override({"seed": seed}), metric=graph.metric)
    told: NodeRun = {
        "val": fitted.curve[fitted.best_epoch]["val_score"],
        "epochs": len(fitted.curve),
        "best_epoch": fitted.best_epoch + 1,
        "minutes": rounded(fitted.seconds / 60),
    }
    if test:
        at = torch.from_numpy(split.test)
        told["seed"] = seed
        told["test"] = node_scores(graph.y[at], fitted.probabilities[at])[graph.metric]
        told["parameters"] = sum(p.numel() for p in fitted.network.parameters())
        told["curve"] = {
            key: [rounded(row[key], 4) for row in fitted.curve]
            for key in ("train_loss", "val_score")
        }
    return told


# ---------------------------------------------------------------------------------- records


def read_node_record(path: Path) -> NodeRecord:
    """A record, or an error that names the file."""
    try:
        record: NodeRecord = json.loads(path.read_text(encoding="utf-8"))
        list(record["runs"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a record of nodes") from error
    return record


def _write(path: Path, record: NodeRecord) -> None:
    """A line for each key and each training: short, and a change is seen in a diff."""
    lines = []
    for key, value in record.items():
        if key in {"search", "runs"} and isinstance(value, list) and value:
            inner = ",\n  ".join(json.dumps(item) for item in value)
            lines.append(f" {json.dumps(key)}: [\n  {inner}\n ]")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


# ---------------------------------------------------------------------------------- the table


@dataclass(frozen=True)
class NodeRow:
    """A line of the table: one model on one set.

    Attributes:
        data, model, metric, status: of the record.
        val, test: one number for each seed that is done.
        parameters: None before the first seed is done.
        settings: those chosen.
    """

    data: str
    model: str
    metric: str
    status: str
    val: list[float]
    test: list[float]
    parameters: int | None
    settings: dict[str, object] = field(default_factory=dict)


def node_rows(results: Path) -> list[NodeRow]:
    """All records of nodes, set by set, GAD first."""
    found = []
    for path in sorted((results / FOLDER).glob("*.json")):
        record = read_node_record(path)
        runs = record["runs"]
        found.append(
            NodeRow(
                record["data"],
                record["model"],
                record["metric"],
                record["status"],
                [run["val"] for run in runs],
                [score for run in runs if (score := run["test"]) is not None],
                record.get("parameters"),
                record.get("settings", {}),
            )
        )
    order = {name: number for number, name in enumerate(NODE_MODELS)}
    sets = {name: number for number, name in enumerate(NODE_SETS)}
    return sorted(
        found, key=lambda r: (sets.get(r.data, 99), order.get(r.model.split()[0], 99), r.model)
    )


def against_best(row: NodeRow, rows: Sequence[NodeRow]) -> Against | None:
    """The best baseline of the same set, the mean paired difference to it, its standard error.

    Seeds are paired: seed i of both has the same split. It "holds" where the row is at least as
    good, within the standard error. None where there is nothing to compare.
    """
    others = [r for r in rows if r.data == row.data and r.model in NODE_BASELINES and r.test]
    if not others or not row.test or row.model in NODE_BASELINES:
        return None
    best = max(others, key=lambda r: fmean(r.test))
    differences = [a - b for a, b in zip(row.test, best.test, strict=False)]
    mean, count = fmean(differences), len(differences)
    error = stdev(differences) / math.sqrt(count) if count > 1 else None
    holds = None if error is None else mean >= -error
    return {"model": best.model, "difference": mean, "standard_error": error, "holds": holds}


def node_table(results: Path) -> tuple[dict[str, list[dict[str, object]]], Grid]:
    """The table: for programs ``{"rows": […]}``, and for people."""
    rows = node_rows(results)
    against = [against_best(row, rows) for row in rows]
    told = [{**vars(row), "against": other} for row, other in zip(rows, against, strict=True)]
    header = (
        "set", "model", "validation", "test", "seeds", "published", "parameters",
        "against the best baseline", "holds",
    )  # fmt: skip
    return {"rows": told}, Grid(header, list(map(_line, rows, against)), 2)


def _line(row: NodeRow, against: Against | None) -> tuple[str, ...]:
    difference = holds = "–"
    if against is not None:
        error = against["standard_error"]
        spread = "" if error is None else f" ± {100 * error:.2f}"
        difference = f"{against['model']} {100 * against['difference']:+.2f}{spread}"
        holds = {None: "–", True: "yes", False: "no"}[against["holds"]]
    return (
        row.data,
        row.model if row.status == FINISHED else f"{row.model} ({row.status})",
        _percent(row.val),
        _percent(row.test),
        str(len(row.test)),
        f"{100 * PUBLISHED[row.data]:.1f}" if row.data in PUBLISHED else "–",
        "–" if row.parameters is None else f"{row.parameters:,}",
        difference,
        holds,
    )


def _percent(values: Sequence[float]) -> str:
    """Mean and standard deviation over seeds, in per cent.

    >>> _percent([0.84, 0.86]), _percent([0.84]), _percent([])
    ('85.0 ± 1.4', '84.0', '–')
    """
    if not values:
        return "–"
    mean = f"{100 * fmean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {100 * stdev(values):.1f}"
