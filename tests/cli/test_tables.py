"""Tables as they come: other formats, other line ends, marks, quotes, and nothing at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rdkit import Chem

import gad
from tests.cli.calls import TINY, call, done, esol_rows, rows_of, write_csv

pytestmark = pytest.mark.slow

MOLECULES = ["CCO", "c1ccccc1", "CC(=O)O"]


@pytest.fixture(scope="module")
def expected(model: Path) -> np.ndarray:
    return gad.load(model).predict(MOLECULES)


def predicted(model: Path, table: Path, *options: str) -> np.ndarray:
    out = table.with_name("out.csv")
    done("predict", model, table, "-o", out, *options)
    return np.array([float(row["logS_pred"]) for row in rows_of(out)])


TEXTS = {
    "plain": ("t.csv", "id,smiles\n1,CCO\n2,c1ccccc1\n3,CC(=O)O\n", "utf-8"),
    "no last line end": ("t.csv", "id,smiles\n1,CCO\n2,c1ccccc1\n3,CC(=O)O", "utf-8"),
    "Windows": ("t.csv", "id,smiles\r\n1,CCO\r\n2,c1ccccc1\r\n3,CC(=O)O\r\n", "utf-8"),
    "byte order mark": ("t.csv", "smiles,id\nCCO,1\nc1ccccc1,2\nCC(=O)O,3\n", "utf-8-sig"),
    "quotes": ("t.csv", 'id,smiles\n"1,a","CCO"\n"2\nb",c1ccccc1\n3,CC(=O)O\n', "utf-8"),
    "semicolons": ("t.csv", "id;smiles\n1;CCO\n2;c1ccccc1\n3;CC(=O)O\n", "utf-8"),
    "tabs": ("t.tsv", "id\tsmiles\n1\tCCO\n2\tc1ccccc1\n3\tCC(=O)O\n", "utf-8"),
    "SMILES file": ("t.smi", "CCO ethanol\nc1ccccc1 benzene\nCC(=O)O acid\n", "utf-8"),
    "unusual name": ("t.csv", "id,Canonical SMILES\n1,CCO\n2,c1ccccc1\n3,CC(=O)O\n", "utf-8"),
}


@pytest.mark.parametrize(("name", "text", "encoding"), TEXTS.values(), ids=TEXTS)
def test_text_as_it_comes(model, expected, tmp_path, name, text, encoding):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    np.testing.assert_allclose(predicted(model, path), expected, rtol=1e-6)


WRONG = {
    "empty": ("t.csv", "", "t.csv"),
    "blank": ("t.csv", "\n\n", "t.csv"),
    "one column twice": ("t.csv", "smiles,x,x\nCCO,1,2\n", "both called 'x'"),
    "no molecules": ("t.csv", "a,b\n1,2\n", "--smiles"),
    "no header": ("t.csv", "CCO,1\nCC,2\n", "header"),
    "unknown ending": ("t.ods", "smiles\nCCO\n", ".parquet"),
    "not Excel": ("t.xlsx", "smiles\nCCO\n", "Excel"),
    "not Parquet": ("t.parquet", "smiles\nCCO\n", "t.parquet"),
}


@pytest.mark.parametrize(("name", "text", "hint"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("command", ["train", "predict"])
def test_a_table_that_cannot_be_used(model, tmp_path, command, name, text, hint):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    out = tmp_path / "out.csv"
    called = (
        call("predict", model, path, "-o", out)
        if command == "predict"
        else call("train", path, *TINY, "--out", tmp_path / "run")
    )
    assert called.code == 1
    assert called.err.startswith("error: ")
    assert hint in called.err
    assert not out.exists()
    assert not (tmp_path / "run").exists()


def test_a_header_without_rows(model, tmp_path):
    """Nothing can be learned from it; predicted, it is a header without rows."""
    path = tmp_path / "t.csv"
    path.write_text("smiles,logS\n", encoding="utf-8")
    refused = call("train", path, "--target", "logS", *TINY, "--out", tmp_path / "run")
    assert refused.code == 1
    assert "no rows" in refused.err
    out = tmp_path / "out.csv"
    assert done("predict", model, path, "-o", out, "--json").json["rows"] == 0
    assert out.read_text(encoding="utf-8").strip() == "smiles,logS,logS_pred,warning,reject_reason"


def test_decimal_commas_as_spreadsheets_write_them(tmp_path):
    """The same labels with points and with commas give the same model."""
    rows = esol_rows(60)
    told = {}
    for name, mark in (("point", "."), ("comma", ",")):
        lines = [f"{r['smiles']};{r['logS']};{2.5 + r['logS']:.3f}" for r in rows]
        path = tmp_path / f"{name}.csv"
        text = "\n".join(["smiles;logS;x", *lines]).replace(".", mark)
        for row in rows:  # a point in a SMILES is no decimal
            text = text.replace(row["smiles"].replace(".", mark), row["smiles"])
        path.write_text(text, encoding="utf-8")
        out = tmp_path / name
        options = ("--target", "logS", "--feature", "x", *TINY, "--out", out, "--json")
        told[name] = done("train", path, *options).json
        done("predict", out / "model.gad", path, "-o", out / "out.csv")
    said = [m for m in told["comma"]["messages"] if "decimal commas" in m]
    assert [text.split(":")[0] for text in said] == [
        "column 'logS' has decimal commas", "column 'x' has decimal commas"
    ]  # fmt: skip
    assert not any("decimal commas" in m for m in told["point"]["messages"])
    assert told["comma"]["metrics"] == told["point"]["metrics"]
    values = [[row["logS_pred"] for row in rows_of(tmp_path / name / "out.csv")] for name in told]
    assert values[0] == values[1]
    assert "" not in values[0]


def test_contradictory_labels_name_rows_of_the_file(tmp_path):
    """Rows count from 1 as in rejects.csv, also behind a row that was rejected."""
    rows = [{"smiles": "C(", "logS": 1.0}, *esol_rows(60)]
    rows += [{"smiles": "OCC", "logS": 7.0}, {"smiles": "CCO", "logS": 8.0}]
    write_csv(tmp_path / "t.csv", rows)
    told = done("train", tmp_path / "t.csv", *TINY, "--out", tmp_path / "run", "--json").json
    said = " ".join(told["messages"])
    assert "7.0 (row 62), 8.0 (row 63)" in said
    assert [row["row"] for row in rows_of(tmp_path / "run" / "rejects.csv")] == ["1"]


def test_a_wrong_word_in_the_split_column_names_its_row(tmp_path):
    rows = [{"smiles": "C(", "logS": 1.0}, *esol_rows(20)]
    rows = [{**row, "part": "tets" if i == 5 else "train"} for i, row in enumerate(rows)]
    write_csv(tmp_path / "t.csv", rows)
    options = ("--target", "logS", "--split-column", "part", *TINY, "--out", tmp_path / "run")
    refused = call("train", tmp_path / "t.csv", *options)
    assert refused.code == 1
    assert "data row 6" in refused.err


def test_no_row_that_can_be_used(model, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("smiles,logS\nC1,1\nC2,2\n", encoding="utf-8")
    refused = call("train", path, "--target", "logS", *TINY, "--out", tmp_path / "run")
    assert refused.code == 1
    assert "row 1" in refused.err
    out = tmp_path / "out.csv"
    done("predict", model, path, "-o", out, "--smiles", "smiles")
    assert [row["logS_pred"] for row in rows_of(out)] == ["", ""]


def test_a_column_that_is_not_there(model, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("smiles,logS\nCCO,1\n", encoding="utf-8")
    refused = call("predict", model, path, "-o", tmp_path / "o.csv", "--smiles", "smile")
    assert refused.code == 1
    assert "Did you mean 'smiles'?" in refused.err


def test_sdf_in_parquet_out(model, tmp_path):
    """Trained on an SDF, predicted from an SDF with a broken record, written as Parquet."""
    path = tmp_path / "t.sdf"
    rows = esol_rows(60)
    with Chem.SDWriter(str(path)) as writer:
        for number, row in enumerate(rows):
            molecule = Chem.MolFromSmiles(row["smiles"])
            molecule.SetProp("_Name", f"m{number}")
            molecule.SetProp("logS", str(row["logS"]))
            writer.write(molecule)
    with path.open("a", encoding="utf-8") as file:
        file.write("broken\n\n\n  1  0\n>  <logS>\n1.0\n\n$$$$\n")
    run = tmp_path / "run"
    found = done("train", path, "--target", "logS", *TINY, "--out", run, "--json").json
    assert found["rows"]["used"] == 60
    assert found["rows"]["rejected"] == 1
    out = tmp_path / "out.parquet"
    done("predict", run / "model.gad", path, "-o", out)
    told = pq.read_table(out)
    assert told.column_names[-3:] == ["logS_pred", "warning", "reject_reason"]
    values = told["logS_pred"].to_pylist()
    assert len(values) == 61
    reasons = told["reject_reason"].to_pylist()
    assert reasons[-1]
    assert not any(reasons[:-1])
    again = gad.load(run / "model.gad").predict([row["smiles"] for row in rows])
    np.testing.assert_allclose(values[:-1], again, atol=1e-4 * found_std(rows))
    assert np.std(again) > 0.01


def found_std(rows: list[dict[str, float]]) -> float:
    return float(np.std([row["logS"] for row in rows]))


def test_parquet_in_and_out(tmp_path):
    """Types survive, also those of columns that play no part."""
    rows = esol_rows(60)
    table = pa.table(
        {
            "key": pa.array(range(60), pa.int16()),
            "smiles": [row["smiles"] for row in rows],
            "logS": pa.array([row["logS"] for row in rows], pa.float32()),
            "good": [i % 2 == 0 for i in range(60)],
        }
    )
    path, out = tmp_path / "t.parquet", tmp_path / "out.parquet"
    pq.write_table(table, path)
    done("train", path, "--target", "logS", *TINY, "--out", tmp_path / "run")
    done("predict", tmp_path / "run" / "model.gad", path, "-o", out)
    told = pq.read_table(out)
    assert told.select(table.column_names).equals(table)
    assert told.schema.field("logS_pred").type == pa.float32()
    assert None not in told["logS_pred"].to_pylist()
