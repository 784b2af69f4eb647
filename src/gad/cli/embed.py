"""``gad embed``."""

from __future__ import annotations

from typing import Annotated

from gad.cli.console import Outcome, facts
from gad.cli.options import (
    MODEL,
    OUTPUT,
    RUNNING,
    STRICT_CODE,
    Accelerator,
    Json,
    Smiles,
    Strict,
    Workers,
    argument,
    option,
)


def embed(
    data: Annotated[
        str,
        argument("A table of molecules: CSV, TSV, SMI, SDF, Parquet; - for SMILES.", "DATA"),
    ],
    out: Annotated[
        str,
        option(
            "Where to write: .parquet, or .csv, .tsv (also with .gz).",
            "--out", "-o", metavar="OUT", panel=OUTPUT,
        ),
    ],
    model: Annotated[
        str, option("The base, or a model file.", metavar="base|MODEL", panel=MODEL)
    ] = "base",
    smiles: Smiles = None,
    workers: Workers = None,
    resume: Annotated[
        bool, option("Go on with an interrupted run.", "--resume", panel=RUNNING)
    ] = False,
    accelerator: Accelerator = "cpu",
    strict: Strict = False,
    as_json: Json = False,
) -> Outcome:  # fmt: skip
    """Write what a network reads of each molecule, for models of your own.

    Every row comes out, in order, with its own columns first, then embedding_0 and so on, warning
    and reject_reason.
    """
    from gad.cli.progress import listener
    from gad.prediction.embedding import embed_file

    with listener(quiet=as_json) as reporter:
        done = embed_file(
            data, out, model=model, smiles=smiles, workers=workers, resume=resume,
            accelerator=accelerator, reporter=reporter,
        )  # fmt: skip
    told = {key: value for key, value in done.to_dict().items() if key != "targets"}
    shown = facts({**told, "columns": f"{len(done.columns)} added"})
    code = STRICT_CODE if strict and done.rejected else 0
    return Outcome({**told, "messages": reporter.messages}, shown, code)
