"""torch.compile keeps outputs and gradients."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.graphs import disjoint, molecule, ring
from tests.nn.samples import SCHEMES, collate, decorate, model, predict


# PyTorch's tracer does what PyTorch itself warns about.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.slow
def test_compiled_model_is_the_model():
    """Traced through, with gradients; generating machine code as well takes a minute and more."""
    batch = collate([decorate(disjoint(molecule(7), ring(5)))], dtype=torch.float64)
    net = model(10, layers=1, diffusion=SCHEMES["implicit"], aggregators=("max", "dx")).double()
    twin = copy.deepcopy(net)
    compiled = torch.compile(twin, backend="aot_eager")
    expected, y = predict(net, batch), compiled(batch.x, batch.operators, batch.edge_attr)
    torch.testing.assert_close(y, expected, rtol=1e-10, atol=1e-12)
    expected.square().sum().backward()
    y.square().sum().backward()
    gradients = {name: p.grad for name, p in twin.named_parameters()}
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-8, atol=1e-12)
