"""Help, exit codes, errors in one sentence, and nothing but JSON where JSON was asked for."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

import gad
from gad.cli.app import app
from tests.cli.calls import TINY, call, shell, stopped

COMMANDS = ("train", "predict", "evaluate", "tune", "info", "draw", "recipes", "doctor")
HEAVY = ("torch", "rdkit", "lightning", "pyarrow", "numpy", "scipy", "sklearn", "joblib")


def test_help_loads_nothing_heavy():
    code = (
        "import json, sys; from gad.cli import run; "
        "assert [run(a) for a in (['--help'], ['train', '--help'], ['--version'])] == [0, 0, 0]; "
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(told.stderr))
    assert not loaded & set(HEAVY)
    assert all(f" {name} " in told.stdout for name in COMMANDS)
    assert told.stdout.rstrip().endswith(f"gad {gad.__version__}")


def test_no_command_is_a_wish_for_help():
    assert call().out == call("--help").out


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_of_the_help_can_be_typed(name):
    group = typer.main.get_command(app)
    own = group.commands[name]
    lines = [line[2:] for line in own.epilog.splitlines() if line.startswith("$ ")]
    assert any(line.startswith(f"gad {name}") for line in lines)
    for line in lines:
        program, which, *rest = shlex.split(line)
        assert program == "gad"
        group.commands[which].make_context(which, rest)
    shown = call(name, "--help")
    assert shown.code == 0
    assert "Examples" in shown.out
    assert "--json" in shown.out


def test_common_options_come_first():
    shown = call("train", "--help").out
    common, _, rest = shown.partition("─ Columns ─")
    assert all(name in common for name in ("--target", "--split ", "--recipe", "--set", "--out"))
    assert all(name in rest for name in ("--weight", "--folds", "--threads", "--json"))


USAGE = {
    "unknown command": (["trian", "x.csv"], "train"),
    "unknown option": (["train", "x.csv", "--targt", "y"], "--target"),
    "missing argument": (["train"], "DATA"),
    "missing option": (["predict", "m.gad", "x.csv"], "--out"),
    "unknown choice": (["train", "x.csv", "--split", "randm"], "random"),
    "not a number": (["train", "x.csv", "--ensemble", "two"], "--ensemble"),
    "too few": (["train", "x.csv", "--folds", "1"], "--folds"),
    "unknown key": (["train", "esol", "--set", "epchs=3"], "did you mean 'epochs'?"),
    "no value": (["train", "esol", "--set", "epochs"], "key=value"),
    "wrong value": (["train", "esol", "--set", "epochs=many"], "whole number"),
    "unknown scheme": (["train", "esol", "--set", "scheme=implict"], "did you mean 'implicit'?"),
    "unknown recipe": (["train", "esol", "--recipe", "defalt"], "did you mean 'default'?"),
    "missing recipe": (["train", "esol", "--recipe", "none.toml"], "none.toml"),
    "resume what": (["train", "esol", "--resume"], "--out"),
    "two splits": (["train", "x.csv", "--split-column", "a", "--split-file", "b"], "exclude"),
    "other split": (["train", "x.csv", "--split", "random", "--split-column", "a"], "contradicts"),
    "which column": (["train", "x.csv", "--split", "column"], "--split-column"),
    "no such atom": (["draw", "CCO", "--atom", "3", "-o", "x.svg"], "0 to 2"),
    "negative time": (["draw", "CCO", "--atom", "1", "--time", "-1", "-o", "x.svg"], "--time"),
    "not a drawing": (["draw", "CCO", "-o", "x.gif"], ".svg or .png"),
}
FAILURES = {
    "no such table": (["train", "nowhere.csv"], "nowhere.csv"),
    "no such model": (["info", "nowhere.gad"], "nowhere.gad"),
    "folder as model": (["info", "."], "is a folder"),
    "not a model": (["predict", "table.csv", "table.csv", "-o", "out.csv"], "table.csv"),
    "model first": (["evaluate", "table.csv", "esol"], "not a model"),
    "not a molecule": (["draw", "C1CC", "-o", "x.svg"], "ring"),
    "no such folder": (["draw", "CCO", "-o", "no/x.svg"], "no"),
    "no such column": (["train", "table.csv", "--target", "logP"], "Did you mean 'logS'?"),
    "no such split file": (["train", "table.csv", "--split-file", "no.json"], "no.json"),
    "no such accelerator": (["train", "table.csv", *TINY, "--accelerator", "abacus"], "abacus"),
}
MISTAKES = [
    *(pytest.param(*case, 2, id=name) for name, case in USAGE.items()),
    *(pytest.param(*case, 1, id=name) for name, case in FAILURES.items()),
]


@pytest.fixture
def here(tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in, with a table."""
    (tmp_path / "table.csv").write_bytes(table.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("arguments", "hint", "code"), MISTAKES)
