"""Encoders: from what is known of nodes and edges to C channels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F


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

    first: Tensor

    def __init__(self, cardinalities: Sequence[int], channels: int) -> None:
        super().__init__()
        sizes = torch.tensor(list(cardinalities))
        self.cardinalities = tuple(cardinalities)
        self.weight = nn.Parameter(torch.empty(sum(self.cardinalities), channels))
        self.register_buffer("first", sizes.cumsum(0) - sizes, persistent=False)
        nn.init.normal_(self.weight, std=len(self.cardinalities) ** -0.5)

    def forward(self, categories: Tensor) -> Tensor:
        """Embed and sum."""
        index = categories.view(categories.shape[0], -1).to(torch.int64) + self.first
        return F.embedding_bag(index, self.weight, mode="sum")


class FeatureEncoder(nn.Module):
    """Categories and real values together: the sum of embeddings plus a linear map of the values.

    Args:
        cardinalities: the number of categories of each categorical column.
        values: the number V of real-valued columns, 0 for none.
        channels: C.

    Shapes: (integers [N, F], reals [N, V]) → [N, C].
    """

    def __init__(self, cardinalities: Sequence[int], values: int, channels: int) -> None:
        super().__init__()
        self.categories = CategoricalEncoder(cardinalities, channels)
        self.values = nn.Linear(values, channels, bias=False) if values else None

    def forward(self, features: tuple[Tensor, Tensor]) -> Tensor:
        """Embed both parts and add them."""
        categories, values = features
        encoded: Tensor = self.categories(categories)
        if self.values is not None:
            encoded = encoded + self.values(values.to(encoded.dtype))
        return encoded
