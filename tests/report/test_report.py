"""The report: one file, nothing fetched, everything escaped, and sense whatever is missing."""

from __future__ import annotations

import io
import json
import math
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from gad.prediction.intervals import coverage_of_partitions, quantiles
from gad.prediction.metrics import score
from gad.report import plots
from gad.report.report import render, terminal_summary, write_report
from gad.report.verdict import headline, ridge_wins

NAN = math.nan
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


def regression(better: float = 0.5) -> dict:
    """A run whose error is ``better`` times that of its ridge."""
    rng = np.random.default_rng(0)
    y = rng.normal(-3, 2, 300)
    noise = rng.normal(size=300)
    parts = {"train": slice(0, 200), "val": slice(200, 240), "test": slice(240, 300)}

    def scores(p):
        return {k: score("regression", y[s], p[s], ["logS"]) for k, s in parts.items()}

    p = y + 0.8 * better * noise
    residuals = p[240:] - y[240:]
    return {
        "title": "solubility.csv",
        "task": "regression",
        "targets": ["logS"],
        "units": ["log mol/L"],
        "metrics": scores(p),
        "baselines": {
            "mean": scores(np.full(300, y[:200].mean())),
            "ridge": scores(y + 0.8 * noise),
        },
        "parity": {"logS": {"true": y[240:].tolist(), "pred": p[240:].tolist()}},
        "curve": [
            {
                "epoch": e,
                "train_loss": 2 / (e + 1),
                "val_loss": 2.2 / (e + 1) + 0.01 * e,
                "lr": 1e-3,
            }
            for e in range(30)
        ],
        "best_epoch": 13,
        "reach": [[0.0, 0.5, 1.0, 3.0], [1.0, 2.0, 4.0, 8.0]],
        "worst": [{"smiles": "CCO", "target": "logS", "true": 1.0, "pred": -2.5}],
        "rows": {"read": 302, "used": 300, "rejected": 2, "train": 200, "val": 40, "test": 60},
        "rejects": [
            {"row": 17, "smiles": "CF(C)C", "reason": "Explicit valence for atom # 1 F, 3"},
            {"row": 90, "smiles": "C(", "reason": "unclosed parenthesis"},
        ],
        "messages": ["The column 'smiles' was taken for the molecules."],
        "duplicates": ["'CC' has different labels: 1.0 (row 0), 2.0 (row 2)"],
        "recipe": {
            "layers": 4,
            "aggregators": ["mean", "dx"],
            "edges": True,
            "learning_rate": 1e-3,
        },
        "seed": 7,
        "fingerprint": "0123abcd",
        "versions": {"torch": "2.13.0"},
        "commit": "abc123",
        "machine": "Linux, 2 cores",
        "minutes": 12.34,
        "parameters": 101234,
        "uncertainty": {
            **coverage_of_partitions(residuals),
            "q": {"logS": float(quantiles(residuals)[0])},
            "split": "scaffold",
        },
        "model": "runs/1/model.gad",
        "report": "runs/1/report.html",
    }


def classification(targets: int = 8) -> dict:
    rng = np.random.default_rng(1)
    names = [f"assay {k}" for k in range(targets)]
    y = (rng.random((200, targets)) < 0.3).astype(float)
    p = 1 / (1 + np.exp(-(2 * y - 1 + rng.normal(size=y.shape))))
    y[rng.random(y.shape) < 0.2] = NAN

    def scores(p):
        return {"test": score("classification", y, p, names)}

    return {
        "title": "tox.csv",
        "task": "classification",
        "targets": names,
        "metrics": scores(p),
        "baselines": {
            "mean": scores(np.full_like(p, 0.3)),
            "ridge": scores(np.sqrt(p) * 0.5 + 0.2),
        },
        "parity": {
            name: {"true": y[:, k].tolist(), "pred": p[:, k].tolist()}
            for k, name in enumerate(names)
        },
    }


# ------------------------------------------------------------------ the whole page


@pytest.mark.parametrize("summary", [regression(), regression(2.0), classification(), {}])
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
        "On 60 test molecules the mean absolute error is",
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
        "'CC' has different labels",
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
    assert "Not drawn: 2 more." in text
    assert "Predicted and true" not in text
    assert "logistic regression on RDKit" in text


def test_the_best_method_of_each_held_out_part_is_bold():
    assert '<th>model</th><td class="best">' in render(regression(0.5))
    ridge = render(regression(2.0))
    assert '<th>ridge</th><td class="best">' in ridge
    assert '<th>model</th><td class="best">' not in ridge


@pytest.mark.parametrize("key", [*regression(), "folds"])
def test_any_key_may_be_missing_or_alone(key):
    whole = regression()
    Outline(render({k: v for k, v in whole.items() if k != key}))
    if key in whole:
        Outline(render({key: whole[key]}))
        Outline(render({**whole, key: None}))
        Console(file=io.StringIO()).print(terminal_summary({key: whole[key]}))


