"""The plan for a billion molecules is what the record says."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("psutil")
ROOT = Path(__file__).resolve().parent.parent


def test_the_page_is_up_to_date():
    from benchmarks.ray_scoring.plan import PAGE, filled, plan

    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert filled(text, ROOT) == text
    told = {
        "rows_per_second": 2000.0,
        "peak_megabytes": 3000.0,
        "peak_megabytes_middle": 2.0,
        "peak_megabytes_end": 3.0,
        "seconds_to_first": 5.0,
    }
    record = {
        "ray": told, "workers": 2, "rows": 10**6, "ratio": 0.9, "start_seconds": 4.0,
        "machine": {"processor": "some"}, "output_bytes_per_row": 50.0,
    }  # fmt: skip
    page = plan(record)
    assert "278 core-hours" in page, "10⁹ / 1000 a second / 3600"
    assert "| 4 nodes | 4.3 | 1.1 |" in page
