"""Which column is what: SMILES, targets, weights; and how the text of a cell becomes a number."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gad.data.tables.base import TableError, cell_text
from gad.words import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from gad.data.tables.base import Table

__all__ = ["Columns", "choose_columns", "looks_like_smiles", "numbers", "parse_number"]

SAMPLE = 500
"""Rows that are looked at before a column is guessed."""

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

_SMILES_NAMES = ("smiles", "canonical_smiles", "isomeric_smiles", "smi")
_PERHAPS_SMILES = ("mol", "molecule", "structure", "compound", "drug")
_ATOM = r"(?:Cl|Br|[BCNOPSFIbcnops*]|\[[^][\s]+\])"
_SMILES = re.compile(rf"{_ATOM}(?:{_ATOM}|[-=#$:~/\\.()]|\d|%\d\d)*", re.ASCII)
_NOT_A_TARGET = re.compile(
    r"(.*_)?(id|ids|idx|key|cas|cid|sid)|(id|idx|index|row|column|unnamed)(_.*)?"
    r"|name|number|no|nr|split|fold|set|subset|group|w|weights?|sample_weights?"
)


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


def looks_like_smiles(text: str) -> bool:
    """Whether a text could be SMILES: its letters are atoms, its rings and branches close.

    >>> [looks_like_smiles(text) for text in ("c1ccccc1O", "[Na+].[Cl-]", "C-3", "aspirin", "3.1")]
    [True, True, False, False, False]
    """
    text = text.strip()
    if not _SMILES.fullmatch(text):
        return False
    bare = re.sub(r"\[[^]]*\]", "", text)
    closures = Counter(re.findall(r"%\d\d|\d", bare))
    return bare.count("(") == bare.count(")") and all(n % 2 == 0 for n in closures.values())


@dataclass(frozen=True)
class Columns:
    """The part each column of a table plays.

    Attributes:
        smiles: the molecules; None for an SDF, which has mol blocks.
        targets: the values to learn, in order.
        weight: how much each row counts.
        features: further numbers given to the model.
        split: which part (train, validation, test) a row belongs to.
        decimal_commas: those of the numeric columns whose first rows have them.
    """

    smiles: str | None
    targets: tuple[str, ...] = ()
    weight: str | None = None
    features: tuple[str, ...] = ()
    split: str | None = None
    decimal_commas: frozenset[str] = frozenset()


def choose_columns(
    table: Table,
    *,
    smiles: str | None = None,
    targets: Sequence[str] | None = None,
    weight: str | None = None,
    features: Sequence[str] = (),
    split: str | None = None,
    need_targets: bool,
) -> tuple[Columns, list[str]]:
    """Find the columns that are named, guess the molecules and the target if they are not.

    A guess looks at the header and at the first rows, and is made only where one answer remains.

    Returns:
        the columns, and a sentence for each guess.

    Raises:
        TableError: a column is not there, has two roles, or cannot be guessed.
    """
    notes: list[str] = []

    def find(name: str, role: str) -> str:
        found, note = _find(table, name, role)
        notes.extend(note)
        return found

    sample = _sample(table)
    molecule = find(smiles, "smiles") if smiles is not None else None
    goals = tuple(find(name, "target") for name in targets or ())
    extra = tuple(find(name, "feature") for name in features)
    weighting = find(weight, "weight") if weight is not None else None
    part = find(split, "split") if split is not None else None
    if molecule is None and table.format != "sdf":
        molecule, how = _guess_smiles(table, sample)
        notes.insert(0, f"smiles: column {molecule!r} ({how})")

    used = [name for name in (molecule, *goals, *extra, weighting, part) if name is not None]
    if twice := [name for name, n in Counter(used).items() if n > 1]:
        raise TableError(f"{table.path}: column {twice[0]!r} is named for more than one purpose.")
    if need_targets and not goals:
        goals = (_guess_target(table, {k: v for k, v in sample.items() if k not in used}),)
        notes.append(f"target: {goals[0]!r}, the only numeric column")
    numeric = [name for name in (*goals, weighting, *extra) if name is not None]
    commas = [name for name in numeric if table.may_have_commas and decimal_commas(sample[name])]
    return Columns(molecule, goals, weighting, extra, part, frozenset(commas)), notes


def _find(table: Table, name: str, role: str) -> tuple[str, list[str]]:
    """The column of that name, in capitals or not."""
    if name in table.names:
        return name, []
    alike = [other for other in table.names if other.lower() == name.lower()]
    if len(alike) == 1:
        return alike[0], [f"{role}: {name!r} is written {alike[0]!r} in {table.path}"]
    near = nearest(name, table.names)
    hint = f" Did you mean {near!r}?" if near else ""
    raise TableError(
        f"{table.path}: has no column {name!r}.{hint} Its columns: {_listed(table.names)}."
    )


def _sample(table: Table) -> dict[str, list[Any]]:
    """The first rows that can be used, by column."""
    chunk = next(table.chunks(SAMPLE), None)
    if chunk is None:
        return {name: [] for name in table.names}
    good = [i for i in range(len(chunk)) if i not in chunk.rejects]
    return {name: [cells[i] for i in good] for name, cells in chunk.columns.items()}


def _guess_smiles(table: Table, sample: dict[str, list[Any]]) -> tuple[str, str]:
    """The column with the molecules, by its name or by what it holds, and which of the two."""
    plain = {_plain(name): name for name in reversed(table.names)}
    holds = [name for name, cells in sample.items() if _holds_smiles(cells)]
    if any(map(looks_like_smiles, holds)):
        raise TableError(
            f"{table.path}: its first line is a molecule ({_listed(holds)}), not a header; "
            "write a first line that names the columns, such as 'smiles'."
        )
    for name in _SMILES_NAMES:
        if name in plain:
            return plain[name], "by its name"
    for name in _PERHAPS_SMILES:
        if plain.get(name) in holds:
            return plain[name], "by its name"
    named = [name for key, name in plain.items() if "smiles" in key.split("_")]
    for names, how in ((named, "by its name"), (holds, "it holds SMILES")):
        if len(names) == 1:
            return names[0], how
    found = sorted({*named, *holds}, key=table.names.index)
    problem = (
        f"columns {_listed(found)} could all hold the molecules"
        if found
        else "no column holds SMILES"
    )
    raise TableError(
        f"{table.path}: {problem}; say which one does (--smiles). "
        f"Its columns: {_listed(table.names)}."
    )


def _guess_target(table: Table, sample: dict[str, list[Any]]) -> str:
    """The one column that holds numbers and is neither an identifier nor a counter."""
    commas = table.may_have_commas
    numeric = {name: v for name, cells in sample.items() if len(v := _numeric(cells, commas))}
    candidates = [
        name
        for name, values in numeric.items()
        if not _NOT_A_TARGET.fullmatch(_plain(name)) and not _counts(values)
    ]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        problem = f"columns {_listed(candidates)} are all numeric"
    elif numeric:
        problem = (
            f"its numeric columns ({_listed(list(numeric))}) look like identifiers or counters"
        )
    elif not any(sample.values()):
        problem = "it has no rows to learn from"
    else:
        problem = f"none of its columns is numeric ({_listed(table.names)})"
    raise TableError(f"{table.path}: {problem}; say which to learn (--target, once for each).")


def _plain(name: str) -> str:
    """A name in small letters and underscores: ``CanonicalSMILES`` is ``canonical_smiles``."""
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", snake.lower()).strip("_")


def _holds_smiles(cells: list[Any]) -> bool:
    """Whether four cells of five could be molecules, and not one and the same."""
    texts = [cell for cell in cells if isinstance(cell, str) and cell.strip()]
    fits = [text for text in texts if looks_like_smiles(text)]
    return len(fits) >= max(1, 0.8 * len(texts)) and len(set(fits)) >= min(2, len(texts))


def _numeric(cells: list[Any], commas: bool) -> NDArray[np.float64]:
    """The numbers of a column, or none if more than one cell in ten is something else."""
    values, rejects = numbers(cells, "", comma=commas and decimal_commas(cells))
    values = values[np.isfinite(values)]
    return values if len(rejects) <= 0.1 * (len(values) + len(rejects)) else values[:0]


def _counts(values: NDArray[np.float64]) -> bool:
    """Whether integers go up from row to row, as numbers of rows and records do."""
    return len(values) >= 5 and bool(np.all(values % 1 == 0) and np.all(np.diff(values) > 0))


def _listed(names: Sequence[str], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more
