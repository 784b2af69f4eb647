"""What is said of a run: honest, and in words."""

from __future__ import annotations

import numpy as np
import pytest

from gad.prediction.metrics import score
from gad.report.report import render
from gad.report.summary import RunSummary
from gad.report.verdict import compare_targets, headline, ridge_wins
from tests.report.runs import classification


def about(**told) -> RunSummary:
    return RunSummary.from_dict({"targets": ["y"], **told})


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
    baselines = {"mean": scores(mean), "ridge": scores(ridge)}
    summary = about(metrics=scores(model), baselines=baselines)
    assert words in headline(summary)
    assert ridge_wins(summary) is lost
    assert ("lead warn" in render(summary)) is lost


def test_the_headline_of_areas_gives_differences():
    def area(value):
        return {"test": {"targets": {"y": {"roc_auc": value, "n": 9}}, "mean": {"roc_auc": value}}}

    baselines = {"mean": area(0.5), "ridge": area(0.85)}
    told = headline(about(task="classification", metrics=area(0.8), baselines=baselines))
    assert "0.3 above the mean predictor (0.5), but 0.05 below logistic regression" in told
    assert told.endswith("The simpler model is the better one here.")


def test_the_headline_of_many_targets_counts():
    told = headline(classification())
    assert "better than the mean predictor on 8 of 8 targets" in told
    assert "Mean over targets: model" in told


def test_errors_in_different_units_are_not_averaged():
    y = np.random.default_rng(0).normal(size=(40, 2)) * [1, 1000]
    metrics = {"test": score("regression", y, y + 0.1, ["a", "b"])}
    text = render(about(targets=["a", "b"], units=["eV", "K"], metrics=metrics))
    means = text.split("Mean over targets")[1].split("</table>")[0]
    assert "R²" in means
    assert "MAE" not in means
    assert "b / K" in text


def test_without_a_test_part_the_validation_part_is_named():
    told = headline(about(metrics={"val": scores(0.5)["test"]}))
    assert told == "On 50 validation molecules the mean absolute error is 0.5."
    assert headline(RunSummary()) == "Nothing was held out or scored."


def test_rejected_predictions_are_told():
    assert "Left out: 3 predictions" in headline(about(metrics=scores(0.5, rejected=3)))


@pytest.mark.parametrize(
    ("split", "words"),
    [
        ("random", "On 50 test molecules (random split) the"),
        ("file", "On 50 test molecules (split by a file) the"),
        ("own", "On 50 test molecules (the set's own split) the"),
        (None, "On 50 test molecules the"),
    ],
)
def test_the_kind_of_split_stands_next_to_the_error(split, words):
    assert words in headline(about(metrics=scores(0.5), split=split))


def test_the_error_has_its_interval():
    interval = {"metric": "mae", "level": 0.95, "targets": {"y": [0.4, 0.62]}}
    told = headline(about(metrics=scores(0.5), bootstrap=interval, units=["eV"]))
    assert "is 0.5 eV (95 % interval 0.4 to 0.62)." in told


def test_many_targets_have_their_intervals_in_the_table():
    summary = classification(2)
    interval = {"metric": "roc_auc", "level": 0.95, "targets": {"assay 0": [0.7, 0.9]}}
    shown = compare_targets(RunSummary.from_dict({**summary, "bootstrap": interval}))
    assert shown.columns == ("model", "mean", "logistic", "95 % interval", "labels")
    assert [row.cells[3] for row in shown.rows] == ["0.7 to 0.9", "–"]


@pytest.mark.parametrize(("lost", "words"), [(1, False), (2, True)])
def test_a_linear_model_that_wins_on_most_targets_is_named(lost, words):
    y = np.random.default_rng(0).normal(size=(40, 3))
    error = np.where(np.arange(3) < lost, 0.5, 0.1)
    names = ["a", "b", "c"]

    def scored(error):
        return {"test": score("regression", y, y + error, names)}

    baselines = {"mean": scored(2.0), "ridge": scored(0.3)}
    summary = about(targets=names, metrics=scored(error), baselines=baselines)
    assert ridge_wins(summary) is words
    assert headline(summary).endswith("The simpler model is the better one on most.") is words
