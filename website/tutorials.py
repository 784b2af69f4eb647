"""Tutorials are executed: ``python -m website.tutorials PAGE [FOLDER]``.

A tutorial is a page of ``docs/tutorials``. Its ``python`` blocks run one after another in one
namespace, its ``sh`` blocks in a shell, all in one folder; what they print is shown below them, and
files they make can be linked to. A block that fails fails the page, the site and the test.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from website.paths import DOCS, ROOT

TUTORIALS = DOCS / "tutorials"
# Those that are offered as notebooks, too.
NOTEBOOKS = ("first-model", "trust", "small-data")
_FENCE = re.compile(r"^```(python|sh)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_OUTPUT = '\n<div class="output" markdown>\n\n```text\n{}\n```\n\n</div>\n'
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|.*\r(?!\n)")


class TutorialError(RuntimeError):
    """A block of a tutorial failed; the message shows the block and what it said."""


@dataclass(frozen=True)
class Block:
    """A part of a tutorial: text, or code (``python`` or ``sh``) with what it printed."""

    kind: str
    source: str
    output: str = ""

    def markdown(self) -> str:
        """As it stands on the page."""
        if self.kind == "text":
            return self.source
        shown = f"```{self.kind}\n{self.source}```\n"
        return shown + _OUTPUT.format(self.output.rstrip()) if self.output.strip() else shown


def tutorials() -> list[Path]:
    """The pages, by name."""
    return sorted(path for path in TUTORIALS.glob("*.md") if path.stem != "index")


def blocks(text: str) -> list[Block]:
    """The parts of a page, in order."""
    found, end = [], 0
    for fence in _FENCE.finditer(text):
        found += [Block("text", text[end : fence.start()]), Block(fence[1], fence[2])]
        end = fence.end()
    return [block for block in [*found, Block("text", text[end:])] if block.source]


def environment() -> dict[str, str]:
    """Of a tutorial's commands: this Python's programs first, one thread, plain output."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    sources = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    plain = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    return {**os.environ, **plain, "PATH": programs, "PYTHONPATH": sources}


def execute(page: Path, folder: Path) -> list[Block]:
    """Run a tutorial in a process of its own; its blocks with their output."""
    command = [sys.executable, "-m", "website.tutorials", str(page), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TutorialError(f"{page.name}: {done.stderr.strip()}")
    outputs = json.loads(done.stdout.splitlines()[-1])
    parts = blocks(page.read_text(encoding="utf-8"))
    return [replace(part, output=said) for part, said in zip(parts, outputs, strict=True)]


def _shell(source: str) -> str:
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", source],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise TutorialError(f"exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def _python(source: str, names: dict[str, object]) -> str:
    """Run as a notebook does: the value of a last expression is shown."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(tree, "<tutorial>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<tutorial>", "eval"), names)
            if value is not None:
                print(repr(value))
    return said.getvalue()


def run(text: str, folder: Path) -> list[str]:
    """What each block of a page prints, run in a folder by this process."""
    names: dict[str, object] = {"__name__": "__main__"}
    outputs = []
    os.chdir(folder)
    for block in blocks(text):
        try:
            said = (
                "" if block.kind == "text"
                else _shell(block.source) if block.kind == "sh"
                else _python(block.source, names)
            )  # fmt: skip
        except Exception as error:
            raise TutorialError(f"this failed:\n\n{block.source}\n{error}") from error
        outputs.append(_ESCAPES.sub("", said))
    return outputs


def main() -> None:
    """Run one page; the last line of stdout is JSON, for :func:`execute`."""
    os.environ.update(environment())
    page = Path(sys.argv[1]).resolve()
    text = page.read_text(encoding="utf-8")
    with contextlib.ExitStack() as stack:
        folder = (
            Path(sys.argv[2])
            if len(sys.argv) > 2
            else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        )
        sys.stdout.write(json.dumps(run(text, folder)) + "\n")


if __name__ == "__main__":
    main()
