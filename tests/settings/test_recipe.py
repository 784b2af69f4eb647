from __future__ import annotations

import pytest

from gad.nn.aggregation import AGGREGATORS
from gad.settings.model import preparation_of
from gad.settings.recipe import (
    Recipe,
    RecipeError,
    load_recipe,
    parse_setting,
    recipe_names,
    shipped,
)
from gad.settings.sections import all_settings


def test_every_shipped_recipe_can_be_read():
    assert "default" in recipe_names()
    for name in recipe_names():
        assert isinstance(load_recipe(name), Recipe)


def test_text_is_read_as_the_type_of_its_key():
    recipe = Recipe().override(
        {"epochs": "3", "learning_rate": "2e-4", "edges": "false", "aggregators": "[mean, 'dx']"}
    )
    assert (recipe.training.epochs, recipe.training.learning_rate, recipe.model.edges) == (
        3,
        2e-4,
        False,
    )
    assert recipe.model.aggregators == ("mean", "dx")


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"epoch": 3}, "did you mean 'epochs'"),
        ({"epochs": "many"}, "a whole number"),
        ({"epochs": "1.5"}, "a whole number"),
        ({"epochs": True}, "a whole number"),
        ({"dropout": "lots"}, "a number"),
        ({"edges": "perhaps"}, "true or false"),
        ({"scheme": "implict"}, "did you mean 'implicit'"),
        ({"aggregators": "mean,median"}, "median"),
        ({"epochs": 0}, "out of range"),
        ({"learning_rate": "nan"}, "out of range"),
        ({"width": 21, "towers": 5}, "multiple of towers"),
        ({"width": 25, "pair_heads": 4}, "multiple of towers and pair_heads together = 20"),
        ({"pair_heads": 5, "scheme": "none"}, "needs network = 'gad' and a scheme"),
        ({"bond_states": True, "edges": False}, "bond_states needs"),
        ({"bond_walk": 4, "edges": False}, "bond_walk is about the bonds"),
        ({"ring_channels": 4, "network": "gin"}, "ring_channels needs"),
        ({"bond_walk": 4, "k": 4}, "bond_walk needs the whole eigenbasis"),
        ({"bond_states": True, "network": "gin"}, "bond_states needs"),
        ({"pair_heads": 5, "network": "gin"}, "needs network = 'gad' and a scheme"),
        ({"width": 0}, "budget"),
        ({"k": 5, "random_walk": 4}, "whole eigenbasis"),
    ],
)
def test_a_mistake_is_named(changes, hint):
    with pytest.raises(RecipeError, match=hint):
        Recipe().override(changes)


def test_round_trip():
    recipe = Recipe().override({"epochs": 7, "aggregators": "mean,av"})
    assert Recipe.from_dict(recipe.to_dict()) == recipe


def test_files(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('epochs = 5\nscheme = "spectral"\n', encoding="utf-8")
    assert load_recipe(path) == Recipe.of(epochs=5, scheme="spectral")
    path.write_text("epochs = = 5", encoding="utf-8")
    with pytest.raises(RecipeError, match="not TOML"):
        load_recipe(path)
    with pytest.raises(RecipeError, match="cannot read"):
        load_recipe(tmp_path / "nothing.toml")
    with pytest.raises(RecipeError, match="did you mean 'default'"):
        load_recipe("defualt")


def test_sections_and_flat_keys_say_the_same(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[model]\nwidth = 60\n[training]\nepochs = 5\n", encoding="utf-8")
    recipe = load_recipe(path)
    assert recipe == Recipe.of(width=60, epochs=5)
    assert Recipe.from_dict(recipe.to_sections()) == recipe
    assert recipe.to_sections()["model"]["width"] == recipe.to_dict()["width"] == 60
    path.write_text("[model]\nepochs = 5\n", encoding="utf-8")
    with pytest.raises(RecipeError, match=r"epochs belongs into \[training\]"):
        load_recipe(path)
    path.write_text("[trainng]\nepochs = 5\n", encoding="utf-8")
    with pytest.raises(RecipeError, match="unknown key 'trainng'"):
        load_recipe(path)
    path.write_text("[training]\nepoch = 5\n", encoding="utf-8")
    with pytest.raises(RecipeError, match="did you mean 'epochs'"):
        load_recipe(path)
    path.write_text("model = 3\n", encoding="utf-8")
    with pytest.raises(RecipeError, match="model is a section"):
        load_recipe(path)


def test_every_shipped_recipe_is_in_sections():
    for name in recipe_names():
        lines = [line for line in shipped(name).splitlines() if line and line[0] != "#"]
        assert lines[0].startswith("["), name


def test_every_setting_has_a_meaning_and_a_default_that_is_allowed():
    assert len(all_settings()) == sum(len(part) for part in Recipe().to_sections().values())
    for key, setting in all_settings().items():
        assert setting.meaning[-1] != ".", key
        setting.check(setting.default)
        assert setting.read(setting.default, "here") == setting.default


def test_molecules_are_prepared_as_the_recipe_says():
    """Every setting of molecules changes what is prepared: none is forgotten on the way."""
    usual = preparation_of(Recipe())
    others = {
        "explicit_hydrogens": True, "descriptors": False, "k": 5, "random_walk": 3, "cycles": 4,
        "bond_walk": 2,
        "laplacian": "combinatorial", "field": "transposed", "standardise": ("fragment",),
    }  # fmt: skip
    assert set(others) == set(Recipe().to_sections()["molecules"])
    for key, value in others.items():
        assert preparation_of(Recipe.of(**{key: value})) != usual, key


def test_an_aggregator_of_ones_own_can_be_named(monkeypatch):
    assert set(all_settings()["aggregators"].choices) <= set(AGGREGATORS)
    with pytest.raises(RecipeError, match="aggregators = 'range' is not known; choose from mean,"):
        Recipe.of(aggregators="mean,range")
    monkeypatch.setitem(AGGREGATORS, "range", AGGREGATORS["max"])
    assert Recipe.of(aggregators="mean,range").model.aggregators == ("mean", "range")
    with pytest.raises(RecipeError, match="did you mean 'range'"):
        Recipe.of(aggregators="mean,rnge")


def test_settings_are_key_and_value():
    assert parse_setting(" epochs = 3 ") == ("epochs", "3")
    with pytest.raises(RecipeError, match="key=value"):
        parse_setting("epochs")
