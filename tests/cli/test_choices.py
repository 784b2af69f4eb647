"""Metrics, splits and folds by choice."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import gad
from gad.chem.clusters import clusters
from tests.cli.calls import TINY, call, done, esol_rows, rows_of, write_csv

pytestmark = pytest.mark.slow


def parts_of(run):
    return {
        k: v for k, v in json.loads((run / "split.json").read_text()).items() if isinstance(v, list)
    }


@pytest.mark.parametrize(
    ("name", "key", "higher"), [("Spearman", "spearman", True), ("rmse", "rmse", False)]
)
def test_the_epoch_is_chosen_by_the_metric(table, tmp_path, name, key, higher):
    options = ("--metric", name, "--set", "epochs=6")
    told = done("train", table, *TINY, *options, "--out", tmp_path, "--json").json
    with (tmp_path / "log.csv").open(newline="", encoding="utf-8") as file:
        curve = [float(row["val_metric"]) for row in csv.DictReader(file)]
    best = int(np.argmax(curve) if higher else np.argmin(curve))
    assert told["best_epoch"] == best
    assert told["metric"] == key
    # What is kept is what was judged.
    assert told["metrics"]["val"]["mean"][key] == pytest.approx(curve[best], rel=1e-5)
    shown = done("info", tmp_path / "model.gad").out
    assert {"spearman": "Spearman", "rmse": "RMSE"}[key] in shown
    refused = call("train", table, *TINY, "--metric", "mae", "--out", tmp_path, "--resume")
    assert refused.code == 1
    assert "another" in refused.err


def test_a_metric_of_something_else_is_refused(table, tmp_path):
    for name, hint in (("ROC-AUC", "choose from MAE"), ("MEA", "unknown metric")):
        refused = call("train", table, *TINY, "--metric", name, "--out", tmp_path / "run")
        assert refused.code == 1
        assert hint in refused.err
    assert not (tmp_path / "run").exists()


def test_the_latest_rows_are_the_test_rows(tmp_path):
    rows = esol_rows(60)
    for i, row in enumerate(rows):
        row["measured"] = f"20{10 + (i * 7) % 12}-03-{1 + i % 28:02d}"
    rows[4]["smiles"] = "broken("
    table, out = write_csv(tmp_path / "table.csv", rows), tmp_path / "run"
    options = ("--target", "logS", "--split", "time", "--split-column", "measured", "--out", out)
    told = done("train", table, *TINY, *options, "--json").json
    assert told["split"] == "time"
    assert any("split by time" in text for text in told["messages"])
    dates = [row["measured"] for i, row in enumerate(rows) if i != 4]
    parts = parts_of(out)
    train, val, test = (sorted(dates[i] for i in parts[name]) for name in ("train", "val", "test"))
    assert train[-1] < val[0] <= val[-1] < test[0]
    rows[7]["measured"] = "last year"
    other = write_csv(tmp_path / "other.csv", rows)
    told = done("train", other, *TINY, *options[:-1], tmp_path / "other", "--json").json
    assert told["rows"]["used"] == 58
    assert {row["row"]: row["reason"] for row in rows_of(tmp_path / "other" / "rejects.csv")}[
        "8"
    ].startswith("'last year' is no date")
    for row in rows:
        row["measured"] = "last year"
    none = write_csv(tmp_path / "none.csv", rows)
    refused = call("train", none, *TINY, *options[:-1], tmp_path / "x")
    assert refused.code == 1
    assert "row 1: 'last year' is no date: write 2024-03-31" in refused.err
    assert call("train", table, *TINY, "--split", "time").code == 2


def test_no_cluster_is_on_two_sides(table, tmp_path):
    done("train", table, *TINY, "--split", "cluster", "--out", tmp_path)
    groups = np.array(clusters([row["smiles"] for row in rows_of(table)]))
    sides = [set(groups[rows].tolist()) for rows in parts_of(tmp_path).values()]
    assert len(sides) == 3
    assert not sides[0] & sides[1]
    assert not sides[0] & sides[2]
    assert len(set(groups.tolist())) > 20


def test_folds_are_repeated(table, tmp_path):
    options = ("--folds", "2", "--repeat", "3", "--set", "epochs=1", "--out", tmp_path)
    called = done("train", table, *TINY, *options)
    assert "standard deviation over 6 folds" in called.out
    assert len(gad.load(tmp_path / "model.gad").model.members) == 6
    tests = [json.loads((tmp_path / f"split-{i}.json").read_text())["test"] for i in range(6)]
    for pair in range(3):
        assert sorted(tests[2 * pair] + tests[2 * pair + 1]) == list(range(100))
    assert tests[0] != tests[2]
    assert call("train", table, *TINY, "--repeat", "3").code == 1
