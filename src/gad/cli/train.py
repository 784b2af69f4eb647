"""``gad train``."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from gad.cli.console import Outcome
from gad.cli.options import (
    OUTPUT,
    RUNNING,
    SPLITTING,
    STRICT_CODE,
    Data,
    Features,
    Json,
    Smiles,
    SplitBy,
    SplitColumn,
    SplitFile,
    Strict,
    Targets,
    Task,
    Weight,
    Workers,
    set_threads,
    split_kind,
)

_MODEL, _HARDWARE = "Model", "Hardware"
# A batch of small molecules has no work for more.
_MOST_THREADS = 4
# Long lists that are in summary.json, for programs that want them.
_LONG = frozenset({"curve", "parity"})


class LoggerKind(str, Enum):
    """Where the curve is logged."""

    csv = "csv"
    tensorboard = "tensorboard"


def train(
    data: Data,
    smiles: Smiles = None,
    target: Targets = None,
    weight: Weight = None,
    feature: Features = None,
    task: Task = None,
    split: SplitBy = None,
    split_column: SplitColumn = None,
    split_file: SplitFile = None,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="K",
            help="Cross-validate in K folds; the model is the ensemble of them.",
            rich_help_panel=SPLITTING,
        ),
    ] = None,
    recipe: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE", help="See `gad recipes`; or a TOML file.", rich_help_panel=_MODEL
        ),
    ] = "default",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a setting of the recipe; once for each.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    ensemble: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Train N models that differ by their seed.",
            rich_help_panel=_MODEL,
        ),
    ] = 1,
    start_from: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="MODEL",
            help="Start from the weights of a model; other targets are allowed.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="S", help="Short for --set seed=S.", rich_help_panel=_MODEL),
    ] = None,
    baselines: Annotated[
        bool,
        typer.Option(
            " /--no-baselines",
            help="Do not compare with a mean predictor and a ridge on descriptors.",
            show_default=False,
            rich_help_panel=RUNNING,
        ),
    ] = True,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the run in --out.", rich_help_panel=RUNNING),
    ] = False,
    workers: Workers = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Threads of the training itself: OMP_NUM_THREADS, or all cores up to four.",
            rich_help_panel=_HARDWARE,
        ),
    ] = None,
    accelerator: Annotated[
        str,
        typer.Option(metavar="A", help="Lightning's: cpu, gpu, mps, …", rich_help_panel=_HARDWARE),
    ] = "auto",
    devices: Annotated[
        str,
        typer.Option(metavar="D", help="Lightning's: how many.", rich_help_panel=_HARDWARE),
    ] = "auto",
    strategy: Annotated[
        str, typer.Option(metavar="S", help="Lightning's: ddp, …", rich_help_panel=_HARDWARE)
    ] = "auto",
    logger: Annotated[
        LoggerKind,
        typer.Option(help="tensorboard writes its events besides log.csv.", rich_help_panel=OUTPUT),
    ] = LoggerKind.csv,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The folder of the run; a new one in gad-runs if left out.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    strict: Strict = False,
    as_json: Json = False,
) -> Outcome:
    """Train a model on a table of molecules.

    Writes model.gad, report.html, summary.json, log.csv and split.json into a folder, and
    rejects.csv with the rows that could not be used.
    """
    from gad.cli.progress import listener
    from gad.machine import cores
    from gad.report.report import terminal_summary
    from gad.settings.recipe import parse_setting
    from gad.training.fit import Hardware
    from gad.training.run import train as run_training

    if resume and out is None:
        raise typer.BadParameter("--resume needs --out, the folder of the run to go on with")
    changes = dict(parse_setting(text) for text in settings or ())
    if seed is not None:
        changes["seed"] = str(seed)
    set_threads(threads, usual=min(cores(), _MOST_THREADS))
    with listener(quiet=as_json) as reporter:
        done = run_training(
            data,
            smiles=smiles,
            target=target or None,
            weight=weight,
            features=feature or (),
            task=None if task is None else task.value,
            split=split_kind(split, split_column, split_file),
            split_column=split_column,
            split_file=split_file,
            folds=folds,
            recipe=recipe,
            settings=changes,
            ensemble=ensemble,
            out=out,
            resume=resume,
            start_from=start_from,
            workers=workers,
            hardware=Hardware(
                accelerator, int(devices) if devices.isdecimal() else devices, strategy
            ),
            baselines=baselines,
            logger=logger.value,
            reporter=reporter,
        )
    if not done.summary:  # one of several processes, and not the one that writes and speaks
        return Outcome({}, "")
    summary: dict[str, Any] = {**done.summary, "paths": _paths(done.directory)}
    rejected = summary["rows"]["rejected"]
    kept = {key: value for key, value in summary.items() if key not in _LONG}
    return Outcome(
        {**kept, "messages": reporter.messages},
        terminal_summary(summary),
        STRICT_CODE if strict and rejected else 0,
    )


def _paths(folder: Path) -> dict[str, str]:
    """What a run has left in its folder."""
    files = {
        "model": "model.gad",
        "report": "report.html",
        "summary": "summary.json",
        "split": "split.json",
        "rejected rows": "rejects.csv",
    }
    return {what: str(folder / name) for what, name in files.items() if (folder / name).exists()}
