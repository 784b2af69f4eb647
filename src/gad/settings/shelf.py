"""TOML files of one kind: those that come with the package, by name, and the user's, by path."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from gad.settings.setting import RecipeError
from gad.words import did_you_mean

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class Shelf:
    """Where files of a kind are kept.

    Attributes:
        kind: what one of them is called.
        folder: of the package.
        error: what is raised where one cannot be read.

    >>> Shelf("recipe", "recipes").read("quick")[1]
    'recipe quick'
    """

    kind: str
    folder: str
    error: type[RecipeError] = RecipeError

    @property
    def names(self) -> list[str]:
        """Those that come with the package."""
        files = (entry.name for entry in (resources.files("gad") / self.folder).iterdir())
        return sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml"))

    def text(self, name: str) -> str:
        """One that comes with the package, as it is written."""
        return (resources.files("gad") / self.folder / f"{name}.toml").read_text(encoding="utf-8")

    def read(self, name: str | Path) -> tuple[dict[str, Any], str]:
        """Its keys and values, and what errors in it are said to be in."""
        path, names = Path(name), self.names
        if path.suffix == ".toml" or path.is_file():
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeError) as error:
                raise self.error(f"cannot read the {self.kind} {path}: {error}") from error
            where = str(path)
        elif str(name) in names:
            text, where = self.text(str(name)), f"{self.kind} {name}"
        else:
            hint = did_you_mean(str(name), names)
            raise self.error(
                f"no {self.kind} is called {str(name)!r}{hint}; there are {', '.join(names)}, "
                "and a path that ends in .toml is read as a file"
            )
        try:
            return tomllib.loads(text), where
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise self.error(f"{where} is not TOML: {error}") from error
