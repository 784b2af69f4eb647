"""Metrics: equal to scikit-learn's and SciPy's, blind to missing labels, sums over labels."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn import metrics as sk

from gad.prediction.metrics import (
    HIGHER_IS_BETTER,
    MAIN_METRIC,
    METRICS,
    REGISTRY,
    TASKS,
    find_metric,
    score,
)

NAN = math.nan
REGRESSION = [0.7333333333, 0.8752323954, -0.0682768459, 0.7668028043]
CLASSIFICATION = [0.9104938272, 0.7746387628, 0.8412698413, 0.4097966186, 0.1254046883]


def one(task, y, p, weights=None):
    """The scores of a single target."""
    return score(task, np.asarray(y), np.asarray(p), ["y"], weights)["targets"]["y"]


@pytest.fixture
def regression():
    rng = np.random.default_rng(0)
    y = rng.normal(size=200).round(1)  # rounded, so that there are ties
    return y, (y + rng.normal(size=200)).round(1)


@pytest.fixture
def classification():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 300).astype(float)
    return y, np.clip(0.3 * y + rng.random(300) * 0.7, 0, 1).round(2)


# ------------------------------------------------------------------ against other implementations


def test_regression_agrees_with_scikit_learn_and_scipy(regression):
    y, p = regression
    found = one("regression", y, p)
    assert found["mae"] == pytest.approx(sk.mean_absolute_error(y, p))
    assert found["rmse"] == pytest.approx(math.sqrt(sk.mean_squared_error(y, p)))
    assert found["r2"] == pytest.approx(sk.r2_score(y, p))
    assert found["spearman"] == pytest.approx(spearmanr(y, p).statistic)
    assert (found["n"], found["rejected"]) == (200, 0)


def test_weighted_regression_agrees_with_scikit_learn(regression):
    y, p = regression
    w = np.random.default_rng(2).random(len(y)) * 3
    found = one("regression", y, p, w)
    assert found["mae"] == pytest.approx(sk.mean_absolute_error(y, p, sample_weight=w))
    assert found["r2"] == pytest.approx(sk.r2_score(y, p, sample_weight=w))


@pytest.mark.parametrize("weighted", [False, True])
def test_classification_agrees_with_scikit_learn(classification, weighted):
    y, p = classification
    w = np.random.default_rng(3).random(len(y)) * 3 if weighted else None
    found = one("classification", y, p, w)
    assert found["roc_auc"] == pytest.approx(sk.roc_auc_score(y, p, sample_weight=w))
    expected = sk.average_precision_score(y, p, sample_weight=w)
    assert found["average_precision"] == pytest.approx(expected)
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(y, p >= 0.5, sample_weight=w))
    close = np.clip(p, 1.2e-7, 1 - 1.2e-7)
    assert found["log_loss"] == pytest.approx(sk.log_loss(y, close, sample_weight=w), rel=1e-3)
    assert found["brier"] == pytest.approx(np.average((p - y) ** 2, weights=w))


def test_the_numbers_are_those_of_the_first_version():
    """Reference numbers: worked out before scikit-learn's functions took over."""
    rng = np.random.default_rng(5)
    y, w = rng.normal(size=40).round(1), rng.integers(0, 4, 40)
    p = (y + rng.normal(size=40)).round(1)
    found = one("regression", y, p, w)
    assert [found[m] for m in ("mae", "rmse", "r2", "spearman")] == pytest.approx(REGRESSION)
    found = one("classification", (y > 0).astype(float), 1 / (1 + np.exp(-p)), w)
    names = ("roc_auc", "average_precision", "accuracy", "log_loss", "brier")
    assert [found[m] for m in names] == pytest.approx(CLASSIFICATION)


