"""Settings of node models."""

from __future__ import annotations

import pytest

from gad.settings.nodes import NODE_MODELS, NodeSettings, build_node_model
from gad.settings.recipe import RecipeError


def test_text_is_read_by_the_type_of_its_key():
    changed = NodeSettings().override(
        {"layers": "3", "residual": "no", "time": "2.5", "filters": "mean, dx", "model": "gat"}
    )
    assert (changed.layers, changed.residual, changed.time) == (3, False, 2.5)
    assert changed.filters == ("mean", "dx")
    assert NodeSettings().override(changed.to_dict()) == changed


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"layer": 3}, r"unknown key 'layer' \(did you mean 'layers'\?\)"),
        ({"layers": "two"}, "layers wants a whole number, not 'two'"),
        ({"residual": "perhaps"}, "residual wants true or false"),
        ({"dropout": "much"}, "dropout wants a number"),
        ({"dropout": 1}, "dropout = 1.0 is out of range: 0 to 0.99"),
        ({"model": "gad"}, r"model = 'gad' is not known \(did you mean 'gad-"),
        ({"filters": "max"}, "filters = 'max' is not known"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(change, said):
    with pytest.raises(RecipeError, match=said):
        NodeSettings().override(change)


def test_directions_add_the_derivative_and_ask_for_a_field():
    plain, directed = NodeSettings(), NodeSettings(directions=True)
    assert (plain.used_filters, plain.needs_directions) == (("mean",), False)
    assert (directed.used_filters, directed.needs_directions) == (("mean", "dx"), True)
    assert not NodeSettings(directions=True, model="gcn").needs_directions
    assert not NodeSettings(directions=True, layers=0).needs_directions


@pytest.mark.parametrize("model", NODE_MODELS)
def test_every_model_can_be_built_with_and_without_layers(model):
    for layers in (0, 2):
        network = build_node_model(NodeSettings(model=model, layers=layers, channels=8), 5, 3)
        assert sum(p.numel() for p in network.parameters()) > 0
