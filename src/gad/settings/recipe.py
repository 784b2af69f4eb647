"""Recipes: every choice of a training run, typed, with defaults, from TOML and ``key=value``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from gad.settings.sections import (
    SECTIONS,
    ModelSettings,
    MoleculeSettings,
    TrainingSettings,
    flat,
    setting,
)
from gad.settings.setting import RecipeError
from gad.settings.shelf import Shelf

__all__ = ["Recipe", "RecipeError", "load_recipe", "parse_setting", "recipe_names", "shipped"]

_SHELF = Shelf("recipe", "recipes")


@dataclass(frozen=True)
class Recipe:
    """How molecules are prepared, what the model is, and how it is trained.

    Each part is a section of a recipe file; ``gad recipes --settings`` lists them with their
    meanings. A key says by itself where it belongs, so files, ``--set key=value`` and
    ``settings={...}`` may leave the sections out.
    """

    molecules: MoleculeSettings = field(default_factory=MoleculeSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)

    def __post_init__(self) -> None:
        if self.model.network == "gsn" and not self.molecules.cycles:
            raise RecipeError(
                "network = 'gsn' reads counts of cycles: set cycles, for example to 8"
            )
        if self.molecules.bond_walk and not self.model.edges:
            raise RecipeError("bond_walk is about the bonds that enter messages: set edges = true")

    @staticmethod
    def of(**changes: Any) -> Recipe:
        """The default recipe with some keys changed.

        >>> Recipe.of(epochs=3).training.epochs
        3
        """
        return Recipe().override(changes)

    def to_dict(self) -> dict[str, object]:
        """Keys and values without their sections, as JSON can hold them."""
        return {key: value for part in self.to_sections().values() for key, value in part.items()}

    def to_sections(self) -> dict[str, dict[str, object]]:
        """Keys and values in their sections, as JSON and TOML can hold them."""
        return {
            name: {k: list(v) if isinstance(v, tuple) else v for k, v in part.items()}
            for name, part in asdict(self).items()
        }

    @staticmethod
    def from_dict(values: Mapping[str, Any], *, where: str = "recipe") -> Recipe:
        """A recipe from keys and values; what is not named keeps its default."""
        return Recipe().override(values, where=where)

    def override(self, changes: Mapping[str, Any], *, where: str = "--set") -> Recipe:
        """The recipe with some keys changed.

        >>> Recipe().override({"epochs": "3", "aggregators": "mean,dx"}).model.aggregators
        ('mean', 'dx')
        """
        parts: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
        for key, value in flat(changes, where):
            known = setting(key, where)
            parts[known.section][key] = known.read(value, where)
        return replace(
            self, **{name: replace(getattr(self, name), **own) for name, own in parts.items()}
        )


def load_recipe(name: str | Path) -> Recipe:
    """A recipe that comes with the package, by name, or one of your own, by path.

    >>> load_recipe("default").model.scheme
    'implicit'
    """
    values, where = _SHELF.read(name)
    return Recipe.from_dict(values, where=where)


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    return _SHELF.names


def shipped(name: str) -> str:
    """The text of a recipe that comes with the package."""
    return _SHELF.text(name)


def parse_setting(text: str) -> tuple[str, str]:
    """``key=value`` as its two sides."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise RecipeError(f"--set wants key=value, not {text!r}; for example --set epochs=3")
    return key.strip(), value.strip()
