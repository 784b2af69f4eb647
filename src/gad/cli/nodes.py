"""``gad nodes``: classes of the nodes of one graph."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gad.cli.console import Outcome, facts, grid
from gad.cli.options import (
    OUTPUT,
    RUNNING,
    SPLITTING,
    STRICT_CODE,
    Minutes,
    Model,
    Seed,
    Strict,
    argument,
    changes,
    column,
    number,
    one_of,
    option,
)

if TYPE_CHECKING:
    from gad.data.nodes import NodeColumns
    from gad.report.nodes import NodeSummary

# As in gad.experiments.nodes and gad.settings.nodes, which take a second to import.
NODE_SETS = ("cora", "citeseer", "photo", "cs", "minesweeper")
NODE_MODELS = ("gad-i", "gad-s", "gcn", "sage", "gat")


@dataclass(frozen=True)
class Graph:
    """Where a graph comes from: of `gad nodes train` and `gad nodes predict` alike."""

    data: Annotated[
        str,
        argument(
            "A table of nodes; a folder with nodes.csv and edges.csv; a torch_geometric Data saved "
            "as .pt; or a known set: cora, citeseer, photo, cs, minesweeper.",
            "DATA",
        ),
    ]
    edges: Annotated[
        Path | None,
        option("The table of edges.", default="edges.* beside the nodes", metavar="FILE"),
    ] = None
    id_: Annotated[
        str | None,
        column("The column that names a node.", "--id", default="id, node, name, or the first"),
    ] = None
    label: Annotated[
        str | None,
        column(
            "The column of the classes; an empty cell is unknown.",
            default="label, class, y or target",
        ),
    ] = None
    feature: Annotated[
        list[str] | None,
        column("A column of numbers to learn from; once for each.", default="all others"),
    ] = None
    source: Annotated[
        str | None, column("One end of an edge.", default="source, or the first")
    ] = None  # fmt: skip
    target: Annotated[
        str | None, column("The other end.", default="target, or the second")
    ] = None  # fmt: skip
    weight: Annotated[
        str | None, column("The weight of an edge, above 0.", default="weight")
    ] = None  # fmt: skip
    split_column: Annotated[
        str | None,
        column("The column that says train, val or test.", default="split", panel=SPLITTING),
    ] = None

    def columns(self, features: tuple[str, ...] | None = None) -> NodeColumns:
        """Which columns are what."""
        from gad.data.nodes import NodeColumns

        return NodeColumns(
            id=self.id_, label=self.label, split=self.split_column,
            source=self.source, target=self.target, weight=self.weight,
            features=tuple(self.feature) if self.feature else features,
        )  # fmt: skip


def train(
    graph: Graph,
    settings: Annotated[
        list[str] | None,
        option(
            "Change a setting: model, layers, channels, dropout, time, directions, epochs, …; "
            "once for each.",
            "--set",
            metavar="KEY=VALUE",
        ),
    ] = None,
    seed: Seed = None,
    metric: Annotated[
        str | None,
        option(
            "What the best epoch is chosen by: accuracy, or roc_auc for two classes.",
            default="accuracy",
            metavar="NAME",
        ),
    ] = None,
    split: Annotated[int, number("Which of several splits of the data.", "N", 0, SPLITTING)] = 0,
    out: Annotated[
        Path | None,
        option("The folder of the run.", default="a new one in gad-runs", metavar="DIR"),
    ] = None,
    strict: Strict = False,
    as_json: bool = False,
) -> Outcome:
    """Train a classifier of the nodes of one graph.

    Writes model.gad, report.html and summary.json into a folder, and rejects.csv with the rows of
    the tables that could not be used. What the settings are by default depends on how many labels
    there are; a split that is not given is drawn 60:20:20 by the seed.
    """
    from gad.cli.progress import listener
    from gad.training.nodes import train_nodes

    if metric not in {None, "accuracy", "roc_auc"}:
        raise typer.BadParameter(f"--metric is accuracy or roc_auc, not {metric!r}")
    with listener(quiet=as_json) as reporter:
        done = train_nodes(
            graph.data,
            edges=graph.edges,
            columns=graph.columns(),
            settings=changes(settings, seed),
            metric=metric,
            split=split,
            out=out,
            reporter=reporter,
        )
    names = {"model": "model.gad", "report": "report.html", "rejected rows": "rejects.csv"}
    paths = {k: str(done.directory / n) for k, n in names.items() if (done.directory / n).exists()}
    told = {key: value for key, value in done.summary.items() if key != "curve"}
    shown = facts({**_scores(done.summary), **paths})
    rejected = done.summary["rows"]["rejected"]
    return Outcome({**told, "paths": paths}, shown, STRICT_CODE if strict and rejected else 0)


def predict(
    model: Model,
    graph: Graph,
    out: Annotated[
        Path,
        option(
            "Where to write: .csv, .tsv (also with .gz) or .parquet.",
            "--out",
            "-o",
            metavar="OUT",
            panel=OUTPUT,
        ),
    ],
    strict: Strict = False,
    as_json: bool = False,
) -> Outcome:
    """Predict the classes of all nodes of a graph.

    Writes a row for each node: its name, the predicted class, and the probability of every class.
    Where the graph has classes of its own, says how many were found.
    """
    from gad.cli.progress import listener
    from gad.prediction.nodes import predict_nodes

    with listener(quiet=as_json) as reporter:
        done = predict_nodes(
            model, graph.data, out, edges=graph.edges, columns=graph.columns, reporter=reporter
        )
    shown = facts(
        {
            "predicted": f"{done['nodes']:,} nodes",
            "rejected": done["rejects"] and f"{done['rejected']:,}, listed in {done['rejects']}",
            **{name: f"{value:.4f}" for name, value in (done["metrics"] or {}).items() if value},
            "written": done["output"],
        }
    )
    return Outcome(done, shown, STRICT_CODE if strict and done["rejected"] else 0)


def reproduce(
    data: Annotated[
        list[str] | None,
        option("A graph; once for each.", default="all five", **one_of(*NODE_SETS)),
    ] = None,
    model: Annotated[
        list[str] | None,
        option("A model; once for each.", default="all five", **one_of(*NODE_MODELS)),
    ] = None,
    settings: Annotated[
        list[str] | None,
        option(
            "Change a setting of every training; it is recorded as another model.",
            "--set",
            metavar="KEY=VALUE",
        ),
    ] = None,
    seeds: Annotated[int, number("Train the best setting so often.", "N", 1)] = 10,
    resume: Annotated[
        bool,
        option("Go on; what is finished is not repeated.", "--resume", panel=RUNNING),
    ] = False,
    minutes: Minutes = None,
    results: Annotated[Path, option("Where records are kept.", metavar="DIR", panel=OUTPUT)] = Path(
        "results"
    ),
    as_json: bool = False,
) -> Outcome:
    """Compare GAD with PyTorch Geometric's GCN, SAGE and GAT on the nodes of five graphs.

    Every model tries the same eight settings on the validation nodes; the best is trained with ten
    seeds. One process with one thread; about five hours for all. Records are kept in DIR/nodes.
    """
    from gad.cli.progress import listener
    from gad.experiments.nodes import Cell, NodePlace, reproduce_nodes

    changed = tuple(sorted(changes(settings).items()))
    cells = [
        Cell(name, kind, changed)
        for name in dict.fromkeys(data or NODE_SETS)
        for kind in dict.fromkeys(model or NODE_MODELS)
    ]
    until = None if minutes is None else time.time() + 60 * minutes
    with listener(quiet=as_json) as reporter:
        done = reproduce_nodes(cells, NodePlace(results, until, resume, seeds), reporter)
    runs = [
        {key: value for key, value in record.items() if key not in {"search", "runs"}}
        for record in done
    ]
    shown = grid(
        ("set", "model", "status"), (), [[r["data"], r["model"], r["status"]] for r in done]
    )
    return Outcome({"runs": runs, "results": str(results), "messages": reporter.messages}, shown)


def _scores(summary: NodeSummary) -> dict[str, str]:
    """What a person wants to see first."""
    metric = summary["metric"]
    values = {part: scores[metric] for part, scores in summary["metrics"].items()}
    parts = (f"{part} {'–' if v is None else f'{v:.4f}'}" for part, v in values.items())
    return {
        "nodes": f"{summary['data']['nodes']:,}, {summary['data']['edges']:,} edges",
        metric: ", ".join(parts),
        "best epoch": f"{summary['best_epoch']} of {summary['epochs']}",
        "parameters": f"{summary['parameters']:,}",
    }
