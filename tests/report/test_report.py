"""The report: one file, nothing fetched, everything escaped, and sense whatever is missing."""

from __future__ import annotations

import io
import json
import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console

from gad.report.report import render, terminal_summary, write_report
from gad.report.summary import RunSummary
from gad.report.verdict import headline
from tests.report.runs import classification, regression

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Outline(HTMLParser):
    """Reads a page, checks that its elements are closed in order, and keeps what is in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"{tag} was never opened"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())


# ------------------------------------------------------------------ the whole page


@pytest.mark.parametrize(
    "summary", [regression(), regression(2.0), classification(), classification(1), RunSummary()]
)
def test_the_page_is_well_formed_and_fetches_nothing(summary):
    text = render(summary)
    outline = Outline(text)
    assert not {tag for tag, _ in outline.tags} & {"script", "img", "link", "iframe", "object"}
    for tag, attributes in outline.tags:
        assert not attributes.keys() & {"src", "href", "xlink:href", "onload", "onclick"}, tag
    # Names of XML name spaces are addresses nobody visits.
    addresses = set(re.findall(r"https?://[^'\"\s<>]+", text))
    assert all(
        address.startswith("http://www.w3.org/") or "rdkit" in address for address in addresses
    )
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text
    assert 'name="viewport"' in text
    assert "prefers-color-scheme:dark" in text
    assert "nan" not in re.sub(r"<[^>]*>", "", text).lower().split()


def test_a_regression_tells_everything():
    outline = Outline(render(regression()))
    for words in (
        "solubility.csv",
        "Predicting logS (log mol/L)",
        "On 60 test molecules (scaffold split) the mean absolute error is",
        "(95 % interval 0.28 to 0.4)",
        "below the mean predictor",
        "Predicted and true",
        "Uncertainty",
        "(scaffold split)",
        "Largest errors",
        "true 1 predicted −2.5",
        "Reach of the learned diffusion",
        "layer 2, channel 4: 8 bonds",
        "best epoch 13",
        "rows rejected 2",
        "Explicit valence for atom # 1 F, 3",
        "unclosed parenthesis",
        "The column 'smiles' was taken",
        "aggregators mean, dx",
        "edges yes",
        "learning_rate 0.001",
        "parameters 101,234",
        "0123abcd",
        "torch 2.13.0",
        "minutes 12.3",
    ):
        spaced = outline.text.replace("predicted", " predicted")
        assert words.replace(" ", "") in spaced.replace(" ", ""), words
    drawings = [a for tag, a in outline.tags if tag == "svg"]
    assert len(drawings) == 4  # parity, one molecule, learning curve, reach


def test_a_classification_has_curves_of_six_targets_at_most():
    text = render(classification())
    assert text.count("false positive rate") == 6
    for axis in ("recall: share of positives found", ">predicted probability<", ">threshold<"):
        assert text.count(axis) == 6
    assert "Not drawn: 2 more." in text
    assert "Predicted and true" not in text
    assert "logistic regression on RDKit" in text


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_without_anything_to_draw_there_is_no_section_for_it(task):
    nothing = {"y": {"true": [], "pred": []}, "z": {"true": [1.0, 1.0], "pred": [None, None]}}
    text = render(RunSummary.from_dict({"task": task, "parity": nothing, "targets": ["y", "z"]}))
    assert "Predicted and true" not in text
    assert "Curves of the test part" not in text


def test_the_best_method_of_each_held_out_part_is_bold():
    assert '<th scope="row">model</th><td class="best">' in render(regression(0.5))
    ridge = render(regression(2.0))
    assert '<th scope="row">ridge</th><td class="best">' in ridge
    assert '<th scope="row">model</th><td class="best">' not in ridge


def test_a_better_ridge_comes_with_the_code_that_uses_it():
    assert "DescriptorModel" not in render(regression(0.5))
    code = re.search(r"<pre><code>(.*?)</code></pre>", render(regression(2.0)), re.DOTALL)[1]
    smiles, values = ["C", "CC", "CCC", "CCCC"], [1.0, 2.0, 3.0, 4.0]
    told = {"smiles": smiles, "values": values}
    exec(unescape(code), told)
    assert told["model"].predict(smiles).shape == (4, 1)


@pytest.mark.parametrize("key", regression())
def test_any_key_may_be_missing_or_alone(key):
    whole = regression().to_dict()
    for told in (
        {k: v for k, v in whole.items() if k != key}, {key: whole[key]}, {**whole, key: None},
    ):  # fmt: skip
        summary = RunSummary.from_dict(told)
        Outline(render(summary))
        Console(file=io.StringIO()).print(terminal_summary(summary))


def test_the_page_survives_json():
    summary = regression()
    read = RunSummary.from_dict(json.loads(json.dumps(summary.to_dict())))
    assert read == summary
    assert render(read) == render(summary)


EVIL = "<script>alert('x')</script>&\"'"


def test_no_text_of_the_user_is_markup():
    summary = regression().to_dict()
    evil = RunSummary.from_dict({
        **summary,
        "title": EVIL,
        "targets": [EVIL],
        "units": [EVIL],
        "metrics": {
            part: {**s, "targets": {EVIL: s["targets"]["logS"]}}
            for part, s in summary["metrics"].items()
        },
        "parity": {EVIL: summary["parity"]["logS"]},
        "worst": [{"smiles": EVIL, "target": EVIL, "true": 1, "pred": 2}],
        "rejects": [{"row": 1, "smiles": EVIL, "reason": EVIL}],
        "messages": [EVIL],
        "recipe": {EVIL: {EVIL: [EVIL]}},
        "folds": {EVIL: {"mean": 1.0, "std": 0.1, "folds": [1.0]}},
        "fingerprint": EVIL,
        "versions": {EVIL: EVIL},
        "commit": EVIL,
        "machine": EVIL,
        "split": EVIL,
        "uncertainty": {"level": 0.9, "coverage": 0.9, "q": {EVIL: 1.0}, "split": EVIL},
    })  # fmt: skip
    text = render(evil)
    assert "<script" not in text
    assert "alert('x')</script>" not in text
    outline = Outline(text)
    assert EVIL in outline.text
    Console(file=io.StringIO()).print(terminal_summary(evil))


def test_the_file_is_whole_or_not_there(tmp_path):
    write_report(tmp_path / "report.html", regression())
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert text == render(regression())
    assert text.endswith("</html>\n")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    write_report(tmp_path / "odd.html", RunSummary(title="half a pair \ud800"))
    assert "half a pair ?" in (tmp_path / "odd.html").read_text(encoding="utf-8")


def test_an_ensemble_and_a_cross_validation():
    curve = regression()["curve"]
    summary = regression(
        curve=[curve, curve[:20]],
        best_epoch=[13, 9],
        folds={"mae": {"mean": 0.4, "std": 0.02, "folds": [0.38, 0.42]}},
    )
    text = render(summary)
    assert text.count("<title>best epoch") == 2
    assert "0.4 ± 0.02" in text
    told = headline(summary)
    assert told.startswith("In cross-validation (scaffold split) the mean absolute error is ")
    assert "standard deviation over 2 folds 0.02" in told


def test_many_rejects_are_counted_by_reason():
    rejects = [{"row": k, "smiles": f"C{k}", "reason": f"reason {k % 12}"} for k in range(1, 51)]
    text = render(RunSummary.from_dict({"rejects": rejects, "rows": {"rejected": 700}}))
    assert "2 more reasons are not shown." in text
    assert "These are the first 50 of 700 such rows." in text
    assert '<th scope="row">reason 1</th><td>5</td><td>1</td><td><code>C1</code></td>' in text


def test_a_molecule_that_cannot_be_drawn_is_shown_as_text():
    worst = [{"smiles": "C(((", "target": "y", "true": 1.0, "pred": None}]
    text = render(RunSummary.from_dict({"worst": worst}))
    assert "<code>C(((</code>" in text
    assert "predicted –" in text


# ------------------------------------------------------------------ the terminal


@pytest.mark.parametrize("summary", [regression(), classification(), RunSummary()])
def test_the_terminal_shows_headline_table_and_paths(summary):
    file = io.StringIO()
    Console(file=file, width=100).print(terminal_summary(summary))
    shown = file.getvalue()
    assert headline(summary)[:40] in shown
    if summary.model:
        assert "runs/1/model.gad" in shown
        assert re.search(r"test +model .* 60", shown)
    assert "[bold" not in shown


def test_names_are_no_markup_for_the_terminal():
    summary = regression(model="runs/[red]x[/red]/model.gad")
    file = io.StringIO()
    Console(file=file, width=100).print(terminal_summary(summary))
    assert "[red]x[/red]" in file.getvalue()


def several_kinds() -> RunSummary:
    """A run with a number, a binary target and three classes, with everything about trust."""
    rng = np.random.default_rng(3)
    y, hit, level = rng.normal(size=60), np.arange(60.0) % 2, np.arange(60.0) % 3
    p = rng.dirichlet([1, 1, 1], 60)
    one = {
        "calibration_error": 0.04,
        "before": 0.09,
        "recalibration": "line",
        "size": 1.3,
        "classes": {"no": 0.9, "yes": None},
    }
    return regression(
        task="mixed",
        targets=["logS", "hit", "<level>"],
        units=["", "", ""],
        similarity=rng.random(60).tolist(),
        parity={
            "logS": {"true": y.tolist(), "pred": y.tolist(), "kind": "regression",
                     "error": np.abs(y).tolist()},
            "hit": {"true": hit.tolist(), "pred": rng.random(60).tolist(), "kind": "binary",
                    "error": rng.random(60).tolist()},
            "<level>": {"true": level.tolist(), "pred": p.tolist(), "kind": "multiclass",
                        "classes": ["low", "mid", "high"], "error": rng.random(60).tolist()},
        },
        uncertainty={"q": {"logS": 2.0}, "coverage": 0.9, "difficulty": {"logS": "learned"},
                     "width": {"logS": 0.75}, "classes": {"hit": one, "<level>": one}},
    )  # fmt: skip


def test_targets_of_several_kinds_have_their_own_pictures():
    text = render(several_kinds())
    Outline(text)
    for words in (
        "false positive rate",
        "probability of the likeliest class",
        "&lt;level&gt;: taken for",
    ):
        assert words in text
    assert text.count("similarity to the nearest training molecule</text>") == 3
    assert text.count("least similar") == 3
    assert "<level>" not in text


def test_trust_is_told_on_the_page_and_in_the_terminal():
    text = render(several_kinds())
    for words in ("± 2", "± 1.5", "learned", "0.04", "0.09", "no: 90 %, yes: –"):
        assert words in text
    out = io.StringIO()
    Console(file=out, width=120).print(terminal_summary(several_kinds()))
    assert "90 % intervals hold 90.0 % of held-out values" in out.getvalue()
    assert (
        "hit: expected calibration error 0.04 (0.09 before recalibration by line)" in out.getvalue()
    )
