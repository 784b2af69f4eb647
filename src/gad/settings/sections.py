"""The settings of a recipe, in three sections: each with its type, default, limits and meaning.

What is written beside a setting here is all there is: reading, checking, ``gad recipes --settings``
and the documentation go by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from gad.settings.setting import RecipeError, Setting, described, settings_of
from gad.words import did_you_mean

# Baselines whose messages have no place for a bond, and the heads of GAT.
NO_BONDS = ("gcn", "sage", "monet")
HEADS = 8
# However large a table is, it is seen this often.
_LEAST_EPOCHS = 10


class _Section:
    """Checks every setting by what is written beside it."""

    section: ClassVar[str]

    def __post_init__(self) -> None:
        for known in all_settings().values():
            if known.section == self.section:
                known.check(getattr(self, known.key))
        self._agree()

    def _agree(self) -> None:
        """What several settings must agree on."""


@dataclass(frozen=True)
class MoleculeSettings(_Section):
    """How molecules become graphs with operators and features."""

    section: ClassVar[str] = "molecules"

    standardise: tuple[str, ...] = described(
        (),
        "steps by which molecules are brought into one form first: fragment (the largest stays), "
        "uncharge, tautomer (RDKit's canonical one); none if empty",
        choices=("fragment", "uncharge", "tautomer"),
    )
    explicit_hydrogens: bool = described(False, "hydrogens are atoms of the graph")
    descriptors: bool = described(
        True, "a few cheap descriptors of the whole molecule are given to the head"
    )
    k: int = described(0, "eigenpairs kept for the spectral scheme, 0 for all")
    random_walk: int = described(
        0, "return probabilities of so many steps among the atom features", high=1000
    )
    bond_walk: int = described(
        0,
        "probabilities that a walk from an atom is at its neighbour after 1 to so many steps, as "
        "features of the bond",
        high=1000,
    )
    cycles: int = described(
        0,
        "count the cycles of lengths 3 to this through every atom and bond, as features of both; "
        "0 for none",
        high=20,
    )
    laplacian: str = described(
        "normalised",
        "whose φ₁ gives the directions: normalised (L φ = λ M φ) or combinatorial (L φ = λ φ, as "
        "DGN's authors have it)",
        choices=("normalised", "combinatorial"),
    )
    field: str = described(
        "paper",
        "the direction field: paper, or transposed (F̂ᵀ instead of F̂, as GAD's published code has "
        "it)",
        choices=("paper", "transposed"),
    )

    def _agree(self) -> None:
        for key in ("random_walk", "bond_walk"):
            if getattr(self, key) and self.k:
                raise RecipeError(f"{key} needs the whole eigenbasis: leave k at 0")
        if self.cycles in (1, 2):
            raise RecipeError(
                f"cycles = {self.cycles}: the shortest cycle has length 3; 0 for none"
            )


def _aggregators() -> Iterable[str]:
    from gad.nn.aggregation import AGGREGATORS

    return AGGREGATORS


@dataclass(frozen=True)
class ModelSettings(_Section):
    """What the network is; see :class:`gad.nn.GAD` and :mod:`gad.nn.baselines`."""

    section: ClassVar[str] = "model"

    network: str = described(
        "gad",
        "gad, or a baseline, which has no scheme, towers, aggregators or scalers; gcn, sage and "
        "monet cannot use bonds, and gsn needs cycles",
        choices=("gad", "gcn", "gin", "sage", "gat", "monet", "gatedgcn", "gsn", "himp", "smp"),
    )
    scheme: str = described(
        "implicit",
        "of the diffusion: implicit, spectral, or none (which is DGN or PNA)",
        choices=("implicit", "spectral", "none"),
    )
    longest_time: float = described(
        25.0, "diffusion times start spread between 0.1 and this", high=1e6
    )
    layers: int = described(4, "blocks", low=1, high=1000)
    width: int = described(
        100, "channels, 0 for the widest model within the budget of parameters", high=100_000
    )
    budget: int = described(0, "the most parameters, where the width is 0", high=1e12)
    towers: int = described(5, "parts that the channels are filtered in", low=1, high=10_000)
    aggregators: tuple[str, ...] = described(
        ("mean", "max", "min", "dx"),
        "how messages of the neighbours are joined; av and dx go by direction",
        choices=("mean", "max", "min", "sum", "std", "av", "dx"),
        more=_aggregators,
    )
    scalers: tuple[str, ...] = described(
        ("identity", "amplification", "attenuation"),
        "by which functions of the degree aggregates are multiplied (PNA)",
        choices=("identity", "amplification", "attenuation"),
    )
    dx_centre: str = described(
        "message",
        "what dx subtracts: the atom's message to itself, or the atom (DGN)",
        choices=("message", "node"),
    )
    messages: str = described(
        "linear",
        "linear maps of both atoms and the bond; nonlinear: through a LeakyReLU; or the plain "
        "neighbour",
        choices=("linear", "nonlinear", "plain"),
    )
    pair_heads: int = described(
        0,
        "after every block all pairs of atoms exchange messages, weighed by a learned function of "
        "the diffusion kernels at several times, one for each of so many parts of the channels; 0 "
        "for none",
        high=10_000,
    )
    pair_times: int = described(8, "times of these kernels", low=1, high=10_000)
    pair_hidden: int = described(
        24, "hidden units of the function of these kernels", low=1, high=10_000
    )
    ring_channels: int = described(
        0,
        "after every block the atoms of a ring exchange messages in so many channels; 0 for none",
        high=10_000,
    )
    edges: bool = described(True, "bonds enter every message")
    edge_channels: int = described(16, "channels in which bonds are encoded", low=1, high=10_000)
    bond_states: bool = described(
        False, "bonds, too, have states: each follows its two atoms after every block but the last"
    )
    readout: str = described(
        "mean",
        "over the atoms; all: sum, mean, maximum and log n side by side",
        choices=("mean", "sum", "all"),
    )
    batch_norm: bool = described(True, "batch norm in every block")
    graph_norm: bool = described(
        False, "division by the root of the number of atoms in every block"
    )
    value_norm: bool = described(
        False,
        "batch norm of the real values of atoms and bonds (random walks, cycles) where they enter",
    )
    head_norm: bool = described(False, "batch norm of what the head reads of a molecule")
    residual: bool = described(True, "a block adds to its input")
    dropout: float = described(0.0, "share of the channels left out while training", high=0.99)

    def _agree(self) -> None:
        if not self.aggregators or not self.scalers:
            raise RecipeError("a model needs at least one of the aggregators and of the scalers")
        if self.width == 0 and self.budget == 0:
            raise RecipeError("give a width, or a budget of parameters to choose it by")
        if self.width % self.width_step:
            what = "towers" if self.network == "gad" else f"the heads of {self.network}"
            what += " and pair_heads together" if self.pair_heads else ""
            raise RecipeError(
                f"width = {self.width} is not a multiple of {what} = {self.width_step}"
            )
        if self.pair_heads and (self.network != "gad" or self.scheme == "none"):
            raise RecipeError(
                "pair_heads is a filter of diffusion kernels: it needs network = 'gad' and a scheme"
            )
        if self.ring_channels and self.network != "gad":
            raise RecipeError("ring_channels needs network = 'gad'")
        if self.bond_states and (self.network != "gad" or not self.edges):
            raise RecipeError("bond_states needs network = 'gad' and edges = true")
        if self.edges and self.network in NO_BONDS:
            raise RecipeError(f"network = {self.network!r} cannot use bonds: set edges = false")

    @property
    def width_step(self) -> int:
        """Widths are multiples of this: towers and heads of GAD's filters, the heads of GAT."""
        own = math.lcm(self.towers, self.pair_heads or 1)
        return {"gad": own, "gat": HEADS}.get(self.network, 1)


