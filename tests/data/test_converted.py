"""Excel workbooks and standard input are tables like any other."""

from __future__ import annotations

import io
import sys
from datetime import datetime

import pytest
from openpyxl import Workbook

from gad.data.tables import TableError, converted, open_table
from tests.cli.calls import TINY, done, esol_rows, rows_of


def book(path, rows):
    sheet = Workbook()
    for row in rows:
        sheet.active.append(row)
    sheet.save(path)
    return path


def test_a_workbook(tmp_path):
    day = datetime(2024, 3, 31)  # noqa: DTZ001
    rows = [["smiles", "logS", "when"], ["CCO", -0.77, day], [None, None, None], ["C", ">1", None]]
    table = open_table(book(tmp_path / "a.xlsx", rows))
    (chunk,) = table.chunks()
    assert chunk.columns["smiles"] == ["CCO", "C"]
    assert chunk.columns["logS"] == ["-0.77", ">1"]
    assert chunk.columns["when"] == ["2024-03-31", ""]
    (tmp_path / "bad.xlsx").write_bytes(b"PK not a workbook")
    with pytest.raises(TableError, match="damaged"):
        open_table(tmp_path / "bad.xlsx")
    with pytest.raises(TableError, match="empty"):
        open_table(book(tmp_path / "none.xlsx", []))


def test_train_on_a_workbook_and_predict_standard_input(tmp_path, monkeypatch):
    rows = [["smiles", "logS"], *([r["smiles"], r["logS"]] for r in esol_rows(40))]
    rows[5][0] = "broken("
    path = book(tmp_path / "table.xlsx", rows)
    told = done("train", path, *TINY, "--out", tmp_path / "run", "--json").json
    assert told["rows"]["rejected"] == 1
    for text, count in (("CCO ethanol\nbroken(\n", 2), ("id,smiles\n1,CCO\n2,CC\n3,C\n", 3)):
        converted.standard_input.cache_clear()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        done("predict", tmp_path / "run" / "model.gad", "-", "-o", tmp_path / "out.csv")
        out = rows_of(tmp_path / "out.csv")
        assert len(out) == count
        assert float(out[0]["logS_pred"]) < 5
    converted.standard_input.cache_clear()
