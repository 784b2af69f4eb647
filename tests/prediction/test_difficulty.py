"""Difficulty: weights that are found again, and promises that hold whatever it says."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gad.prediction.difficulty import Difficulty, choose_difficulty, fit_difficulty
from gad.prediction.intervals import quantile


def made(rows: int, seed: int, slope: float = 1.0):
    """Errors whose scale follows one feature, and another that says nothing."""
    rng = np.random.default_rng(seed)
    known = {"nearby_error": rng.normal(size=rows), "size": rng.normal(size=rows)}
    return known, rng.laplace(size=rows) * np.exp(slope * known["nearby_error"])


def test_the_scale_of_errors_is_found_again():
    known, errors = made(5000, 0, slope=0.7)
    sigma = fit_difficulty(known, errors, ["nearby_error", "size"], strength=1.0)
    weights = np.array(sigma.weights) / np.array(sigma.std)
    np.testing.assert_allclose(weights, [0.7, 0.0], atol=0.05)
    found = sigma({"nearby_error": np.array([0.0]), "size": np.zeros(1)}, 1)
    np.testing.assert_allclose(found, 1.0, atol=0.08)  # the mean size of Laplace's errors


def test_weights_have_the_sign_that_they_must_have():
    known, errors = made(2000, 1, slope=-1.0)
    assert fit_difficulty(known, errors, ["nearby_error"]).weights == (0.0,)


def test_the_narrowest_is_chosen_and_nothing_where_there_is_nothing_to_learn():
    known, errors = made(600, 2)
    best, widths = choose_difficulty(known, errors, 0.9)
    assert best.kind in ("errors nearby", "learned")
    assert min(widths.values()) < 0.8 < widths["constant"] == 1
    assert "ensemble spread" not in widths, "it cannot compete without an ensemble"
    flat = np.random.default_rng(3).laplace(size=600)
    _, widths = choose_difficulty(known, flat, 0.9)
    assert all(width > 0.95 for width in widths.values())


@pytest.mark.parametrize("errors", [[], [0.1] * 20, [0.0] * 100, [np.nan] * 100])
def test_too_little_to_learn_from_is_an_interval_of_one_width(errors):
    known = {"size": np.arange(len(errors), dtype=float)}
    best, _ = choose_difficulty(known, np.array(errors), 0.9)
    assert best == Difficulty()
    np.testing.assert_array_equal(best(known, len(errors)), np.ones(len(errors)))


def test_nine_in_ten_are_held_and_intervals_are_narrower():
    covered, ratio = [], []
    for seed in range(20):
        known, errors = made(600, 100 + seed)
        first, second, test = np.split(np.arange(600), [150, 350])
        at = lambda rows: {name: column[rows] for name, column in known.items()}  # noqa: B023, E731
        best, _ = choose_difficulty(at(first), errors[first], 0.9)
        q = quantile(errors[second] / best(at(second), len(second)))
        half = q * best(at(test), len(test))
        covered.append(np.mean(np.abs(errors[test]) <= half))
        ratio.append(half.mean() / quantile(errors[second]))
    assert 0.88 < np.mean(covered) < 0.92
    assert np.mean(ratio) < 0.85


def test_json_gives_the_same_back():
    known, errors = made(200, 4)
    sigma = fit_difficulty(known, errors, ["nearby_error", "size"])
    again = Difficulty.from_dict(json.loads(json.dumps(sigma.to_dict())))
    assert again == sigma
    with pytest.raises(ValueError, match="do not fit"):
        Difficulty.from_dict({**sigma.to_dict(), "weights": [1.0]})
