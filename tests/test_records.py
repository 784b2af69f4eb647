"""Pages quote records: what they say is what `results/` says."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.speed.docs import PAGES, fill

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("name", PAGES)
def test_tables_agree_with_their_records(name):
    page = (ROOT / name).read_text(encoding="utf-8")
    assert fill(name, page) == page, f"{name} is out of date: python -m benchmarks docs"
