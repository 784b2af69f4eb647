"""Tutorials as notebooks, executed by Jupyter's own kernel."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from website.tutorials import Block, blocks, environment

# Jupyter's kernel asks programs for colours and moving bars, which a page cannot show.
_PLAIN = "__import__('os').environ.update(FORCE_COLOR='', CLICOLOR_FORCE='', TERM='dumb')"


def cell(block: Block) -> object:
    """A cell of a notebook for a part of a tutorial."""
    from nbformat import v4

    source = block.source.strip("\n")
    if block.kind == "text":
        return v4.new_markdown_cell(source)
    return v4.new_code_cell(f"%%bash\n{source}" if block.kind == "sh" else source)


def _said(made: Any) -> str:
    """What a cell printed, and the value it ended with."""
    outputs = made.get("outputs", ())
    return "".join(
        out.text if "text" in out else out.get("data", {}).get("text/plain", "") for out in outputs
    )


def execute(page: Path, folder: Path) -> tuple[list[Block], str]:
    """The blocks of a tutorial with their output, and its notebook; a cell that fails raises."""
    import nbformat
    from nbclient import NotebookClient

    parts = blocks(page.read_text(encoding="utf-8"))
    book = nbformat.v4.new_notebook(
        cells=[cell(part) for part in parts],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    # Otherwise two builds differ by random names.
    for number, made in enumerate(book.cells):
        made.id = f"cell-{number}"
    with mock.patch.dict(os.environ, environment()):
        NotebookClient(
            book,
            timeout=1800,
            resources={"metadata": {"path": str(folder)}},
            extra_arguments=[f"--IPKernelApp.exec_lines={_PLAIN}"],
        ).execute()
    for made in book.cells:
        made.metadata.pop("execution", None)
    told = [replace(part, output=_said(made)) for part, made in zip(parts, book.cells, strict=True)]
    return told, nbformat.writes(book)
