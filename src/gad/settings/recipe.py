"""Recipes: every choice of a training run, typed, with defaults, from TOML and ``key=value``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, get_type_hints

from gad.words import did_you_mean

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class RecipeError(ValueError):
    """A recipe that cannot be used; the message names the key and what would do."""


@dataclass(frozen=True)
class Recipe:
    """How molecules are prepared, what the model is, and how it is trained.

    Molecules:
        explicit_hydrogens: hydrogens are atoms of the graph.
        descriptors: a few cheap descriptors of the whole molecule are given to the head.
        k: eigenpairs kept for the spectral scheme, 0 for all.
        random_walk: return probabilities of so many steps among the atom features.
        cycles: count the cycles of lengths 3 to this through every atom and bond, as features of
            both; 0 for none.
        laplacian: whose φ₁ gives the directions: normalised (L φ = λ M φ) or combinatorial
            (L φ = λ φ, as DGN's authors have it).
        field: paper, or transposed (F̂ᵀ instead of F̂, as GAD's published code has it).
    Model:
        network: gad, or a baseline: gcn, gin, sage, gat, monet, gatedgcn, gsn. These have no
            scheme, towers, aggregators or scalers; gcn, sage and monet cannot use bonds, and gsn
            needs cycles. See :mod:`gad.nn.baselines`.
        scheme: implicit, spectral, or none (no diffusion: DGN, PNA).
        longest_time: diffusion times start spread between 0.1 and this.
        layers, towers, aggregators, scalers, dx_centre, messages, readout: see :class:`gad.nn.GAD`.
        width: channels, 0 for the widest model within ``budget`` parameters.
        edges: bonds in every message, encoded in ``edge_channels`` channels.
        batch_norm, graph_norm, residual, dropout: parts of the blocks.
        value_norm: batch norm of the atoms' real values (random walks, cycles) where they enter.
    Training:
        epochs: at most so many.
        optimizer: "adamw", whose decay shrinks the weights themselves, or "adam", whose decay is a
            part of the gradient (Loshchilov & Hutter 2019).
        batch_size, learning_rate, weight_decay: of the optimiser.
        loss: l1, mse or huber for regression (classification uses the log loss).
        schedule: plateau (divide when validation stalls), cosine, or constant.
        warmup: epochs over which the rate rises.
        plateau_factor, plateau_patience, plateau_threshold, minimum_rate: of the plateau schedule,
            which ends the run below the minimum rate.
        patience: stop after so many epochs without a better validation loss, 0 for never.
        clip: largest norm of the gradient, 0 for no limit.
        ema: decay of an average of the weights that is evaluated instead, 0 for none.
        seed: of the weights, the order of batches and dropout.
    """

    explicit_hydrogens: bool = False
    descriptors: bool = True
    k: int = 0
    random_walk: int = 0
    cycles: int = 0
    laplacian: str = "normalised"
    field: str = "paper"

    network: str = "gad"
    scheme: str = "implicit"
    longest_time: float = 25.0
    layers: int = 4
    width: int = 100
    budget: int = 0
    towers: int = 5
    aggregators: tuple[str, ...] = ("mean", "max", "min", "dx")
    scalers: tuple[str, ...] = ("identity", "amplification", "attenuation")
    dx_centre: str = "message"
    messages: str = "linear"
    edges: bool = True
    edge_channels: int = 16
    readout: str = "mean"
    batch_norm: bool = True
    graph_norm: bool = False
    value_norm: bool = False
    residual: bool = True
    dropout: float = 0.0

    epochs: int = 60
    batch_size: int = 64
    learning_rate: float = 1e-3
    optimizer: str = "adamw"
    weight_decay: float = 1e-5
    loss: str = "l1"
    schedule: str = "cosine"
    warmup: int = 5
    plateau_factor: float = 0.5
    plateau_patience: int = 15
    plateau_threshold: float = 0.004
    minimum_rate: float = 1e-5
    patience: int = 0
    clip: float = 5.0
    ema: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for key, choices in _CHOICES.items():
            given = getattr(self, key)
            for value in given if isinstance(given, tuple) else (given,):
                if value not in choices:
                    hint = did_you_mean(str(value), choices)
                    raise RecipeError(
                        f"{key} = {value!r} is not known{hint}; choose from {', '.join(choices)}"
                    )
        for key, (low, high) in _RANGES.items():
            value = getattr(self, key)
            if not low <= value <= high:
                raise RecipeError(f"{key} = {value} is out of range: {low:g} to {high:g}")
        if self.width == 0 and self.budget == 0:
            raise RecipeError("give a width, or a budget of parameters to choose it by")
        if self.width % self.width_step:
            what = "towers" if self.network == "gad" else f"the heads of {self.network}"
            raise RecipeError(
                f"width = {self.width} is not a multiple of {what} = {self.width_step}"
            )
        if self.random_walk and self.k:
            raise RecipeError("random_walk needs the whole eigenbasis: leave k at 0")
        if self.cycles in (1, 2):
            raise RecipeError(
                f"cycles = {self.cycles}: the shortest cycle has length 3; 0 for none"
            )
        if self.edges and self.network in NO_BONDS:
            raise RecipeError(f"network = {self.network!r} cannot use bonds: set edges = false")
        if self.network == "gsn" and not self.cycles:
            raise RecipeError(
                "network = 'gsn' reads counts of cycles: set cycles, for example to 8"
            )

    @property
    def width_step(self) -> int:
        """Widths are multiples of this: the towers of GAD, the heads of GAT."""
        return {"gad": self.towers, "gat": HEADS}.get(self.network, 1)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @staticmethod
    def from_dict(values: Mapping[str, Any], *, where: str = "recipe") -> Recipe:
        """A recipe from keys and values; what is not named keeps its default."""
        return replace(Recipe(), **{k: _typed(k, v, where) for k, v in values.items()})

    def override(self, changes: Mapping[str, Any]) -> Recipe:
        """The recipe with some keys changed.

        >>> Recipe().override({"epochs": "3", "aggregators": "mean,dx"}).aggregators
        ('mean', 'dx')
        """
        return replace(self, **{k: _typed(k, v, "--set") for k, v in changes.items()})


# Baselines whose messages have no place for a bond, and the heads of GAT.
NO_BONDS = ("gcn", "sage", "monet")
HEADS = 8

_CHOICES: dict[str, tuple[str, ...]] = {
    "network": ("gad", "gcn", "gin", "sage", "gat", "monet", "gatedgcn", "gsn"),
    "laplacian": ("normalised", "combinatorial"),
    "field": ("paper", "transposed"),
    "scheme": ("implicit", "spectral", "none"),
    "aggregators": ("mean", "max", "min", "sum", "std", "av", "dx"),
    "scalers": ("identity", "amplification", "attenuation"),
    "dx_centre": ("message", "node"),
    "messages": ("linear", "plain"),
    "readout": ("mean", "sum"),
    "loss": ("l1", "mse", "huber"),
    "optimizer": ("adamw", "adam"),
    "schedule": ("plateau", "cosine", "constant"),
}
_MANY = 1e9
_RANGES: dict[str, tuple[float, float]] = {
    "k": (0, _MANY), "random_walk": (0, 1000), "longest_time": (0, 1e6),
    "cycles": (0, 20), "layers": (1, 1000),
    "width": (0, 100_000), "budget": (0, 1e12), "towers": (1, 10_000), "edge_channels": (1, 10_000),
    "dropout": (0, 0.99), "epochs": (1, _MANY), "batch_size": (1, _MANY),
    "learning_rate": (1e-12, 10), "weight_decay": (0, 10), "warmup": (0, _MANY),
    "plateau_factor": (1e-3, 0.999), "plateau_patience": (0, _MANY), "plateau_threshold": (0, 1),
    "minimum_rate": (0, 1), "patience": (0, _MANY), "clip": (0, _MANY), "ema": (0, 0.999999),
    "seed": (0, 2**31),
}  # fmt: skip


def load_recipe(name: str | Path) -> Recipe:
    """A recipe that comes with the package, by name, or one of your own, by path.

    >>> load_recipe("default").scheme
    'implicit'
    """
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise RecipeError(f"cannot read the recipe {path}: {error}") from error
        where = str(path)
    else:
        file = _shipped() / f"{name}.toml"
        if str(name) not in recipe_names():
            hint = did_you_mean(str(name), recipe_names())
            raise RecipeError(
                f"no recipe is called {str(name)!r}{hint}; there are {', '.join(recipe_names())}, "
                "and a path that ends in .toml is read as a file"
            )
        text, where = file.read_text(encoding="utf-8"), f"recipe {name}"
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise RecipeError(f"{where} is not TOML: {error}") from error
    return Recipe.from_dict(values, where=where)


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in _shipped().iterdir()
        if entry.name.endswith(".toml")
    )


def parse_setting(text: str) -> tuple[str, str]:
    """``key=value`` as its two sides."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise RecipeError(f"--set wants key=value, not {text!r}; for example --set epochs=3")
    return key.strip(), value.strip()


def _shipped() -> Any:
    return resources.files("gad") / "recipes"


@cache
def _types() -> dict[str, Any]:
    return get_type_hints(Recipe)


def _typed(key: str, value: Any, where: str) -> Any:
    """A value as the type its key has; text is read as TOML would."""
    known = [f.name for f in fields(Recipe)]
    if key not in known:
        raise RecipeError(f"{where}: unknown key {key!r}{did_you_mean(key, known)}")
    kind = _types()[key]
    read, wanted = _READERS.get(kind, (_names, "names, separated by commas"))
    try:
        return read(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise RecipeError(f"{where}: {key} wants {wanted}, not {value!r}") from error


def _whole(value: Any) -> int:
    number = _number(value)
    if number != int(number):
        raise ValueError
    return int(number)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    return float(value)


def _names(value: Any) -> tuple[str, ...]:
    parts = value.strip("[]").split(",") if isinstance(value, str) else value
    return tuple(str(part).strip(" '\"") for part in parts)


def _truth(value: Any) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    truth = words.get(str(value).strip().lower())
    if truth is None:
        raise ValueError
    return truth


_READERS: dict[Any, tuple[Callable[[Any], Any], str]] = {
    bool: (_truth, "true or false"),
    int: (_whole, "a whole number"),
    float: (_number, "a number"),
    str: (str, "a word"),
}