@pytest.mark.parametrize("weighted", [False, True])
def test_decisions_agree_with_counts_by_hand(classification, weighted):
    y, p = classification
    w = np.random.default_rng(3).random(len(y)) * 3 if weighted else np.ones(len(y))
    found = one("classification", y, p, w)
    said = p >= 0.5
    tp, fp = (w[said & (y == label)].sum() for label in (1, 0))
    fn, tn = (w[~said & (y == label)].sum() for label in (1, 0))
    assert found["f1"] == pytest.approx(2 * tp / (2 * tp + fp + fn))
    assert found["balanced_accuracy"] == pytest.approx((tp / (tp + fn) + tn / (tn + fp)) / 2)
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    assert found["mcc"] == pytest.approx((tp * tn - fp * fn) / math.sqrt(product))


# ------------------------------------------------------------------ missing, weighted, rejected


@pytest.mark.parametrize("task", TASKS)
def test_missing_labels_are_as_if_their_rows_were_not_there(task, regression, classification):
    y, p = regression if task == "regression" else classification
    gaps = np.random.default_rng(4).random(len(y)) < 0.4
    with_gaps = np.where(gaps, NAN, y)
    assert one(task, with_gaps, p) == one(task, y[~gaps], p[~gaps])


@pytest.mark.parametrize("task", TASKS)
@given(weights=st.lists(st.integers(0, 3), min_size=12, max_size=12).filter(lambda w: sum(w) > 1))
def test_a_weight_of_two_is_the_row_twice(task, weights):
    rng = np.random.default_rng(sum(weights))
    y = rng.integers(0, 2, 12).astype(float) if task == "classification" else rng.normal(size=12)
    p = rng.random(12).round(1)
    weighted = one(task, y, p, weights)
    repeated = one(task, np.repeat(y, weights), np.repeat(p, weights))
    for metric in METRICS[task]:
        assert weighted[metric] == pytest.approx(repeated[metric], abs=1e-12)


def test_predictions_that_are_not_finite_are_left_out_and_counted():
    found = one("regression", [1, 2, 3, NAN, 4], [1, NAN, math.inf, NAN, 6])
    assert (found["n"], found["rejected"], found["mae"]) == (2, 2, 1.0)


def test_targets_are_scored_one_by_one_and_the_mean_skips_those_without_labels():
    y = [[1, 0, NAN], [2, NAN, NAN]]
    p = [[2, 4, 0], [2, 0, 0]]
    found = score("regression", y, p, ["a", "b", "c"])
    assert [found["targets"][name]["mae"] for name in "abc"] == [0.5, 4.0, None]
    assert [found["targets"][name]["n"] for name in "abc"] == [2, 1, 0]
    assert found["mean"]["mae"] == 2.25
    assert found["rows"] == 2


# ------------------------------------------------------------------ what does not exist


@pytest.mark.parametrize("label", [0, 1])
def test_a_single_class_has_no_area_and_no_exception(label):
    found = one("classification", [label] * 3, [0.2, 0.6, 0.7])
    assert found["roc_auc"] is None
    assert found["average_precision"] is None
    assert found["brier"] is not None
    assert found["mcc"] is None
    assert found["balanced_accuracy"] is None


def test_constant_labels_have_no_r2_and_constant_predictions_no_rank_correlation():
    flat = one("regression", [0.1, 0.1, 0.1], [1, 2, 3])
    assert (flat["r2"], flat["spearman"]) == (None, None)
    guess = one("regression", [1, 2, 3], [2, 2, 2])
    assert (guess["r2"], guess["spearman"]) == (0.0, None)
    assert one("classification", [0, 1, 1], [0.4, 0.4, 0.4])["roc_auc"] == 0.5


@pytest.mark.parametrize("task", TASKS)
def test_no_rows_and_no_labels_give_none(task):
    for rows in (0, 3):
        found = score(task, np.full((rows, 2), NAN), np.zeros((rows, 2)), ["a", "b"])
        assert found["mean"] == dict.fromkeys(METRICS[task])
        assert found["rows"] == rows


def test_certain_and_wrong_costs_much_but_not_infinitely():
    assert 15 < one("classification", [0, 1], [1, 0])["log_loss"] < 17


