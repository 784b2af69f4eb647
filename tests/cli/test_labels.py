"""Labels as they are measured, from the table to the predictions: words, bounds, orders."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gad
from tests.cli.calls import TINY, call, done, esol_rows, rows_of, write_csv

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A hundred molecules with every kind of label, and rows that cannot be used."""
    rows = []
    for row in esol_rows(100):
        value = row["logS"]
        rows.append(
            {
                "smiles": row["smiles"],
                "logS": value,
                "hit": "active" if value > -2.5 else "inactive",
                "level": "high" if value > -1 else "medium" if value > -4 else "Low",
                "flag": int(value > -2.5),
                "bounded": ">-1" if value > -1 else "<= -5" if value < -5 else f"{value:.3f}",
                "clipped": min(max(value, -5), -1),
                "relation": ">" if value > -1 else "<" if value < -5 else "=",
                "moles": f"{10**value:.5g}",
            }
        )
    rows[3]["hit"], rows[3]["level"] = "", "?"
    rows[5]["bounded"] = rows[5]["clipped"] = "n.d."
    rows[7]["smiles"] = "broken("
    rows[9]["moles"] = "0"
    return write_csv(tmp_path_factory.mktemp("measured") / "table.csv", rows)


def test_words_numbers_and_flags_in_one_model(measured, tmp_path):
    targets = [word for name in ("hit", "level", "logS", "flag") for word in ("--target", name)]
    told = done("train", measured, *TINY, *targets, "--out", tmp_path / "run", "--json").json
    assert told["task"] == "mixed"
    scores = told["metrics"]["test"]["targets"]
    assert scores["logS"]["mae"] > 0
    assert scores["hit"]["mae"] is None
    assert 0 <= scores["hit"]["roc_auc"] <= 1
    assert 0 <= scores["level"]["balanced_accuracy"] <= 1
    model, out = tmp_path / "run" / "model.gad", tmp_path / "out.csv"
    done("predict", model, measured, "-o", out, "--uncertainty")
    rows = rows_of(out)
    added = list(rows[0])[9:]
    assert added == [
        "hit_pred", "hit_p_inactive", "hit_p_active", "hit_set", "level_pred", "level_p_high",
        "level_p_Low", "level_p_medium", "level_set", "logS_pred", "logS_lower", "logS_upper",
        "flag_pred", "flag_set", "domain", "warning", "reject_reason",
    ]  # fmt: skip
    good = [row for i, row in enumerate(rows) if i != 7]
    assert {row["hit_pred"] for row in good} <= {"active", "inactive"}
    for row in good:
        p = {name: float(row[f"level_p_{name}"]) for name in ("high", "Low", "medium")}
        assert sum(p.values()) == pytest.approx(1, abs=1e-5)
        assert row["level_pred"] == max(p, key=p.get)
        assert 0 < float(row["flag_pred"]) < 1
    assert all(rows[7][name] == "" for name in added[:15])
    python = gad.load(model).predict([rows[0]["smiles"], "broken("])
    assert python[0, 0] == rows[0]["hit_pred"]
    assert python[1, 0] is None
    shown = done("info", model).out
    assert "hit (inactive/active)" in shown
    assert "level (high/Low/medium)" in shown
    found = done("evaluate", model, measured, "--json").json["metrics"]["all"]["targets"]
    assert found["hit"]["n"] == 98
    assert found["level"]["log_loss"] > 0
    # A class the model does not know is a row that cannot be used.
    strange = write_csv(
        tmp_path / "strange.csv",
        [{**rows_of(measured)[0], "hit": "perhaps"}, *rows_of(measured)[1:4]],
    )
    assert done("evaluate", model, strange, "--json").json["rejected"] == 1


def test_one_target_of_classes(measured, tmp_path):
    options = ("--target", "level", "--set", "balance=true", "--ensemble", "2")
    told = done("train", measured, *TINY, *options, "--out", tmp_path / "run")
    assert "balanced accuracy" in told.out
    assert (tmp_path / "run" / "report.html").stat().st_size > 1000
    values = gad.load(tmp_path / "run" / "model.gad").predict_detailed(["CCO"]).values
    assert values.shape == (1, 3)


def test_numbers_as_classes(measured, tmp_path):
    refused = call("train", measured, *TINY, "--target", "clipped", "--task", "classification")
    assert refused.code == 1
    assert "multiclass" in refused.err
    rows = [{"smiles": r["smiles"], "kind": i % 3 + 1} for i, r in enumerate(esol_rows(40))]
    table = write_csv(tmp_path / "table.csv", rows)
    told = done("train", table, *TINY, "--target", "kind", "--task", "multiclass",
                "--out", tmp_path / "run", "--json").json  # fmt: skip
    assert told["task"] == "multiclass"
    assert gad.load(tmp_path / "run" / "model.gad").predict(["CCO"])[0] in {"1", "2", "3"}