def test_the_page_survives_json():
    summary = regression()
    assert render(json.loads(json.dumps(summary))) == render(summary)


EVIL = "<script>alert('x')</script>&\"'"


def test_no_text_of_the_user_is_markup():
    summary = regression()
    evil = {
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
        "rows": {EVIL: 1},
        "rejects": [{"row": EVIL, "smiles": EVIL, "reason": EVIL}],
        "messages": [EVIL],
        "duplicates": [EVIL, {"smiles": EVIL, "values": [EVIL], "rows": [EVIL]}],
        "recipe": {EVIL: {EVIL: [EVIL]}},
        "seed": EVIL,
        "fingerprint": EVIL,
        "versions": {EVIL: EVIL},
        "commit": EVIL,
        "machine": {EVIL: EVIL},
        "split": EVIL,
        "uncertainty": {"level": 0.9, "coverage": 0.9, "q": {EVIL: 1.0}, "split": EVIL},
    }
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
    write_report(tmp_path / "odd.html", {"title": "half a pair \ud800"})
    assert "half a pair ?" in (tmp_path / "odd.html").read_text(encoding="utf-8")


def test_an_ensemble_and_a_cross_validation():
    summary = regression()
    summary["curve"] = [summary["curve"], summary["curve"][:20]]
    summary["best_epoch"] = [13, 9]
    summary["folds"] = {"mae": {"mean": 0.4, "std": 0.02, "folds": [0.38, 0.42]}}
    text = render(summary)
    assert text.count("<title>best epoch") == 2
    assert "0.4 ± 0.02" in text
    assert headline(summary).startswith("In cross-validation the mean absolute error is ")
    assert "standard deviation over 2 folds 0.02" in headline(summary)


def test_many_rejects_are_counted_by_reason():
    rejects = [{"row": k, "smiles": f"C{k}", "reason": f"reason {k % 12}"} for k in range(1, 51)]
    text = render({"rejects": rejects, "rows": {"rejected": 700}})
    assert "2 more reasons are not shown." in text
    assert "These are the first 50 of 700 such rows." in text
    assert "<th>reason 1</th><td>5</td><td>1</td><td><code>C1</code></td>" in text


def test_a_molecule_that_cannot_be_drawn_is_shown_as_text():
    text = render({"worst": [{"smiles": "C(((", "target": "y", "true": 1.0, "pred": None}]})
    assert "<code>C(((</code>" in text
    assert "predicted –" in text


# ------------------------------------------------------------------ the headline


def scores(mae: float | None, **more) -> dict:
    return {"test": {"targets": {"y": {"mae": mae, "n": 50, **more}}, "mean": {"mae": mae}}}


@pytest.mark.parametrize(
    ("model", "mean", "ridge", "words", "lost"),
    [
        (0.5, 1.0, 0.8, "50 % below the mean predictor (1) and 38 % below ridge", False),
        (0.5, 1.0, 0.4, "but 25 % above ridge regression on descriptors (0.4). The simpler", True),
        (
            0.5,
            1.0,
            0.501,
            "the same as ridge regression on descriptors (0.501). The simpler",
            False,
        ),
        (1.1, 1.0, 2.0, "learned nothing that holds beyond its training data", False),
        (0.5, 1.0, 0.0, "but above ridge regression on descriptors (0)", True),
        (0.5, 1.0, None, "50 % below the mean predictor (1).", False),
        (None, 1.0, 0.5, "the mean absolute error is –.", False),
    ],
)
def test_the_headline_is_honest(model, mean, ridge, words, lost):
    summary = {
        "metrics": scores(model),
        "baselines": {"mean": scores(mean), "ridge": scores(ridge)},
    }
    assert words in headline(summary)
    assert ridge_wins(summary) is lost
    assert ("lead warn" in render(summary)) is lost


def test_the_headline_of_areas_gives_differences():
    def area(value):
        return {"test": {"targets": {"y": {"roc_auc": value, "n": 9}}, "mean": {"roc_auc": value}}}

    told = headline({"metrics": area(0.8), "baselines": {"mean": area(0.5), "ridge": area(0.85)}})
    assert "0.3 above the mean predictor (0.5), but 0.05 below logistic regression" in told
    assert told.endswith("The simpler model is the better one here.")


def test_the_headline_of_many_targets_counts():
    told = headline(classification())
    assert "better than the mean predictor on 8 of 8 targets" in told
    assert "Mean over targets: model" in told


