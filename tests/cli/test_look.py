"""``gad info``, ``gad draw`` and ``gad recipes``, and progress as it is shown."""

from __future__ import annotations

import io
import json
import math
import os
import struct
import subprocess
import sys
from importlib.metadata import version
from xml.etree import ElementTree as ET

import pytest
import torch
from rich.console import Console

import gad
from gad.cli.progress import Bars, Lines, Listener, listener
from gad.settings.recipe import recipe_names
from tests.cli.calls import call, done

pytestmark = pytest.mark.slow


def test_info_is_a_readable_card(model):
    shown = done("info", model).out
    card = done("info", model, "--json").json
    assert "regression of logS (log mol/L)" in shown
    mae = card["notes"]["metrics"]["test"]["mean"]["mae"]
    assert f"{mae:.3g}" in shown
    assert f"{card['parameters']:,}" in shown
    assert card["parameters"] > 1000
    for part in ("test", "validation", "training"):
        assert part in shown
    assert "1,281 of 1,281 used: 1,025 training, 128 validation, 128 test" in shown
    assert card["notes"]["data"]["fingerprint"] in shown
    assert "layers=2" in shown
    assert f"torch {card['notes']['versions']['torch']}" in shown


def test_draw_a_molecule(tmp_path):
    svg, png = tmp_path / "a.svg", tmp_path / "a.PNG"
    called = done("draw", "CC(=O)Oc1ccccc1C(=O)O", "-o", svg)
    assert str(svg) in called.out
    assert ET.fromstring(svg.read_text(encoding="utf-8")).tag.endswith("svg")
    found = done("draw", "CCO", "-o", png, "--json").json
    assert found["atoms"] == ["C", "C", "O"]
    assert "values" not in found
    content = png.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert struct.unpack(">II", content[16:24]) == (420, 320)


@pytest.mark.parametrize("scheme", ["implicit", "spectral"])
def test_draw_heat(tmp_path, scheme):
    """On a pair of atoms λ is 0 and 2: the difference decays by r_t(2), the mean stays."""
    time = 1.5
    decay = math.exp(-2 * time) if scheme == "spectral" else 1 / (1 + 2 * time)
    options = ("draw", "CO", "--atom", "1", "--time", str(time), "--scheme", scheme)
    found = done(*options, "-o", tmp_path / "a.svg", "--json").json
    assert found["values"] == pytest.approx([(1 - decay) / 2, (1 + decay) / 2], abs=1e-6)
    shown = done(*options, "-o", tmp_path / "b.png").out
    assert f"{(1 + decay) / 2:.4f}" in shown
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert f"heat from atom 1 after time 1.5 ({scheme})" in text


def test_heat_is_where_it_started_at_time_zero(tmp_path):
    found = done(
        *("draw", "c1ccccc1O", "--atom", "6", "--time", "0", "-o", tmp_path / "a.svg", "--json")
    ).json
    assert found["values"] == pytest.approx([0, 0, 0, 0, 0, 0, 1], abs=1e-6)


def test_recipes(tmp_path):
    shown = done("recipes").out
    found = done("recipes", "--json").json["recipes"]
    assert list(found) == recipe_names()
    for name, recipe in found.items():
        assert name in shown
        assert recipe["about"], "a recipe begins with a comment that says what it is for"
        assert recipe["about"][:60] in shown
    assert found["default"]["settings"]["scheme"] == "implicit"


def test_doctor(tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    (cache / "deeper").mkdir(parents=True)
    (cache / "deeper" / "a").write_bytes(b"123")
    (cache / "b").write_bytes(b"12345")
    monkeypatch.setenv("GAD_CACHE", str(cache))
    monkeypatch.setenv("GAD_DATA", str(tmp_path))
    told = done("doctor", "--json").json
    assert told["cache"]["folder"] == str(cache)
    # Kernels may be compiled into it just now.
    assert told["cache"]["bytes"] >= 8
    assert told["data"] == {"folder": str(tmp_path), "exists": True}
    assert told["versions"]["gad"] == gad.__version__
    assert told["versions"]["torch"] == version("torch")
    assert told["threads"] == torch.get_num_threads()
    assert isinstance(told["kernels"]["active"], bool)
    assert told["kernels"]["reason"]
    shown = done("doctor").out
    assert told["kernels"]["reason"] in shown
    assert str(cache) in shown


def test_doctor_where_there_is_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("GAD_CACHE", str(tmp_path / "none"))
    monkeypatch.setenv("GAD_DATA", str(tmp_path / "nowhere"))
    assert done("doctor", "--json").json["cache"]["bytes"] == 0
    assert "there is no such folder" in done("doctor").out
    monkeypatch.delenv("GAD_DATA")
    assert done("doctor", "--json").json["data"] == {"folder": None, "exists": False}


def test_kernels_that_are_switched_off_say_so():
    code = "from gad.cli import run; run(['doctor', '--json'])"
    told = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "GAD_NATIVE": "0"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    kernels = json.loads(told.stdout)["kernels"]
    assert kernels["active"] is False
    assert "GAD_NATIVE" in kernels["reason"]


def test_every_setting_is_listed_with_its_meaning():
    shown = done("recipes", "--settings").out
    found = done("recipes", "--settings", "--json").json["settings"]
    assert list(found) == ["molecules", "model", "training"]
    for section, settings in found.items():
        assert f"[{section}]" in shown
        for key, setting in settings.items():
            assert key in shown
            assert setting["meaning"][:40] in shown
            assert "default" in setting
    assert found["model"]["scheme"]["choices"] == ["implicit", "spectral", "none"]
    assert found["training"]["ema"]["range"] == [0, 0.999999]


def test_only_the_first_of_several_processes_speaks(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert done("recipes") == done("recipes", "--json")
    assert done("recipes").out == ""
    assert type(listener(quiet=False)) is Listener


EPOCHS = [
    {"epoch": float(e), "train_loss": 1 / (e + 1), "val_loss": 2 / (e + 1)} for e in range(100)
]


def told(reporter: Listener) -> None:
    with reporter:
        reporter.message("target: 'logS'")
        for done_rows in (1024, 2048, 2500):
            reporter.progress("preparing molecules", done_rows, 2500)
        reporter.progress("predicting", 2048, None)
        for name in ("model 1 of 2", "model 2 of 2"):
            for row in EPOCHS:
                reporter.epoch(name, row, 100)


def test_plain_lines_are_few():
    text = io.StringIO()
    told(Lines(Console(file=text, soft_wrap=True)))
    lines = text.getvalue().splitlines()
    assert lines[:2] == ["target: 'logS'", "preparing molecules: 2,500 of 2,500"]
    assert lines[2] == "model 1 of 2: epoch 1 of 100, loss train 1, validation 2"
    assert lines[-1] == "model 2 of 2: epoch 100 of 100, loss train 0.01, validation 0.02"
    assert len(lines) == 2 + 2 * 11


def test_bars_on_a_terminal():
    text = io.StringIO()
    told(Bars(Console(file=text, force_terminal=True, width=100)))
    shown = text.getvalue()
    assert "target: 'logS'" in shown
    last = shown.rsplit("preparing molecules", 1)[1]
    assert "2,500" in last
    assert "/s" in last
    assert "100/100, train 0.01, validation 0.02" in last
    assert "model 2 of 2" in last
    assert "model 1 of 2" not in last


def test_json_is_quiet(capsys):
    reporter = listener(quiet=True)
    told(reporter)
    assert reporter.messages == ["target: 'logS'"]
    assert capsys.readouterr() == ("", "")
    assert call("recipes", "--json").err == ""
