"""Forms of a molecule: one prediction for an acid and its salt, and what was changed is listed."""

from __future__ import annotations

import pytest

import gad
from gad.data.rows import Source
from gad.settings.recipe import Recipe
from gad.training.dataset import load_dataset
from tests.cli.calls import TINY, call, done, esol_rows, rows_of, write_csv

pytestmark = pytest.mark.slow

SALT, ACID = "[Na+].[O-]C(=O)c1ccccc1", "OC(=O)c1ccccc1"
ONE, OTHER = "O=c1cccc[nH]1", "Oc1ccccn1"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("standardise")
    rows = esol_rows(60)
    rows[3]["smiles"], rows[5]["smiles"], rows[7]["smiles"] = SALT, OTHER, "broken("
    table = write_csv(folder / "table.csv", rows)
    told = done("train", table, *TINY, "--standardise", "--out", folder / "run", "--json").json
    assert any("standardised: " in text for text in told["messages"])
    return folder / "run"


def test_salts_and_tautomers_are_the_same(run, tmp_path):
    model = gad.load(run / "model.gad")
    values = model.predict([SALT, ACID, ONE, OTHER])
    assert values[0] == pytest.approx(values[1], abs=1e-5)
    assert values[2] == pytest.approx(values[3], abs=1e-5)
    assert abs(values[0] - values[2]) > 1e-4
    table = write_csv(tmp_path / "some.csv", [{"smiles": s} for s in (SALT, ACID, "broken(")])
    done("predict", run / "model.gad", table, "-o", tmp_path / "out.csv")
    told = rows_of(tmp_path / "out.csv")
    assert float(told[0]["logS_pred"]) == pytest.approx(float(told[1]["logS_pred"]), abs=1e-5)
    assert told[0]["smiles"] == SALT
    assert "syntax error" in told[2]["reject_reason"]


def test_what_was_changed_is_listed(run):
    changed = {int(row["row"]): row for row in rows_of(run / "standardised.csv")}
    assert changed[4]["standardised"] == "O=C(O)c1ccccc1"
    assert changed[6]["standardised"] == ONE
    assert 8 not in changed
    shown = done("info", run / "model.gad").out
    assert "standardise=fragment+uncharge+tautomer" in shown


def test_steps_by_choice(tmp_path):
    table = write_csv(tmp_path / "table.csv", esol_rows(40))
    done("train", table, *TINY, "--set", "standardise=fragment", "--out", tmp_path / "run")
    values = gad.load(tmp_path / "run" / "model.gad").predict([SALT, "[O-]C(=O)c1ccccc1", ACID])
    assert values[0] == pytest.approx(values[1], abs=1e-5)
    assert abs(values[0] - values[2]) > 1e-4
    refused = call("train", table, *TINY, "--set", "standardise=salts")
    assert refused.code in {1, 2}
    assert "fragment" in refused.err


def test_duplicates_are_merged(tmp_path):
    rows = esol_rows(40)
    rows += [
        {"smiles": "OCC", "logS": 1.0}, {"smiles": "CCO", "logS": 2.0},
        {"smiles": "C(C)O", "logS": 6.0},
        {"smiles": "NCCCCCN", "logS": -1.0}, {"smiles": "C(CCCCN)N", "logS": -1.0},
    ]  # fmt: skip
    table = write_csv(tmp_path / "table.csv", rows)
    for how, used, value in (("mean", 42, 3.0), ("median", 42, 2.0), ("drop", 41, None)):
        out = tmp_path / how
        options = ("--merge-duplicates", how, "--out", out, "--json")
        told = done("train", table, *TINY, *options).json
        assert told["rows"]["used"] == used
        assert any("1.0 (row 41), 2.0 (row 42), 6.0 (row 43)" in text for text in told["messages"])
        # Numbers that agree are no contradiction.
        assert not any("NCCCCCN" in text for text in told["messages"])
        ethanol = [r for r in told["rejects"] if r["row"] in {41, 42, 43}]
        assert len(ethanol) == (3 if how == "drop" else 0)
        data = load_dataset(Source.of(str(table), "logS", merge=how), Recipe())
        place = [i for i, key in enumerate(data.packed.keys) if key == "CCO"]
        assert [float(data.targets[i, 0]) for i in place] == ([] if value is None else [value])


def test_rows_that_differ_in_a_feature_are_not_merged(tmp_path):
    rows = [{**row, "dose": i % 2} for i, row in enumerate(esol_rows(30))]
    rows += [{"smiles": "CCO", "logS": 1.0, "dose": d} for d in (0, 1, 1)]
    table = write_csv(tmp_path / "table.csv", rows)
    options = ("--target", "logS", "--feature", "dose", "--merge-duplicates", "mean")
    told = done("train", table, *TINY, *options, "--out", tmp_path / "run", "--json").json
    assert told["rows"]["used"] == 32
