"""Column-major linear maps are linear maps."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gad.nn import Linear
from gad.nn.columns import rearrange


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("column_major", [True, False], ids=["columns", "rows"])
@pytest.mark.parametrize("nodes", [1, 17])
def test_linear_equals_torch(bias, column_major, nodes):
    torch.manual_seed(0)
    ours, theirs = Linear(5, 3, bias=bias).double(), nn.Linear(5, 3, bias=bias).double()
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(nodes, 5, dtype=torch.float64)
    a = (x.t().contiguous().t() if column_major else x.clone()).requires_grad_()
    b = x.requires_grad_()
    y, expected = ours(a), theirs(b)
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)
    pull = torch.randn_like(expected)
    (y * pull).sum().backward()
    (expected * pull).sum().backward()
    torch.testing.assert_close(a.grad, b.grad, rtol=1e-12, atol=1e-12)
    for mine, yours in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, yours.grad, rtol=1e-12, atol=1e-12)


def test_linear_result_is_column_major():
    assert Linear(5, 3)(torch.randn(7, 5)).t().is_contiguous()


def test_linear_starts_as_torch_does():
    torch.manual_seed(3)
    ours = Linear(5, 3)
    torch.manual_seed(3)
    theirs = nn.Linear(5, 3)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=0, atol=0)


def test_rearrange_and_its_gradients():
    torch.manual_seed(0)
    index = torch.randperm(6)
    x = torch.randn(2, 6, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(rearrange(x, index, index.argsort()), x[:, index], rtol=0, atol=0)
    assert rearrange(x, None, None) is x
    assert torch.autograd.gradcheck(lambda v: rearrange(v, index, index.argsort()), x)
    assert torch.autograd.gradgradcheck(lambda v: rearrange(v, index, index.argsort()) ** 2, x)
