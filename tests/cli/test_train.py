"""``gad train`` on real tables, with every kind of column, split and start."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

import gad
from gad.settings.recipe import load_recipe
from tests.cli.calls import (
    TINY,
    call,
    done,
    esol_rows,
    rows_of,
    same_weights,
    shell,
    weights_of,
    write_csv,
)

pytestmark = pytest.mark.slow


def test_a_known_set_by_name(esol_run):
    summary = json.loads((esol_run / "summary.json").read_text(encoding="utf-8"))
    assert summary["rows"] == {
        "read": 1281, "used": 1281, "rejected": 0, "train": 1025, "val": 128, "test": 128
    }  # fmt: skip
    assert summary["targets"] == ["logS"]
    assert {p.name for p in esol_run.iterdir()} >= {
        "model.gad", "report.html", "summary.json", "split.json", "log.csv"
    }  # fmt: skip
    assert not (esol_run / "rejects.csv").exists()


def test_what_is_printed(table, tmp_path):
    """The headline with the baselines, the paths, and how it went on stderr."""
    called = done("train", table, *TINY[:-1], "--out", tmp_path / "run")
    assert called.out.startswith("On 10 test molecules (random split) the mean absolute error ")
    assert "ridge" in called.out
    for name in ("model.gad", "report.html", "summary.json"):
        assert str(tmp_path / "run" / name) in called.out
    assert "preparing molecules: 100 of 100\n" in called.err
    assert "training: epoch 2 of 2, loss train " in called.err
    assert "target: 'logS', the only numeric column\n" in called.err


# Atoms with more bonds than they can have.
IMPOSSIBLE = ("CC[N](C)(C)(C)C", "O=P(O)(O)O[Si](F)(F)(F)(F)F", "C[Al-2](C)(C)(C)(C)(C)C", "CF(C)C")


def test_a_panel_of_assays(tmp_path):
    """Missing labels, and molecules that cannot be read: counted, listed, not fatal."""
    rows, targets = esol_rows(160), [f"NR-{k}" for k in range(12)]
    bad = dict(zip((13, 40, 41, 99), IMPOSSIBLE, strict=True))
    for i, row in enumerate(rows):
        solubility = row.pop("logS")
        row["smiles"] = bad.get(i, row["smiles"])
        for k, name in enumerate(targets):
            row[name] = "" if (i + k) % 5 == 0 and k % 2 else int(solubility > k / 4 - 4)
    table = write_csv(tmp_path / "panel.csv", rows)
    options = [word for name in targets for word in ("--target", name)]
    called = shell("train", table, *options, *TINY, "--out", tmp_path / "run", "--strict", "--json")
    assert called.code == 3
    assert called.err == ""
    found = called.json
    assert found["task"] == "classification"
    assert found["targets"] == targets
    assert found["rows"]["read"] == 160
    assert found["rows"]["rejected"] == 4
    rejects = rows_of(tmp_path / "run" / "rejects.csv")
    assert [int(r["row"]) - 1 for r in rejects] == list(bad)
    assert [r["smiles"] for r in rejects] == list(bad.values())
    assert all("Explicit valence for atom" in r["reason"] for r in rejects)
    scored = found["metrics"]["train"]["targets"]
    assert len({scores["n"] for scores in scored.values()}) > 1, "labels are missing here and there"
    values = gad.load(tmp_path / "run" / "model.gad").predict(["CCO", "c1ccccc1"])
    assert values.shape == (2, 12)
    assert ((values > 0) & (values < 1)).all()


def test_a_split_column(tmp_path):
    rows, names = esol_rows(120), ["train", "test", "train", "val", "train"]
    for i, row in enumerate(rows):
        row["split"] = names[i % 5]
    rows[7]["smiles"], rows[60]["smiles"] = IMPOSSIBLE[:2]
    table = write_csv(tmp_path / "table.csv", rows)
    called = done(
        "train", table, *TINY, "--split-column", "split", "--out", tmp_path / "run", "--json"
    )
    parts = Counter(row["split"] for i, row in enumerate(rows) if i not in {7, 60})
    found = called.json["rows"]
    assert {p: found[p] for p in ("train", "val", "test")} == parts
    assert found["rejected"] == 2
    assert called.json["split"] == "column"


@pytest.mark.parametrize("kind", ["stratified", "scaffold"])
def test_drawn_splits(table, tmp_path, kind):
    found = done("train", table, *TINY, "--split", kind, "--out", tmp_path / "run", "--json").json
    assert found["split"] == kind
    assert sum(found["rows"][part] for part in ("train", "val", "test")) == 100


def test_a_split_from_another_run(table, tmp_path):
    done("train", table, *TINY, "--seed", "7", "--out", tmp_path / "one")
    split = tmp_path / "one" / "split.json"
    done("train", table, *TINY, "--split-file", split, "--out", tmp_path / "two")
    assert json.loads((tmp_path / "two" / "split.json").read_text()) == json.loads(
        split.read_text()
    )


def test_seeds_and_recipes(table, tmp_path):
    """--seed is short for --set seed=; a recipe may be a file; the seed decides the weights."""
    changed = {"width": 20, "layers": 2, "epochs": 2, "start": "scratch", "blend": False}
    own = load_recipe("default").override(changed).to_dict()
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in own.items())
    (tmp_path / "own.toml").write_text(text, encoding="utf-8")

    def trained(name: str, *options: str | Path) -> Path:
        done("train", table, *options, "--no-baselines", "--out", tmp_path / name)
        return tmp_path / name / "model.gad"

    plain = trained("plain", *TINY, "--seed", "3")
    assert same_weights(plain, trained("set", *TINY, "--set", "seed=3"))
    assert same_weights(plain, trained("file", "--recipe", tmp_path / "own.toml", "--seed", "3"))
    assert not same_weights(plain, trained("other", *TINY, "--seed", "4"))


def test_a_folder_is_not_overwritten(table, esol_run):
    before = (esol_run / "model.gad").read_bytes()
    called = call("train", table, *TINY, "--out", esol_run)
    assert called.code == 1
    assert "--resume" in called.err
    called = call("train", table, *TINY, "--out", esol_run, "--resume")
    assert called.code == 1
    assert "another data" in called.err
    assert (esol_run / "model.gad").read_bytes() == before


BEFORE_IT_STARTS = {
    "labels": (("--target", "logS", "--task", "classification"), "0 and 1"),
    "target": (("--target", "logP"), "'logP'"),
    "split file": (("--split-file", "nothing.json"), "nothing.json"),
    "recipe": (("--set", "width=0", "--set", "budget=10"), "10"),
}


@pytest.mark.parametrize(
    ("options", "hint"), BEFORE_IT_STARTS.values(), ids=BEFORE_IT_STARTS.keys()
)
def test_a_training_that_fails_before_it_starts_leaves_nothing(table, tmp_path, options, hint):
    out = tmp_path / "runs" / "first"
    refused = call("train", table, *TINY, *options, "--out", out)
    assert refused.code == 1
    assert hint in refused.err
    assert not (tmp_path / "runs").exists()
    done("train", table, *TINY, "--out", out)


def test_a_folder_with_something_else_in_it_keeps_that(table, tmp_path):
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    options = ("train", table, *TINY, "--out", tmp_path)
    assert call(*options, "--set", "width=0", "--set", "budget=10").code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_each_fold_is_scaled_by_its_own_training_rows(tmp_path):
    """A held-out outlier, in a feature and in the label, is not seen by the member of its fold."""
    rows = [{**row, "dose": i % 7} for i, row in enumerate(esol_rows(60))]
    rows[11] |= {"logS": 1e6, "dose": 1e6}
    table = write_csv(tmp_path / "table.csv", rows)
    out = tmp_path / "run"
    done(
        "train", table, *TINY, "--target", "logS", "--feature", "dose", "--folds", "3", "--out", out
    )
    model = gad.load(out / "model.gad").model
    held = [11 in json.loads((out / f"split-{i}.json").read_text())["test"] for i in range(3)]
    assert sum(held) == 1
    for outside, scale in zip(held, model.scales, strict=True):
        assert bool(scale.labels[1, 0] < 1e3) == bool(scale.values[1, -1] < 1e3) == outside


def test_k_fold(table, tmp_path):
    found = done("train", table, *TINY, "--folds", "3", "--out", tmp_path / "run", "--json").json
    assert found["members"] == 3
    assert len(found["folds"]["mae"]["folds"]) == 3
    assert len(set(found["folds"]["mae"]["folds"])) == 3


def test_classification_is_seen_from_the_labels(tmp_path):
    rows = [{**row, "soluble": int(row["logS"] > -2.5)} for row in esol_rows(100)]
    table = write_csv(tmp_path / "table.csv", rows)
    options = (table, "--target", "soluble", *TINY)
    found = done("train", *options, "--out", tmp_path / "run", "--json").json
    assert found["task"] == "classification"
    assert set(found["metrics"]["test"]["mean"]) >= {"roc_auc", "brier"}
    out = tmp_path / "out.csv"
    done("predict", tmp_path / "run" / "model.gad", table, "-o", out)
    assert all(0 < float(row["soluble_pred"]) < 1 for row in rows_of(out))
    forced = done("train", *options, "--task", "regression", "--out", tmp_path / "r", "--json").json
    assert forced["task"] == "regression"
    refused = call("train", table, "--target", "logS", *TINY, "--task", "classification")
    assert refused.code == 1
    assert "labels 0 and 1" in refused.err


def test_weights_and_features(tmp_path):
    rows = [
        {**row, "w": 1 + i % 3, "temperature": 20 + i % 7} for i, row in enumerate(esol_rows(100))
    ]
    rows[5]["w"] = -1
    rows[6]["temperature"] = ""
    table = write_csv(tmp_path / "table.csv", rows)
    options = (table, "--target", "logS", *TINY)
    done("train", *options, "--weight", "w", "--feature", "temperature", "--out", tmp_path / "w")
    done("train", *options, "--feature", "temperature", "--out", tmp_path / "plain")
    model, other = tmp_path / "w" / "model.gad", tmp_path / "plain" / "model.gad"
    assert not same_weights(model, other)
    rejected = {int(r["row"]): r["reason"] for r in rows_of(tmp_path / "w" / "rejects.csv")}
    assert rejected.keys() == {6, 7}
    assert "weight" in rejected[6]
    assert "feature" in rejected[7]

    out = tmp_path / "out.csv"
    rows[3]["temperature"] = "warm"
    called = done("predict", model, write_csv(tmp_path / "new.csv", rows), "-o", out)
    assert "98 of 100 rows" in called.out
    told = rows_of(out)
    assert [i for i, row in enumerate(told) if row["reject_reason"]] == [3, 6]
    assert [i for i, row in enumerate(told) if not row["logS_pred"]] == [3, 6]
    # One molecule at three temperatures: three predictions, those of Python.
    values = gad.load(model).predict(["CCO"] * 3, features=[[20], [23], [26]])
    assert len(set(values)) == 3
    warm = [{"smiles": "CCO", "temperature": t} for t in (20, 23, 26)]
    done("predict", model, write_csv(tmp_path / "warm.csv", warm), "-o", out)
    assert [float(row["logS_pred"]) for row in rows_of(out)] == pytest.approx(values, rel=1e-6)
    bare = write_csv(tmp_path / "bare.csv", esol_rows(10))
    refused = call("predict", model, bare, "-o", out)
    assert refused.code == 1
    assert "'temperature'" in refused.err


def test_from_a_model_with_other_targets(model, tmp_path):
    """The body is taken over; with no step to speak of it stays, and the head is new."""
    rows = [{**row, "double": 2 * row["logS"], "half": row["logS"] / 2} for row in esol_rows(60)]
    table = write_csv(tmp_path / "table.csv", rows)
    called = done(
        *("train", table, "--target", "double", "--target", "half", "--from", model),
        *("--set", "epochs=1", "--set", "learning_rate=1e-12", "--set", "weight_decay=0"),
        *("--no-baselines", "--out", tmp_path / "run", "--json"),
    )
    assert called.json["targets"] == ["double", "half"]
    assert called.json["recipe"]["width"] == 20, "the architecture is the model's"
    old, new = weights_of(model), weights_of(tmp_path / "run" / "model.gad")
    moved = [n for n in old if n.startswith("0.encoder") or "raw_times" in n]
    assert moved
    for name in moved:
        torch.testing.assert_close(new[name], old[name], atol=1e-6, rtol=0)
    values = gad.load(tmp_path / "run" / "model.gad").predict(["CCO"])
    assert values.shape == (1, 2)


def test_tensorboard_is_an_extra(table, tmp_path):
    called = call("train", table, *TINY, "--logger", "tensorboard", "--out", tmp_path / "run")
    if importlib.util.find_spec("tensorboard") is None:
        assert called.code == 1
        assert "pip install" in called.err
    else:
        assert called.code == 0
        assert list((tmp_path / "run").glob("tensorboard/**/events*"))


def test_two_processes_train_one_model(table, tmp_path):
    """One of them speaks and writes."""
    hardware = ("--accelerator", "cpu", "--devices", "2", "--strategy", "ddp")
    called = shell("train", table, *TINY, *hardware, "--out", tmp_path / "run", "--json")
    assert called.code == 0, called.err
    assert called.err == ""
    assert called.json["rows"]["used"] == 100
    assert len(rows_of(tmp_path / "run" / "log.csv")) == 2
    assert not list((tmp_path / "run").glob("*.ckpt"))
    values = gad.load(tmp_path / "run" / "model.gad").predict(["CCO", "c1ccccc1"])
    assert np.isfinite(values).all()


def test_a_folder_that_is_taken_is_refused_before_anything_is_read(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    called = call("train", tmp_path / "nowhere.csv", "--out", tmp_path)
    assert called.code != 0
    assert "already holds a run" in called.err
