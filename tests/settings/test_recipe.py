from __future__ import annotations

import pytest

from gad.settings.recipe import Recipe, RecipeError, load_recipe, parse_setting, recipe_names


def test_every_shipped_recipe_can_be_read():
    assert "default" in recipe_names()
    for name in recipe_names():
        assert isinstance(load_recipe(name), Recipe)


def test_text_is_read_as_the_type_of_its_key():
    recipe = Recipe().override(
        {"epochs": "3", "learning_rate": "2e-4", "edges": "false", "aggregators": "[mean, 'dx']"}
    )
    assert (recipe.epochs, recipe.learning_rate, recipe.edges) == (3, 2e-4, False)
    assert recipe.aggregators == ("mean", "dx")


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
    assert load_recipe(path) == Recipe(epochs=5, scheme="spectral")
    path.write_text("epochs = = 5", encoding="utf-8")
    with pytest.raises(RecipeError, match="not TOML"):
        load_recipe(path)
    with pytest.raises(RecipeError, match="cannot read"):
        load_recipe(tmp_path / "nothing.toml")
    with pytest.raises(RecipeError, match="did you mean 'default'"):
        load_recipe("defualt")


def test_settings_are_key_and_value():
    assert parse_setting(" epochs = 3 ") == ("epochs", "3")
    with pytest.raises(RecipeError, match="key=value"):
        parse_setting("epochs")
