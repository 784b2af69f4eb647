"""``gad explain``: a page, a table of atoms and pictures; of files with bad rows, of a SMILES."""

from __future__ import annotations

import re
import struct
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from rdkit import Chem

import gad
from tests.cli.calls import call, done, rows_of, write_csv

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
ROWS = [ASPIRIN, "C(C", "Oc1ccccc1", "", "[Na+].[Cl-]", "C"]


@pytest.fixture
def table(tmp_path):
    return write_csv(tmp_path / "table.csv", [{"id": k, "smiles": s} for k, s in enumerate(ROWS)])


def test_a_table_of_atoms(model, table, tmp_path):
    told = done("explain", model, table, "-o", tmp_path / "atoms.csv", "--json").json
    assert (told["rows"], told["explained"], told["rejected"]) == (6, 4, 2)
    rows = rows_of(tmp_path / "atoms.csv")
    assert len(rows) == 13 + 7 + 2 + 1
    assert {row["row"] for row in rows} == {"1", "3", "5", "6"}
    for number in (1, 3, 5, 6):
        own = [row for row in rows if row["row"] == str(number)]
        mol = Chem.MolFromSmiles(ROWS[number - 1])
        assert [row["element"] for row in own] == [atom.GetSymbol() for atom in mol.GetAtoms()]
        assert [int(row["atom"]) for row in own] == list(range(len(own)))
        total = sum(float(row["logS_contribution"]) for row in own)
        total += float(own[0]["logS_baseline"]) + float(own[0]["logS_whole"])
        assert total == pytest.approx(float(own[0]["logS_prediction"]), abs=1e-4)
        value = gad.load(model).predict([ROWS[number - 1]])[0]
        assert float(own[0]["logS_prediction"]) == pytest.approx(value, abs=1e-4)
    rejects = rows_of(tmp_path / "rejects.csv")
    assert [(row["row"], row["smiles"]) for row in rejects] == [("2", "C(C"), ("4", "")]
    assert all(row["reason"] for row in rejects)
    # A second run without bad rows leaves no rejects of the first.
    done("explain", model, ASPIRIN, "-o", tmp_path / "atoms.csv")
    assert not (tmp_path / "rejects.csv").exists()
    assert call("explain", model, table, "-o", tmp_path / "atoms.csv", "--strict").code == 3


def test_a_page(model, table, tmp_path):
    done("explain", model, table, "-o", tmp_path / "why.html", "--kernel", "4")
    page = (tmp_path / "why.html").read_text(encoding="utf-8")
    assert page.count("<article>") == 4
    assert "carboxylic acid" in page
    assert "hydroxyl" in page
    assert "2 more could not be used" in page
    assert "Similar training molecules" in page
    assert page.count("What the atom sees") == 2
    # Nothing is fetched, and nothing is run.
    urls = set(re.findall(r"https?://[^\s'\"<>]+", page))
    assert urls <= {
        "http://www.w3.org/2000/svg",
        "http://www.rdkit.org/xml",
        "http://www.w3.org/1999/xlink",
    }
    assert "<script" not in page
    assert "src=" not in page


@pytest.mark.slow
def test_a_page_of_a_model_that_keeps_no_neighbours(tmp_path, table):
    from tests.cli.calls import TINY, esol_rows

    data = write_csv(tmp_path / "train.csv", esol_rows(60))
    done("train", data, *TINY, "--no-neighbours", "--out", tmp_path / "run")
    done("explain", tmp_path / "run" / "model.gad", table, "-o", tmp_path / "why.html")
    page = (tmp_path / "why.html").read_text(encoding="utf-8")
    assert page.count("<article>") == 4
    assert "Similar training molecules" not in page


def test_pictures(model, tmp_path):
    done("explain", model, ASPIRIN, "-o", tmp_path / "a.svg")
    root = ET.fromstring((tmp_path / "a.svg").read_bytes())
    discs = list(root.iter("{http://www.w3.org/2000/svg}ellipse"))
    assert len(discs) == 13
    done("explain", model, ASPIRIN, "-o", tmp_path / "a.png", "--kernel", "0")
    png = (tmp_path / "a.png").read_bytes()
    assert png[:4] == b"\x89PNG"
    wide, high = struct.unpack(">II", png[16:24])
    assert wide > 2 * high, "the molecule and three kernels stand side by side"


def test_the_kernel_of_an_atom(model, tmp_path):
    done("explain", model, ASPIRIN, "-o", tmp_path / "a.csv", "--kernel", "4")
    rows = rows_of(tmp_path / "a.csv")
    short, middle, long = (
        np.array([float(row[f"kernel_{name}"]) for row in rows])
        for name in ("short", "middle", "long")
    )
    for kernel in (short, middle, long):
        assert kernel.argmax() == 4
        # Constants stay as they are: an atom receives 1 in all.
        assert kernel.sum() == pytest.approx(1, abs=1e-4)
    assert short[4] > middle[4] > long[4]
    refused = call("explain", model, ASPIRIN, "-o", tmp_path / "a.csv", "--kernel", "13")
    assert refused.code == 2
    assert "0 to 12" in refused.err


def test_what_is_refused(model, tmp_path):
    out = tmp_path / "a.html"
    assert "neither a file nor a SMILES" in call("explain", model, "nothing.csv", "-o", out).err
    refused = call("explain", model, ASPIRIN, "-o", out, "--target", "logs")
    assert refused.code == 1
    assert "logS" in refused.err
    assert call("explain", model, ASPIRIN, "-o", tmp_path / "a.pdf").code == 2
    assert call("explain", model, ASPIRIN, "-o", tmp_path / "no" / "a.html").code == 2
    assert not out.exists()


def test_a_table_without_a_usable_row(model, tmp_path):
    table = write_csv(tmp_path / "bad.csv", [{"smiles": "C("}, {"smiles": "?"}])
    for name in ("a.html", "a.csv", "a.svg", "a.png"):
        told = done("explain", model, table, "-o", tmp_path / name, "--json").json
        assert told["explained"] == 0
        assert (tmp_path / name).exists()


def test_what_is_printed(model, tmp_path):
    told = done("explain", model, "CCO ethanol", "-o", tmp_path / "a.html").out
    assert re.search(r"2\s+O\s+[+-]\d", told)
    assert "prediction" in told
