"""Conformal intervals: exact ranks, and coverage that is what was promised."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from gad.data.known import load_esol
from gad.prediction.intervals import coverage_of_partitions, interval, quantile, quantiles


@pytest.mark.parametrize(
    ("n", "level", "rank"),
    [(9, 0.9, 9), (10, 0.9, 10), (19, 0.9, 18), (99, 0.9, 90), (100, 0.9, 91), (999, 0.95, 950)],
)
def test_the_rank_is_that_of_n_plus_one(n, level, rank):
    sizes = np.random.default_rng(0).permutation(np.arange(1, n + 1)) * np.resize([1, -1], n)
    assert quantile(sizes, level) == rank


@pytest.mark.parametrize("n", [1, 4, 8])
def test_too_few_rows_give_the_largest_error(n):
    assert quantile(-np.arange(1.0, n + 1)) == n


def test_missing_residuals_do_not_count():
    assert quantile([0.1, math.nan, 0.3, -0.2], 0.5) == 0.2
    assert math.isnan(quantile([math.nan]))
    np.testing.assert_array_equal(quantiles([[1, math.nan], [2, math.nan]], 0.5), [2, math.nan])


def test_intervals_are_symmetric_and_one_width_a_target():
    lower, upper = interval([[1.0, 10.0], [2.0, 20.0]], [0.5, 3.0])
    np.testing.assert_array_equal(lower, [[0.5, 7], [1.5, 17]])
    np.testing.assert_array_equal(upper, [[1.5, 13], [2.5, 23]])


@pytest.mark.parametrize("level", [0, 1, -0.1, 90])
def test_a_level_is_a_share(level):
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile([1.0], level)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_the_promise_holds_exactly_on_average(level):
    """Of n + 1 exchangeable rows the last is covered with probability ⌈(n+1)·level⌉ / (n+1)."""
    rng = np.random.default_rng(1)
    n, repeats = 20, 20_000
    errors = np.sort(np.abs(rng.standard_t(3, size=(repeats, n))), axis=1)
    new = np.abs(rng.standard_t(3, size=repeats))
    rank = math.ceil((n + 1) * level - 1e-9)
    assert quantile(errors[0], level) == errors[0, rank - 1]
    covered = np.mean(new <= errors[:, rank - 1])
    assert covered == pytest.approx(rank / (n + 1), abs=0.01)


def heteroscedastic(rows: int, seed: int) -> np.ndarray:
    """Errors that grow with the size of the molecule, with heavy tails and a bias."""
    rng = np.random.default_rng(seed)
    atoms = rng.gamma(4, 6, rows)
    return 0.02 * atoms * rng.standard_t(4, rows) + 0.1


@pytest.mark.parametrize("rows", [200, 1000, 5000])
def test_nine_in_ten_are_covered_when_errors_differ_in_size(rows):
    told = coverage_of_partitions(heteroscedastic(rows, seed=rows), level=0.9, partitions=20)
    assert 0.88 <= told["coverage"] <= 0.93
    assert told["coverage_min"] <= told["coverage"] <= told["coverage_max"]


def test_targets_with_missing_labels_are_each_covered():
    residuals = np.stack([heteroscedastic(2000, 1), 40 * heteroscedastic(2000, 2)], axis=1)
    residuals[np.random.default_rng(3).random(residuals.shape) < 0.5] = math.nan
    told = coverage_of_partitions(residuals)
    assert all(0.88 <= share <= 0.93 for share in told["targets"])
    assert 0.88 <= told["coverage"] <= 0.93


def test_a_level_that_is_not_met_would_be_seen():
    assert coverage_of_partitions(heteroscedastic(1000, 0), level=0.8)["coverage"] < 0.86


def test_the_result_is_reproducible_and_json():
    residuals = heteroscedastic(300, 0)
    first = coverage_of_partitions(residuals, seed=5)
    assert first == coverage_of_partitions(residuals, seed=5)
    assert first != coverage_of_partitions(residuals, seed=6)
    assert json.loads(json.dumps(first)) == first


@pytest.mark.parametrize("residuals", [[], [1.0], [math.nan, math.nan]])
def test_nothing_to_count_is_none(residuals):
    told = coverage_of_partitions(np.array(residuals))
    assert told["coverage"] is None
    assert told["targets"] == [None]


def test_nine_in_ten_are_covered_on_real_solubilities():
    """A ridge on the counts of characters in a SMILES is a poor model with realistic errors."""
    from sklearn.linear_model import Ridge

    table = load_esol()
    letters = sorted(set("".join(table.smiles)))
    X = np.array([[smiles.count(c) for c in letters] for smiles in table.smiles], dtype=float)
    y = table.targets[:, 0]
    train = np.random.default_rng(0).random(len(y)) < 0.5
    model = Ridge(alpha=10.0).fit(X[train], y[train])
    residuals = model.predict(X[~train]) - y[~train]
    told = coverage_of_partitions(residuals, level=0.9, partitions=20)
    assert 0.88 <= told["coverage"] <= 0.93
