"""Search spaces: which settings of a recipe are tried, and within what bounds.

A space is a TOML file whose keys are those of a recipe::

    batch_size = [32, 64, 128]                                  # one of these
    learning_rate = { range = [3e-4, 3e-3], log = true }        # anything between, by its logarithm
    width = { range = [40, 140], step = 20 }                    # 40, 60, … 140
    aggregators = [["mean", "dx"], ["mean", "max", "dx"]]       # one of these lists
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gad.settings.recipe import Recipe, RecipeError
from gad.settings.sections import all_settings
from gad.settings.shelf import Shelf
from gad.words import did_you_mean

if TYPE_CHECKING:
    from optuna.trial import Trial

Value = bool | int | float | str


class SpaceError(RecipeError):
    """A space that cannot be searched; the message names the key and what would do."""


_SHELF = Shelf("space", "tuning/spaces", SpaceError)


@dataclass(frozen=True)
class Choices:
    """One of several values; a list of words is written "mean,dx"."""

    values: tuple[Value, ...]

    def suggest(self, trial: Trial, key: str) -> Value:
        """The choice of a trial."""
        chosen = trial.suggest_categorical(key, self.values)
        assert chosen is not None
        return chosen

    def samples(self) -> tuple[Value, ...]:
        """Values to check: all."""
        return self.values

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it."""
        return {"choices": list(self.values)}


@dataclass(frozen=True)
class Range:
    """A number between two others, both included, by its logarithm or in steps if wanted."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    whole: bool = False

    def suggest(self, trial: Trial, key: str) -> Value:
        """The choice of a trial."""
        if self.whole:
            step = int(self.step or 1)
            return trial.suggest_int(key, int(self.low), int(self.high), step=step, log=self.log)
        return trial.suggest_float(key, self.low, self.high, step=self.step, log=self.log)

    def samples(self) -> tuple[Value, ...]:
        """Values to check: the ends."""
        return (int(self.low), int(self.high)) if self.whole else (self.low, self.high)

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it."""
        return {"range": [self.low, self.high], "log": self.log, "step": self.step}


