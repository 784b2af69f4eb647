"""Fitting: resuming gives the same bits, schedules do what they say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gad.settings.model import build_model, inputs_of, preparation_of
from gad.settings.recipe import Recipe
from gad.settings.task import Scale, Task
from gad.training import fit as module
from gad.training.batches import Batches, Labelled
from gad.training.fit import fit
from gad.training.learner import Learner, rate

TINY = Recipe.of(width=12, layers=2, towers=2, epochs=3, batch_size=16, warmup=1, descriptors=False)


@pytest.fixture(scope="module")
def data(table):
    from gad.data.store.molecules import read_molecules

    smiles, labels = table
    smiles, labels = smiles[:60], labels[:60, None]
    task = Task.of(None, ("logS",), ("",), labels, "l1")
    scale = Scale.of(task, labels[:48], np.ones(48), torch.zeros(48, 0))
    packed = read_molecules(smiles, preparation_of(TINY))
    return task, Labelled(packed, task.to_model(labels, scale), torch.ones(60))


ROWS = {"train": torch.arange(48), "val": torch.arange(48, 60)}


def fresh(recipe):
    torch.manual_seed(0)
    return build_model(recipe, inputs_of(preparation_of(recipe)), 1)


def weights(fitted):
    return {name: tensor.clone() for name, tensor in fitted.model.state_dict().items()}


class KilledError(Exception):
    """Stands for a kill: raised right after a checkpoint was written."""


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["cosine", "plateau"])
@pytest.mark.parametrize("after", [1, 3, 5])
def test_a_run_that_is_cut_off_goes_on_to_the_same_bits(
    data, tmp_path, monkeypatch, schedule, after
):
    task, labelled = data
    recipe = TINY.override(
        {"schedule": schedule, "dropout": 0.1, "ema": 0.9, "plateau_patience": 0}
    )
    whole = fit(fresh(recipe), recipe, task, labelled, ROWS)
    monkeypatch.setattr(module, "CHECKPOINT_SECONDS", 0.0)
    saves = []
    original = module._Keeper.save

    def save(self, trainer):
        original(self, trainer)
        saves.append(self.path.stat().st_size)
        if len(saves) == after:
            raise KilledError

    monkeypatch.setattr(module._Keeper, "save", save)
    path = tmp_path / "state.ckpt"
    with pytest.raises(KilledError):
        fit(fresh(recipe), recipe, task, labelled, ROWS, checkpoint=path)
    resumed = fit(fresh(recipe), recipe, task, labelled, ROWS, checkpoint=path, resume=True)
    for name, tensor in weights(whole).items():
        torch.testing.assert_close(weights(resumed)[name], tensor, rtol=0, atol=0)
    losses = [[row["val_loss"] for row in f.curve] for f in (whole, resumed)]
    assert losses[0] == losses[1]


def test_the_best_epoch_is_kept_and_patience_stops(data):
    task, labelled = data
    recipe = TINY.override(
        {"epochs": 30, "patience": 2, "learning_rate": 0.05, "schedule": "constant"}
    )
    fitted = fit(fresh(recipe), recipe, task, labelled, ROWS)
    losses = [row["val_loss"] for row in fitted.curve]
    assert fitted.best_loss == min(losses)
    assert fitted.best_epoch == int(np.argmin(losses))
    assert len(losses) == fitted.best_epoch + 3 or len(losses) == 30
    total, weight = 0.0, 0.0
    with torch.no_grad():
        for batch, targets, each in Batches(labelled, ROWS["val"], 7, seed=None):
            loss, there = task.losses(fitted.model(**batch.inputs()), targets, each)
            total, weight = total + float(loss), weight + float(there)
    assert total / weight == pytest.approx(fitted.best_loss, rel=1e-5)


def test_the_curve_has_the_diffusion_times(data):
    task, labelled = data
    fitted = fit(fresh(TINY), TINY, task, labelled, ROWS)
    row = fitted.curve[-1]
    assert {"epoch", "train_loss", "val_loss", "lr", "seconds"} <= set(row)
    times = fitted.model.diffusions()[1].times
    assert row["time_min_1"] <= row["time_median_1"] <= row["time_max_1"]
    assert times.numel() == 12


def test_cosine_rises_and_falls():
    share = rate(TINY.override({"epochs": 10, "warmup": 2}).training, 5)
    values = [share(step) for step in range(50)]
    assert values[:10] == pytest.approx([(s + 1) / 10 for s in range(10)])
    assert max(values) == 1.0
    assert values[10:] == sorted(values[10:], reverse=True)
    assert values[-1] < 0.01


@pytest.mark.parametrize(("smoothing", "halved"), [(0.0, True), (0.9, False)])
def test_the_plateau_schedule_may_look_at_an_average(data, monkeypatch, smoothing, halved):
    """An epoch without a gain lowers the rate, unless the average goes on falling."""
    task, labelled = data
    recipe = TINY.override(
        {"schedule": "plateau", "plateau_patience": 0, "warmup": 0, "epochs": 4,
         "plateau_smoothing": smoothing, "minimum_rate": 0}
    )  # fmt: skip
    losses = iter([4.0, 1.0, 1.25, 1.25])
    original = Learner.on_validation_epoch_end

    def told(self):
        self.val_loss = [next(losses), 1.0]
        original(self)

    monkeypatch.setattr(Learner, "on_validation_epoch_end", told)
    curve = fit(fresh(recipe), recipe, task, labelled, ROWS).curve
    assert [row["val_loss"] for row in curve] == [4.0, 1.0, 1.25, 1.25]
    assert (curve[-1]["lr"] < 1e-3) == halved


def test_an_epoch_depends_on_seed_and_epoch_alone(data):
    _, labelled = data

    def order(seed, epoch):
        batches = Batches(labelled, torch.arange(60), 13, seed=seed)
        batches.set_epoch(epoch)
        return torch.cat([targets.flatten() for _, targets, _ in batches])

    torch.testing.assert_close(order(0, 3), order(0, 3), rtol=0, atol=0)
    assert not torch.equal(order(0, 3), order(0, 4))
    assert not torch.equal(order(0, 3), order(1, 3))
    torch.testing.assert_close(order(0, 3).sort().values, order(1, 4).sort().values)


def test_missing_labels_have_no_part(data):
    task, _ = data
    outputs = torch.tensor([[1.0], [5.0]], requires_grad=True)
    loss, weight = task.losses(outputs, torch.tensor([[0.0], [torch.nan]]), torch.ones(2))
    loss.backward()
    assert float(loss.detach()) == 1.0
    assert float(weight) == 1.0
    assert outputs.grad.tolist() == [[1.0], [0.0]]


@pytest.mark.slow
@pytest.mark.parametrize(("decay", "alike"), [(0.0, True), (0.5, False)])
def test_optimisers_differ_by_how_weights_decay(data, decay, alike):
    task, labelled = data
    recipe = TINY.override({"epochs": 1, "weight_decay": decay})
    fits = [
        fit(fresh(recipe), recipe.override({"optimizer": name}), task, labelled, ROWS)
        for name in ("adamw", "adam")
    ]
    ours, theirs = (weights(fitted)["blocks.0.across_towers.weight"] for fitted in fits)
    assert torch.equal(ours, theirs) == alike
