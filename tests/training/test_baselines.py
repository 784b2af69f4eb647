"""Baselines: honest fits on descriptors, missing labels, one computation per molecule, a cache."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from gad.chem import DESCRIPTOR_NAMES
from gad.data.known import load_esol
from gad.training import baselines
from gad.training.baselines import (
    DescriptorModel,
    descriptor_table,
    fit_baselines,
    mean_baseline,
)

NAN = math.nan


@pytest.fixture(scope="module")
def common(tmp_path_factory):
    """One cache for all tests here: descriptors are slow."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def away_from_home(common, monkeypatch):
    monkeypatch.setenv("GAD_CACHE", str(common))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, for even the fewest molecules."""
    monkeypatch.setenv("GAD_CACHE", str(tmp_path))
    monkeypatch.setattr(baselines, "_WORTH_A_FILE", 1)
    return tmp_path / "descriptors"


@pytest.fixture(scope="module")
def solubility():
    """240 molecules with measured solubilities: SMILES and labels of two parts."""
    table = load_esol()
    rows = np.random.default_rng(0).permutation(len(table))[:240]
    smiles = [table.smiles[row] for row in rows]
    labels = table.targets[rows]
    return {"train": smiles[:180], "test": smiles[180:]}, {
        "train": labels[:180],
        "test": labels[180:],
    }


# ------------------------------------------------------------------ the mean


def test_the_mean_leaves_out_missing_labels_and_obeys_weights():
    targets = [[1, 0, NAN], [3, NAN, NAN], [8, 1, NAN]]
    np.testing.assert_allclose(mean_baseline(targets), [4, 0.5, NAN])
    np.testing.assert_allclose(mean_baseline(targets, [1, 1, 0]), [2, 0, NAN])
    np.testing.assert_allclose(mean_baseline(targets, [1, 0, 3]), [6.25, 0.75, NAN])


@pytest.mark.slow
def test_the_mean_is_the_r2_of_zero(solubility):
    smiles, targets = solubility
    found = fit_baselines(smiles, targets, "regression", ["logS"])
    assert found["mean"]["train"]["mean"]["r2"] == pytest.approx(0, abs=1e-12)
    assert found["mean"]["train"]["mean"]["rmse"] == pytest.approx(targets["train"].std())


# ------------------------------------------------------------------ the ridge


@pytest.mark.slow
def test_the_ridge_learns_solubility_and_the_result_is_json(solubility):
    smiles, targets = solubility
    found = fit_baselines(smiles, targets, "regression", ["logS"])
    assert list(found) == ["mean", "ridge"]
    assert list(found["ridge"]) == ["train", "test"]
    ridge, mean = (found[kind]["test"]["targets"]["logS"] for kind in ("ridge", "mean"))
    assert ridge["n"] == mean["n"] == 60
    assert ridge["mae"] < 0.6 * mean["mae"]
    assert ridge["r2"] > 0.7
    assert json.loads(json.dumps(found, allow_nan=False)) == found


@pytest.mark.slow
def test_each_target_uses_the_rows_where_it_has_a_label(solubility):
    smiles, targets = solubility
    y = targets["train"][:, 0]
    gaps = np.arange(len(y)) % 3 == 0
    table = np.stack([np.where(gaps, NAN, y), y, np.full(len(y), NAN)], axis=1)
    predicted = DescriptorModel("regression").fit(smiles["train"], table).predict(smiles["test"])
    kept = [s for s, gap in zip(smiles["train"], gaps, strict=True) if not gap]
    # Standardisation sees all training molecules, so the fit on fewer rows differs a little.
    alone = DescriptorModel("regression").fit(kept, y[~gaps]).predict(smiles["test"])
    assert np.corrcoef(predicted[:, 0], alone[:, 0])[0, 1] > 0.999
    whole = DescriptorModel("regression").fit(smiles["train"], y).predict(smiles["test"])
    np.testing.assert_array_equal(predicted[:, 1], whole[:, 0])
    assert np.isnan(predicted[:, 2]).all()


@pytest.mark.slow
def test_a_row_of_weight_zero_does_not_teach(solubility):
    smiles, targets = solubility
    poisoned = targets["train"].copy()
    poisoned[:90] += 1000
    weights = np.repeat([0.0, 1.0], 90)
    found = fit_baselines(
        smiles,
        {**targets, "train": poisoned},
        "regression",
        ["logS"],
        weights_by_part={"train": weights},
    )
    assert found["ridge"]["test"]["mean"]["mae"] < 1.5
    assert found["mean"]["test"]["mean"]["mae"] < 3
    assert found["mean"]["train"]["targets"]["logS"]["n"] == 90


@pytest.mark.slow
def test_units_and_offsets_of_the_labels_do_not_matter(solubility):
    smiles, targets = solubility
    first, second = (
        DescriptorModel("regression")
        .fit(smiles["train"], 300 + scale * targets["train"])
        .predict(smiles["test"])
        for scale in (1, 1e-3)
    )
    np.testing.assert_allclose((second - 300) * 1e3, first - 300, rtol=1e-4, atol=1e-3)


# ------------------------------------------------------------------ classification


def test_logistic_regression_ranks_and_is_calibrated(solubility):
    smiles, targets = solubility
    labels = {part: (values > -3.0).astype(float) for part, values in targets.items()}
    labels["train"][::5] = NAN
    found = fit_baselines(smiles, labels, "classification", ["soluble"])
    ridge, mean = (found[kind]["test"]["targets"]["soluble"] for kind in ("ridge", "mean"))
    assert mean["roc_auc"] == 0.5
    assert ridge["roc_auc"] > 0.85
    assert ridge["log_loss"] < mean["log_loss"]


@pytest.mark.parametrize("labels", [[1, 1, 1, NAN], [0, 0, 0, 0], [0, 0, 1, NAN], [1, 0, NAN, NAN]])
def test_few_labels_or_one_class_do_not_stop_it(labels):
    train = ["C", "CC", "CCC", "CCCC"]
    predicted = DescriptorModel("classification").fit(train, labels).predict(["CO", "N"])
    assert ((predicted >= 0) & (predicted <= 1)).all()


@pytest.mark.parametrize("labels", [[1.0, NAN, NAN], [1.0, 3.0, NAN], [2.0, 2.0, 2.0]])
def test_too_few_labels_for_a_ridge_give_the_mean(labels):
    predicted = DescriptorModel("regression").fit(["C", "CC", "CCC"], labels).predict(["CO"])
    assert predicted.tolist() == [mean_baseline(labels).tolist()]


# ------------------------------------------------------------------ odd molecules


@pytest.mark.slow
def test_a_molecule_that_cannot_be_read_is_predicted_as_an_average_one(solubility):
    smiles, targets = solubility
    labels = np.vstack([targets["train"], [[NAN]]])
    model = DescriptorModel("regression").fit([*smiles["train"], "nonsense"], labels)
    predicted = model.predict(["nonsense", "C[Po]", "[Na+].[Cl-]", "C" * 300])
    assert np.isfinite(predicted).all()
    assert predicted[0, 0] == pytest.approx(targets["train"].mean(), abs=0.2)


def test_empty_parts_are_fine():
    found = fit_baselines(
        {"train": ["C", "CC", "CCC"], "val": []},
        {"train": [[1.0], [2.0], [3.0]], "val": np.empty((0, 1))},
        "regression",
        ["y"],
    )
    assert found["ridge"]["val"]["targets"]["y"]["n"] == 0


def test_an_unknown_task_is_refused():
    with pytest.raises(ValueError, match="not 'ranking'"):
        DescriptorModel("ranking")


# ------------------------------------------------------------------ descriptors, once


def test_every_distinct_molecule_is_described_once_and_progress_is_told(monkeypatch):
    seen: list[str] = []
    describe = baselines._describe
    monkeypatch.setattr(baselines, "_describe", lambda chunk: seen.extend(chunk) or describe(chunk))
    steps: list[int] = []
    table = descriptor_table(["CC", "C", "CC", "CCO"], steps.append)
    assert sorted(seen) == ["C", "CC", "CCO"]
    assert steps == [3]
    assert table.shape == (4, len(DESCRIPTOR_NAMES))
    np.testing.assert_array_equal(table[0], table[2])
    heavy = table[:, DESCRIPTOR_NAMES.index("HeavyAtomCount")]
    assert heavy.tolist() == [2, 1, 2, 3]


def test_the_second_time_is_read_from_disk_whatever_the_order(cache, monkeypatch):
    first = descriptor_table(["C", "CC"])
    [file] = cache.iterdir()
    monkeypatch.setattr(baselines, "_describe", lambda _: pytest.fail("computed again"))
    steps: list[int] = []
    np.testing.assert_array_equal(descriptor_table(["CC", "C", "C"], steps.append)[:2], first[::-1])
    assert steps == [2]
    assert list(cache.iterdir()) == [file]


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04", None])
def test_a_damaged_cache_is_made_again(cache, content):
    first = descriptor_table(["C", "CC"])
    [file] = cache.iterdir()
    file.write_bytes(file.read_bytes()[:-5] if content is None else content)
    np.testing.assert_array_equal(descriptor_table(["C", "CC"]), first)
    np.testing.assert_array_equal(np.load(file), first)


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("GAD_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(baselines, "_WORTH_A_FILE", 1)
    assert descriptor_table(["C"]).shape[0] == 1


def test_a_few_molecules_are_not_worth_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("GAD_CACHE", str(tmp_path))
    descriptor_table(["C", "CC"])
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_several_processes_give_the_same_as_one(monkeypatch, solubility):
    smiles = solubility[0]["train"][:40]
    alone = descriptor_table(smiles)
    monkeypatch.setattr(baselines, "_WORTH_PROCESSES", 10)
    monkeypatch.setattr(baselines, "CHUNK", 16)
    monkeypatch.setattr(baselines, "_read", lambda *_: None)
    steps: list[int] = []
    np.testing.assert_array_equal(descriptor_table(smiles, steps.append), alone)
    assert steps == [16, 32, 40]


@pytest.mark.slow
def test_classes_with_missing_labels(solubility):
    """Soluble beyond three limits; a third of the labels is missing, as in a panel of assays."""
    smiles, measured = solubility
    limits, rng = np.array([-4.0, -3.0, -2.0]), np.random.default_rng(0)
    labels = {part: (values > limits).astype(float) for part, values in measured.items()}
    for values in labels.values():
        values[rng.random(values.shape) < 1 / 3] = NAN
    names = ["above -4", "above -3", "above -2"]
    found = fit_baselines(smiles, labels, "classification", names)
    assert found["ridge"]["test"]["mean"]["roc_auc"] > 0.85
    assert found["mean"]["test"]["mean"]["roc_auc"] == 0.5
    scores = found["ridge"]["test"]["targets"]
    assert [scores[name]["n"] for name in names] == (~np.isnan(labels["test"])).sum(0).tolist()
