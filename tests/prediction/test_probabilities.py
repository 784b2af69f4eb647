"""Probabilities that were spoiled on purpose are mended; sets hold each class as promised."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit, softmax

from gad.prediction.probabilities import (
    Recalibration,
    Sets,
    calibration_error,
    coverage_of_sets,
)


def two_classes(rows: int, seed: int, slope: float = 3.0, shift: float = 1.0):
    """Labels of honest probabilities, and the same probabilities spoiled."""
    rng = np.random.default_rng(seed)
    honest = expit(rng.normal(-1, 1.5, rows))
    return honest, expit(slope * logit(honest) + shift), (rng.random(rows) < honest).astype(float)


def test_overconfidence_is_undone():
    honest, spoiled, labels = two_classes(4000, 0)
    again = Recalibration.fit(spoiled, labels)
    np.testing.assert_allclose(again.slope, 1 / 3, atol=0.04)
    np.testing.assert_allclose(again(spoiled), honest, atol=0.05)
    assert (
        calibration_error(again(spoiled), labels) < 0.03 < 0.08 < calibration_error(spoiled, labels)
    )


def test_what_is_honest_stays_as_it_is():
    changed = [Recalibration.fit(h, y) for h, _, y in (two_classes(300, k) for k in range(10))]
    assert np.mean([abs(np.log(again.slope)) for again in changed]) < 0.2
    assert np.mean([abs(again.shift) for again in changed]) < 0.2
    assert Recalibration.fit(np.full(10, 0.9), np.ones(10)) == Recalibration()


def test_a_temperature_for_several_classes():
    rng = np.random.default_rng(1)
    logits = rng.normal(0, 1.5, (4000, 4))
    labels = np.array([rng.choice(4, p=p) for p in softmax(logits, axis=1)], dtype=float)
    again = Recalibration.fit(softmax(2.5 * logits, axis=1), labels)
    assert again.slope == pytest.approx(0.4, abs=0.04)
    assert again.shift == 0
    np.testing.assert_allclose(again(softmax(2.5 * logits, axis=1)).sum(1), 1)


def test_missing_predictions_stay_missing():
    assert np.isnan(Recalibration(2.0, 1.0)(np.array([np.nan, 0.5]))).tolist() == [True, False]


def test_the_calibration_error_of_a_constant():
    labels = np.repeat([0.0, 1.0], [80, 20])
    assert calibration_error(np.full(100, 0.5), labels) == pytest.approx(0.3)
    assert calibration_error(np.array([]), np.array([])) is None
    sure = np.eye(3)[[0, 1, 2] * 20]
    assert calibration_error(sure, np.array([0.0, 1.0, 2.0] * 20)) == 0
    assert calibration_error(sure, np.zeros(60)) == pytest.approx(2 / 3)


def test_sets_hold_the_rare_class_as_often_as_the_frequent_one():
    shares = []
    for seed in range(20):
        honest, _, labels = two_classes(1500, seed)
        sets = Sets.of(honest[:700], labels[:700], 0.9, 2)
        held = sets(honest[700:])
        right = held[np.arange(800), labels[700:].astype(int)]
        shares.append([right[labels[700:] == k].mean() for k in (0, 1)])
    np.testing.assert_allclose(np.mean(shares, axis=0), 0.9, atol=0.02)


def test_a_class_of_which_little_is_known_is_never_ruled_out():
    labels = np.r_[np.zeros(50), np.ones(5)]
    held = Sets.of(np.full(55, 0.01), labels, 0.9, 2)(np.array([0.0, 1.0]))
    assert held[:, 1].all()


def test_what_sets_cover_is_told():
    honest, _, labels = two_classes(2000, 5)
    told = coverage_of_sets(honest, labels, 0.9, 2)
    assert told["coverage"] == pytest.approx(0.9, abs=0.02)
    assert told["classes"] == pytest.approx([0.9, 0.9], abs=0.03)
    assert 1 < told["size"] < 2
    assert coverage_of_sets(honest[:1], labels[:1], 0.9, 2)["coverage"] is None
