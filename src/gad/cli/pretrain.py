"""``gad pretrain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gad.cli.console import Outcome, facts
from gad.cli.options import (
    OUTPUT,
    Accelerator,
    Json,
    Recipe,
    Settings,
    Smiles,
    Workers,
    argument,
    changes,
    option,
)


def pretrain(
    molecules: Annotated[
        str, argument("A table of molecules; no labels are needed.", "MOLECULES")
    ],
    output: Annotated[
        Path, option("The file of the base.", "--output", "-o", metavar="FILE")
    ],
    recipe: Recipe = "base",
    settings: Settings = None,
    resume: Annotated[
        bool, option("Go on with a pretraining that was interrupted.", "--resume")
    ] = False,
    smiles: Smiles = None,
    attribution: Annotated[
        str,
        option(
            "Where the molecules come from, and under which licence; kept in the file.",
            metavar="TEXT", panel=OUTPUT,
        ),
    ] = "",
    workers: Workers = None,
    accelerator: Accelerator = "auto",
    as_json: Json = False,
) -> Outcome:  # fmt: skip
    """Teach an encoder what can be computed of many molecules, for small tables to start from.

    It learns RDKit's descriptors and Morgan fingerprints. These labels are computed once and kept
    in the cache folder; memory does not grow with the number of molecules.
    """
    from gad.cli.progress import listener
    from gad.training.fit import Hardware
    from gad.training.pretraining.run import pretrain as run

    with listener(quiet=as_json) as reporter:
        done = run(
            molecules, output, smiles=smiles, recipe=recipe, settings=changes(settings),
            attribution=attribution, resume=resume, workers=workers,
            hardware=Hardware(accelerator), reporter=reporter,
        )  # fmt: skip
    told = done.to_dict()
    return Outcome({**told, "messages": reporter.messages}, facts(told))
