"""A whole training run: data, split, members, metrics, model file, report."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gad.chem.standardise import STEPS
from gad.data.atomic import write_atomic
from gad.data.rows import Source
from gad.data.splits import Split
from gad.machine import is_first, join_slurm, one_thread_each
from gad.prediction.bases import SCRATCH, beginning
from gad.prediction.metrics import metric_for
from gad.prediction.model_file import Model
from gad.prediction.predictor import Predictor
from gad.report.report import write_report
from gad.report.summary import RunSummary
from gad.reporter import Reporter
from gad.settings.recipe import Recipe, load_recipe
from gad.settings.task import Task
from gad.training.blending import with_blend
from gad.training.dataset import Dataset, Splitting, load_dataset, split_dataset
from gad.training.explanations import explanations
from gad.training.fit import Fitted, Hardware
from gad.training.folder import (
    Identity,
    new_folder,
    open_folder,
    refuse_taken,
    write_rejects,
    write_standardised,
)
from gad.training.member import Member, checked_logger, fit_member
from gad.training.summary import summarise
from gad.training.trust import measure_trust


@dataclass(frozen=True)
class TrainingRun:
    """What a run leaves: its folder, the model, and the summary (as in ``summary.json``)."""

    directory: Path
    model: Predictor
    summary: RunSummary


def train(
    data: Any,
    *,
    smiles: str | None = None,
    target: str | Sequence[str] | None = None,
    weight: str | None = None,
    features: Sequence[str] = (),
    task: str | None = None,
    relation: str | Sequence[str] | None = None,
    transform: str = "auto",
    metric: str | None = None,
    split: str = "random",
    split_column: str | None = None,
    split_file: str | Path | None = None,
    fractions: Sequence[float] = (0.8, 0.1, 0.1),
    folds: int | None = None,
    standardise: bool | Sequence[str] = False,
    merge_duplicates: str | None = None,
    repeat: int = 1,
    recipe: str | Path | Recipe = "default",
    settings: Mapping[str, Any] | None = None,
    ensemble: int = 1,
    out: str | Path | None = None,
    resume: bool = False,
    start_from: str | Path | None = None,
    freeze: int | None = None,
    workers: int | None = None,
    hardware: Hardware | None = None,
    baselines: bool = True,
    neighbours: bool = True,
    logger: str = "csv",
    reporter: Reporter | None = None,
) -> TrainingRun:
    """Train a model on a table of molecules, or on a known set.

    Args:
        data: a path (CSV, TSV, SMI, SDF, Parquet), the name of a known set ("esol", "zinc",
            "qm9"), a pair (SMILES, targets), the same with weights and features
            (:class:`gad.data.rows.InMemory`), or graphs (:class:`gad.data.known.GraphSet`).
        smiles: the column of the molecules, guessed if left out.
        target: the column or columns to learn, guessed if left out.
        weight: a column of weights.
        features: further numeric columns given to the model.
        task: "regression", "classification" or "multiclass"; each target's labels decide if left
            out: 0 and 1 or two words are a binary target, more words a multiclass one.
        relation: the column that says ``>``, ``<`` or ``=`` of each label, one for each target;
            labels such as ``>10`` need none.
        transform: "log10" learns the logarithm of the labels, "none" never does, "auto" where they
            are positive, span an order of magnitude and most lie far below the rest.
        metric: what the report judges by and the best epoch is chosen by, such as "RMSE" or
            "PR-AUC"; the loss chooses if left out.
        split: random, stratified, scaffold, cluster, time, column or file.
        split_column: the column that names each row's part, or its date for a split by time.
        split_file: a file that lists the rows of each part.
        fractions: shares of train, validation and test.
        folds: cross-validate in so many folds instead of splitting once.
        standardise: bring molecules into one form first, here and whenever the model predicts: all
            steps, or some of "fragment", "uncharge" and "tautomer".
        merge_duplicates: "mean" or "median" of the labels of a molecule that is listed several
            times, or "drop" those whose labels contradict one another.
        repeat: do so this often, each time with other folds.
        recipe: a recipe's name, file, or object.
        settings: changes to the recipe, as ``--set key=value``.
        ensemble: train so many models that differ by their seed.
        out: the folder of the run.
        resume: go on with the run of that folder.
        start_from: what the weights start from: "base", which ships with the package, "scratch",
            or a model file (new targets are allowed); the recipe says it if left out.
        freeze: so many blocks from the first on, and the encoders, stay as they began.
        workers: processes that prepare molecules.
        hardware: Lightning's flags.
        baselines: compare with a mean predictor and a ridge on descriptors.
        neighbours: keep the training molecules in the model file, for the nearest of them to be
            shown and compared with; a file without them discloses none.
        logger: "csv", or "tensorboard" (an extra) in addition.
        reporter: is told how it goes.
    """
    reporter = reporter or Reporter()
    if hardware is not None and hardware.strategy != "auto":
        join_slurm()
    began = time.monotonic()
    if ensemble < 1:
        raise ValueError(f"an ensemble has at least one member, not {ensemble}")
    checked_logger(logger)
    if out is not None and not resume and is_first():
        refuse_taken(Path(out))  # before the molecules are prepared, which may take long
    changes = _changes(settings, standardise, start_from, freeze)
    named = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    chosen, origin, told = beginning(named, changes)
    splitting = Splitting.of(split, split_column, split_file, fractions, folds, repeat)
    source = Source.of(
        data, target, relation, smiles=smiles, weight=weight, features=tuple(features),
        split_column=split_column, task=task, transform=transform, merge=merge_duplicates,
        dates=splitting.kind == "time",
    )  # fmt: skip
    dataset = load_dataset(source, chosen, workers=workers, progress=reporter.progress)
    if origin is not None and dataset.preparation is None:  # graphs of a known set
        chosen, origin, told = beginning(named, {**changes, "start": SCRATCH})
        dataset = load_dataset(source, chosen)
    splits, said = split_dataset(dataset, splitting, seed=chosen.training.seed)
    rows = max(len(part.train) for part in splits)
    chosen = chosen.override({"epochs": chosen.training.epochs_for(rows)})
    learned = dataset.task(chosen.training.loss)
    judged = None if metric is None else metric_for(metric, learned)
    scales = [dataset.scale(learned, part.train) for part in splits]
    for text in (*dataset.messages, *told, *said, *_logarithms(learned, transform)):
        reporter.message(text)
    identity = Identity.of(
        dataset, chosen, splits, ensemble, splitting.kind, task, origin, learned, judged
    )
    folder = Path(out) if out is not None else new_folder(dataset.title)
    with open_folder(folder, identity, resume) as over:
        reporter.message(f"the run is kept in {folder}")
        if over:
            return _finished(folder)
        if is_first():
            _write_rows(folder, dataset, splits, folds, reporter)
        fitted: list[tuple[int, Fitted]] = []
        for number in range(len(splits) * ensemble):
            fold, seed = number // ensemble, chosen.training.seed + number
            member = Member(
                number, len(splits) * ensemble, chosen.override({"seed": seed}), learned, dataset,
                splits[fold], scales[fold], folder, judged,
            )  # fmt: skip
            fitted.append((fold, fit_member(member, origin, resume, hardware, logger, reporter)))
    folds_of = [fold for fold, _ in fitted]
    model = Model(
        [f.model for _, f in fitted], [scales[fold] for fold in folds_of], chosen, learned,
        dataset.preparation, dataset.inputs, dataset.feature_names,
    )  # fmt: skip
    if not is_first():
        return TrainingRun(folder, Predictor(model), RunSummary())
    with one_thread_each():
        model = with_blend(model, origin, dataset, splits, folds_of, reporter, kernel=neighbours)
        outputs = Predictor(model).run(dataset.packed)[0].numpy()
        trusted = measure_trust(
            model, dataset, splits, folds_of, outputs,
            kind=splitting.kind, neighbours=neighbours, reporter=reporter,
        )  # fmt: skip
        model = replace(model, parts={**model.parts, **trusted.trust.parts()})
        summary = summarise(
            model, dataset, splits, fitted, outputs, trusted, splitting.kind, identity, baselines,
            reporter, judged,
        )  # fmt: skip
        explained = explanations(model, dataset, splits[0])
    summary = replace(
        summary,
        options=_options(source, splitting, ensemble, neighbours),
        minutes=(time.monotonic() - began) / 60,
        model=str(folder / "model.gad"),
        report=str(folder / "report.html"),
    )
    model = replace(model, notes=summary.notes(), parts=model.parts | explained)
    _write_model(folder, model, summary)
    return TrainingRun(folder, Predictor(model), summary)


def _logarithms(task: Task, transform: str) -> list[str]:
    """What to say of targets whose logarithm is learned though nobody asked for it."""
    names = [target.name for target in task.targets if target.transform == "log10"]
    if transform != "auto" or not names:
        return []
    return [f"learning the logarithm of {', '.join(names)} (--transform none: as it stands)"]


def _write_rows(
    folder: Path, dataset: Dataset, splits: list[Split], folds: int | None, reporter: Reporter
) -> None:
    """What became of the rows: rejected, standardised, and which part each is in."""
    if dataset.rejects:
        rejected, read = len(dataset.rejects), dataset.rows_read
        reporter.message(f"{rejected} of {read} rows cannot be used: see rejects.csv")
    write_rejects(folder, dataset)
    write_standardised(folder, dataset)
    for number, part in enumerate(splits):
        part.save(folder / ("split.json" if folds is None else f"split-{number}.json"))


def _write_model(folder: Path, model: Model, summary: RunSummary) -> None:
    """The model, its report and its summary; what was kept against interruption goes."""
    model.save(folder / "model.gad")
    write_report(folder / "report.html", summary)
    write_atomic(folder / "summary.json", json.dumps(summary.to_dict(), indent=1).encode())
    for leftover in (*folder.glob("member-*.ckpt"), *folder.glob("member-*.safetensors")):
        leftover.unlink()


def _changes(
    settings: Mapping[str, Any] | None,
    standardise: bool | Sequence[str],
    start_from: str | Path | None,
    freeze: int | None,
) -> dict[str, object]:
    """What keywords of their own change in a recipe, beside its settings."""
    steps = STEPS if standardise is True else tuple(standardise or ())
    own = {
        "standardise": steps or None,
        "start": None if start_from is None else str(start_from),
        "freeze": freeze,
    }
    return {**(settings or {}), **{key: value for key, value in own.items() if value is not None}}


def _options(
    source: Source, splitting: Splitting, ensemble: int, neighbours: bool
) -> dict[str, object]:
    """What was asked for besides the recipe, for the model to tell, where it is not the usual."""
    given = {
        "weight": source.weight,
        "relation": list(source.relations),
        "transform": None if source.transform == "auto" else source.transform,
        "merge_duplicates": source.merge,
        "split_column": source.split_column,
        "folds": splitting.folds,
        "repeat": splitting.repeat if splitting.repeat > 1 else None,
        "ensemble": ensemble if ensemble > 1 else None,
        "neighbours": None if neighbours else "not kept",
    }
    return {name: value for name, value in given.items() if value}


def _finished(folder: Path) -> TrainingRun:
    """What a run that is over has left."""
    told = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return TrainingRun(folder, Predictor.load(folder / "model.gad"), RunSummary.from_dict(told))
