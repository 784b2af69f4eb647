"""Molecule tables in: CSV, TSV, SMILES, SDF and Parquet files, read in chunks.

    table = open_table("molecules.csv")
    for chunk in table.chunks():
        chunk.columns["smiles"], chunk.rejects

A file that cannot be used raises :class:`TableError`, with a sentence for people. A row that cannot
be used is listed in ``chunk.rejects`` and the others go on. Rows are counted from 0 in the code and
shown from 1, the header not counted; a message that says *line* counts lines of the file.
"""

from __future__ import annotations

import os
from pathlib import Path

from gad.data.tables.base import Chunk, Table, TableError
from gad.data.tables.converted import standard_input, workbook
from gad.data.tables.parquet import ParquetTable
from gad.data.tables.sdf import SDFTable
from gad.data.tables.text import DelimitedTable, SmilesTable, sniff_delimiter

__all__ = ["Chunk", "Table", "TableError", "open_table"]

FORMATS = ".csv, .tsv, .txt, .smi, .sdf (each also with .gz), .parquet or .xlsx"


def open_table(path: str | os.PathLike[str]) -> Table:
    r"""Open a table of molecules; the ending of its name says which format it has.

    ``-`` is standard input: SMILES, one a line, or a table whose header has the word.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "some.smi")
        >>> _ = path.write_text("CCO ethanol\nC methane\n")
        >>> table = open_table(path)
        >>> table.format, table.names
        ('smi', ('smiles', 'name'))
        >>> [chunk.columns["name"] for chunk in table.chunks(size=1)]
        [['ethanol'], ['methane']]

    Raises:
        TableError: the file is missing, is no file, or is not what its name says.
    """
    path = standard_input() if str(path) == "-" else Path(path)
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "there is no such file"
        raise TableError(f"{path}: {what}; give the path of a table ({FORMATS}).")
    if path.suffix.lower() in (".xlsx", ".xlsm"):
        path = workbook(path, path.stat().st_mtime_ns)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = suffixes[-1:] == [".gz"]
    match suffixes[-2:-1] if compressed else suffixes[-1:]:
        case [".csv"]:
            return DelimitedTable(path, _delimiter(path, ",") or ",")
        case [".tsv" | ".tab"]:
            return DelimitedTable(path, "\t")
        case [".txt"]:
            delimiter = _delimiter(path, "\t")
            return DelimitedTable(path, delimiter) if delimiter else SmilesTable(path)
        case [".smi" | ".smiles"]:
            return SmilesTable(path)
        case [".sdf" | ".sd" | ".mol"]:
            return SDFTable(path)
        case [".parquet" | ".pq"] if not compressed:
            return ParquetTable(path)
    raise TableError(
        f"{path}: the ending of the name is not one of {FORMATS}; convert it to one of these."
    )


def _delimiter(path: Path, usual: str) -> str | None:
    """The usual delimiter if the header has it, otherwise the one it does have."""
    return sniff_delimiter(path, usual) or sniff_delimiter(path, "\t,;|")
