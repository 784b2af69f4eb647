"""The README away from the repository."""

from __future__ import annotations

import importlib
import re
import sys
from types import SimpleNamespace

import pytest

from website.paths import ROOT, links, outside_fences


@pytest.fixture
def readme(monkeypatch: pytest.MonkeyPatch):
    """The hook; Hatch itself is only where packages are built."""
    hatch = SimpleNamespace(MetadataHookInterface=object)
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", hatch)
    yield importlib.import_module("website.readme")
    monkeypatch.delitem(sys.modules, "website.readme")


@pytest.fixture
def shown(readme, monkeypatch: pytest.MonkeyPatch):
    """The README in the metadata of a package, for an address of its files."""

    def built(base: str) -> str:
        monkeypatch.setenv("README_BASE", base)
        hook, metadata = readme.Readme(), {}
        hook.root = str(ROOT)
        hook.update(metadata)
        assert metadata["readme"]["content-type"] == "text/markdown"
        return metadata["readme"]["text"]

    return built


def test_no_link_of_the_package_is_broken(shown):
    text = shown("")
    assert links(text) == []
    assert "![" not in text
    assert "*(The page: a molecule, its prediction, and heat on it; the picture" in text
    assert "https://arxiv.org/abs/2205.00354" in text


def test_links_lead_to_the_files_of_the_release(shown):
    text = shown("https://example.org/files/v1/")
    assert "(https://example.org/files/v1/docs/figures/page-light.png)" in text
    assert links(text) == []


@pytest.mark.parametrize("base", ["", "https://example.org"])
def test_code_stays_as_it_is(shown, base):
    def code(text: str) -> list[str]:
        outside: list[str] = []
        outside_fences(text, lambda part: outside.append(part) or part)
        for part in outside:
            text = text.replace(part, "\0", 1)
        return re.split("\0", text)

    assert code(shown(base)) == code((ROOT / "README.md").read_text(encoding="utf-8"))
