"""Batches of several processes: every row once, and nobody left out of a step."""

from __future__ import annotations

import pytest
import torch

from gad.chem.featurize import Featurizer
from gad.data.store.molecules import Preparation, read_molecules
from gad.training.batches import Batches, Labelled


@pytest.fixture(scope="module")
def labelled() -> Labelled:
    """Chains of 1 to 21 atoms; the label of a row is its number."""
    packed = read_molecules(["C" * n for n in range(1, 22)], Preparation(Featurizer()))
    return Labelled(packed, torch.arange(21.0)[:, None], torch.ones(21))


@pytest.mark.parametrize("world", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [1, 2, 4, 30])
@pytest.mark.parametrize("seed", [None, 7])
def test_the_shares_of_a_step_are_the_batch_of_one_process(labelled, world, size, seed):
    rows = torch.arange(21)
    whole = list(Batches(labelled, rows, size * world, seed=seed, epoch=3))
    shares = [
        Batches(labelled, rows, size, seed=seed, epoch=3, rank=rank, world=world)
        for rank in range(world)
    ]
    assert {len(batches) for batches in shares} == {len(whole)}
    for (_, targets, weights), *parts in zip(whole, *shares, strict=True):
        torch.testing.assert_close(torch.cat([part[1] for part in parts]), targets)
        torch.testing.assert_close(torch.cat([part[2] for part in parts]), weights)
        counts = [len(part[1]) for part in parts]
        assert max(counts) - min(counts) <= 1
        for molecules, own, _ in parts:
            assert molecules.operators.num_graphs == max(1, len(own))


def test_a_process_without_rows_goes_on_in_the_middle_too(labelled):
    batches = Batches(labelled, torch.arange(21), 5, seed=1, rank=1, world=2)
    given = list(batches)
    assert [len(targets) for _, targets, _ in given] == [5, 5, 0]
    batches.load_state_dict({"epoch": 0, "done": 2})
    [(molecules, targets, weights)] = list(batches)
    assert molecules.operators.num_graphs == 1
    assert targets.shape == (0, 1)
    assert weights.shape == (0,)
