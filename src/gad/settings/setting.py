"""One setting of a recipe: how its value is read and checked, by what is written beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, get_type_hints

from gad.words import did_you_mean

T = TypeVar("T")
Value = bool | int | float | str | tuple[str, ...]
_MANY = 1e9


class RecipeError(ValueError):
    """A recipe that cannot be used; the message names the key and what would do."""


def described(
    default: T,
    meaning: str,
    *,
    choices: Sequence[str] = (),
    more: Callable[[], Iterable[str]] = tuple,
    low: float = 0,
    high: float = _MANY,
) -> T:
    """A field of a section with what it means; words have choices, numbers lie within a range.

    ``more`` gives all choices where others may have been added; it is asked only for a word that
    is not among ``choices``, so that an ordinary recipe imports nothing heavy.
    """
    told = {"meaning": meaning, "choices": tuple(choices), "more": more, "low": low, "high": high}
    return field(default=default, metadata=told)


@dataclass(frozen=True)
class Setting:
    """One key of a recipe, as its section describes it."""

    section: str
    key: str
    kind: Any
    default: Any
    meaning: str
    choices: tuple[str, ...]
    more: Callable[[], Iterable[str]]
    low: float
    high: float

    @property
    def is_number(self) -> bool:
        """Whether it lies between ``low`` and ``high``."""
        return self.kind in (int, float)

    def read(self, value: Any, where: str) -> Value:
        """A value of the setting's type; text is read as TOML would."""
        read, wanted = _READERS.get(self.kind, (_names, "names, separated by commas"))
        try:
            return read(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise RecipeError(f"{where}: {self.key} wants {wanted}, not {value!r}") from error

    def check(self, value: Any) -> None:
        """Refuse a word that is not among the choices, a number out of range."""
        words = (value if isinstance(value, tuple) else (value,)) if self.choices else ()
        known = self.choices
        if not set(words) <= set(known):
            known = tuple(self.more()) or known
        for word in words:
            if word not in known:
                raise RecipeError(
                    f"{self.key} = {word!r} is not known{did_you_mean(str(word), known)}; "
                    f"choose from {', '.join(known)}"
                )
        if self.is_number and not self.low <= value <= self.high:
            raise RecipeError(
                f"{self.key} = {value} is out of range: {self.low:g} to {self.high:g}"
            )

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it."""
        told: dict[str, object] = {"default": self.default, "meaning": self.meaning}
        if self.choices:
            told["choices"] = list(self.choices)
        elif self.is_number:
            told["range"] = [self.low, self.high]
        return told


def settings_of(section: Any) -> tuple[Setting, ...]:
    """The settings of a section, in order."""
    kinds = get_type_hints(section)
    return tuple(
        Setting(section.section, f.name, kinds[f.name], f.default, **f.metadata)
        for f in fields(section)
    )


def _whole(value: Any) -> int:
    number = _number(value)
    if number != int(number):
        raise ValueError
    return int(number)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    return float(value)


def _names(value: Any) -> tuple[str, ...]:
    parts = value.strip("[]").split(",") if isinstance(value, str) else value
    names = (str(part).strip(" '\"") for part in parts)
    return tuple(name for name in names if name)


def _truth(value: Any) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    truth = words.get(str(value).strip().lower())
    if truth is None:
        raise ValueError
    return truth


_READERS: dict[Any, tuple[Callable[[Any], Value], str]] = {
    bool: (_truth, "true or false"),
    int: (_whole, "a whole number"),
    float: (_number, "a number"),
    str: (str, "a word"),
}
