"""Spans of flat arrays, one after another: how graphs are chosen out of a packed set."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gad import native


@dataclass(frozen=True)
class Spans:
    """count[g] items from first[g] on, of every g [G]; ``total`` items in all.

    >>> spans = Spans(torch.tensor([4, 0]), torch.tensor([1, 2]), 3)
    >>> spans.take(torch.arange(10, 20))
    tensor([14, 10, 11])
    """

    first: Tensor
    count: Tensor
    total: int

    @cached_property
    def places(self) -> Tensor:
        """Where the items stand [total]."""
        if self._natively:
            places = self.count.new_empty(self.total)
            native.call("take_numbers", *self._spans, None, None, places)
            return places
        moved = self.each(self.first - self.count.cumsum(0) + self.count)
        return moved + torch.arange(self.total, device=moved.device)

    def each(self, values: Tensor) -> Tensor:
        """values[g] [G] for every item of g [total]."""
        return values.repeat_interleave(self.count, output_size=self.total)

    def take(self, values: Tensor) -> Tensor:
        """The items [total, …] of a flat array."""
        if not (self._natively and values.is_contiguous()):
            return values[self.places]
        taken = values.new_empty(self.total, *values.shape[1:])
        size = values.element_size() * values[:1].numel() if values.shape[0] else 0
        native.call("take_spans", *self._spans, size, values, taken)
        return taken

    def take_numbers(self, values: Tensor, less: Tensor) -> Tensor:
        """The items of a flat array of numbers, each less[g] smaller."""
        if not (self._natively and values.is_contiguous()):
            return values[self.places] - self.each(less)
        taken = values.new_empty(self.total)
        native.call("take_numbers", *self._spans, values, less, taken)
        return taken

    @property
    def _spans(self) -> tuple[int, Tensor, Tensor]:
        return self.first.numel(), self.first, self.count

    @property
    def _natively(self) -> bool:
        return native.accepts() and self.count.device.type == "cpu"
