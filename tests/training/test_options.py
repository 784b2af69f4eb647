"""Options of the network, from SMILES to a model file, predictions and explanations."""

from __future__ import annotations

import numpy as np
import pytest

import gad
from gad.nn import count_parameters
from gad.settings.model import Inputs, build_model
from gad.settings.recipe import Recipe

RINGS = ["C1CC1C", "c1ccccc1O", "C12C3C4C1C5C2C3C45", "CCO", "C1CC2CCC1C2", "[Na+].[Cl-]", "C"]
OPTIONS = {
    "pairs": {"pair_heads": 2},
    "bond states": {"bond_states": True},
    "bond walk": {"bond_walk": 5, "value_norm": True},
    "rings": {"ring_channels": 4},
    "all of them": {"pair_heads": 2, "bond_states": True, "bond_walk": 5, "ring_channels": 4},
}
EVERY = OPTIONS | {"messages": {"messages": "nonlinear"}}  # which add no weights


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_that_is_off_changes_nothing(name):
    """No weight more, and the same random numbers for those that are there."""
    off = Recipe.of(width=20, towers=2)
    on = off.override(OPTIONS[name])
    plain, more = (
        build_model(r, Inputs((28,), 0, (4,), 0, r.molecules.bond_walk), 1) for r in (off, on)
    )
    assert plain.between is None
    assert count_parameters(more) > count_parameters(plain)
    if not on.molecules.bond_walk:  # which has another encoder
        assert set(plain.state_dict()) < set(more.state_dict())


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_from_smiles_to_a_model_file_and_back(name, tmp_path):
    settings = {"epochs": 2, "width": 20, "towers": 2, "layers": 2, "readout": "all"}
    targets = np.arange(4.0 * len(RINGS))
    run = gad.train(
        (RINGS * 4, targets), settings={**settings, **EVERY[name]}, recipe="quick",
        start_from="scratch", out=tmp_path / "run", baselines=False,
    )  # fmt: skip
    loaded = gad.load(tmp_path / "run" / "model.gad")
    wanted = run.model.predict(RINGS)
    assert np.isfinite(wanted).all()
    np.testing.assert_array_equal(loaded.predict(RINGS), wanted)
    np.testing.assert_allclose(loaded.predict(["C1C2CC(C1)CC2"]), wanted[4], rtol=0, atol=1e-4)
    found = loaded.explain(RINGS)
    for why, value in zip(found, wanted, strict=True):
        told = why.baseline + why.atoms.sum(0) + why.whole
        np.testing.assert_allclose(told, value.reshape(-1), rtol=0, atol=1e-4)
    again = gad.train(
        (RINGS * 4, targets), start_from=tmp_path / "run" / "model.gad", out=tmp_path / "more",
        settings={"epochs": 1}, baselines=False,
    )  # fmt: skip
    kept = again.model.model.recipe.to_dict()
    assert all(kept[key] == value for key, value in EVERY[name].items())
