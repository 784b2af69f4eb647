"""Labels as they are measured: numbers, bounds such as ``>10``, and words.

A cell of a target's column is a number, a bound on one (``>10``, ``<= 0.5``; ``~3`` counts as 3),
or a word. A column of words is one of classes: two are a binary target, three or more a multiclass
one. A few words in a column of numbers are mistakes, and their rows are rejected; so are a few
numbers in a column of words, while one that a tenth of the rows have is the name of a class.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gad.data.tables import TableError
from gad.data.tables.base import cell_text
from gad.data.tables.numbers import BOUND, numbers, parse_number

Floats = npt.NDArray[np.float64]
Signs = npt.NDArray[np.int8]
# More classes than that are names of something, not labels.
MOST_CLASSES = 200
# Of the rows with a label: a number that so many have is one of the words.
_OFTEN = 0.1
_RELATIONS = {
    "": 0, "=": 0, "==": 0, "~": 0, "≈": 0,
    ">": 1, ">=": 1, "≥": 1, "=>": 1, ">>": 1, "<": -1, "<=": -1, "≤": -1, "=<": -1, "<<": -1,
}  # fmt: skip
# Of two words the one that denies is the first class, so that the other's probability is "the" one.
_DENYING = re.compile(r"(in|non|not|un|no|neg|false|absent|decoy|fail|dead|0)", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Labels:
    """One target of n rows.

    Attributes:
        values: [n] numbers, or numbers of classes; NaN where missing.
        bounds: [n] 0 where the value is the label, 1 where the truth is above it, −1 below.
        classes: their names; none for numbers.
    """

    values: Floats
    bounds: Signs
    classes: tuple[str, ...] = ()


def read_labels(
    cells: Sequence[Any],
    column: str,
    *,
    task: str | None = None,
    classes: Sequence[str] | None = None,
    relations: Sequence[Any] | None = None,
    comma: bool = False,
) -> tuple[Labels, dict[int, str]]:
    """Read the cells of a target's column.

    Args:
        cells: of the column.
        column: its name, for the reasons.
        task: regression reads numbers only, multiclass takes even numbers for names; None and
            classification let the cells decide.
        classes: the classes that a model knows already; none for a model of numbers.
        relations: cells of the column that says ``>``, ``<`` or ``=`` of each number.
        comma: whether the column has decimal commas.

    Returns:
        the labels, and position → reason for cells that cannot be read.

    Example:
        >>> labels, bad = read_labels(["1.5", ">10", "", "<=2"], "IC50")
        >>> labels.values.tolist(), labels.bounds.tolist(), bad
        ([1.5, 10.0, nan, 2.0], [0, 1, 0, -1], {})
        >>> read_labels(["active", "inactive", "Active"], "hit")[0].classes
        ('inactive', 'active')
    """
    texts = [cell_text(cell).strip() for cell in cells]
    if classes is None and (task == "multiclass" or _are_words(cells, texts, task, comma)):
        classes = _names(texts, column, numeric=task == "multiclass")
    if classes:
        return _classes(cells, texts, tuple(classes), column)
    plain, bounds = list(cells), np.zeros(len(cells), np.int8)
    for row, text in enumerate(texts):
        if isinstance(cells[row], str) and (found := BOUND.fullmatch(text)):
            sign = _RELATIONS.get(found[1])
            if sign is not None and parse_number(found[2], comma=comma) is not None:
                plain[row], bounds[row] = found[2], sign
    values, bad = numbers(plain, column, comma=comma)
    for row, relation in enumerate(relations or ()):
        sign = _RELATIONS.get(cell_text(relation).strip())
        if sign is None:
            bad.setdefault(row, f"the relation {cell_text(relation)!r} is none of > >= = <= < ~")
        elif sign:
            bounds[row] = sign
    bounds[~np.isfinite(values)] = 0
    return Labels(values, bounds), bad


def _are_words(cells: Sequence[Any], texts: list[str], task: str | None, comma: bool) -> bool:
    """Whether a column is one of words: most of what it holds is neither number nor bound."""
    if task == "regression":
        return False
    found = Counter(texts)
    words = numeric = 0
    first = dict(zip(texts, cells, strict=True))
    for text, count in found.items():
        bound = BOUND.fullmatch(text)
        value = parse_number(bound[2] if bound else first[text], comma=comma)
        if value is None:
            words += count
        elif not math.isnan(value):
            numeric += count
    return words > numeric


def _names(texts: list[str], column: str, *, numeric: bool) -> list[str]:
    """The classes of a column: capitals do not matter, and the most frequent spelling is kept."""
    spellings: dict[str, Counter[str]] = {}
    there = [_tidy(text) for text in texts if not _is_missing(text)]
    for name, count in Counter(there).items():
        if numeric or parse_number(name) is None or count >= max(2, _OFTEN * len(there)):
            spellings.setdefault(name.casefold(), Counter())[name] += count
    names = [counted.most_common(1)[0][0] for counted in spellings.values()]
    if not 2 <= len(names) <= MOST_CLASSES:
        few = f"there is only {names[0]!r}" if names else "there are no labels"
        many = f"there are {len(names)} different words: is it a name or a comment?"
        raise TableError(
            f"column {column!r} cannot be learned as classes: {few if len(names) < 2 else many}"
        )
    if all(parse_number(name) is not None for name in names):
        return sorted(names, key=float)
    by_name = sorted(names, key=str.casefold)
    return sorted(by_name, key=lambda n: not _DENYING.match(n)) if len(names) == 2 else by_name


def _is_missing(cell: object) -> bool:
    value = parse_number(cell)
    return value is not None and math.isnan(value)


def _tidy(text: str) -> str:
    """A number that names a class, always spelled alike: 3.0 is 3."""
    value = parse_number(text)
    return text if value is None or math.isnan(value) else f"{value:g}"


def _classes(
    cells: Sequence[Any], texts: list[str], classes: tuple[str, ...], column: str
) -> tuple[Labels, dict[int, str]]:
    """Words as the numbers of their classes."""
    place = {name.casefold(): number for number, name in enumerate(classes)}
    values, bad = np.full(len(texts), np.nan), {}
    for row, text in enumerate(texts):
        known = place.get(text.casefold(), place.get(_tidy(text).casefold()))
        if known is not None:
            values[row] = known
        elif not _is_missing(cells[row]):
            bad[row] = f"column {column!r}: {text!r} is none of the classes {', '.join(classes)}"
    return Labels(values, np.zeros(len(texts), np.int8), classes), bad
