"""A search for better settings: trials of a recipe, judged by their validation error.

Every trial changes some settings of a recipe within a space (:mod:`gad.tuning.space`),
trains, and is judged on the validation rows; the labels of the test rows are removed before the
first one. The trials are in a database, so a search goes on where it was stopped or killed, and
several processes work on one.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gad.chem.standardise import STEPS
from gad.data.atomic import write_atomic
from gad.data.rows import Source
from gad.prediction.metrics import REGISTRY
from gad.reporter import Reporter
from gad.settings.recipe import Recipe, RecipeError, load_recipe
from gad.training.dataset import Splitting
from gad.training.fit import Hardware
from gad.tuning.bench import Bench, error_name
from gad.tuning.results import TuningRun, to_toml, trial_row, trial_table
from gad.tuning.space import Space, load_space
from gad.tuning.storage import (
    first_number,
    is_cut_off,
    open_storage,
    quiet_optuna,
)

if TYPE_CHECKING:
    from optuna.storages import RDBStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

# Seconds between two looks at what other processes are doing.
_LOOK = 0.5
# Settings whose losses by epoch cannot be compared with one another's.
_INCOMPARABLE = ("loss", "epochs", "schedule", "warmup")
# What a network that is searched for does without.
_ALONE = {"start": "scratch", "blend": False}


def tune(
    data: Any,
    *,
    smiles: str | None = None,
    target: str | Sequence[str] | None = None,
    weight: str | None = None,
    features: Sequence[str] = (),
    task: str | None = None,
    relation: str | Sequence[str] | None = None,
    transform: str = "auto",
    standardise: bool | Sequence[str] = False,
    merge_duplicates: str | None = None,
    metric: str | None = None,
    split: str = "random",
    split_column: str | None = None,
    split_file: str | Path | None = None,
    recipe: str | Path | Recipe = "default",
    settings: Mapping[str, Any] | None = None,
    space: str | Path | Space = "default",
    trials: int = 20,
    prune: bool = False,
    out: str | Path | None = None,
    storage: str | Path | None = None,
    study: str | None = None,
    workers: int | None = None,
    hardware: Hardware | None = None,
    reporter: Reporter | None = None,
) -> TuningRun:
    """Search a space of settings until so many trials, old and new, are finished.

    Args:
        data: a path, the name of a known set, or a pair (SMILES, targets), as in
            :func:`gad.train`.
        smiles: the column of the molecules, guessed if left out.
        target: the column or columns to learn, guessed if left out.
        weight: a column of weights.
        features: further numeric columns given to the model.
        task: as in :func:`gad.train`, like the next five.
        relation: columns that say which labels are bounds.
        transform: as in :func:`gad.train`.
        standardise: bring molecules into one form first.
        merge_duplicates: mean, median or drop.
        metric: what is searched for, as the mean over targets, and chooses the epoch; the mean
            absolute error or the log loss if left out.
        split: random, stratified, scaffold, column or file, the same for all trials: the seed of
            the recipe draws it.
        split_column: the column that names each row's part.
        split_file: a file that lists the rows of each part.
        recipe: what the trials are changes of: a name, a file, or an object. They are networks from
            scratch, without a blend, since a base has a width and a depth already.
        settings: changes to it; a key that is set is not searched.
        space: a space's name, file, or object.
        trials: how many are to be finished in all; those of other processes count.
        prune: give up trials that are worse than the median of the others at the same epoch.
        out: the folder of the results.
        storage: a file or a database URL for the trials; study.db in the folder if left out.
        study: the name of the search in the storage; that of the data if left out.
        workers: processes that prepare molecules.
        hardware: Lightning's flags.
        reporter: is told how it goes.
    """
    if trials < 1:
        raise ValueError(f"a search has at least one trial, not {trials}")
    reporter = reporter or Reporter()
    changes = dict(settings or {})
    if standardise:
        changes["standardise"] = STEPS if standardise is True else tuple(standardise)
    named = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    base = named.override(_ALONE).override(changes)
    searched = space if isinstance(space, Space) else load_space(space)
    fixed = [key for key in changes if key in searched.keys]
    if fixed:
        reporter.message(f"not searched, since set: {', '.join(fixed)}")
    searched = searched.without(fixed)
    searched.check(base)
    with quiet_optuna():
        bench = Bench(
            Source.of(
                data, target, relation, smiles=smiles, weight=weight, features=tuple(features),
                split_column=split_column, task=task, transform=transform, merge=merge_duplicates,
                dates=split == "time",
            ),
            base,
            metric=metric,
            splitting=Splitting.of(split, split_column, split_file),
            workers=workers,
            hardware=hardware,
            reporter=reporter,
        )  # fmt: skip
        folder = Path(out) if out is not None else _folder(bench)
        folder.mkdir(parents=True, exist_ok=True)
        place = str(storage if storage is not None else folder / "study.db")
        with open_storage(place) as kept:
            search = _Search(bench, searched, trials, prune, folder, kept, place, study)
            search.run()
            return search.result()


def _folder(bench: Bench) -> Path:
    """A folder that the same command finds again."""
    title = bench.prepared(bench.base)[0].title
    return Path("gad-runs") / f"{title.split('.', maxsplit=1)[0] or 'run'}-tune"


class _SurplusError(Exception):
    """Others have begun enough trials in the meantime."""


class _Search:
    """A search while it goes on."""

    def __init__(
        self,
        bench: Bench,
        space: Space,
        trials: int,
        prune: bool,
        folder: Path,
        storage: RDBStorage,
        place: str,
        name: str | None,
    ) -> None:
        self.bench, self.space, self.trials = bench, space, trials
        self.folder, self.place = folder, place
        self.prune = prune and not set(_INCOMPARABLE) & set(space.keys)
        self.reporter = bench.reporter
        if prune and not self.prune:
            keys = ", ".join(sorted(set(_INCOMPARABLE) & set(space.keys)))
            self.reporter.message(f"no trial is given up early: {keys} is searched")
        data, split = bench.prepared(bench.base)
        learned = bench.learned(data, bench.base)
        self.title = data.title
        self.metric = bench.judged(learned)
        self.error_name = error_name(self.metric)
        one = len(learned.names) == 1 and REGISTRY[self.metric].has_unit
        self.unit = learned.units[0] if one else ""
        self.identity = {
            "data": data.fingerprint,
            "targets": list(learned.names),
            "recipe": bench.base.to_dict(),
            "space": space.to_dict(),
            "split": [bench.splitting.kind, *(len(rows) for _, rows in split.parts())],
            "task": learned.kind,
            **({} if bench.metric is None else {"metric": self.metric}),
        }
        self.study = self._open(storage, name or data.title)

    def _open(self, storage: RDBStorage, name: str) -> Study:
        """The study of that name; one of another search is refused."""
        import optuna

        from gad.tuning.sampler import SeededTPE

        study = optuna.create_study(
            storage=storage,
            study_name=name,
            load_if_exists=True,
            sampler=SeededTPE(self.bench.base.training.seed),
            pruner=optuna.pruners.MedianPruner(
                n_startup_trials=5, n_warmup_steps=self.bench.base.training.epochs // 5
            ),
        )
        before = study.user_attrs.get("search")
        if before is None:
            study.set_user_attr("search", self.identity)
            return study
        for key, value in json.loads(json.dumps(self.identity)).items():
            if before.get(key) != value:
                raise ValueError(
                    f"{self.place} holds a search called {name!r} with another {key}: go on with "
                    "the options it was begun with, or name another --out, --storage or --study"
                )
        return study

    def run(self) -> None:
        """Try settings until enough trials are finished, here or elsewhere.

        Optuna's MaxTrialsCallback looks at finished trials alone: processes side by side would do
        more than were asked for. And whoever waits here takes over what a killed process leaves.
        """
        import optuna

        waited = False
        try:
            while True:
                optuna.storages.fail_stale_trials(self.study)
                finished = len(self._finished())
                if finished >= self.trials:
                    return
                running = [t for t in self._all() if t.state == optuna.trial.TrialState.RUNNING]
                if finished + len(running) < self.trials:
                    self._try()
                    continue
                if not waited:
                    told = ", ".join(str(t.number) for t in running)
                    self.reporter.message(f"waiting for trials of other processes: {told}")
                waited = True
                time.sleep(_LOOK)
        except optuna.exceptions.OptunaError as error:
            raise ValueError(
                f"the trials in {self.place} cannot be read or written: {error}"
            ) from error

    def _try(self) -> None:
        """One more trial."""
        try:
            self.study.optimize(self._objective, n_trials=1, catch=(_SurplusError,))
        except ValueError as error:
            if not str(error).startswith("Cannot tell a "):
                raise
            self.reporter.message(
                "a trial of this process was given to another one, for it had been silent too long"
            )

    def _objective(self, trial: Trial) -> float:
        import optuna

        earlier = [t for t in self._all() if t.number < trial.number and not is_cut_off(t)]
        if len(earlier) >= self.trials:
            raise _SurplusError
        changes = self.space.suggest(trial)
        try:
            recipe = self.bench.base.override(changes)
            error = self._measure(trial, recipe)
        except (RecipeError, FloatingPointError) as problem:
            why = str(problem).removeprefix("--set: ")
            trial.set_user_attr("why", why)
            self.reporter.message(f"trial {trial.number} is given up: {why}")
            raise optuna.TrialPruned from problem
        except (KeyboardInterrupt, SystemExit) as stop:  # Lightning leaves by sys.exit
            optuna.storages.RetryHeartbeatStaleTrialCallback()(self.study, self._stored(trial))
            raise KeyboardInterrupt from stop
        self._tell(trial.number, error)
        return error

    def _measure(self, trial: Trial, recipe: Recipe) -> float:
        import optuna

        number = first_number(self._stored(trial))
        digest = hashlib.sha256(json.dumps([recipe.to_dict(), self.identity["data"]]).encode())
        checkpoint = self.folder / f"trial-{number}-{digest.hexdigest()[:12]}.ckpt"

        def report(row: dict[str, float]) -> None:
            self.reporter.epoch(f"trial {trial.number}", row, recipe.training.epochs)
            if math.isfinite(row["val_loss"]):
                trial.report(row["val_loss"], int(row["epoch"]))
            if self.prune and trial.should_prune():
                why = f"worse than the median of the others after {int(row['epoch']) + 1} epochs"
                trial.set_user_attr("why", why)
                raise optuna.TrialPruned(why)

        try:
            found = self.bench.measure(recipe, checkpoint, report)
        except (optuna.TrialPruned, RecipeError, FloatingPointError):
            checkpoint.unlink(missing_ok=True)
            raise
        checkpoint.unlink(missing_ok=True)
        for key in ("best_epoch", "epochs", "minutes", "parameters"):
            trial.set_user_attr(key, getattr(found, key))
        if not math.isfinite(found.error):
            raise FloatingPointError("its validation error is not a number")
        return found.error

    def _tell(self, number: int, error: float) -> None:
        values = [float(t.values[0]) for t in self._finished() if not t.user_attrs.get("why")]
        best = min([error, *values])
        self.reporter.message(
            f"trial {number}: validation {self.error_name} {error:.4g} {self.unit}".rstrip()
            + (" (the best so far)" if error <= best else f" (best {best:.4g})")
        )

    def _all(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    def _stored(self, trial: Trial) -> FrozenTrial:
        return next(t for t in self._all() if t.number == trial.number)

    def _finished(self) -> list[FrozenTrial]:
        """Trials that were measured or given up; not those that were cut off."""
        return [t for t in self._all() if t.state.is_finished() and not is_cut_off(t)]

    def result(self) -> TuningRun:
        """The best recipe and all trials, written down."""
        rows = tuple(trial_row(trial) for trial in self._finished())
        there = [row for row in rows if row.error is not None]
        if not there:
            raise ValueError(
                f"not one of {len(rows)} trials could be finished; trial {rows[0].number}: "
                f"{rows[0].why}"
            )
        best = min(there, key=lambda row: (row.error, row.number))
        recipe = self.bench.base.override(best.settings)
        run = TuningRun(
            self.folder, self.place, self.study.study_name, self.metric, self.unit, rows, best,
            recipe, self.folder / "best.toml",
        )  # fmt: skip
        about = (
            f"The best of {len(rows)} trials on {self.title} by its validation {self.error_name}, "
            f"{best.error:.6g} {self.unit}".rstrip()
            + f" (trial {best.number}).\nSearched: {', '.join(self.space.keys)}."
        )
        write_atomic(run.recipe_file, to_toml(recipe, about).encode())
        write_atomic(self.folder / "trials.csv", trial_table(rows, list(self.space.keys)).encode())
        return run
