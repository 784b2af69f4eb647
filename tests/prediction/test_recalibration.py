"""Probabilities that were spoiled on purpose are mended, in the way that spoiled them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit, softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss, roc_auc_score

from gad.prediction.probabilities import calibration_error
from gad.prediction.recalibration import Recalibration


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


def bent(rows: int, seed: int):
    """Spoiled in a way that no line undoes: everything above a half looks certain."""
    rng = np.random.default_rng(seed)
    honest = rng.random(rows)
    spoiled = expit(np.where(honest > 0.5, 4 + honest, -4 + honest))
    return honest, spoiled, (rng.random(rows) < honest).astype(float)


def test_steps_are_taken_where_no_line_will_do():
    honest, spoiled, labels = bent(4000, 0)
    again = Recalibration.fit(spoiled, labels)
    assert again.kind == "steps"
    _, fresh, truth = bent(4000, 1)
    assert calibration_error(again(fresh), truth) < 0.05 < 0.2 < calibration_error(fresh, truth)
    assert np.abs(again(spoiled) - honest).mean() < 0.05
    assert roc_auc_score(truth, again(fresh)) == pytest.approx(roc_auc_score(truth, fresh))
    # As good as isotonic regression, which is flat where this rises.
    other = IsotonicRegression(y_min=1e-3, y_max=1 - 1e-3, out_of_bounds="clip")
    theirs = other.fit(spoiled, labels).predict(fresh)
    assert log_loss(truth, again(fresh)) < log_loss(truth, theirs) + 0.002


def test_the_order_stays_also_beyond_the_steps():
    _, spoiled, labels = bent(4000, 0)
    again = Recalibration.fit(spoiled, labels)
    everything = np.r_[1e-12, np.linspace(1e-6, 1 - 1e-6, 9999), 1 - 1e-12]
    assert (np.diff(again(everything)) > 0).all()


def test_a_line_stays_where_it_is_enough_and_few_rows_have_no_steps():
    kinds = [Recalibration.fit(*two_classes(4000, seed)[1:]).kind for seed in range(4)]
    assert kinds.count("line") >= 3
    assert Recalibration.fit(*bent(150, 0)[1:]).kind != "steps"


def test_rows_without_weight_have_no_say():
    _, spoiled, labels = bent(1000, 3)
    found = Recalibration.fit(spoiled, labels)
    more = np.r_[spoiled, np.full(500, 0.999)], np.r_[labels, np.zeros(500)]
    assert Recalibration.fit(*more, np.repeat([1.0, 0.0], [1000, 500])) == found


def test_steps_go_through_a_file():
    found = Recalibration.fit(*bent(1000, 3)[1:])
    assert found.kind == "steps"
    assert Recalibration.from_dict(found.to_dict()) == found
    assert Recalibration.from_dict({"slope": 0.5, "shift": 1.0}) == Recalibration(0.5, 1.0)
    assert np.isnan(found(np.array([np.nan])))
