"""Writes the tables into the documentation: ``python -m gad.experiments.docs [--check]``.

A table stands between two marks, and whatever is there is replaced by what the records say::

    <!-- table: zinc -->
    <!-- end of table -->
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from gad.data.atomic import write_atomic
from gad.experiments.grid import grid
from gad.experiments.ingredients import ingredients
from gad.experiments.nodes import node_table

PAGES = ("README.md", "docs/nodes.md", "docs/reproduction.md")
_CLOSEST = ("pna", "dgn", "gad-i", "gad-s")


def _in_short(results: Path) -> str:
    short = grid(results, "zinc", variations=False, models=_CLOSEST)
    return short.only("model", "bonds", "recipe", "paper", "ours", "seeds", "parameters").markdown()


TABLES: dict[str, Callable[[Path], str]] = {
    "zinc": lambda results: grid(results, "zinc", variations=False).markdown(),
    "zinc, in short": _in_short,
    "zinc, all runs": lambda results: grid(results, "zinc", missing=False).markdown(),
    "zinc, ingredients": lambda results: ingredients(results).markdown(),
    "qm9": lambda results: grid(results, "qm9").markdown(),
    "nodes": lambda results: node_table(results)[1].markdown(),
}
"""Name of a table → its Markdown, from the folder of the records."""
_MARKS = re.compile(r"(<!-- table: ([^>]+?) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def filled(text: str, results: Path) -> str:
    """A page with its tables as the records have them."""

    def table(found: re.Match[str]) -> str:
        name = found[2]
        if name not in TABLES:
            raise ValueError(f"no table is called {name!r}: there are {', '.join(TABLES)}")
        return f"{found[1]}{TABLES[name](results)}\n{found[3]}"

    return _MARKS.sub(table, text)


def outdated(root: Path) -> list[str]:
    """The pages whose tables are not what the records say."""
    return [
        page
        for page in PAGES
        if (root / page).is_file()
        for text in [(root / page).read_text(encoding="utf-8")]
        if filled(text, root / "results") != text
    ]


def update(root: Path) -> list[str]:
    """Rewrite the pages that are out of date; their names."""
    pages = outdated(root)
    for page in pages:
        text = (root / page).read_text(encoding="utf-8")
        write_atomic(root / page, filled(text, root / "results").encode())
    return pages


def main() -> None:
    """Update the pages below the working directory, or only say which are out of date."""
    check = sys.argv[1:] == ["--check"]
    pages = outdated(Path()) if check else update(Path())
    for page in pages:
        sys.stderr.write(f"{page} {'is out of date' if check else 'updated'}\n")
    sys.exit(1 if check and pages else 0)


if __name__ == "__main__":
    main()
