"""The page on the architecture describes the house as it is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HOUSE = ROOT / "src" / "gad"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def storeys() -> dict[str, int]:
    """Room → storey of the import contract, counted from the top."""
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (layers,) = re.findall(r"(?ms)^layers = \[\n(.*?)^\]", settings)
    return {
        room: number
        for number, line in enumerate(layers.splitlines())
        for room in re.findall(r"gad\.(\w+)", line)
    }


def test_every_room_has_a_storey(storeys):
    assert {file.parent.name for file in HOUSE.glob("*/__init__.py")} <= set(storeys)


def test_the_map_shows_every_room_in_the_order_of_the_contract(storeys):
    shown = re.findall(r"(?m)^\| `(\w+)` \|", PAGE)
    there = {path.stem for path in HOUSE.iterdir()}
    assert set(shown) == there & set(storeys)
    assert shown == sorted(shown, key=storeys.__getitem__)


PROSE = re.sub(r"```diff\n.*?```", "", PAGE, flags=re.DOTALL)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"[\w/]+\.(?:py|md)|src/[\w/]+", PROSE))))
def test_what_the_page_names_is_there(path):
    places = (ROOT, ROOT / "docs", HOUSE)
    assert any((place / path).exists() for place in places), path


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="git is needed to apply a diff")
def test_the_aggregator_that_the_page_adds_passes_its_tests(tmp_path):
    (diff,) = re.findall(r"```diff\n(.*?)```", PAGE, re.DOTALL)
    assert len(re.findall(r"(?m)^\+\+\+ ", diff)) == 2
    for folder in ("src", "tests"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    # A repository around the folder would change what the paths mean.
    alone = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    subprocess.run(["git", "apply"], input=diff, cwd=tmp_path, env=alone, text=True, check=True)
    program = (
        "import gad, pytest\n"
        f"assert gad.__file__.startswith({str(tmp_path)!r}), gad.__file__\n"
        "from gad.settings.recipe import Recipe\n"
        "chosen = Recipe.of(aggregators='mean,range').model.aggregators\n"
        "gad.nn.GADBlock(8, aggregators=chosen)\n"
        "raise SystemExit(pytest.main(['-q', 'tests/nn/test_aggregators.py', '-k', 'range']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
