"""What a base model learns: what can be computed of any molecule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gad.chem import parse, quiet
from gad.chem.descriptors import CHEAPER_NAMES, descriptors
from gad.chem.fingerprints import SIZE, morgan_counts

# Standardised descriptors are held within this: a few are huge for a few molecules.
_CLIP = 4.0
# How much the surroundings of atoms count beside the descriptors.
_BITS = 2.0
_HIDDEN = 512


def labels_of(smiles: Sequence[str]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
    """RDKit's descriptors [G, D], and which Morgan surroundings are there, eight a byte.

    >>> values, bits = labels_of(["CCO"])
    >>> values.shape == (1, len(CHEAPER_NAMES)), bits.shape
    (True, (1, 128))
    """
    with quiet:
        molecules = [parse(text) for text in smiles]
        values = np.stack([descriptors(mol, CHEAPER_NAMES) for mol in molecules])
    return values.astype(np.float32), np.packbits(morgan_counts(molecules) > 0, axis=1)


@dataclass(frozen=True, eq=False)
class Pretext:
    """D descriptors and 1,024 fingerprint bits, learned together.

    The loss of a molecule is the mean Huber loss of its standardised descriptors plus twice the
    mean log loss of its bits.

    Attributes:
        centre, spread: of each descriptor over the corpus [D].
    """

    centre: Tensor
    spread: Tensor

    @staticmethod
    def of(values: npt.NDArray[np.float32]) -> Pretext:
        """By the median, and by the middle nine tenths, which an outlier does not stretch."""
        low, centre, high = np.quantile(values.astype(np.float64), (0.05, 0.5, 0.95), axis=0)
        spread = (high - low) / 3.29  # of a normal distribution: its standard deviation
        spread = np.where(spread > 1e-9, spread, values.std(0, dtype=np.float64))
        spread = np.where(spread > 1e-9, spread, 1.0)
        return Pretext(torch.from_numpy(centre).float(), torch.from_numpy(spread).float())

    @property
    def outputs(self) -> int:
        """How many numbers are learned."""
        return self.centre.numel() + SIZE

    def head(self, channels: int) -> nn.Module:
        """From what is read of a molecule to all that is learned; not kept."""
        return nn.Sequential(
            nn.Linear(channels, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, self.outputs)
        )

    def targets(self, values: Tensor, bits: Tensor) -> Tensor:
        """Descriptors [n, D] and packed bits [n, 128] as the model learns them, [n, D + 1024]."""
        standard = values.sub(self.centre).div(self.spread).clamp(-_CLIP, _CLIP)
        places = torch.arange(7, -1, -1, dtype=torch.uint8)
        apart = bits[:, :, None].bitwise_right_shift(places).bitwise_and(1).flatten(1)
        return torch.cat([standard, apart.to(standard.dtype)], dim=1)

    def losses(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The summed loss of molecules, and the sum of their weights."""
        parts = [self.centre.numel(), SIZE]
        (values, bits), (given, there) = outputs.split(parts, 1), targets.split(parts, 1)
        each = F.huber_loss(values, given, reduction="none").mean(1)
        each = each + _BITS * F.binary_cross_entropy_with_logits(
            bits, there, reduction="none"
        ).mean(1)
        return (each * weights).sum(), weights.sum()
