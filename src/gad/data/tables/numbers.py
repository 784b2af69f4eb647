"""How the text of a cell becomes a number."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gad.data.tables.base import cell_text

_MISSING = frozenset(
    ["", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "nil", "missing", "-", "--", "?", "."]
)
_TRUTH = {"true": 1.0, "false": 0.0}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)

_DECIMAL_COMMA = re.compile(
    r"[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+)?,\d+(e[+-]?\d+)?", re.ASCII | re.IGNORECASE
)
# One comma that may be of thousands or of decimals; commas that can only be of thousands.
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}", re.ASCII)
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(,\d{3}|\.\d*)", re.ASCII)


def parse_number(cell: object, *, comma: bool = False) -> float | None:
    """The number a cell holds: NaN if it holds nothing, None if it holds something else.

    ``True`` and ``False`` are 1 and 0. Infinity is no measurement: None. So is a comma, which could
    as well separate thousands, unless the column is known to have decimal commas (``comma``);
    there ``1.234`` could be either, and is None.

    >>> parse_number(" -0.77 "), parse_number("NA"), parse_number("1,5"), parse_number("inf")
    (-0.77, nan, None, None)
    >>> [parse_number(cell, comma=True) for cell in ("1,5", "1.234,5", "2", "1.234")]
    [1.5, 1234.5, 2.0, None]
    """
    if cell is None:
        return math.nan
    if isinstance(cell, str):
        text = cell.strip()
        if comma and "," in text and _DECIMAL_COMMA.fullmatch(text):
            text = text.replace(".", "").replace(",", ".")
        elif comma and "." in text and _NUMBER.fullmatch(text):
            return None
        if _NUMBER.fullmatch(text):
            value = float(text)
            return value if math.isfinite(value) else None
        lower = text.lower()
        return math.nan if lower in _MISSING else _TRUTH.get(lower)
    try:  # Parquet: numbers, and Arrow scalars such as decimals
        value = float(cell.as_py() if hasattr(cell, "as_py") else cell)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isinf(value) else value


BOUND = re.compile(r"\s*([<>=~≈≤≥]{1,2})\s*(\S.*)")
"""A relation, and what it is said of."""


def without_relation(cell: object) -> object:
    """What a cell says without the relation before it.

    >>> without_relation(">= 10"), without_relation("10"), without_relation(10.0)
    ('10', '10', 10.0)
    """
    found = BOUND.fullmatch(cell) if isinstance(cell, str) else None
    return found[2] if found else cell


def decimal_commas(cells: Iterable[object]) -> bool:
    """Whether the cells of a column have decimal commas, beyond doubt.

    A comma before three digits may separate thousands, as in ``1,234``: one comma in ten must be
    clearly another, as in ``1,5``, ``0,250`` or ``1.234,5``, and none clearly of thousands.

    >>> decimal_commas(["1,5", "2", "1,234"]), decimal_commas(["1,234", "12,000"])
    (True, False)
    """
    found = [cell.strip() for cell in cells if isinstance(cell, str) and "," in cell]
    fits = [text for text in found if _DECIMAL_COMMA.fullmatch(text)]
    clear = sum(not _THOUSANDS.fullmatch(text) for text in fits)
    return clear >= max(1, 0.1 * len(fits)) and not any(map(_GROUPED.fullmatch, found))


def said_commas(columns: Iterable[str]) -> list[str]:
    """The sentences for people about columns with decimal commas."""
    return [f"column {name!r} has decimal commas: 1,5 is read as 1.5" for name in columns]


def numbers(
    values: Sequence[Any], column: str, *, comma: bool = False
) -> tuple[NDArray[np.float64], dict[int, str]]:
    """A column of cells as float64, NaN where a cell is empty, and the cells that are no numbers.

    Args:
        values: the cells.
        column: the column's name, for the reasons.
        comma: whether the column has decimal commas.

    Returns:
        the numbers, ``[len(values)]``, and position → reason for cells that hold something else.

    >>> numbers(["1.5", "", ">3"], "logS")
    (array([1.5, nan, nan]), {2: "column 'logS': '>3' is a bound, not a number"})
    """
    parsed = [parse_number(value, comma=comma) for value in values]
    rejects = {
        i: f"column {column!r}: {_complaint(values[i], comma)}"
        for i, value in enumerate(parsed)
        if value is None
    }
    return np.array(parsed, dtype=np.float64), rejects


def _complaint(cell: object, comma: bool) -> str:
    """Why a cell is no number."""
    text = cell_text(cell).strip()
    shown = repr(text if len(text) <= 40 else text[:37] + "...")
    if comma and _NUMBER.fullmatch(text):
        return f"{shown} has a point in a column with decimal commas; write all numbers alike"
    if re.fullmatch(r"[+-]?\d+(,\d+)+(\.\d*)?", text):
        return f"{shown} has a comma; write decimals with a point and thousands without a mark"
    if re.fullmatch(r"[<>≤≥~=]+ *[+-]?[\d.].*", text):
        return f"{shown} is a bound, not a number"
    if re.fullmatch(r"[+-]?(inf|infinity|[\d.]+e\+?\d+)", text, re.IGNORECASE):
        return f"{shown} is infinite"
    return f"{shown} is not a number"
