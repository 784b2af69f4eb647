"""How far to trust a prediction, from the command line: domain, neighbours, intervals, sets."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import gad
from gad.prediction.engines import local
from tests.chem.test_order import C60
from tests.cli.calls import TINY, call, done, esol_rows, rows_of, write_csv
from tests.prediction.test_domain import PEPTIDE

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """Propanol, what no model of ESOL can know, and rows that cannot be used."""
    smiles = ["CCCO", C60, "[U](=O)=O", "O=[U+2]=O", PEPTIDE, "not a molecule", "", "OCCC"]
    rows = [{"smiles": text, "domain": k} for k, text in enumerate(smiles)]
    return write_csv(tmp_path_factory.mktemp("odd") / "odd.csv", rows)


def test_domain_and_neighbours(model, odd, tmp_path):
    out = tmp_path / "out.csv"
    done("predict", model, odd, "-o", out, "--uncertainty", "--neighbours", "3")
    rows = rows_of(out)
    near = [f"neighbour_{k}{what}" for k in (1, 2, 3) for what in ("", "_similarity", "_logS")]
    assert list(rows[0]) == [
        "smiles", "domain", "logS_pred", "logS_lower", "logS_upper", "domain_gad", *near,
        "warning", "reject_reason",
    ]  # fmt: skip
    assert rows[0]["domain_gad"] == "inside"
    assert "inside" not in [row["domain_gad"] for row in rows[1:5]]
    assert all(rows[k][name] == "" for k in (5, 6) for name in ("domain_gad", *near))
    measured = {row["smiles"]: row["logS"] for row in esol_rows(1144)}
    assert float(rows[0]["neighbour_1_similarity"]) >= float(rows[0]["neighbour_2_similarity"])
    assert measured.get("CCCCO") is None or "CCC" in rows[0]["neighbour_1"]
    # The same molecule however it is written.
    assert [rows[7][name] for name in near] == [rows[0][name] for name in near]


def test_intervals_adapt_and_python_says_the_same(model, odd, tmp_path):
    done("predict", model, odd, "-o", tmp_path / "out.csv", "--uncertainty")
    rows = rows_of(tmp_path / "out.csv")
    told = gad.load(model).predict_detailed(
        [row["smiles"] for row in rows], uncertainty=True, neighbours=2
    )
    for name, values in (("pred", told.values), ("lower", told.lower), ("upper", told.upper)):
        written = [float(row[f"logS_{name}"] or "nan") for row in rows]
        np.testing.assert_allclose(written, values[:, 0], rtol=1e-5)
    assert [row["domain_gad"] for row in rows] == told.domain
    assert told.neighbours[5] == []
    assert [len(found) for found in told.neighbours].count(2) == 6
    assert told.similarity[0] == pytest.approx(told.neighbours[0][0].similarity, abs=1e-6)
    plain = gad.load(model).predict_detailed([row["smiles"] for row in rows])
    assert plain.domain is plain.neighbours is plain.similarity is plain.sets is None
    widths = (plain.upper - plain.lower)[[0, 1, 2, 3, 4, 7], 0]
    np.testing.assert_allclose(widths, widths[0], rtol=1e-6)


def test_parquet_parts_and_the_whole_say_the_same(model, odd, tmp_path, monkeypatch):
    monkeypatch.setattr(local, "CHUNK", 3)
    asked = ("--uncertainty", "--neighbours", "2", "--workers", "1")
    done("predict", model, odd, "-o", tmp_path / "whole.csv", *asked)
    for k in (1, 2):
        done("predict", model, odd, "-o", tmp_path / f"{k}.csv", "--part", f"{k}/2", *asked)
    done("join", tmp_path / "1.csv", tmp_path / "2.csv", "-o", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    done("predict", model, odd, "-o", tmp_path / "out.parquet", *asked)
    table = pq.read_table(tmp_path / "out.parquet")
    assert str(table.schema.field("neighbour_1_logS").type) == "float"
    assert table["domain_gad"].to_pylist()[0] == "inside"
    done("predict", model, odd, "-o", tmp_path / "out.csv", "--uncertainty")
    assert "neighbour_1" not in rows_of(tmp_path / "out.csv")[0], "another request, another file"


@pytest.fixture(scope="module")
def silent(tmp_path_factory):
    """A model that must not disclose its training set."""
    folder = tmp_path_factory.mktemp("silent")
    table = write_csv(folder / "table.csv", esol_rows(300))
    told = done("train", table, *TINY, "--no-neighbours", "--out", folder / "run", "--json").json
    assert any("keeps no training molecules" in text for text in told["messages"])
    return folder / "run" / "model.gad"


def test_a_file_without_neighbours_discloses_none(silent, odd, tmp_path):
    content = silent.read_bytes()
    long = [row["smiles"] for row in esol_rows(300) if len(row["smiles"]) > 12]
    assert not [text for text in long if text.encode() in content]
    assert "neighbours" not in gad.load(silent).model.parts
    refused = call("predict", silent, odd, "-o", tmp_path / "out.csv", "--neighbours", "1")
    assert refused.code == 1
    assert "keeps no training molecules" in refused.err
    done("predict", silent, odd, "-o", tmp_path / "out.csv", "--uncertainty")
    rows = rows_of(tmp_path / "out.csv")
    assert rows[0]["domain_gad"] == "inside"
    assert "inside" not in [row["domain_gad"] for row in rows[1:5]]
    assert float(rows[0]["logS_upper"]) > float(rows[0]["logS_lower"])


def test_bounds_words_and_several_targets_have_neighbours(tmp_path):
    rows = [
        {
            "smiles": row["smiles"],
            "logS": ">-1" if row["logS"] > -1 else row["logS"],
            "hit": "yes" if row["logS"] > -2.5 else "no",
        }
        for row in esol_rows(120)
    ]
    rows[4]["hit"] = ""
    table = write_csv(tmp_path / "table.csv", rows)
    done("train", table, *TINY, "--target", "logS", "--target", "hit", "--folds", "3", "--out",
         tmp_path / "run")  # fmt: skip
    out = tmp_path / "out.parquet"
    done("predict", tmp_path / "run" / "model.gad", table, "-o", out, "--uncertainty",
         "--neighbours", "1")  # fmt: skip
    told = pq.read_table(out).to_pydict()
    # Nearly every row was a training row of some fold: it is its own neighbour.
    assert np.mean(np.array(told["neighbour_1_similarity"]) == 1) > 0.9
    assert set(told["neighbour_1_hit"]) == {"yes", "no", ""}
    assert ">-1" in told["neighbour_1_logS"]
    assert set(told["hit_set"]) <= {"no", "yes", "no|yes", "none"}
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert "folds" in summary["uncertainty"]["calibrated_on"]
    assert summary["uncertainty"]["classes"]["hit"]["calibration_error"] >= 0


def test_no_more_neighbours_than_there_are(tmp_path):
    table = write_csv(tmp_path / "table.csv", esol_rows(40))
    done("train", table, *TINY, "--out", tmp_path / "run")
    out = tmp_path / "out.csv"
    done("predict", tmp_path / "run" / "model.gad", table, "-o", out, "--neighbours", "35")
    row = rows_of(out)[0]
    assert row["neighbour_32"] != "" == row["neighbour_35"]
    assert "domain" not in row
    assert call("predict", tmp_path / "run" / "model.gad", table, "-o", out, "--neighbours",
                "-1").code == 2  # fmt: skip
