"""The tutorials run as they stand."""

from __future__ import annotations

import re

import pytest

from website import tutorials
from website.tutorials import NOTEBOOKS, TutorialError, blocks, execute


@pytest.mark.slow
@pytest.mark.parametrize("page", tutorials.tutorials(), ids=lambda page: page.stem)
def test_a_tutorial_runs(page, tmp_path):
    told = execute(page, tmp_path)
    assert any(block.output for block in told)
    for image in re.findall(r"!\[.*?\]\((\S+?)\)", page.read_text(encoding="utf-8")):
        assert (tmp_path / image).is_file(), image


def test_the_notebooks_are_of_tutorials():
    assert {page.stem for page in tutorials.tutorials()} >= set(NOTEBOOKS)


def test_a_page_is_cut_at_its_code():
    text = "Say\n\n```python\nprint(1)\n```\n\n```console\n$ not run\n```\nbye"
    assert [(block.kind, block.source) for block in blocks(text)] == [
        ("text", "Say\n\n"),
        ("python", "print(1)\n"),
        ("text", "\n```console\n$ not run\n```\nbye"),
    ]


def test_blocks_share_names_and_show_their_last_value(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\na = 20\n```\n```python\na + 1\n```\n```sh\necho there\n```\n")
    told = execute(page, tmp_path)
    assert [block.output for block in told] == ["", "21\n", "there\n"]
    assert "```text\n21\n```" in told[1].markdown()


@pytest.mark.parametrize("code", ["```python\n1 / 0\n```\n", "```sh\nfalse\n```\n"])
def test_a_block_that_fails_fails_the_page(code, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(code)
    with pytest.raises(TutorialError, match=r"page\.md"):
        execute(page, tmp_path)
