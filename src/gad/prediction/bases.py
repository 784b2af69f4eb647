"""What a training may start from: a base that ships with the package, or any model file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from gad.prediction.model_file import Model, load_model
from gad.prediction.sealed import ModelFileError
from gad.settings.recipe import Recipe
from gad.words import did_you_mean

SCRATCH = "scratch"
"""What stands for no beginning at all."""

# Settings that a model may have otherwise than what it starts from: no weight depends on them.
_FREE = frozenset({"descriptors", "standardise", "dropout", "readout", "head_norm"})


def bases() -> dict[str, Path]:
    """The bases that ship with the package, by name."""
    folder = Path(str(files("gad") / "bases"))
    return {path.stem: path for path in sorted(folder.glob("*.gad"))}


def model_path(name: str | Path) -> Path:
    """The file of a base by its name, or of a model by its path."""
    known = bases()
    path = Path(name)
    if str(name) in known and not path.exists():
        return known[str(name)]
    if not path.exists() and not path.suffix:
        hint = did_you_mean(str(name), [*known, SCRATCH])
        raise ModelFileError(
            f"there is no base and no model file {str(name)!r}{hint}; bases: {', '.join(known)}"
        )
    return path


def beginning(recipe: Recipe, changes: Mapping[str, Any]) -> tuple[Recipe, Model | None, list[str]]:
    """The recipe with changes, fitted to what it starts from, that itself, and what to say of it.

    A network that is changed does not fit its beginning. Where that was asked for, this is an
    error; where it is only usual, the network starts from scratch.
    """
    start = str(changes.get("start", recipe.training.start))
    if start == SCRATCH:
        return recipe.override(changes), None, []
    origin = load_model(model_path(start))
    fitted = fitted_to(recipe, origin).override(changes)
    wrong = misfits(fitted, origin)
    if not wrong:
        return fitted, origin, []
    if "start" in changes:
        raise ValueError(
            f"{', '.join(wrong)} does not fit {start}, whose network has "
            f"{', '.join(misfits(origin.recipe, replace(origin, recipe=fitted)))}: leave it out, "
            "or train from scratch (--from scratch)"
        )
    said = f"{', '.join(wrong)} does not fit the {start}: the network starts from scratch"
    return recipe.override({**changes, "start": SCRATCH}), None, [said]


def fitted_to(recipe: Recipe, origin: Model) -> Recipe:
    """A recipe with the molecules and the network of what it starts from.

    What no weight depends on stays the recipe's own, where a base has no opinion; a model that was
    trained keeps even that, since its head knows it.
    """
    theirs = origin.recipe
    if origin.task.targets:
        return replace(recipe, molecules=theirs.molecules, model=theirs.model)
    free = {
        f.name: getattr(section, f.name)
        for section in (recipe.molecules, recipe.model)
        for f in fields(section)
        if f.name in _FREE
    }
    return replace(recipe, molecules=theirs.molecules, model=theirs.model).override(free)


def misfits(recipe: Recipe, origin: Model) -> list[str]:
    """Settings, as ``key = value``, by which a recipe's network is not that of its beginning."""
    pairs = ((recipe.molecules, origin.recipe.molecules), (recipe.model, origin.recipe.model))
    return [
        f"{f.name} = {getattr(own, f.name)}"
        for own, their in pairs
        for f in fields(own)
        if f.name not in _FREE and getattr(own, f.name) != getattr(their, f.name)
    ]
