"""The calibration error of known probabilities; sets hold each class as promised."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from gad.prediction.probabilities import Sets, calibration_error, coverage_of_sets


def two_classes(rows: int, seed: int):
    """Honest probabilities, and labels by them."""
    rng = np.random.default_rng(seed)
    honest = expit(rng.normal(-1, 1.5, rows))
    return honest, (rng.random(rows) < honest).astype(float)


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
        honest, labels = two_classes(1500, seed)
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
    honest, labels = two_classes(2000, 5)
    told = coverage_of_sets(honest, labels, 0.9, 2)
    assert told["coverage"] == pytest.approx(0.9, abs=0.02)
    assert told["classes"] == pytest.approx([0.9, 0.9], abs=0.03)
    assert 1 < told["size"] < 2
    assert coverage_of_sets(honest[:1], labels[:1], 0.9, 2)["coverage"] is None