def test_a_mistake_is_told_in_one_sentence(here, arguments, hint, code):
    called = call(*arguments)
    assert called.code == code
    assert called.out == ""
    last = called.err.rstrip("\n").splitlines()[-1]
    assert last.startswith("error: ")
    assert hint in last
    assert "Traceback" not in called.err
    assert "report" not in called.err


@pytest.mark.parametrize(("arguments", "hint", "code"), MISTAKES)
def test_a_mistake_is_json_if_json_was_asked_for(here, arguments, hint, code):
    called = call(*arguments, "--json")
    assert called.code == code
    assert set(called.json) == {"error", "exit_code"}
    assert called.json["exit_code"] == code
    assert hint in called.json["error"]
    assert called.err == ""


def test_brackets_in_a_message_are_not_markup(here):
    assert "[bold]C" in call("draw", "[bold]C", "-o", "x.svg").err + call("info", "[bold]C").err


def _fault(*_: object, **__: object) -> None:
    raise KeyError("phi")


def test_a_fault_of_the_program_asks_to_be_reported(monkeypatch):
    monkeypatch.setattr("gad.prediction.model_file.load_model", _fault)
    called = call("info", "model.gad")
    assert called.code == 1
    assert called.err.startswith("error: unexpected KeyError: 'phi'")
    assert "report" in called.err
    assert "Traceback" not in called.err
    monkeypatch.setenv("GAD_DEBUG", "1")
    assert "Traceback" in call("info", "model.gad").err


@pytest.mark.slow
def test_json_of_every_command_is_pure(here, model):
    """Also below Python: these run in processes of their own."""
    (here / "two.csv").write_text("smiles,logS\nCCO,0.5\nCF(C)C,\n", encoding="utf-8")
    train = shell("train", "table.csv", *TINY, "--out", "run", "--json")
    assert train.json["rows"]["used"] == 100
    assert train.json["paths"]["model"] == str(Path("run/model.gad"))
    assert train.err == ""
    predict = shell("predict", model, "two.csv", "-o", "out.csv", "--strict", "--json")
    assert predict.code == 3
    assert predict.json["rejected"] == 1
    assert predict.json["messages"] == ["smiles: column 'smiles' (by its name)"]
    assert predict.err == ""
    for arguments in (
        ["evaluate", model, "table.csv"],
        ["info", model],
        ["draw", "CCO", "--atom", "0", "-o", "x.svg"],
        ["recipes"],
        ["doctor"],
    ):
        called = call(*arguments, "--json")
        assert called.code == 0
        assert called.json
        assert called.err == ""


@pytest.mark.slow
def test_interrupted(here):
    code, err = stopped(
        signal.SIGINT,
        lambda: Path("run/member-0.ckpt").exists(),
        *("train", "table.csv", *TINY, "--set", "epochs=1000", "--out", "run"),
        GAD_CHECKPOINT_SECONDS="0",
    )
    assert code == 130
    assert err.rstrip().endswith("interrupted; continue with --resume")
    assert "Traceback" not in err
