"""Tables that are written down first: Excel workbooks, and what comes on standard input."""

from __future__ import annotations

import atexit
import csv
import shutil
import sys
import tempfile
from datetime import datetime
from functools import cache
from pathlib import Path

from gad.data.tables.base import TableError


@cache
def _folder() -> Path:
    """A folder for as long as this process lives."""
    folder = Path(tempfile.mkdtemp(prefix="gad-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def standard_input() -> Path:
    """What stands on standard input, as a file: SMILES, or a table whose header names them."""
    content = sys.stdin.buffer.read()
    first = content.lstrip().partition(b"\n")[0].decode("utf-8", "replace")
    table = "smiles" in first.lower() and any(mark in first for mark in ",;\t|")
    if not content.strip():
        raise TableError("-: there is nothing on standard input")
    path = _folder() / ("stdin.csv" if table or first.strip().lower() == "smiles" else "stdin.smi")
    path.write_bytes(content)
    return path


@cache
def workbook(path: Path, changed: int) -> Path:
    """The first sheet of a workbook as CSV; another time of change is another workbook."""
    try:
        from openpyxl import load_workbook
    except ModuleNotFoundError as error:
        raise TableError(
            f"{path}: Excel files need openpyxl: pip install 'graph-anisotropic-diffusion[excel]', "
            "or save it as CSV"
        ) from error
    try:
        sheet = load_workbook(path, read_only=True, data_only=True).worksheets[0]
        rows = [[_cell(value) for value in row] for row in sheet.iter_rows(values_only=True)]
    except Exception as error:
        raise TableError(f"{path}: is not an Excel workbook, or is damaged: {error}") from error
    rows = [row for row in rows if any(row)]
    width = max((place + 1 for row in rows for place, cell in enumerate(row) if cell), default=0)
    if not width:
        raise TableError(f"{path}: its first sheet is empty")
    made = _folder() / f"{changed}-{path.stem}.csv"
    with made.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(row[:width] for row in rows)
    return made


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat().removesuffix("T00:00:00")
    return str(value)
