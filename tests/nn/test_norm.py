"""BatchNorm is torch.nn.BatchNorm1d on column-major activations."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gad.nn import BatchNorm
from gad.nn.norm import synchronise

LAYOUTS = pytest.mark.parametrize("column_major", [True, False], ids=["columns", "rows"])


def twins(channels: int, dtype: torch.dtype, **options) -> tuple[BatchNorm, nn.BatchNorm1d]:
    """Both layers with the same random parameters and statistics."""
    torch.manual_seed(0)
    ours = BatchNorm(channels, **options).to(dtype)
    theirs = nn.BatchNorm1d(channels, **options).to(dtype)
    with torch.no_grad():
        ours.weight.normal_()
        ours.bias.normal_()
        ours.running_mean.normal_()
        ours.running_var.uniform_(0.1, 3)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def activations(nodes: int, channels: int, dtype: torch.dtype, column_major: bool):
    """The same values twice, as leaves; the channels differ widely in mean and scale."""
    scale = torch.logspace(-2, 2, channels, dtype=dtype)
    x = (torch.randn(nodes, channels, dtype=dtype) + 1) * scale
    ours = x.t().contiguous().t() if column_major else x.clone()
    return ours.requires_grad_(), x.requires_grad_()


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("options", [{}, {"eps": 1e-2, "momentum": 0.5}], ids=["default", "other"])
@pytest.mark.parametrize("nodes", [2, 3, 1000])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@LAYOUTS
def test_equals_torch(nodes, dtype, training, options, column_major):
    tolerance = {torch.float64: 1e-10, torch.float32: 2e-5}[dtype]
    ours, theirs = (layer.train(training) for layer in twins(7, dtype, **options))
    for _ in range(3):
        a, b = activations(nodes, 7, dtype, column_major)
        y, expected = ours(a), theirs(b)
        torch.testing.assert_close(y, expected, rtol=tolerance, atol=tolerance)
        pull = torch.randn_like(expected)
        (y * pull).sum().backward()
        (expected * pull).sum().backward()
        # Of two nodes nearly nothing is left of γ/σ · (g − mean g − ξ · mean gξ): what counts is
        # the size of the terms.
        var = b.detach().var(0, correction=0) if training else theirs.running_var
        size = (theirs.weight.detach() * (var + theirs.eps).rsqrt()).abs() * pull.abs().amax(0)
        torch.testing.assert_close(a.grad / size, b.grad / size, rtol=0, atol=tolerance)
    for mine, yours in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, yours.grad, rtol=tolerance, atol=10 * tolerance)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(
            ours.state_dict()[name], value, rtol=tolerance, atol=tolerance, msg=name
        )


@LAYOUTS
def test_gradcheck(column_major):
    ours, _ = twins(3, torch.float64)
    x, _ = activations(5, 3, torch.float64, column_major)
    inputs = (x, ours.weight, ours.bias)
    assert torch.autograd.gradcheck(lambda *_: ours(x), inputs)


def test_one_node_is_normalised_to_the_bias():
    ours, _ = twins(4, torch.float32)
    x = torch.randn(1, 4, requires_grad=True)
    y = ours(x)
    torch.testing.assert_close(y, ours.bias[None], rtol=0, atol=0)
    y.sum().backward()
    assert x.grad.tolist() == [[0.0] * 4]
    for value in (*ours.state_dict().values(), ours.weight.grad, ours.bias.grad):
        assert torch.isfinite(value).all()
    assert torch.isfinite(ours.eval()(torch.randn(3, 4))).all()


def test_a_batch_of_none_teaches_nothing():
    norm = BatchNorm(3)
    norm(torch.zeros(0, 3)).sum().backward()
    for parameter in norm.parameters():
        assert parameter.grad is not None
        assert not parameter.grad.any()  # which NaN would be
    assert torch.equal(norm.running_var, torch.ones(3))


def test_a_constant_channel_is_normalised_to_the_bias():
    ours, _ = twins(2, torch.float32)
    y = ours(torch.full((50, 2), 1.0))
    torch.testing.assert_close(y, ours.bias.expand(50, 2), rtol=0, atol=1e-6)


def test_large_means_lose_nothing():
    """The variance is of centred values: a mean of 10⁴ does not drown a spread of 1."""
    ours = BatchNorm(1)
    x = torch.randn(4096, 1, dtype=torch.float64)
    expected = nn.BatchNorm1d(1).double()(x)
    y = ours((x + 1e4).float())
    torch.testing.assert_close(y.double(), expected, rtol=0, atol=2e-3)


def test_evaluation_changes_no_statistics():
    ours, _ = twins(3, torch.float32)
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    ours.eval()(torch.randn(20, 3))
    for name, value in ours.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def one_share(rank: int, shares: list[torch.Tensor], store: str, out: str) -> None:
    """What a process has of the norm over all: output, gradients, statistics."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=len(shares)
    )
    norm, _ = twins(3, torch.float64)
    own = shares[rank]
    # A process without rows has a stand-in, which nobody must notice.
    x = (own if len(own) else torch.full((2, 3), 7.0, dtype=own.dtype)).requires_grad_()
    synchronise(norm, float(len(own) > 0))
    y = norm(x)[: len(own)]
    (y**3).sum().backward()
    found = [y.detach(), x.grad[: len(own)], norm.running_mean, norm.running_var, norm.weight.grad]
    torch.save(found, f"{out}-{rank}")
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_several_processes_have_the_norm_of_all_their_nodes(tmp_path):
    norm, _ = twins(3, torch.float64)
    x = activations(11, 3, torch.float64, column_major=False)[1]
    y = norm(x)
    (y**3).sum().backward()
    shares = [x.detach()[:7], x.detach()[7:], x.detach()[11:]]
    arguments = (shares, str(tmp_path / "store"), str(tmp_path / "out"))
    torch.multiprocessing.spawn(one_share, arguments, nprocs=3)
    found = [torch.load(tmp_path / f"out-{rank}") for rank in range(3)]
    torch.testing.assert_close(torch.cat([own[0] for own in found]), y.detach())
    torch.testing.assert_close(torch.cat([own[1] for own in found]), x.grad)
    torch.testing.assert_close(sum(own[4] for own in found), norm.weight.grad)
    for _, _, mean, var, _ in found:
        torch.testing.assert_close(mean, norm.running_mean)
        torch.testing.assert_close(var, norm.running_var)