def test_errors_in_different_units_are_not_averaged():
    y = np.random.default_rng(0).normal(size=(40, 2)) * [1, 1000]
    summary = {
        "task": "regression",
        "targets": ["a", "b"],
        "units": {"a": "eV", "b": "K"},
        "metrics": {"test": score("regression", y, y + 0.1, ["a", "b"])},
    }
    text = render(summary)
    means = text.split("Mean over targets")[1].split("</table>")[0]
    assert "R²" in means
    assert "MAE" not in means
    assert "b / K" in text


def test_without_a_test_part_the_validation_part_is_named():
    told = headline({"metrics": {"val": scores(0.5)["test"]}})
    assert told == "On 50 validation molecules the mean absolute error is 0.5."
    assert headline({}) == "Nothing was held out or scored."


def test_rejected_predictions_are_told():
    assert "Left out: 3 predictions" in headline({"metrics": scores(0.5, rejected=3)})


# ------------------------------------------------------------------ the terminal


@pytest.mark.parametrize("summary", [regression(), classification(), {}])
def test_the_terminal_shows_headline_table_and_paths(summary):
    file = io.StringIO()
    Console(file=file, width=100).print(terminal_summary(summary))
    shown = file.getvalue()
    assert headline(summary)[:40] in shown
    if summary.get("model"):
        assert "runs/1/model.gad" in shown
        assert re.search(r"test +model .* 60", shown)
    assert "[bold" not in shown


def test_names_are_no_markup_for_the_terminal():
    summary = regression()
    summary["model"] = "runs/[red]x[/red]/model.gad"
    file = io.StringIO()
    Console(file=file, width=100).print(terminal_summary(summary))
    assert "[red]x[/red]" in file.getvalue()


# ------------------------------------------------------------------ plots

reals = st.floats(allow_nan=True, allow_infinity=True, width=64)


@given(st.lists(st.tuples(reals, reals), max_size=8), reals)
def test_a_parity_plot_of_anything_stays_in_its_frame(pairs, q):
    picture = plots.parity([a for a, _ in pairs], [b for _, b in pairs], "eV", q)
    for circle in circles(picture):
        assert 0 <= float(circle.get("cx")) <= plots.WIDTH
        assert 0 <= float(circle.get("cy")) <= plots.WIDTH
    assert "nan" not in picture
    assert "inf" not in picture


@given(st.lists(st.lists(st.floats(0, 1e6), max_size=5), max_size=4))
def test_a_reach_plot_of_anything_stays_in_its_frame(layers):
    picture = plots.reach(layers)
    assert len(circles(picture)) == sum(map(len, layers))
    assert "nan" not in picture


@given(st.lists(st.one_of(st.none(), reals), max_size=6), st.integers(-1, 7))
def test_a_learning_curve_of_anything_is_drawn(losses, best):
    curve = [{"epoch": k, "train_loss": loss, "val_loss": loss} for k, loss in enumerate(losses)]
    picture = plots.learning_curve([curve], [best])
    assert "nan" not in picture
    circles(picture)


def circles(picture: str) -> list[ET.Element]:
    return ET.fromstring(picture).findall("circle") if picture else []


def test_a_dot_is_where_its_values_are():
    first, second = circles(plots.parity([0.0, 1.0], [0.0, 0.5]))
    assert float(first.get("cx")) < float(second.get("cx"))
    assert float(first.get("cy")) > float(second.get("cy"))  # up is larger
    assert first.find("title").text == "true 0, predicted 0"
    assert second.find("title").text == "true 1, predicted 0.5"


def test_of_many_points_an_even_choice_with_the_worst_is_drawn():
    y = np.linspace(0, 1, 5000)
    p = y.copy()
    p[1234] = 9.0
    drawn = circles(plots.parity(y, p))
    assert len(drawn) <= plots.MOST_POINTS
    assert any("predicted 9" in c.find("title").text for c in drawn)


def test_losses_of_many_sizes_get_a_logarithmic_axis():
    def curve(last):
        return [[{"epoch": 0, "val_loss": 1.0}, {"epoch": 1, "val_loss": last}]]

    assert "log scale" in plots.learning_curve(curve(0.01))
    assert "log scale" not in plots.learning_curve(curve(0.5))
    assert "log scale" not in plots.learning_curve(curve(-0.01))


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_are_round_few_and_inside(low, width):
    marks = plots.ticks(low, low + width)
    assert 2 <= len(marks) <= 11
    slack = 1e-6 * width + 1e-9 * abs(low)
    assert all(low - slack <= mark <= low + width + slack for mark in marks)


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (0.0, None, "0"),
        (-0.00001, 2, "0.00"),
        (999.6, None, "1,000"),
        (12345678.0, None, "1.23e+07"),
        (1e-12, None, "1.00e−12"),
        (NAN, None, "–"),
        (1234.5678, 1, "1,234.6"),
    ],
)
def test_numbers_are_written_for_people(value, decimals, text):
    assert plots.number(value, decimals) == text
