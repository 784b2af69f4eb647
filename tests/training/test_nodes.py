"""Training of node models: what is chosen, when it stops, what it keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gad.data.splits import Split
from gad.reporter import Reporter
from gad.settings.nodes import FEW_LABELS, MANY_LABELS, NodeSettings
from gad.training.nodes import _groups, fit_nodes, settings_for, train_nodes
from tests.node_graphs import two_groups

QUICK = NodeSettings(channels=8, layers=1, epochs=30, dropout=0.0)


def graph():
    return two_groups(120)


def test_few_labels_and_many_have_their_own_settings():
    g = two_groups(400)
    rows = torch.arange(400).numpy()
    assert settings_for(g, Split(rows[:40], rows[40:60], rows[60:])) == FEW_LABELS
    assert settings_for(g, Split(rows[:200], rows[200:300], rows[300:])) == MANY_LABELS


def test_the_best_epoch_is_kept_and_patience_ends_the_run():
    split, _ = graph().split(0, 0)
    settings = replace(QUICK, epochs=200, patience=5, learning_rate=0.1)
    fitted = fit_nodes(graph(), split, settings, metric="accuracy")
    assert len(fitted.curve) == fitted.best_epoch + 1 + settings.patience < settings.epochs
    best = fitted.curve[fitted.best_epoch]
    assert best["val_score"] == max(row["val_score"] for row in fitted.curve)
    at = torch.from_numpy(split.val)
    right = fitted.probabilities[at].argmax(1) == graph().y[at]
    assert float(right.float().mean()) == pytest.approx(best["val_score"])


def test_a_seed_decides_everything_and_the_users_random_state_is_left_alone():
    split, _ = graph().split(0, 0)
    torch.manual_seed(7)
    before = torch.get_rng_state()
    one, again = (fit_nodes(graph(), split, QUICK, metric="accuracy") for _ in range(2))
    torch.testing.assert_close(one.probabilities, again.probabilities, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), before)
    other = fit_nodes(graph(), split, replace(QUICK, seed=1), metric="accuracy")
    assert not torch.equal(one.probabilities, other.probabilities)


def test_test_nodes_play_no_part():
    g = graph()
    split, _ = g.split(0, 0)
    y = g.y.clone()
    y[torch.from_numpy(split.test)] = 1 - y[torch.from_numpy(split.test)]
    one = fit_nodes(g, split, QUICK, metric="accuracy")
    other = fit_nodes(replace(g, y=y), split, QUICK, metric="accuracy")
    torch.testing.assert_close(one.probabilities, other.probabilities, rtol=0, atol=0)


def test_times_norms_and_the_map_to_classes_are_not_decayed():
    settings = replace(QUICK, weight_decay=0.3, time_rate=0.5, learning_rate=0.02, smooth=True)
    split, _ = graph().split(0, 0)
    network = fit_nodes(graph(), split, replace(settings, epochs=1), metric="accuracy").network
    decayed, plain, times = _groups(network, settings)
    names = {id(p): name for name, p in network.named_parameters()}
    assert {names[id(p)] for p in decayed["params"]} == {
        "embed.weight", "blocks.0.mlp.0.weight", "blocks.0.mlp.4.weight",
    }  # fmt: skip
    assert decayed["weight_decay"] == 0.3
    assert "weight_decay" not in plain
    assert {names[id(p)] for p in times["params"]} == {
        "blocks.0.diffusion.raw_times", "smooth.raw_times",
    }  # fmt: skip
    assert times["lr"] == 0.01
    assert sum(len(g["params"]) for g in (decayed, plain, times)) == len(names)


def test_roc_auc_is_for_two_classes(tmp_path):
    g = graph()
    done = train_nodes(g, metric="roc_auc", settings={"epochs": 3}, out=tmp_path / "two")
    assert done.summary["metric"] == "roc_auc"
    assert 0 <= done.summary["metrics"]["test"]["roc_auc"] <= 1
    three = replace(g, y=torch.arange(120) % 3, classes=("a", "b", "c"))
    with pytest.raises(ValueError, match="roc_auc is for two classes; two groups has 3"):
        train_nodes(three, metric="roc_auc", out=tmp_path / "three")
    assert not (tmp_path / "three").exists()


def test_messages_are_heard_and_every_epoch_is_told(tmp_path):
    class Ear(Reporter):
        def __init__(self):
            self.messages, self.epochs = [], []

        def message(self, text):
            self.messages.append(text)

        def epoch(self, name, row, epochs):
            self.epochs.append((name, int(row["epoch"]), epochs))

    ear = Ear()
    train_nodes(graph(), settings={"epochs": 2}, out=tmp_path / "run", reporter=ear)
    assert any("60 %" in text for text in ear.messages)
    assert ear.epochs == [("two groups", 0, 2), ("two groups", 1, 2)]
