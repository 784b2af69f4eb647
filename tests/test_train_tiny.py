"""A model that can learn at all learns eight graphs by heart."""

from __future__ import annotations

import pytest
import torch

from gad.nn import decay_groups, mean_log_degree
from tests.graphs import molecules
from tests.nn.samples import SCHEMES, collate, decorate_all, model, predict, solubilities

pytestmark = pytest.mark.slow

STEPS = 250


def memorise(sample, **options) -> float:
    """Train on a few graphs; the mean absolute error as a share of the targets' spread."""
    batch = collate(sample)
    net = model(**{"layers": 2, "delta": mean_log_degree(batch.operators), **options})
    y = (batch.y - batch.y.mean()) / batch.y.std()
    optimiser = torch.optim.Adam(decay_groups(net, 0.0), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 5e-3, total_steps=STEPS)
    for _ in range(STEPS):
        optimiser.zero_grad()
        (predict(net, batch) - y).abs().mean().backward()
        optimiser.step()
        schedule.step()
    assert all((layer.times >= 0).all() for layer in net.diffusions())
    return float((predict(net, batch) - y).abs().mean().detach())


@pytest.mark.parametrize("diffusion", SCHEMES.values(), ids=list(SCHEMES))
def test_eight_random_graphs_are_learned_by_heart(diffusion):
    sample = decorate_all(molecules(8, smallest=5))
    assert memorise(sample, diffusion=diffusion) < 0.01


@pytest.mark.parametrize("scheme", SCHEMES)
def test_eight_real_molecules_are_learned_by_heart(scheme):
    assert memorise(solubilities(8), diffusion=SCHEMES[scheme]) < 0.01
