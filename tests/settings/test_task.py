"""What is learned: kinds of targets, the loss of bounds, and the way back to the user's numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gad.settings.task import Scale, Target, Task

MIXED = Task(
    (
        Target("logS"),
        Target("hit", "binary"),
        Target("level", "multiclass", classes=("high", "low", "mid")),
        Target("half", transform="log10"),
    )
)


def scale_of(task, labels):
    return Scale.of(task, labels, np.ones(len(labels)), torch.zeros(len(labels), 0))


def test_labels_decide_target_by_target():
    labels = np.array([[1.5, 0, 2, 1e-3], [2.5, 1, 0, 1e3], [np.nan, 1, 1, 1]])
    names, units = ("a", "b", "c", "d"), ("",) * 4
    classes = ((), (), ("x", "y", "z"), ())
    task = Task.of(None, names, units, labels, "l1", classes, "auto")
    assert [t.kind for t in task.targets] == ["regression", "binary", "multiclass", "regression"]
    assert [t.transform for t in task.targets] == ["none", "none", "none", "log10"]
    assert task.kind == "mixed"
    assert task.outputs == 6
    assert Task.from_dict(task.to_dict()) == task
    with pytest.raises(ValueError, match=r"'a' has 1\.5: for more than two classes"):
        Task.of("classification", names, units, labels, "l1", classes)


def test_there_and_back():
    labels = np.array([[1.0, 0, 2, 0.01], [3.0, 1, 0, 100.0]])
    scale = scale_of(MIXED, labels)
    learned = MIXED.to_model(labels, scale)
    assert learned[:, 1:3].tolist() == [[0, 2], [1, 0]]
    outputs = torch.zeros(2, 6)
    outputs[:, 0], outputs[:, 5] = learned[:, 0], learned[:, 3]
    outputs[0, 4] = 9.0
    values = MIXED.to_user(outputs, scale).numpy()
    np.testing.assert_allclose(values[:, [0, 5]], labels[:, [0, 3]], rtol=1e-5)
    np.testing.assert_allclose(values[:, 1], 0.5)
    np.testing.assert_allclose(values[:, 2:5].sum(1), 1)
    decided = MIXED.decide(values)
    assert decided[2].tolist() == ["mid", "high"]
    np.testing.assert_allclose(decided[3], [0.01, 100], rtol=1e-5)


@pytest.mark.parametrize("loss", ["l1", "mse", "huber"])
def test_a_bound_costs_nothing_on_its_own_side(loss):
    task, scale = Task((Target("y"),), loss), Scale(torch.tensor([[0.0], [1.0]]), torch.zeros(2, 0))
    labels, sides = np.array([[1.0], [1.0], [1.0], [np.nan]]), np.array([[1], [-1], [0], [0]])
    targets = task.to_model(labels, scale, sides.astype(np.int8))
    for value, costs in ((3.0, [False, True, True]), (-1.0, [True, False, True])):
        outputs = torch.full((4, 1), value, requires_grad=True)
        each = []
        for row in range(4):
            total, weight = task.losses(
                outputs[row : row + 1], targets[row : row + 1], torch.ones(1)
            )
            each.append(float(total.detach()))
            assert float(weight) == (row < 3)
        assert [cost > 0 for cost in each[:3]] == costs
        total, _ = task.losses(outputs, targets, torch.ones(4))
        total.backward()
        assert [bool(g) for g in outputs.grad[:3, 0]] == costs
        assert outputs.grad[3, 0] == 0
        # What is exact, or on the wrong side, costs what the same label without a sign would.
        plain, _ = task.losses(outputs[:1], torch.tensor([[1.0]]), torch.ones(1))
        assert max(each) == pytest.approx(float(plain.detach()))


def test_without_bounds_nothing_changes():
    task = Task((Target("a"), Target("b")))
    labels = np.array([[1.0, 2.0], [3.0, np.nan]])
    scale = scale_of(task, labels)
    plain = task.to_model(labels, scale)
    assert torch.equal(
        task.to_model(labels, scale, np.zeros((2, 2), np.int8)).nan_to_num(), plain.nan_to_num()
    )
    signs = np.array([[0, 0], [1, 0]], np.int8)
    assert task.to_model(labels, scale, signs).shape == (2, 2, 2)


def test_the_loss_of_mixed_targets_is_the_sum_of_theirs():
    torch.manual_seed(0)
    labels = np.array([[1.0, 0, 2, 0.01], [3.0, np.nan, 0, 100.0], [2.0, 1, np.nan, 1.0]])
    scale = scale_of(MIXED, labels)
    targets, outputs, weights = MIXED.to_model(labels, scale), torch.randn(3, 6), torch.rand(3)
    total, weight = MIXED.losses(outputs, targets, weights)
    parts = [
        Task((target,)).losses(outputs[:, span], targets[:, i : i + 1], weights)
        for i, (target, span) in enumerate(zip(MIXED.targets, MIXED.spans, strict=True))
    ]
    torch.testing.assert_close(total, sum(part[0] for part in parts))
    torch.testing.assert_close(weight, sum(part[1] for part in parts))
    assert weight < 4 * weights.sum()


def test_intervals_go_back_through_the_logarithm():
    task = Task((Target("half", transform="log10"), Target("hit", "binary")))
    lower, upper = task.around(np.array([[10.0, 0.3]]), np.array([0.5, np.nan]))
    np.testing.assert_allclose(lower, [[10**0.5, np.nan]])
    np.testing.assert_allclose(upper, [[10**1.5, np.nan]])
    found = task.residuals(np.array([[1.0, 1.0]]), np.array([[10.0, 0.3]]))
    np.testing.assert_allclose(found, [[1.0, np.nan]])


def test_auto_takes_logarithms_of_lopsided_labels_alone():
    rng = np.random.default_rng(0)
    normal = rng.normal(size=500)

    def chosen(labels):
        task = Task.of(None, ("y",), ("",), labels[:, None], "l1", transform="auto")
        return task.targets[0].transform

    assert chosen(np.exp(2 * normal)) == "log10"  # half-lives, over orders of magnitude
    assert chosen(np.append(np.exp(2 * normal), 0.0)) == "none"  # 0 has no logarithm
    assert chosen(10 + normal) == "none"
    assert chosen(np.exp(0.3 * normal)) == "none"  # lopsided, but within an order
    assert chosen(100 * rng.beta(5, 0.5, 500)) == "none"  # most lie above the rest
    assert chosen(np.full(20, 3.0)) == "none"
