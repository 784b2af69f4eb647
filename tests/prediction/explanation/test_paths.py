"""Ways from the mean molecule: exact through a head, and kept whole by diffusion."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gad.data.store.molecules import read_molecules
from gad.nn.model import Head
from gad.prediction.explanation.paths import (
    Middle,
    mean_slopes,
    middle_of,
    spread,
    ways_of,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("norm", [False, True])
def test_slopes_are_integrated_gradients(norm):
    torch.manual_seed(0)
    head = Head(12, 2, norm=norm).double()
    if head.norm is not None:
        head(3 * torch.randn(50, 12, dtype=torch.float64) + 1)  # running statistics
        torch.nn.init.normal_(head.norm.weight)
        head.eval()
    start, ends = torch.randn(12, dtype=torch.float64), 4 * torch.randn(5, 12, dtype=torch.float64)
    found, steps = mean_slopes(head, start, ends), 4000
    expected = torch.zeros_like(found)
    for step in range(steps):
        at = (start + (step + 0.5) / steps * (ends - start)).requires_grad_()
        for output in range(2):
            gradient = torch.autograd.grad(head(at)[:, output].sum(), at)[0]
            expected[:, output] += gradient / steps
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-3)
    added = torch.einsum("gwr,gr->gw", found, ends - start)
    torch.testing.assert_close(added, head(ends) - head(start[None]))


def test_a_way_that_goes_nowhere_has_the_slope_of_its_place():
    torch.manual_seed(1)
    head, start = Head(8, 1).double(), torch.randn(8, dtype=torch.float64).requires_grad_()
    gradient = torch.autograd.grad(head(start[None]).sum(), start)[0]
    torch.testing.assert_close(
        mean_slopes(head, start.detach(), start.detach()[None])[0, 0], gradient
    )


def test_spreading_keeps_the_sum_of_each_component(plain):
    packed = read_molecules(["CCO.CC(=O)[O-].[Na+]", "C", "c1ccccc1CCO"], plain.model.preparation)
    values = torch.randn(len(packed.atoms), 2, dtype=torch.float64)
    moved = spread(plain, packed.operators, values)
    component = packed.operators.component
    for part in range(int(component.max()) + 1):
        own = component == part
        # The basis is kept in single precision.
        torch.testing.assert_close(moved[own].sum(0), values[own].sum(0), rtol=0, atol=1e-5)
    assert (moved - values).abs().max() > 0.1


def test_any_prediction_is_reached_from_anywhere(plain):
    """The sum is exact for a mean molecule that is none, and for a prediction that is bent."""
    packed = read_molecules(["CCO", "c1ccccc1C(=O)OC", "ClCCCl"], plain.model.preparation)
    mean = middle_of(plain, packed)
    off = Middle(mean.read * 0.3 + 0.1, mean.beside)

    def told(outputs):
        return torch.floor(10 * outputs.mean(0)) ** 3

    ways = ways_of(plain, packed, off, told)
    total = torch.zeros_like(ways.whole).index_add(0, packed.operators.batch, ways.atoms)
    outputs = plain.listen(packed).outputs
    np.testing.assert_allclose(ways.start + total + ways.whole, told(outputs), atol=1e-6)