@dataclass(frozen=True)
class TrainingSettings(_Section):
    """How the weights are found."""

    section: ClassVar[str] = "training"

    start: str = described(
        "scratch",
        "what the weights start from: scratch, base (which ships with the package), or a model "
        "file; the network is then that one's",
    )
    epochs: int = described(60, "at most so many", low=1)
    examples: int = described(
        0,
        "molecules shown in all epochs together, at most: a large table gets fewer epochs, but "
        "ten at the least; 0 for no limit",
    )
    batch_size: int = described(64, "molecules in a step", low=1)
    learning_rate: float = described(1e-3, "the highest", low=1e-12, high=10)
    rate_decay: float = described(
        1.0,
        "each block learns by so much of the rate of the one above it, the last by so much of the "
        "head's",
        low=0.01,
        high=1,
    )
    freeze: int = described(
        0, "so many blocks from the first on, and the encoders, stay as they are", high=1000
    )
    optimizer: str = described(
        "adamw",
        "adamw, whose decay shrinks the weights themselves, or adam, whose decay is a part of the "
        "gradient (Loshchilov & Hutter 2019)",
        choices=("adamw", "adam"),
    )
    weight_decay: float = described(1e-5, "of the optimiser", high=10)
    loss: str = described(
        "l1", "of a regression; classes have the log loss", choices=("l1", "mse", "huber")
    )
    teachers: str = described(
        "",
        "a model file, or a folder of some, whose predictions are mixed into the labels of "
        "training rows; they must come from the same data, with its own split (zinc, qm9)",
    )
    teacher_share: float = described(0.5, "of their predictions in what is learned", high=1)
    blend: bool = described(
        False,
        "boosted trees and a kernel machine on Morgan counts, descriptors and what the base reads "
        "stand beside the network, with weights that held-out rows choose",
    )
    balance: bool = described(
        False, "the classes of a target count the same together, however rare one is"
    )
    schedule: str = described(
        "cosine",
        "of the learning rate: plateau (divide when validation stalls), cosine, or constant",
        choices=("plateau", "cosine", "constant"),
    )
    warmup: int = described(5, "epochs over which the rate rises")
    plateau_factor: float = described(
        0.5, "by which the plateau schedule multiplies the rate", low=1e-3, high=0.999
    )
    plateau_patience: int = described(15, "epochs that the plateau schedule waits")
    plateau_threshold: float = described(
        0.004, "relative gain that counts as one for the plateau schedule", high=1
    )
    plateau_smoothing: float = described(
        0.0,
        "decay of an average over epochs of the validation loss, which the plateau schedule looks "
        "at instead; 0 for none",
        high=0.999,
    )
    minimum_rate: float = described(
        1e-5, "the plateau schedule ends the run below this rate", high=1
    )
    patience: int = described(
        0, "stop after so many epochs without a better validation loss, 0 for never"
    )
    clip: float = described(5.0, "largest norm of the gradient, 0 for no limit")
    ema: float = described(
        0.0, "decay of an average of the weights that is evaluated instead, 0 for none",
        high=0.999999,
    )  # fmt: skip
    seed: int = described(0, "of the weights, the order of batches and dropout", high=2**31)

    def epochs_for(self, rows: int) -> int:
        """How many epochs so many training rows get.

        >>> TrainingSettings(epochs=30, examples=200_000).epochs_for(10_000)
        20
        """
        if not self.examples:
            return self.epochs
        return min(self.epochs, max(_LEAST_EPOCHS, self.examples // max(1, rows)))


SECTIONS = {kind.section: kind for kind in (MoleculeSettings, ModelSettings, TrainingSettings)}


@cache
def all_settings() -> dict[str, Setting]:
    """Every setting by its key; no two sections share one.

    >>> all_settings()["layers"].section, all_settings()["layers"].meaning
    ('model', 'blocks')
    """
    return {s.key: s for kind in SECTIONS.values() for s in settings_of(kind)}


def setting(key: str, where: str) -> Setting:
    """The setting of that key; an unknown one is refused, with the nearest that is known."""
    if key not in all_settings():
        raise RecipeError(f"{where}: unknown key {key!r}{did_you_mean(key, all_settings())}")
    return all_settings()[key]


def flat(values: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    """Keys and values of a recipe, whether they stand in sections or not."""
    for key, value in values.items():
        if key not in SECTIONS:
            yield key, value
            continue
        if not isinstance(value, Mapping):
            raise RecipeError(f"{where}: {key} is a section of settings, not a setting")
        for inner, its in value.items():
            if (home := setting(inner, f"{where}, [{key}]").section) != key:
                raise RecipeError(f"{where}: {inner} belongs into [{home}], not [{key}]")
            yield inner, its
