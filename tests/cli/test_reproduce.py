"""``gad reproduce`` and ``gad table``, on a few graphs in the place of ZINC."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest
import typer.main

from gad.cli.app import app
from gad.data import known
from tests.cli.calls import call, done, shell
from tests.experiments.conftest import rings

ROOT = Path(__file__).resolve().parents[2]
TRIAL = ("reproduce", "zinc", "--limit", "40", "--set", "epochs=2", "--set", "layers=2")


@pytest.mark.slow
def test_a_trial_from_training_to_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(known.KNOWN, "zinc", rings)
    told = done(*TRIAL, "--json").json
    (run,) = told["runs"]
    assert (run["status"], run["model"], run["recipe"]) == ("finished", "gad-i", "zinc-paper")
    assert run["short"]
    assert run["parameters"] <= 100_000
    # A trial does not touch the results.
    assert not Path("results").exists()
    assert (Path(told["results"]) / run["model_file"]).is_file()

    table = done("table", "zinc", "--results", told["results"], "--json").json
    (row,) = table["rows"]
    assert set(row) == {
        "model", "edges", "recipe", "val_mae", "test_mae", "parameters", "epochs", "minutes",
        "short", "paper", "val_trimmed",
    }  # fmt: skip
    assert (row["test_mae"], row["val_mae"]) == ([run["test_mae"]], [run["val_mae"]])
    assert (row["epochs"], row["short"], row["paper"]) == ([2], True, [0.139, 0.007])
    shown = done("table", "zinc", "--results", told["results"]).out
    assert "not run" in shown

    again = done(*TRIAL, "--resume", "--json").json
    assert again["runs"] == told["runs"]
    refused = call(*TRIAL)
    assert refused.code == 1
    assert "--resume" in refused.err


@pytest.mark.slow
def test_two_runs_at_once(tmp_path, monkeypatch):
    """Each in a process of its own, with one thread, recorded in the place that was named."""
    # Every Python process imports this module when it starts.
    (tmp_path / "sitecustomize.py").write_text(
        "from gad.data import known\nfrom tests.experiments.conftest import rings\n"
        "known.KNOWN['zinc'] = rings\n"
    )
    paths = [str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    called = shell(
        *TRIAL, "--model", "dgn", "--model", "gcn", "--jobs", "2", "--json",
        "--out", tmp_path / "runs", "--results", tmp_path / "results",
    )  # fmt: skip
    assert called.code == 0, called.err
    told = called.json["runs"]
    assert [(run["model"], run["edges"]) for run in told] == [("dgn", True), ("gcn", False)]
    assert {run["status"] for run in told} == {"finished"}
    assert all(run["machine"]["threads"] == 1 for run in told)
    assert len(list((tmp_path / "results" / "zinc").glob("*.json"))) == 2


def test_nothing_was_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = done("table", "qm9", "--json").json
    assert told["rows"] == []
    assert len(told["not_run"]) == 21
    lines = done("table", "qm9", "--markdown").out.splitlines()
    assert len(lines) == 2 + 21
    assert all(line.startswith("| ") and line.endswith(" |") for line in lines)


@pytest.mark.parametrize("words", [("reproduce", "zinc"), ("reproduce", "qm9"), ("table",)])
def test_examples_of_the_help_can_be_typed(words):
    command = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    lines = [line[2:] for line in command.epilog.splitlines() if line.startswith("$ ")]
    assert lines
    for line in lines:
        arguments = shlex.split(line)
        assert arguments[: len(words) + 1] == ["gad", *words]
        command.make_context(words[-1], arguments[len(words) + 1 :])
    shown = call(*words, "--help")
    assert shown.code == 0
    assert "Examples" in shown.out
    assert "--json" in shown.out


MISTAKES = {
    "unknown model": (["zinc", "--model", "gad-x"], "gad-i"),
    "unknown recipe": (["zinc", "--recipe", "zinc-papr"], "did you mean 'zinc-paper'?"),
    "unknown key": (["zinc", "--set", "epchs=3"], "did you mean 'epochs'?"),
    "seed as setting": (["zinc", "--set", "seed=3"], "--seed"),
    "not on qm9": (["qm9", "--model", "gcn"], "gad-s"),
    "bonds": (["zinc", "--model", "gcn", "--edges"], "bonds"),
}


@pytest.mark.parametrize(("arguments", "hint"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_told_before_anything_begins(tmp_path, monkeypatch, arguments, hint):
    monkeypatch.chdir(tmp_path)
    called = call("reproduce", *arguments, "--json")
    assert called.code == 2
    assert hint in called.json["error"]
    assert list(tmp_path.iterdir()) == []


def test_a_broken_record_is_named(tmp_path):
    (tmp_path / "zinc").mkdir()
    (tmp_path / "zinc" / "broken.json").write_text(json.dumps({"model": "gad-i"}))
    called = call("table", "zinc", "--results", tmp_path)
    assert called.code == 1
    assert "broken.json" in called.err
