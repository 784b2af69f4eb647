"""The compiled trees beside their definition in PyTorch: the same leaves, the same sums."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from gad import native
from gad.prediction.blend import Trees

pytestmark = pytest.mark.skipif(not native.status().active, reason=native.status().reason)


def grown(trees: int, depth: int, columns: int, outputs: int, soft: float = 0.0) -> Trees:
    """Random trees of depth 0 to ``depth``: a node is a leaf with a chance of one in four."""
    rng = torch.Generator().manual_seed(depth)
    column, left, right = [], [], []

    def grow(left_over: int) -> int:
        here = len(column)
        column.append(int(torch.randint(columns, (), generator=rng)))
        left.append(here)
        right.append(here)
        if left_over and torch.rand((), generator=rng) > 0.25:
            left[here], right[here] = grow(left_over - 1), grow(left_over - 1)
        return here

    root = [grow(depth) for _ in range(trees)]
    return Trees(
        column=torch.tensor(column),
        left=torch.tensor(left),
        right=torch.tensor(right),
        threshold=torch.randn(len(column), generator=rng),
        value=torch.randn(len(column), generator=rng),
        root=torch.tensor(root),
        output=torch.randint(outputs, (trees,), generator=rng),
        start=torch.randn(outputs, generator=rng),
        depth=torch.tensor(depth),
        soft=soft * torch.rand(columns, generator=rng),
    )


def both(trees: Trees, x: Tensor) -> tuple[Tensor, Tensor]:
    """By the kernel, and by the definition."""
    assert trees._accepts(x)
    fast = trees(x)
    with native.plain():
        return fast, trees(x)


@pytest.mark.parametrize("rows", [1, 7, 8, 300])
@pytest.mark.parametrize("depth", [0, 1, 6])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("soft", [0.0, 0.1, 3.0])
def test_the_same_sums(rows, depth, outputs, soft):
    x = torch.randn(rows, 5, generator=torch.Generator().manual_seed(1))
    fast, plain = both(grown(20, depth, 5, outputs, soft), x)
    torch.testing.assert_close(fast, plain, rtol=1e-6, atol=3e-6)


def test_at_a_threshold_to_the_left_and_what_is_no_number_to_the_right():
    fork = Trees(
        column=torch.zeros(3, dtype=torch.int64),
        left=torch.tensor([1, 1, 2]),
        right=torch.tensor([2, 1, 2]),
        threshold=torch.tensor([0.5, 0.0, 0.0]),
        value=torch.tensor([0.0, -1.0, 1.0]),
        root=torch.tensor([0]),
        output=torch.tensor([0]),
        start=torch.tensor([10.0]),
        depth=torch.tensor(1),
        soft=torch.zeros(1),
    )
    x = torch.tensor([[0.5], [0.6], [torch.nan], [-torch.inf]])
    for found in both(fork, x):
        assert found.flatten().tolist() == [9.0, 11.0, 11.0, 9.0]
    x = torch.tensor([[0.0], [0.25], [0.5], [0.625], [0.75], [torch.nan]])
    for found in both(replace(fork, soft=torch.tensor([0.25])), x):
        assert found.flatten().tolist() == [9.0, 9.0, 10.0, 10.5, 11.0, 11.0]


def test_a_little_rounding_changes_little_where_thresholds_are_soft():
    trees = grown(50, 6, 5, 1, soft=0.2)
    x = torch.randn(2000, 5, generator=torch.Generator().manual_seed(2))
    x[:, 0] = trees.threshold[: len(trees.threshold)].repeat(100)[:2000]  # on thresholds
    moved = x + 1e-6 * torch.randn(x.shape, generator=torch.Generator().manual_seed(3))
    for one, other in zip(both(trees, x), both(trees, moved), strict=True):
        assert (one - other).abs().max() < 2e-3
    stepped = replace(trees, soft=torch.zeros(5))
    assert (stepped(x) - stepped(moved)).abs().max() > 0.1


def test_columns_may_lie_anywhere_in_memory():
    x = torch.randn(6, 40).T
    fast, plain = both(grown(10, 4, 6, 1), x)
    torch.testing.assert_close(fast, plain, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("part", ["column", "left", "right", "root", "output"])
@pytest.mark.parametrize("place", [-1, 10**6])
def test_trees_that_lead_out_of_themselves_are_refused(part, place):
    trees = grown(4, 3, 5, 1)
    damaged = getattr(trees, part).clone()
    damaged[-1] = place
    with pytest.raises(RuntimeError, match="trees"):
        replace(trees, **{part: damaged})(torch.zeros(2, 5))


def test_other_types_are_left_to_pytorch():
    trees = grown(4, 3, 5, 1)
    x = torch.zeros(2, 5)
    assert not trees._accepts(x.double())
    assert not replace(trees, left=trees.left.to(torch.int32))._accepts(x)
    assert not replace(trees, value=trees.value.double())._accepts(x)
    assert not replace(trees, value=trees.value[:-1])._accepts(x)
    assert not replace(trees, soft=trees.soft[:-1])._accepts(x)
