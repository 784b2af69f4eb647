"""``gad train``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gad.cli.console import Outcome
from gad.cli.options import (
    HARDWARE,
    MODEL,
    OUTPUT,
    RUNNING,
    SPLITTING,
    STRICT_CODE,
    Json,
    Learning,
    Strict,
    number,
    one_of,
    option,
)

# Long lists that are in summary.json, for programs that want them.
_LONG = frozenset({"curve", "parity"})


def train(
    learning: Learning,
    out: Annotated[
        Path | None,
        option("The folder of the run; a new one in gad-runs if left out.", metavar="DIR"),
    ] = None,
    resume: Annotated[bool, option("Go on with the run in --out.", "--resume")] = False,
    folds: Annotated[
        int | None,
        number("Cross-validate in K folds; the model is the ensemble of them.", "K", 2, SPLITTING),
    ] = None,
    repeat: Annotated[
        int, number("Repeat the folds R times, each time others.", "R", 1, SPLITTING)
    ] = 1,
    ensemble: Annotated[
        int, number("Train N models that differ by their seed.", "N", 1, MODEL)
    ] = 1,
    start_from: Annotated[
        str | None,
        option(
            "What the weights start from: base, scratch, or a model (other targets are allowed).",
            "--from", metavar="base|scratch|MODEL", default="as the recipe says", panel=MODEL,
        ),
    ] = None,
    freeze: Annotated[
        str | None,
        option(
            "Keep the encoder as it began: all of it, or its first N blocks.",
            metavar="[all|N]", panel=MODEL,
        ),
    ] = None,
    baselines: Annotated[
        bool,
        option(
            "Do not compare with a mean predictor and a ridge on descriptors.",
            " /--no-baselines",
            show_default=False,
            panel=RUNNING,
        ),
    ] = True,
    neighbours: Annotated[
        bool,
        option(
            "Keep no training molecules in the model file, which then discloses none: domain goes "
            "by descriptors alone, and there are no neighbours.",
            " /--no-neighbours",
            show_default=False,
            panel=OUTPUT,
        ),
    ] = True,
    devices: Annotated[
        str, option("Lightning's: how many, of each machine.", metavar="D", panel=HARDWARE)
    ] = "auto",
    num_nodes: Annotated[
        int, number("Lightning's: how many machines.", "N", 1, HARDWARE)
    ] = 1,
    strategy: Annotated[
        str, option("Lightning's: ddp, …", metavar="S", panel=HARDWARE)
    ] = "auto",
    logger: Annotated[
        str,
        option(
            "tensorboard writes its events besides log.csv.",
            panel=OUTPUT,
            **one_of("csv", "tensorboard"),
        ),
    ] = "csv",
    strict: Strict = False,
    as_json: Json = False,
) -> Outcome:  # fmt: skip
    """Train a model on a table of molecules.

    Writes model.gad, report.html, summary.json, log.csv and split.json into a folder, and
    rejects.csv with the rows that could not be used.
    """
    from gad.cli.progress import listener
    from gad.machine import join_slurm
    from gad.report.report import terminal_summary
    from gad.training.fit import Hardware
    from gad.training.run import train as run_training

    if resume and out is None:
        raise typer.BadParameter("--resume needs --out, the folder of the run to go on with")
    arguments = learning.arguments()
    number = int(devices) if devices.isdecimal() else devices
    if strategy != "auto":
        join_slurm()
    with listener(quiet=as_json) as reporter:
        done = run_training(
            **arguments, folds=folds, repeat=repeat, ensemble=ensemble, out=out, resume=resume,
            start_from=start_from, freeze=_blocks(freeze),
            hardware=Hardware(learning.accelerator, number, strategy, num_nodes, learning.threads),
            baselines=baselines, neighbours=neighbours, logger=logger, reporter=reporter,
        )  # fmt: skip
    if not done.summary.targets:  # one of several processes, not the one that writes and speaks
        return Outcome({}, "")
    summary = replace(done.summary, paths=_paths(done.directory))
    kept = {key: value for key, value in summary.items() if key not in _LONG}
    return Outcome(
        {**kept, "messages": reporter.messages},
        terminal_summary(summary),
        STRICT_CODE if strict and summary.rows.rejected else 0,
    )


def _blocks(freeze: str | None) -> int | None:
    """How many blocks --freeze means; all are more than any network has."""
    if freeze is None:
        return None
    if freeze == "all":
        return 1000
    if not freeze.isdecimal():
        raise typer.BadParameter(f"--freeze wants all, or a number of blocks, not {freeze!r}")
    return int(freeze)


def _paths(folder: Path) -> dict[str, str]:
    """What a run has left in its folder."""
    files = {
        "model": "model.gad",
        "report": "report.html",
        "summary": "summary.json",
        "split": "split.json",
        "rejected rows": "rejects.csv",
        "standardised": "standardised.csv",
    }
    return {what: str(folder / name) for what, name in files.items() if (folder / name).exists()}
