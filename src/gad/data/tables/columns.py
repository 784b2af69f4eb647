"""Which column is what: SMILES, targets, weights."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gad.data.tables.base import Table, TableError, cell_text
from gad.data.tables.numbers import decimal_commas, numbers, without_relation
from gad.words import nearest

SAMPLE = 500
"""Rows that are looked at before a column is guessed."""

_SMILES_NAMES = ("smiles", "canonical_smiles", "isomeric_smiles", "smi")
_PERHAPS_SMILES = ("mol", "molecule", "structure", "compound", "drug")
_ATOM = r"(?:Cl|Br|[BCNOPSFIbcnops*]|\[[^][\s]+\])"
_SMILES = re.compile(rf"{_ATOM}(?:{_ATOM}|[-=#$:~/\\.()]|\d|%\d\d)*", re.ASCII)
_NOT_A_TARGET = re.compile(
    r"(.*_)?(id|ids|idx|key|cas|cid|sid)|(id|idx|index|row|column|unnamed)(_.*)?"
    r"|name|number|no|nr|split|fold|set|subset|group|w|weights?|sample_weights?"
)


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
        found, note = find_column(table, name, role)
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
        goal, why = _guess_target(table, {k: v for k, v in sample.items() if k not in used})
        goals = (goal,)
        notes.append(f"target: {goal!r}, {why}")
    numeric = [name for name in (*goals, weighting, *extra) if name is not None]
    commas = [name for name in numeric if table.may_have_commas and decimal_commas(sample[name])]
    return Columns(molecule, goals, weighting, extra, part, frozenset(commas)), notes


def find_column(table: Table, name: str, role: str) -> tuple[str, list[str]]:
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


def _guess_target(table: Table, sample: dict[str, list[Any]]) -> tuple[str, str]:
    """The one column that holds numbers and is neither an identifier nor a counter, and why.

    Where there are none, the one column that holds words which come again and again.
    """
    commas = table.may_have_commas
    numeric = {name: v for name, cells in sample.items() if len(v := _numeric(cells, commas))}
    candidates = [
        name
        for name, values in numeric.items()
        if not _NOT_A_TARGET.fullmatch(_plain(name)) and not _counts(values)
    ]
    if len(candidates) == 1:
        return candidates[0], "the only numeric column"
    words = [
        name
        for name, cells in sample.items()
        if _repeats(cells) and not _NOT_A_TARGET.fullmatch(_plain(name))
    ]
    if not numeric and len(words) == 1:
        return words[0], "the only column of words that are repeated"
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
    bare = [without_relation(cell) for cell in cells]
    values, rejects = numbers(bare, "", comma=commas and decimal_commas(bare))
    finite: NDArray[np.float64] = values[np.isfinite(values)]
    return finite if len(rejects) <= 0.1 * (len(finite) + len(rejects)) else finite[:0]


def _repeats(cells: list[Any]) -> bool:
    """Whether a column has at least two different words, each four times or more on average."""
    found = Counter(text for cell in cells if (text := cell_text(cell).strip().casefold()))
    return len(found) > 1 and found.total() >= 4 * len(found)


def _counts(values: NDArray[np.float64]) -> bool:
    """Whether integers go up from row to row, as numbers of rows and records do."""
    return len(values) >= 5 and bool(np.all(values % 1 == 0) and np.all(np.diff(values) > 0))


def _listed(names: Sequence[str], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more
