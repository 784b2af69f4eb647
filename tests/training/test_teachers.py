"""Labels mixed with what teachers say: on training rows only, of the same data only."""

from __future__ import annotations

import numpy as np
import pytest

import gad
from gad.data.rows import Source
from gad.settings.recipe import Recipe
from gad.training.dataset import load_dataset
from gad.training.teachers import taught
from tests.experiments.conftest import rings

SETTINGS = {"epochs": 2, "width": 8, "towers": 2, "layers": 1, "descriptors": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("teachers")
    for seed in (0, 1):
        run = gad.train(
            rings(), settings={**SETTINGS, "seed": seed}, recipe="quick", start_from="scratch",
            out=place / f"run{seed}", baselines=False,
        )  # fmt: skip
        (run.directory / "model.gad").rename(place / f"{seed}.gad")
    return place


def labels(share, where):
    recipe = Recipe.of(**SETTINGS, teachers=str(where), teacher_share=share)
    dataset = load_dataset(Source(rings()), recipe)
    return dataset, taught(recipe, dataset, dataset.fixed_split)


def test_training_rows_alone_are_mixed(folder):
    dataset, none = labels(0.0, folder)
    np.testing.assert_allclose(none, dataset.targets)
    _, half = labels(0.5, folder)
    _, whole = labels(1.0, folder)
    split = dataset.fixed_split
    for rows in (split.val, split.test):
        np.testing.assert_array_equal(whole[rows], dataset.targets[rows])
    np.testing.assert_allclose(half, (dataset.targets + whole) / 2)
    assert np.abs(whole - dataset.targets)[split.train].min() > 0
    alone = [labels(1.0, folder / f"{seed}.gad")[1] for seed in (0, 1)]
    np.testing.assert_allclose(np.mean(alone, axis=0)[split.train], whole[split.train])


def test_a_run_learns_from_them(folder, tmp_path):
    runs = [
        gad.train(
            rings(), settings={**SETTINGS, **more}, recipe="quick", start_from="scratch",
            out=tmp_path / str(number), baselines=False,
        )
        for number, more in enumerate([{}, {"teachers": str(folder)}])
    ]  # fmt: skip
    first, second = (run.summary["curve"][-1]["train_loss"] for run in runs)
    assert first != second


def test_teachers_that_would_give_rows_away_are_refused(folder):
    with pytest.raises(ValueError, match="neither a model file nor a folder"):
        labels(0.5, folder / "none.gad")
    recipe = Recipe.of(**SETTINGS, teachers=str(folder))
    other = load_dataset(Source(rings(30)), recipe)
    with pytest.raises(ValueError, match="was not trained on zinc as it is here"):
        taught(recipe, other, other.fixed_split)
    with pytest.raises(ValueError, match="come with their own split"):
        gad.train((["CCO", "CCN", "CCC"] * 6, np.arange(18.0)), settings={
            **SETTINGS, "teachers": str(folder)}, recipe="quick", start_from="scratch",
            out=folder / "table", baselines=False)  # fmt: skip
