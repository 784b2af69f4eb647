"""The page about a node model."""

from __future__ import annotations

from dataclasses import replace

from gad.report.nodes import node_report
from gad.training.nodes import train_nodes
from tests.node_graphs import two_groups


def test_the_page_shows_what_the_summary_has_and_escapes_names(tmp_path):
    graph = replace(two_groups(), classes=("<b>even</b>", "odd"))
    settings = {"epochs": 2, "layers": 2, "smooth": True}
    summary = train_nodes(graph, settings=settings, out=tmp_path / "run").summary
    page = node_report(summary)
    assert page == (tmp_path / "run" / "report.html").read_text()
    assert "&lt;b&gt;even&lt;/b&gt;" in page
    assert "<b>even" not in page
    for place in ("blocks.0.diffusion", "blocks.1.diffusion", "smooth"):
        assert place in page
    for row in summary["confusion"]["test"]:
        assert all(f">{count}</td>" in page for count in row)
    assert "http" not in page.replace("http-equiv", "")
