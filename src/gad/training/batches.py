"""Batches of a packed set, shuffled by seed and epoch, that can go on from the middle."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from gad.data.store.molecules import Batch, PackedMolecules


class Examples(Protocol):
    """What is learned from, by the numbers of its rows."""

    def batch(self, graphs: Tensor) -> tuple[Batch, Tensor, Tensor]:
        """The chosen molecules with targets and weights."""

    def shuffled(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """These rows in the order of one epoch."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """Molecules with labels: targets [G, T] (NaN: missing) in model units, weights [G]."""

    molecules: PackedMolecules
    targets: Tensor
    weights: Tensor

    def batch(self, graphs: Tensor) -> tuple[Batch, Tensor, Tensor]:
        """The chosen molecules with targets and weights."""
        return self.molecules.batch(graphs), self.targets[graphs], self.weights[graphs]

    def shuffled(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """These rows in the order of one epoch: any."""
        return rows[torch.randperm(rows.numel(), generator=generator)]


def mix(seed: int, *numbers: int) -> int:
    """One seed out of several numbers, by a hash that spreads neighbouring ones apart."""
    state = seed & 0xFFFFFFFF
    for number in numbers:
        state = (state ^ (number + 0x9E3779B9 + (state << 6) + (state >> 2))) & 0xFFFFFFFFFFFFFFFF
        state = (state * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 31
    return state & 0x7FFFFFFFFFFFFFFF


class Batches:
    """One epoch after another of some rows of a labelled set.

    The order of an epoch depends on (seed, epoch) alone, and ``state_dict`` says how far it got, so
    a run that is cut off goes on with the batch it would have had.

    Of several processes (``world``) each takes its share of the same batches of world × size rows:
    contiguous, equal to within one row, none of them twice. A process that gets none of a last
    small batch is given a molecule without labels ([0, T] targets), so that it takes part in the
    step all the same.
    """

    def __init__(
        self, data: Examples, rows: Tensor, size: int, *, seed: int | None, epoch: int = 0,
        rank: int = 0, world: int = 1,
    ) -> None:  # fmt: skip
        self.data, self.rows, self.size = data, rows, size
        self.seed, self.epoch = seed, epoch
        self.rank, self.world = rank, world
        self._start = self._done = 0

    def set_epoch(self, epoch: int) -> None:
        """Another epoch, from its first batch."""
        self.epoch, self._start = epoch, 0

    def __len__(self) -> int:
        return math.ceil(self.rows.numel() / (self.world * self.size))

    def __iter__(self) -> Iterator[tuple[Batch, Tensor, Tensor]]:
        rows = self.rows
        if self.seed is not None:
            generator = torch.Generator().manual_seed(mix(self.seed, self.epoch))
            rows = self.data.shuffled(rows, generator)
        batches = torch.split(rows, self.world * self.size)
        start, self._start = self._start, 0
        for number in range(start, len(batches)):
            self._done = number + 1
            yield self._share(batches[number])

    def _share(self, rows: Tensor) -> tuple[Batch, Tensor, Tensor]:
        """What this process has of a batch."""
        own = rows.tensor_split(self.world)[self.rank]
        if own.numel():
            return self.data.batch(own)
        molecules, targets, weights = self.data.batch(rows[:1])
        return molecules, targets[:0], weights[:0]

    def state_dict(self) -> dict[str, int]:
        """How many batches of which epoch were given out."""
        return {"epoch": self.epoch, "done": self._done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from there."""
        self.epoch, self._start = state["epoch"], state["done"]