@dataclass(frozen=True)
class Space:
    """Keys of a recipe with what is tried for each.

    >>> load_space("qm9-paper").keys["width"]
    Choices(values=(75, 90, 130, 150))
    """

    name: str
    keys: Mapping[str, Choices | Range]

    def suggest(self, trial: Trial) -> dict[str, Value]:
        """The settings of a trial."""
        return {key: axis.suggest(trial, key) for key, axis in self.keys.items()}

    def without(self, fixed: Sequence[str]) -> Space:
        """The space with some keys left to the recipe."""
        return Space(self.name, {k: axis for k, axis in self.keys.items() if k not in fixed})

    def check(self, recipe: Recipe) -> None:
        """Refuse a value that no recipe could have.

        A width may only fit the towers that another key chooses, so a value is refused where it
        fits neither the recipe nor any one value of another key.
        """
        if not self.keys:
            raise SpaceError(f"the space {self.name} leaves nothing to search: every key is set")
        for key, axis in self.keys.items():
            for value in axis.samples():
                reason = _refusal(recipe, {key: value})
                others = (
                    {key: value, other: its}
                    for other, rest in self.keys.items()
                    if other != key
                    for its in rest.samples()
                )
                if reason and all(_refusal(recipe, settings) for settings in others):
                    raise SpaceError(f"space {self.name}: {reason}")

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it."""
        return {key: axis.to_dict() for key, axis in self.keys.items()}


def _refusal(recipe: Recipe, settings: Mapping[str, Value]) -> str:
    """Why a recipe cannot have these settings; nothing if it can."""
    try:
        recipe.override(settings)
    except RecipeError as error:
        return str(error).removeprefix("--set: ")
    return ""


def space_names() -> list[str]:
    """The spaces that come with the package.

    >>> space_names()
    ['default', 'qm9-paper']
    """
    return _SHELF.names


def load_space(name: str | Path) -> Space:
    """A space that comes with the package, by name, or one of your own, by path."""
    table, _ = _SHELF.read(name)
    if not table:
        raise SpaceError(f"the space {name} is empty: give a key of a recipe what to try for it")
    return Space(str(name), {key: _axis(key, given, str(name)) for key, given in table.items()})


def _axis(key: str, given: Any, where: str) -> Choices | Range:
    """What a line of the file says."""
    if key not in all_settings():
        raise SpaceError(f"space {where}: unknown key {key!r}{did_you_mean(key, all_settings())}")
    if isinstance(given, list):
        return _choices(key, given, where)
    if not isinstance(given, dict):
        raise SpaceError(
            f"space {where}: {key} = {given!r} is one value; write [{given!r}], or set it in the "
            "recipe"
        )
    unknown = sorted(set(given) - {"choices", "range", "log", "step"})
    if unknown:
        raise SpaceError(
            f"space {where}: {key} has {unknown[0]!r}, but knows choices, range, log and step"
        )
    if ("choices" in given) == ("range" in given) or ("choices" in given and len(given) > 1):
        raise SpaceError(
            f"space {where}: {key} wants either choices = […], or range = [low, high] with "
            "log = true or step = … if you like"
        )
    if "choices" in given:
        return _choices(key, given["choices"], where)
    return _range(key, given, where)


def _choices(key: str, given: Any, where: str) -> Choices:
    if not isinstance(given, list) or not given:
        raise SpaceError(f"space {where}: {key} has no choices: write a list of values")
    lists = all_settings()[key].kind == tuple[str, ...]
    values: list[Value] = []
    for value in given:
        if lists and isinstance(value, str):
            raise SpaceError(
                f"space {where}: {key} is a list of words, so its choices are lists: "
                f"[[{value!r}, …], …]"
            )
        if not isinstance(value, list if lists else bool | int | float | str):
            raise SpaceError(f"space {where}: {key} cannot be {value!r}")
        values.append(",".join(map(str, value)) if isinstance(value, list) else value)
    if len(set(values)) < len(values):
        raise SpaceError(f"space {where}: {key} has a choice twice")
    return Choices(tuple(values))


def _range(key: str, given: Mapping[str, Any], where: str) -> Range:
    kind = all_settings()[key].kind
    if kind not in (int, float):
        raise SpaceError(f"space {where}: {key} is no number, so it has choices and no range")
    ends, log, step = given["range"], given.get("log", False), given.get("step")
    if not isinstance(ends, list) or len(ends) != 2:
        raise SpaceError(f"space {where}: {key} wants range = [low, high]")
    numbers = [*ends, *([] if step is None else [step])]
    if not all(_is_number(n, whole=kind is int) for n in numbers):
        what = "whole numbers" if kind is int else "numbers"
        raise SpaceError(f"space {where}: the range and step of {key} are {what}, not {numbers}")
    if not isinstance(log, bool):
        raise SpaceError(f"space {where}: log of {key} is true or false, not {log!r}")
    low, high = ends
    if low >= high:
        raise SpaceError(f"space {where}: {key} ranges from {low} to {high}: low comes first")
    if log and low <= 0:
        raise SpaceError(f"space {where}: {key} by its logarithm starts above 0, not at {low}")
    if log and step is not None:
        raise SpaceError(f"space {where}: {key} goes by its logarithm or in steps, not both")
    if step is not None and step <= 0:
        raise SpaceError(f"space {where}: {key} needs a step above 0, not {step}")
    if step is not None and not math.isclose((high - low) / step, round((high - low) / step)):
        raise SpaceError(f"space {where}: {key} does not get from {low} to {high} by {step}")
    return Range(low, high, log, step, whole=kind is int)


def _is_number(value: Any, *, whole: bool) -> bool:
    kinds = (int,) if whole else (int, float)
    return isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)
