"""Settings of a node model and its training, and the model they describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, get_type_hints

from torch import nn

from gad.nn import ImplicitDiffusion, SpectralDiffusion
from gad.nn.node_baselines import NODE_BASELINES, ConvBlock, ConvNetwork
from gad.nn.nodes import JUMPING, NORMS, NodeGAD, NodeNetwork
from gad.operators.products import LINEAR_FILTERS
from gad.settings.recipe import RecipeError
from gad.words import did_you_mean

NODE_MODELS = ("gad-i", "gad-s", *NODE_BASELINES)
"""GAD by its scheme (implicit, spectral), and PyTorch Geometric's layers in the same network."""


@dataclass(frozen=True)
class NodeSettings:
    """What the model is and how it is trained.

    Model (see :class:`gad.nn.NodeGAD`):
        model: gad-i, gad-s, gcn, sage or gat.
        channels, layers, norm, dropout, input_dropout, residual, jumping: of all of them.
        time, filters, smooth, symmetric: of GAD.
        directions: whether dx, the derivative along the graph's directions, is one of the filters.
        scale: of the features: "rows" (each node's sum to 1), "standard" (mean 0, deviation 1
            over the nodes), or "none".
    Training:
        epochs: at most so many; each is one step over the whole graph.
        patience: stop after so many epochs without a better validation score.
        learning_rate, weight_decay: of Adam; times and the head are not decayed.
        time_rate: the learning rate of the times, as a share of the other: with few labels a short
            time fits them well and teaches nothing about the rest.
        seed: of the weights and of dropout, and of a split that is drawn.
    """

    model: str = "gad-i"
    channels: int = 64
    layers: int = 2
    norm: str = "layer"
    dropout: float = 0.5
    input_dropout: float = 0.0
    residual: bool = True
    jumping: str = "last"
    time: float = 0.1
    filters: tuple[str, ...] = ("mean",)
    smooth: bool = False
    symmetric: bool = True
    directions: bool = False
    scale: str = "none"

    epochs: int = 500
    patience: int = 100
    learning_rate: float = 0.01
    weight_decay: float = 0.0
    time_rate: float = 1.0
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
            if not low <= getattr(self, key) <= high:
                raise RecipeError(
                    f"{key} = {getattr(self, key)} is out of range: {low:g} to {high:g}"
                )

    @property
    def needs_directions(self) -> bool:
        """Whether the operators need a field."""
        blocks = self.model.startswith("gad") and self.layers > 0
        return blocks and not {"av", "dx"}.isdisjoint(self.used_filters)

    @property
    def used_filters(self) -> tuple[str, ...]:
        """The filters, with the one that ``directions`` adds."""
        return tuple(dict.fromkeys([*self.filters, *(["dx"] if self.directions else [])]))

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    def override(self, changes: Mapping[str, Any]) -> NodeSettings:
        """The settings with some changed; text is read by the type of its key.

        >>> NodeSettings().override({"layers": "0", "filters": "mean"}).filters
        ('mean',)
        """
        return replace(self, **{key: _typed(key, value) for key, value in changes.items()})


_CHOICES: dict[str, tuple[str, ...]] = {
    "model": NODE_MODELS,
    "norm": tuple(NORMS),
    "jumping": JUMPING,
    "filters": LINEAR_FILTERS,
    "scale": ("none", "rows", "standard"),
}
_RANGES: dict[str, tuple[float, float]] = {
    "channels": (1, 100_000), "layers": (0, 1000), "dropout": (0, 0.99),
    "input_dropout": (0, 0.99), "time": (0, 1e4), "epochs": (1, 1e9), "patience": (1, 1e9),
    "learning_rate": (1e-12, 10), "weight_decay": (0, 10),
    "time_rate": (0, 100), "seed": (0, 2**31),
}  # fmt: skip
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

FEW_LABELS = NodeSettings(
    layers=0, norm="none", dropout=0.5, input_dropout=0.5, time=9.0, smooth=True,
    scale="rows", weight_decay=5e-3, learning_rate=0.03, time_rate=0.1,
)  # fmt: skip
"""For a handful of labels of each class: few parameters, outputs that diffuse."""
MANY_LABELS = NodeSettings()
"""For thousands of labels: blocks."""


def build_node_model(settings: NodeSettings, in_channels: int, out_channels: int) -> nn.Module:
    """The model, with weights from PyTorch's random state."""
    kind, channels, layers = settings.model, settings.channels, settings.layers
    drops = {"dropout": settings.dropout, "input_dropout": settings.input_dropout}
    block: dict[str, Any] = {
        "norm": settings.norm, "dropout": settings.dropout, "residual": settings.residual,
    }  # fmt: skip
    if kind in NODE_BASELINES and not layers:
        return ConvNetwork(kind, in_channels, out_channels, channels, **drops)
    if kind in NODE_BASELINES:
        blocks = [ConvBlock(kind, channels, **block) for _ in range(layers)]
        jumping = settings.jumping
        return NodeNetwork(in_channels, out_channels, channels, blocks, jumping=jumping, **drops)
    return NodeGAD(
        in_channels,
        out_channels,
        channels=channels,
        layers=layers,
        diffusion=ImplicitDiffusion if kind == "gad-i" else SpectralDiffusion,
        time=settings.time,
        filters=settings.used_filters,
        input_dropout=settings.input_dropout,
        jumping=settings.jumping,
        smooth=settings.smooth,
        symmetric=settings.symmetric,
        **block,
    )


def _typed(key: str, value: Any) -> Any:
    kinds = get_type_hints(NodeSettings)
    if key not in kinds:
        known = [f.name for f in fields(NodeSettings)]
        raise RecipeError(
            f"--set: unknown key {key!r}{did_you_mean(key, known)}; there are {', '.join(known)}"
        )
    kind, text = kinds[key], str(value).strip()
    try:
        if kind is bool:
            return _TRUTH[text.lower()]
        if kind is int:
            return int(text)
        if kind is float:
            return float(text)
    except (KeyError, ValueError) as error:
        wanted = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
        raise RecipeError(f"--set: {key} wants {wanted}, not {value!r}") from error
    if kind is str:
        return text
    parts = text.strip("[]").split(",") if isinstance(value, str) else value
    return tuple(part for part in (str(p).strip(" '\"") for p in parts) if part)