@pytest.mark.parametrize("huge", [1e200, -1e308])
def test_the_result_is_json_even_when_a_model_has_exploded(huge):
    found = score("regression", [[0.0], [1e308]], [[huge], [1.0]], ["y"])
    assert json.loads(json.dumps(found, allow_nan=False)) == found


# ------------------------------------------------------------------ mistakes


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="regression, classification, not 'ranking'"):
        score("ranking", [1], [1], ["y"])
    with pytest.raises(ValueError, match="do not fit"):
        score("regression", [[1, 2]], [[1]], ["y"])
    with pytest.raises(ValueError, match="do not fit"):
        score("regression", [1], [1], ["y", "z"])
    with pytest.raises(ValueError, match="must be 0 or 1"):
        score("classification", [2], [0.5], ["y"])
    with pytest.raises(ValueError, match="between 0 and 1"):
        score("classification", [1], [3.2], ["y"])
    with pytest.raises(ValueError, match="not negative"):
        score("regression", [1], [1], ["y"], [-1])


def test_every_main_metric_is_a_metric():
    assert all(MAIN_METRIC[task] in METRICS[task] for task in METRICS)
    assert {m for names in METRICS.values() for m in names} > HIGHER_IS_BETTER


# ------------------------------------------------------------------ the registry


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("MAE", "mae"), ("R²", "r2"), ("r2", "r2"), ("PR-AUC", "average_precision"),
        ("roc_auc", "roc_auc"), ("Balanced accuracy", "balanced_accuracy"),
        ("Log Loss", "log_loss"),
        ("f1", "f1"), ("MCC", "mcc"), ("spearman", "spearman"), ("rmse", "rmse"),
    ],
)  # fmt: skip
def test_a_metric_is_found_by_what_people_call_it(text, name):
    assert find_metric(text) is REGISTRY[name]


def test_an_unknown_metric_is_refused_with_the_choice():
    with pytest.raises(ValueError, match="unknown metric 'error': choose from mae, rmse"):
        find_metric("error")


@pytest.mark.parametrize("name", REGISTRY)
def test_better_predictions_are_better_by_every_metric(name, regression, classification):
    metric = REGISTRY[name]
    y, p = regression if "regression" in metric.kinds else classification
    good, poor = metric(y, (9 * y + p) / 10), metric(y, p)
    assert (good > poor) is metric.higher_is_better


# ------------------------------------------------------------------ the bootstrap


def test_the_interval_is_that_of_the_normal_law_for_a_mean():
    errors = np.random.default_rng(0).exponential(size=2000)
    low, high = REGISTRY["mae"].interval(np.zeros(2000), errors)
    half = 1.96 * errors.std() / math.sqrt(2000)
    assert (low + high) / 2 == pytest.approx(errors.mean(), abs=0.2 * half)
    assert (high - low) / 2 == pytest.approx(half, rel=0.15)


def test_the_interval_is_seeded_and_holds_the_value(classification):
    y, p = classification
    metric = REGISTRY["roc_auc"]
    low, high = metric.interval(y, p, resamples=100)
    assert (low, high) == metric.interval(y, p, resamples=100)
    assert (low, high) != metric.interval(y, p, resamples=100, seed=1)
    assert low < metric(y, p) < high


def test_rows_without_label_or_weight_do_not_narrow_it(regression):
    y, p = regression[0][:60], regression[1][:60]
    metric = REGISTRY["mae"]
    alone = metric.interval(y, p)
    gaps = [NAN] * 60
    many = metric.interval([*y, *gaps], [*p, *gaps])
    light = metric.interval([*y, *y], [*p, *(p + 9)], [1] * 60 + [0] * 60)
    for other in (many, light):
        assert other[1] - other[0] == pytest.approx(alone[1] - alone[0], rel=0.35)


def test_without_labels_there_is_no_interval():
    assert REGISTRY["mae"].interval([], []) is None
    assert REGISTRY["roc_auc"].interval([1, 1, NAN], [0.1, 0.2, 0.3]) is None
