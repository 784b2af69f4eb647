"""What a search has found: its trials, and the best recipe as a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gad.settings.recipe import Recipe

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


@dataclass(frozen=True)
class TrialRow:
    """One finished trial; ``error`` is None where it was given up, and ``why`` says why."""

    number: int
    error: float | None
    settings: dict[str, object]
    why: str = ""
    best_epoch: int | None = None
    epochs: int | None = None
    minutes: float | None = None
    parameters: int | None = None


@dataclass(frozen=True)
class TuningRun:
    """What a search has found.

    Attributes:
        directory: with best.toml and trials.csv.
        storage: the file or URL of the trials.
        study: its name there.
        metric: what was minimised, on the validation rows.
        unit: of the metric.
        trials: in the order they were begun.
        best: the one of the lowest error.
        recipe: the best recipe, as in ``recipe_file``.
    """

    directory: Path
    storage: str
    study: str
    metric: str
    unit: str
    trials: tuple[TrialRow, ...]
    best: TrialRow
    recipe: Recipe
    recipe_file: Path


def trial_row(trial: FrozenTrial) -> TrialRow:
    """A finished trial of Optuna's; one that was given up may have a value, but no error."""
    why = str(trial.user_attrs.get("why", ""))
    told = {key: trial.user_attrs.get(key) for key in ("best_epoch", "epochs", "minutes")}
    error = None if why or not trial.values else float(trial.values[0])
    parameters = trial.user_attrs.get("parameters")
    return TrialRow(trial.number, error, dict(trial.params), why, **told, parameters=parameters)


def trial_table(rows: Sequence[TrialRow], keys: list[str]) -> str:
    """The trials as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    rest = ("best_epoch", "epochs", "minutes", "parameters", "why")
    writer.writerow(["trial", "validation_error", *keys, *rest])
    for row in rows:
        settings = (row.settings.get(key, "") for key in keys)
        others = (getattr(row, key) for key in rest)
        writer.writerow([row.number, row.error, *settings, *others])
    return text.getvalue()


def to_toml(recipe: Recipe, about: str = "") -> str:
    """A recipe as a file that :func:`gad.settings.recipe.load_recipe` reads back.

    >>> to_toml(Recipe.of(width=60), "A small one.").splitlines()[:2]
    ['# A small one.', '[molecules]']
    """
    lines = [f"# {line}" for line in about.splitlines()]
    for section, settings in recipe.to_sections().items():
        # JSON's words, numbers, strings and lists of strings are TOML's as well.
        written = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        lines += [f"[{section}]", *written, ""]
    return "\n".join(lines)
