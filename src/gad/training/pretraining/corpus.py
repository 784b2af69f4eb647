"""Molecules without labels, prepared once and kept on disk in shards.

Each shard is a random sample of the whole, so an epoch goes through the shards in any order, one at
a time, in any order within: memory holds one of them, however many molecules there are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from gad.data.atomic import write_atomic
from gad.data.known.places import cache_folder
from gad.data.store.cache import packed_bytes, read_packed
from gad.data.store.molecules import (
    Batch,
    NoMoleculesError,
    PackedMolecules,
    Preparation,
    read_molecules,
)
from gad.machine import as_many_threads, cores
from gad.parallel import in_order
from gad.training.pretraining.pretext import Pretext, labels_of

SHARD = 16_384
"""Molecules in a shard."""

_CHUNK = 512
# Of so many molecules the spread of the descriptors is taken.
_SAMPLE = 50_000
_ORDER = 20_220_504  # seed of the order in which molecules enter the shards


class Corpus:
    """Prepared molecules with what is learned of them, shard by shard.

    Attributes:
        sizes: molecules of each shard.
        pretext: what is learned.
        rejects: how many molecules could not be used.
    """

    def __init__(self, shards: Sequence[Path], rejects: int) -> None:
        self.shards, self.rejects = list(shards), rejects
        self._labels = [load_file(_labels(path)) for path in self.shards]
        self.sizes = [labels["values"].shape[0] for labels in self._labels]
        self._starts = torch.tensor([0, *self.sizes]).cumsum(0)
        sample = torch.cat([labels["values"] for labels in self._labels])[:_SAMPLE]
        self.pretext = Pretext.of(sample.numpy())

    def __len__(self) -> int:
        return sum(self.sizes)

    def rows(self, held_out: int) -> dict[str, Tensor]:
        """Which molecules are for training, and the first few for validation."""
        held_out = min(held_out, len(self) // 10)
        every = torch.arange(len(self))
        return {"train": every[held_out:], "val": every[:held_out]}

    def shuffled(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Shards in any order, and any order within a shard."""
        shard = torch.searchsorted(self._starts, rows, right=True) - 1
        parts = [
            rows[shard == number]
            for number in torch.randperm(len(self.shards), generator=generator).tolist()
        ]
        return torch.cat([p[torch.randperm(p.numel(), generator=generator)] for p in parts])

    def batch(self, graphs: Tensor) -> tuple[Batch, Tensor, Tensor]:
        """The chosen molecules with targets and weights, from one shard or the seam of two."""
        shard = torch.searchsorted(self._starts, graphs, right=True) - 1
        parts, labels = [], []
        for number in shard.unique().tolist():
            own = graphs[shard == number] - self._starts[number]
            parts.append((_opened(self.shards[number]), own))
            labels.append([self._labels[number][name][own] for name in ("values", "bits")])
        values, bits = (torch.cat(columns) for columns in zip(*labels, strict=True))
        targets = self.pretext.targets(values, bits)
        if len(parts) == 1:
            packed, own = parts[0]
            return packed.batch(own), targets, torch.ones(len(own))
        together = PackedMolecules.concatenate([packed.take(own) for packed, own in parts])
        return together.batch(torch.arange(len(together))), targets, torch.ones(len(together))

    @property
    def degrees(self) -> PackedMolecules:
        """The molecules of the first shard, whose degrees stand for all."""
        return _opened(self.shards[0])


def build_corpus(
    molecules: Sequence[str],
    preparation: Preparation,
    *,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Corpus:
    """Prepare molecules and compute what is learned of them, or find what was done before.

    Shards lie in the cache folder, named by their content, and are written whole: what was killed
    goes on with the shard that it had begun.
    """
    name = hashlib.sha256(preparation.fingerprint(molecules).encode()).hexdigest()
    folder = cache_folder() / "corpus" / name
    folder.mkdir(parents=True, exist_ok=True)
    order = np.random.default_rng(_ORDER).permutation(len(molecules))
    paths, rejects = [], 0
    for number, start in enumerate(range(0, len(molecules), SHARD)):
        path = folder / f"shard-{number:05}.safetensors"
        told = folder / f"shard-{number:05}.json"
        texts = [molecules[place] for place in order[start : start + SHARD].tolist()]
        if not told.exists():
            write_atomic(told, json.dumps(_write_shard(path, texts, preparation, workers)).encode())
        lost = int(json.loads(told.read_text(encoding="utf-8")))
        rejects += lost
        if lost < len(texts):
            paths.append(path)
        if progress:
            progress(min(start + SHARD, len(molecules)))
    if not paths:
        raise NoMoleculesError({0: "not one SMILES could be read"})
    return Corpus(paths, rejects)


def _write_shard(
    path: Path, texts: list[str], preparation: Preparation, workers: int | None
) -> int:
    """Prepare one shard; how many of its molecules could not be used."""
    chunks = [texts[first : first + _CHUNK] for first in range(0, len(texts), _CHUNK)]
    work = partial(_chunk, preparation)
    found = [part for part in in_order(work, chunks, workers or cores()) if part is not None]
    if not found:
        return len(texts)
    packed = PackedMolecules.concatenate([part for part, _ in found])
    labels = {name: torch.cat([own[name] for _, own in found]) for name in ("values", "bits")}
    write_atomic(_labels(path), save(labels))
    write_atomic(path, packed_bytes(packed))
    return len(texts) - len(packed)


def _chunk(
    preparation: Preparation, texts: list[str]
) -> tuple[PackedMolecules, dict[str, Tensor]] | None:
    try:
        with as_many_threads(1):
            packed = read_molecules(texts, preparation, keys=True)
    except NoMoleculesError:
        return None
    values, bits = labels_of(packed.keys)
    return packed, {"values": torch.from_numpy(values), "bits": torch.from_numpy(bits)}


def _labels(path: Path) -> Path:
    return path.with_name(path.name.replace("shard", "labels"))


@lru_cache(maxsize=2)
def _opened(path: Path) -> PackedMolecules:
    found = read_packed(path)
    if found is None:
        raise OSError(f"{path} is damaged: remove its folder and start again")
    return found
