"""The page on the architecture describes the house as it is."""

from __future__ import annotations

import re
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


@pytest.mark.parametrize("path", sorted(set(re.findall(r"[\w/]+\.(?:py|md)|src/[\w/]+", PAGE))))
def test_what_the_page_names_is_there(path):
    places = (ROOT, ROOT / "docs", HOUSE)
    assert any((place / path).exists() for place in places), path
