"""The scikit-learn estimators: weights, features, bounds, intervals, sets."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import gad
from gad.data.known import load_esol
from tests.conftest import TINY

SETTINGS = {key: value for key, value in TINY.items() if key != "epochs"}
SMILES, VALUES = list(load_esol().smiles[:200]), load_esol().targets[:200, 0]


def regressor(**changes) -> gad.MoleculeRegressor:
    return gad.MoleculeRegressor(**{"epochs": 1, "settings": SETTINGS, **changes})


@pytest.mark.slow
def test_intervals_hold_most_truths_and_are_missing_for_what_cannot_be_read():
    model = regressor(epochs=3).fit(SMILES, VALUES)
    lower, upper = model.predict_interval(SMILES)
    assert lower.shape == upper.shape == VALUES.shape
    held = np.mean((lower <= VALUES) & (upper >= VALUES))
    assert held > 0.75
    middle = model.predict(SMILES)
    np.testing.assert_allclose((lower + upper) / 2, middle, rtol=1e-6, atol=1e-6)
    assert np.isnan(model.predict_interval(["not a molecule", "CCO"])[0]).tolist() == [True, False]
    with pytest.raises(ValueError, match="too few rows"):
        regressor().fit(SMILES[:40], VALUES[:40]).predict_interval(["CCO"])


def test_weights_decide_what_is_learned():
    """Rows of weight 0 might as well not be there."""
    wrong = np.where(np.arange(200) % 2 == 0, VALUES, 1000.0)
    weights = np.where(np.arange(200) % 2 == 0, 1.0, 0.0)
    told = regressor().fit(SMILES, wrong, sample_weight=weights).predict(SMILES)
    assert np.abs(told).max() < 50
    with pytest.raises(ValueError, match="weights"):
        regressor().fit(SMILES, VALUES, sample_weight=[1.0])


@pytest.mark.slow
def test_features_come_as_columns_or_apart():
    extra = np.stack([VALUES, np.zeros(200)], axis=1)
    table = np.column_stack([np.array(SMILES, dtype=object), extra])
    as_columns = regressor().fit(table, VALUES)
    apart = regressor().fit(SMILES, VALUES, features=extra)
    assert as_columns.n_features_in_ == 3
    np.testing.assert_allclose(
        as_columns.predict(table[:9]), apart.predict(SMILES[:9], features=extra[:9]), rtol=1e-6
    )
    changed = apart.predict(SMILES[:9], features=extra[:9] + 3)
    assert not np.allclose(changed, as_columns.predict(table[:9]))
    with pytest.raises(ValueError, match="feature"):
        apart.predict(SMILES[:9])


@pytest.mark.slow
def test_bounds_and_orders_of_magnitude():
    labels = [">10" if value > -1 else f"{10**value:.6g}" for value in VALUES]
    labels[3] = ""
    model = regressor(transform="log10", metric="RMSE", merge_duplicates="mean").fit(SMILES, labels)
    (target,) = model.model_.model.task.targets
    assert target.transform == "log10"
    assert (model.predict(SMILES) > 0).all()
    lower, upper = model.predict_interval(SMILES[:20])
    assert (lower > 0).all()
    assert (lower < upper).all()
    assert model.model_.trust.neighbours is not None
    assert ">10" in {near.values[0] for near in _nearest(model)}
    assert clone(model).get_params()["transform"] == "log10"


def _nearest(model):
    rows = model.model_.predict_detailed(SMILES, neighbours=1).neighbours
    return [row[0] for row in rows]


@pytest.mark.slow
def test_sets_are_of_the_classes_that_were_given():
    words = np.where(VALUES > -1, "high", np.where(VALUES > -3, "medium", "low"))
    model = gad.MoleculeClassifier(epochs=1, settings=SETTINGS).fit(SMILES, words)
    sets = model.predict_set([*SMILES[:20], "not a molecule"])
    assert sets[-1] is None
    assert all(set(own) <= {"high", "medium", "low"} for own in sets[:-1])
    numbers = gad.MoleculeClassifier(epochs=1, settings=SETTINGS).fit(SMILES, VALUES > -2)
    assert {name for own in numbers.predict_set(SMILES) for name in own} <= {False, True}
