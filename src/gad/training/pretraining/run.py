"""Pretraining: molecules without labels in, a base to start from out."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from gad.data.atomic import write_atomic
from gad.data.rows import Source, read_rows
from gad.nn import count_parameters, mean_log_degree
from gad.nn.model import NoHead
from gad.prediction.model_file import Model, read_card
from gad.reporter import Reporter
from gad.settings.model import build_model, inputs_of, preparation_of
from gad.settings.recipe import Recipe, load_recipe
from gad.settings.task import Scale, Task
from gad.training.batches import mix
from gad.training.fit import Fitted, Hardware, fit
from gad.training.folder import code_commit
from gad.training.pretraining.corpus import Corpus, build_corpus

# Molecules by which the best epoch is chosen.
_HELD_OUT = 4096


@dataclass(frozen=True)
class Pretrained:
    """What pretraining leaves.

    Attributes:
        output: the file of the base.
        molecules, rejected: how many there are.
        parameters: of the encoder.
        epochs, loss: trained, and the validation loss of the one that is kept.
        minutes: of training.
        sha256: of the corpus.
    """

    output: str
    molecules: int
    rejected: int
    parameters: int
    epochs: int
    loss: float
    minutes: float
    sha256: str

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it."""
        return asdict(self)


def pretrain(
    molecules: str | Path,
    output: str | Path,
    *,
    smiles: str | None = None,
    recipe: str | Path | Recipe = "base",
    settings: Mapping[str, Any] | None = None,
    attribution: str = "",
    resume: bool = False,
    workers: int | None = None,
    hardware: Hardware | None = None,
    reporter: Reporter | None = None,
) -> Pretrained:
    """Teach an encoder what can be computed of molecules: descriptors and fingerprints.

    Labels are computed once and kept in the cache folder, shard by shard; the checkpoint lies
    beside the output until that is written.

    Args:
        molecules: a table of molecules.
        output: the file of the base.
        smiles: the column of the molecules, guessed if left out.
        recipe: a recipe's name, file, or object.
        settings: changes to the recipe.
        attribution: where the molecules come from and under which licence; kept in the file.
        resume: go on with a pretraining that was interrupted; one that is finished stays as it is.
        workers: processes that prepare molecules.
        hardware: Lightning's flags.
        reporter: is told how it goes.
    """
    reporter, output = reporter or Reporter(), Path(output)
    chosen = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    chosen = chosen.override(settings or {})
    if output.exists():
        if not resume:
            raise FileExistsError(f"{output} is there already: --resume keeps it, or name another")
        reporter.message(f"{output} is finished")
        return Pretrained(str(output), **read_card(output)["notes"]["pretraining"])
    rows = read_rows(Source(molecules, smiles), need_targets=False)
    if rows.blocks:
        raise ValueError(f"{molecules}: pretraining reads SMILES, not mol blocks")
    for text in rows.messages:
        reporter.message(text)
    preparation, total = preparation_of(chosen), len(rows.texts)
    corpus = build_corpus(
        rows.texts,
        preparation,
        workers=workers,
        progress=lambda done: reporter.progress("preparing molecules", done, total),
    )
    if corpus.rejects:
        reporter.message(f"{corpus.rejects} of {total} molecules cannot be used")
    sha256 = hashlib.sha256("\n".join(rows.texts).encode("utf-8", "surrogatepass")).hexdigest()
    checkpoint = output.with_name(f"{output.name}.ckpt")
    _same_run(checkpoint, {"corpus": sha256, "recipe": chosen.to_dict()}, resume)
    fitted, began = _fitted(corpus, chosen, checkpoint, resume, hardware, reporter), time.time()
    model = fitted.model
    model.head = NoHead()
    told = Pretrained(
        str(output), len(corpus), corpus.rejects, count_parameters(model), len(fitted.curve),
        fitted.best_loss, fitted.seconds / 60, sha256,
    )  # fmt: skip
    kept = {key: value for key, value in told.to_dict().items() if key != "output"}
    base = Model(
        [model], [Scale(torch.zeros(2, 0).double(), torch.zeros(2, 0))], chosen, Task(()),
        preparation, inputs_of(preparation),
        notes={
            "pretraining": kept,
            "data": {"title": rows.title, "fingerprint": sha256},
            "attribution": attribution,
            "commit": code_commit(),
            "made": time.strftime("%Y-%m-%d", time.gmtime(began)),
            "curve": [[row["train_loss"], row["val_loss"]] for row in fitted.curve],
        },
    )  # fmt: skip
    base.save(output, half=True)
    for leftover in (checkpoint, _told(checkpoint)):
        leftover.unlink(missing_ok=True)
    return told


def _fitted(
    corpus: Corpus,
    recipe: Recipe,
    checkpoint: Path,
    resume: bool,
    hardware: Hardware | None,
    reporter: Reporter,
) -> Fitted:
    torch.manual_seed(mix(recipe.training.seed, 0))
    delta = mean_log_degree(corpus.degrees.operators)
    model = build_model(recipe, inputs_of(preparation_of(recipe)), 0, delta=delta)
    model.head = corpus.pretext.head(model.embedding_channels)
    return fit(
        model,
        recipe,
        corpus.pretext,
        corpus,
        corpus.rows(_HELD_OUT),
        checkpoint=checkpoint,
        resume=resume,
        hardware=hardware,
        report=lambda row: reporter.epoch("pretraining", row, recipe.training.epochs),
    )


def _told(checkpoint: Path) -> Path:
    return checkpoint.with_suffix(".json")


def _same_run(checkpoint: Path, identity: Mapping[str, object], resume: bool) -> None:
    """Begin a run, or go on with the same one."""
    path, now = _told(checkpoint), json.dumps(identity, sort_keys=True)
    if path.exists():
        if not resume:
            raise FileExistsError(
                f"{checkpoint} is of a run that was interrupted: go on with it (--resume), or "
                "remove it"
            )
        if path.read_text(encoding="utf-8") != now:
            raise ValueError(
                f"{checkpoint} is of a run on other molecules or by another recipe: name another "
                "output, or remove it"
            )
    write_atomic(path, now.encode())
