"""Encoders: embeddings of categories, a linear map of values."""

from __future__ import annotations

import pytest
import torch

from gad.nn import CategoricalEncoder, FeatureEncoder


def test_categories_sum_one_embedding_per_column():
    torch.manual_seed(0)
    encoder = CategoricalEncoder([3, 5, 2], 4)
    categories = torch.tensor([[0, 0, 0], [2, 4, 1], [1, 3, 0]])
    tables = encoder.weight.split([3, 5, 2])
    expected = sum(table[categories[:, f]] for f, table in enumerate(tables))
    torch.testing.assert_close(encoder(categories), expected)
    assert encoder(categories).shape == (3, 4)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_one_column_may_be_a_vector_of_any_integers(dtype):
    encoder = CategoricalEncoder([7], 4)
    categories = torch.tensor([6, 0, 6], dtype=dtype)
    torch.testing.assert_close(encoder(categories), encoder.weight[[6, 0, 6]])
    torch.testing.assert_close(encoder(categories[:, None]), encoder.weight[[6, 0, 6]])


@pytest.mark.parametrize("columns", [(), (1,), (2,)], ids=["vector", "one", "two"])
def test_no_rows(columns):
    """A batch of single atoms has no bonds to encode."""
    encoder = CategoricalEncoder([3] * (sum(columns) or 1), 4)
    assert encoder(torch.zeros(0, *columns, dtype=torch.int64)).shape == (0, 4)


def test_a_slice_of_a_table_is_encoded():
    encoder = CategoricalEncoder([3, 3], 4)
    table = torch.randint(0, 3, (6, 5))
    torch.testing.assert_close(encoder(table[:, 1:3]), encoder(table[:, 1:3].contiguous()))
    torch.testing.assert_close(encoder(table.t()[1:3].t()), encoder(table[:, 1:3].contiguous()))


@pytest.mark.parametrize("row", [[3, 0], [-1, 0], [0, 4], [0, -1]])
def test_a_category_that_does_not_exist_is_refused(row):
    """It must not be read from the next column's table."""
    encoder = CategoricalEncoder([3, 4], 2)
    with pytest.raises((IndexError, ValueError, RuntimeError)):
        encoder(torch.tensor([[0, 0], row]))


def test_encodings_start_at_unit_variance():
    torch.manual_seed(0)
    encoder = CategoricalEncoder([50] * 9, 64)
    encoded = encoder(torch.randint(0, 50, (500, 9)))
    assert 0.9 < encoded.std().item() < 1.1


def test_features_add_a_linear_map_of_the_values():
    torch.manual_seed(0)
    encoder = FeatureEncoder([3, 2], 2, 4)
    categories, values = torch.tensor([[0, 1], [2, 0]]), torch.randn(2, 2, dtype=torch.float64)
    expected = encoder.categories(categories) + values.float() @ encoder.values.weight.t()
    torch.testing.assert_close(encoder((categories, values)), expected)
    encoder((categories, values)).sum().backward()
    assert all(p.grad is not None for p in encoder.parameters())


def test_features_without_values():
    encoder = FeatureEncoder([3], 0, 4)
    categories = torch.tensor([[0], [2]])
    expected = encoder.categories(categories)
    torch.testing.assert_close(encoder((categories, torch.zeros(2, 0))), expected)
