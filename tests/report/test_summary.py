"""The summary of a run: typed inside, the same JSON as ever outside."""

from __future__ import annotations

import json
import math

import pytest

from gad.report.summary import Parity, Rows, RunSummary
from tests.report.runs import classification, regression

# What scripts have read from summary.json since the first version.
KEYS = {
    "title", "task", "targets", "units", "split", "options", "metrics", "parameters", "members",
    "recipe", "seed", "rows", "rejects", "messages", "curve", "best_epoch", "reach", "fingerprint",
    "data", "versions", "commit", "machine", "parity", "worst", "uncertainty", "baselines",
    "minutes", "model", "report",
}  # fmt: skip


def test_the_keys_are_those_of_the_first_version():
    told = regression(members=1).to_dict()
    assert set(told) == KEYS | {"bootstrap"}
    assert told["data"] == {"title": "solubility.csv", "fingerprint": "0123abcd"}
    assert list(told["rows"]) == ["read", "used", "rejected", "train", "val", "test"]
    assert list(told["worst"][0]) == ["smiles", "target", "true", "pred"]
    assert list(told["rejects"][0]) == ["row", "smiles", "reason"]
    assert list(told["uncertainty"]) == [
        "level", "partitions", "coverage", "coverage_min", "coverage_max", "targets", "q",
        "difficulty", "width", "candidates", "classes", "split", "calibrated_on",
    ]  # fmt: skip
    assert list(told["baselines"]) == ["mean", "ridge"]


@pytest.mark.parametrize("summary", [regression(), classification(), RunSummary()])
def test_json_and_back_is_the_same(summary):
    text = json.dumps(summary.to_dict(), allow_nan=False)
    assert RunSummary.from_dict(json.loads(text)).to_dict() == summary.to_dict()


def test_one_model_has_a_curve_and_an_ensemble_has_several():
    curve = [{"epoch": 0.0, "train_loss": 1.0}]
    one = RunSummary(curves=[curve], best_epochs=[0])
    assert (one["curve"], one["best_epoch"]) == (curve, 0)
    two = RunSummary(curves=[curve, curve], best_epochs=[0, 3])
    assert (two["curve"], two["best_epoch"]) == ([curve, curve], [0, 3])
    for summary in (one, two):
        assert RunSummary.from_dict(summary.to_dict()) == summary


def test_it_reads_like_the_dictionary_it_was():
    summary = regression()
    assert summary["rows"]["read"] == summary.rows.read == 302
    assert summary.get("folds") is None
    assert "commit" in RunSummary()
    assert dict(summary) == summary.to_dict()
    with pytest.raises(KeyError):
        summary["nonsense"]


def test_what_json_cannot_hold_is_none():
    summary = RunSummary(parity={"y": Parity([1.0, math.nan], [math.inf, 2.0])})
    told = summary["parity"]["y"]
    assert (told["true"], told["pred"]) == ([1.0, None], [None, 2.0])


def test_a_model_file_keeps_what_it_always_kept():
    assert set(regression(best_epoch=3).notes()) == {
        "metrics", "uncertainty", "rows", "data", "versions", "commit", "best_epoch", "split",
        "bootstrap", "options",
    }  # fmt: skip
    notes = {**regression().notes(), "something new": 1}
    read = RunSummary.from_dict(notes)
    assert (read.title, read.fingerprint) == ("solubility.csv", "0123abcd")
    assert isinstance(read.rows, Rows)
