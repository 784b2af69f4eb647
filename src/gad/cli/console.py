"""What a command has to say, to people and to programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

# A file or a pipe has no width, and a path that is folded cannot be copied.
_WIDE = 200


@dataclass(frozen=True)
class Outcome:
    """The result of a command.

    Attributes:
        data: for programs, as JSON can hold it.
        shown: for people, anything ``rich`` can print.
        code: the exit code.
    """

    data: Mapping[str, Any]
    shown: RenderableType
    code: int = 0


def output() -> Console:
    """The console of results, on stdout."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)


def errors() -> Console:
    """The console of progress, messages and errors, on stderr."""
    from rich.console import Console

    return Console(stderr=True, soft_wrap=True, highlight=False)


def show(outcome: Outcome) -> None:
    """Print a result for people."""
    output().print(outcome.shown)


def print_error(message: str, label: str = "error: ") -> None:
    """Print what went wrong, on stderr."""
    from rich.text import Text

    errors().print(Text.assemble((label, "bold red"), message))


def print_json(data: Mapping[str, Any]) -> None:
    """Print one JSON object: what is not a finite number is null."""
    print(json.dumps(plain(data), allow_nan=False), flush=True)


def plain(value: Any) -> Any:
    """A value as strict JSON can hold it.

    >>> plain({"a": (1.5, float("nan")), 2: None})
    {'a': [1.5, None], '2': None}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (str, int)) or value is None:
        return value
    if hasattr(value, "tolist"):  # arrays and their scalars
        return plain(value.tolist())
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    return str(value)


def cell(value: Any, form: str = "") -> str:
    """A value in a table: a dash for None, four digits of a fraction unless a form is given.

    >>> cell(None), cell(0.123456), cell(1234, ",d"), cell("mu")
    ('–', '0.1235', '1,234', 'mu')
    """
    if value is None:
        return "–"
    return format(value, form or (".4g" if isinstance(value, float) else ""))


def grid(names: Iterable[str], numbers: Iterable[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table of texts: columns of names, which begin at the left, then columns of numbers."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in names:
        table.add_column(heading)
    for heading in numbers:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*(Text(text, overflow="fold") for text in row))
    return table


def facts(rows: Mapping[str, Any]) -> Table:
    """Names and values, one below the other; what is None is left out."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in rows.items():
        if value is not None:
            grid.add_row(Text(name, style="dim"), Text(str(value), overflow="fold"))
    return grid
