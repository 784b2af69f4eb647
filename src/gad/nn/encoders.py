"""Encoders: from what is known of nodes and edges to C channels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gad.nn.norm import BatchNorm


class CategoricalEncoder(nn.Module):
    """The sum of one embedding for each categorical column.

    Args:
        cardinalities: the number of categories of each of the F columns.
        channels: C.

    Shapes: integers [N, F] (or [N] for one column) → [N, C].

    Example:
        >>> CategoricalEncoder([28], 4)(torch.tensor([0, 3])).shape
        torch.Size([2, 4])
    """

    sizes: Tensor
    first: Tensor

    def __init__(self, cardinalities: Sequence[int], channels: int) -> None:
        super().__init__()
        sizes = torch.tensor(list(cardinalities))
        self.cardinalities = tuple(cardinalities)
        self.weight = nn.Parameter(torch.empty(sum(self.cardinalities), channels))
        self.register_buffer("sizes", sizes, persistent=False)
        self.register_buffer("first", sizes.cumsum(0) - sizes, persistent=False)
        nn.init.normal_(self.weight, std=len(self.cardinalities) ** -0.5)

    def forward(self, categories: Tensor) -> Tensor:
        """Embed and sum."""
        columns = len(self.cardinalities)
        index = categories.reshape(categories.shape[0], columns).to(torch.int64)
        if not torch.compiler.is_compiling():
            self._check(index)
        return F.embedding_bag(index + self.first, self.weight, mode="sum")

    def _check(self, index: Tensor) -> None:
        """Refuse a category that is not there: it would read another column's embedding."""
        outside = (index < 0) | (index >= self.sizes)
        if bool(outside.any()):
            row, column = outside.nonzero()[0].tolist()
            raise ValueError(
                f"row {row} has category {int(index[row, column])} in column {column}, "
                f"which has {self.cardinalities[column]} categories"
            )


class FeatureEncoder(nn.Module):
    """Categories and real values together: the sum of embeddings plus a linear map of the values.

    Args:
        cardinalities: the number of categories of each categorical column.
        values: the number V of real-valued columns, 0 for none.
        channels: C.
        norm: batch norm of the values first, for columns of very different size.

    Shapes: (integers [N, F], reals [N, V]) → [N, C].
    """

    def __init__(
        self, cardinalities: Sequence[int], values: int, channels: int, *, norm: bool = False
    ) -> None:
        super().__init__()
        self.categories = CategoricalEncoder(cardinalities, channels)
        self.norm = BatchNorm(values) if values and norm else None
        self.values = nn.Linear(values, channels, bias=False) if values else None

    def forward(self, features: tuple[Tensor, Tensor]) -> Tensor:
        """Embed both parts and add them."""
        categories, values = features
        encoded: Tensor = self.categories(categories)
        if self.values is not None:
            values = values.to(encoded.dtype)
            values = values if self.norm is None else self.norm(values)
            encoded = encoded + self.values(values)
        return encoded
