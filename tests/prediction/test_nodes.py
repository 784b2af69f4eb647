"""Node models: their file, their scores, the scaling of features."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gad.operators.sparse import to_csr
from gad.prediction.nodes import (
    NodeModel,
    confusion,
    load_node_model,
    node_scores,
    renamed,
    scale_of,
    scaled,
)
from gad.prediction.sealed import ModelFileError
from gad.settings.nodes import NodeSettings, build_node_model
from tests.node_graphs import two_groups


def model(**settings) -> NodeModel:
    torch.manual_seed(0)
    chosen = NodeSettings(channels=8, layers=1, **settings)
    scale = scale_of(two_groups().x) if chosen.scale == "standard" else torch.zeros(2, 0)
    network = build_node_model(chosen, 5, 2)
    return NodeModel(network, chosen, ("even", "odd"), 5, (), scale, notes={"a": 1})


@pytest.mark.parametrize(
    "settings", [{}, {"scale": "standard"}, {"model": "gat"}, {"directions": True, "norm": "batch"}]
)
def test_a_model_comes_back_as_it_was(settings, tmp_path):
    one = model(**settings)
    one.save(tmp_path / "model.gad")
    other = load_node_model(tmp_path / "model.gad")
    assert other.card() == one.card()
    graph = two_groups()
    torch.testing.assert_close(other.probabilities(graph), one.probabilities(graph))


def test_a_card_that_asks_for_more_than_the_file_holds_is_refused(tmp_path):
    one = model()
    large = replace(one, settings=replace(one.settings, channels=100_000))
    large.save(tmp_path / "model.gad")
    with pytest.raises(ModelFileError, match="describes a model it does not hold"):
        load_node_model(tmp_path / "model.gad")
    other = replace(one, settings=replace(one.settings, norm="batch"))
    other.save(tmp_path / "model.gad")
    with pytest.raises(ModelFileError, match="is damaged or not a model"):
        load_node_model(tmp_path / "model.gad")


def test_weights_that_are_no_numbers_are_refused(tmp_path):
    one = model()
    with torch.no_grad():
        one.network.head.bias[0] = float("nan")
    one.save(tmp_path / "model.gad")
    with pytest.raises(ModelFileError, match="not finite"):
        load_node_model(tmp_path / "model.gad")


def test_a_graph_with_other_features_is_refused():
    graph = two_groups()
    with pytest.raises(ValueError, match="has 3 features for each node; the model was trained"):
        model().probabilities(replace(graph, x=graph.x[:, :3]))
    named = replace(model(), features=("a", "b", "c", "d", "e"))
    with pytest.raises(ValueError, match="the model wants the features e"):
        named.probabilities(replace(graph, features=("a", "b", "c", "d", "f")))


def test_features_are_scaled_the_same_sparse_and_dense():
    x = torch.tensor([[2.0, 0.0, 6.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    rows = torch.tensor([[0.25, 0.0, 0.75], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    none = torch.zeros(2, 0)
    torch.testing.assert_close(scaled(x, "rows", none), rows)
    torch.testing.assert_close(scaled(to_csr(x), "rows", none).to_dense(), rows)
    standard = scaled(to_csr(x), "standard", scale_of(to_csr(x)))
    torch.testing.assert_close(standard.mean(0), torch.zeros(3), atol=1e-6, rtol=0)
    torch.testing.assert_close(standard.std(0, correction=0), torch.ones(3))
    constant = torch.ones(4, 1)
    assert scaled(constant, "standard", scale_of(constant)).tolist() == [[0.0]] * 4


def test_scores_by_hand():
    y = torch.tensor([0, 1, 1, 0])
    p = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.8, 0.2]])
    found = node_scores(y, p)
    assert found["accuracy"] == 0.75
    assert found["roc_auc"] == 1.0
    assert found["macro_f1"] == pytest.approx((0.8 + 2 / 3) / 2)
    assert found["log_loss"] == pytest.approx(
        -float(torch.tensor([0.9, 0.6, 0.3, 0.8]).log().mean())
    )
    assert confusion(y, p) == [[2, 0], [1, 1]]
    assert node_scores(y[:1], p[:1])["roc_auc"] is None
    assert node_scores(y[:0], p[:0])["accuracy"] is None


def test_classes_are_known_by_their_names():
    graph = replace(two_groups(), classes=("odd", "new"), y=torch.tensor([0, 1, -1]))
    assert renamed(graph, ("even", "odd")).tolist() == [1, -1, -1]