def test_bounds_in_the_cell_and_beside_it_are_the_same(measured, tmp_path):
    runs = []
    for name, options in (("cell", ()), ("beside", ("--relation", "relation"))):
        target = "bounded" if name == "cell" else "clipped"
        out = tmp_path / name
        told = done(
            "train", measured, *TINY, "--target", target, *options, "--out", out, "--json"
        ).json
        assert any("are bounds" in text for text in told["messages"])
        reasons = [row["reason"] for row in rows_of(out / "rejects.csv")]
        assert len(reasons) == 2
        assert any("n.d." in reason for reason in reasons)
        runs.append(gad.load(out / "model.gad").predict(["CCO", "c1ccccc1"]))
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-3)


def test_a_bound_that_holds_is_no_error(measured, tmp_path):
    out = tmp_path / "run"
    done("train", measured, *TINY, "--target", "bounded", "--out", out)
    value = float(gad.load(out / "model.gad").predict(["CCO"])[0])
    for sign, wrong in ((">", 1), ("<", -1)):
        rows = [
            {"smiles": "CCO", "bounded": f"{sign}{value - wrong}"},  # holds
            {"smiles": "CCO", "bounded": f"{sign}{value + 2 * wrong}"},
            {"smiles": "CCO", "bounded": f"{value + 1}"},
        ]
        table = write_csv(tmp_path / "some.csv", rows)
        scores = done("evaluate", out / "model.gad", table, "--json").json["metrics"]["all"]
        assert scores["targets"]["bounded"]["mae"] == pytest.approx((0 + 2 + 1) / 3, rel=1e-4)
        assert scores["targets"]["bounded"]["n"] == 3


def test_orders_of_magnitude(measured, tmp_path):
    out = tmp_path / "run"
    options = ("--target", "moles", "--transform", "log10", "--set", "epochs=10")
    done("train", measured, *TINY, *options, "--out", out)
    (reject,) = [r for r in rows_of(out / "rejects.csv") if r["row"] == "10"]
    assert "no logarithm" in reject["reason"]
    done("predict", out / "model.gad", measured, "-o", tmp_path / "out.csv")
    values = [float(r["moles_pred"]) for r in rows_of(tmp_path / "out.csv") if r["moles_pred"]]
    assert min(values) > 0
    assert (
        json.loads(done("info", out / "model.gad", "--json").out)["task"]["targets"][0]["transform"]
        == "log10"
    )
    shown = done("info", out / "model.gad").out
    assert "moles (log10)" in shown
    assert "log10 moles ±" in shown
    assert "× or ÷" in (out / "report.html").read_text(encoding="utf-8")


def test_what_cannot_be_learned_is_said(tmp_path):
    rows = [
        {"smiles": r["smiles"], "bounds": f">{r['logS']:.2f}", "same": 1, "word": "active"}
        for r in esol_rows(40)
    ]
    table = write_csv(tmp_path / "table.csv", rows)
    targets = ("--target", "bounds", "--target", "same")
    told = done("train", table, *TINY, *targets, "--out", tmp_path / "run", "--json").json
    for words in ("all of its labels are bounds", "all of its labels are 1: there is nothing"):
        assert any(words in text for text in told["messages"])
    out = tmp_path / "out.csv"
    shown = done("predict", tmp_path / "run" / "model.gad", table, "-o", out, "--uncertainty")
    assert "no interval is known of bounds" in shown.err
    assert {row["bounds_lower"] for row in rows_of(out)} == {""}
    refused = call("train", table, *TINY, "--target", "word", "--out", tmp_path / "x")
    assert refused.code == 1
    assert "there is only 'active'" in refused.err


def test_contradicting_words_are_named(tmp_path):
    rows = [
        {"smiles": r["smiles"], "hit": word} for r in esol_rows(20) for word in ("no", "yes", "yes")
    ]
    table = write_csv(tmp_path / "table.csv", rows)
    for options in ((), ("--merge-duplicates", "mean")):
        out = tmp_path / f"run{len(options)}"
        told = done("train", table, *TINY, "--target", "hit", *options, "--out", out, "--json").json
        assert any("no (row 1), yes (row 2)" in text for text in told["messages"])
