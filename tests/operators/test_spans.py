"""Spans of flat arrays: compiled, plain, and as written down."""

from __future__ import annotations

import pytest
import torch

from gad import native
from gad.operators.spans import Spans


@pytest.fixture(params=["compiled", "plain"])
def path(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(native, "accepts", lambda *_: False)
    elif native.library() is None:
        pytest.skip("there is no C compiler")


def spans(*pairs: tuple[int, int]) -> Spans:
    first, count = torch.tensor(pairs).T.contiguous()
    return Spans(first, count, int(count.sum()))


@pytest.mark.parametrize(
    "values",
    [
        torch.arange(20),
        torch.arange(20.0),
        torch.arange(40, dtype=torch.uint8).view(20, 2),
        torch.arange(60.0, dtype=torch.float64).view(3, 20).t(),
    ],
    ids=["numbers", "floats", "rows", "columns"],
)
def test_items_stand_one_after_another(path, values):
    chosen = spans((7, 2), (0, 3), (19, 1), (4, 0), (7, 2))
    expected = [7, 8, 0, 1, 2, 19, 7, 8]
    assert chosen.places.tolist() == expected
    torch.testing.assert_close(chosen.take(values), values[expected])


def test_numbers_become_smaller_by_span(path):
    values = torch.arange(10, 20)
    taken = spans((7, 2), (0, 1)).take_numbers(values, torch.tensor([7, 0]))
    assert taken.tolist() == [10, 11, 10]


def test_nothing_is_taken_of_nothing(path):
    assert spans((0, 0)).take(torch.empty(0)).shape == (0,)
