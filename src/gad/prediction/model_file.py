"""The model file: one safetensors file, its weights and, in the header, a JSON card.

Opening a file runs nothing of it: the card is JSON, the weights are numbers, and both are checked
against each other before anything is built. There is no pickle.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, cast

import torch
from torch import Tensor

from gad.data.atomic import write_atomic
from gad.data.store.molecules import Preparation
from gad.nn import GAD
from gad.prediction.sealed import (
    MOLECULES,
    ModelFileError,
    checksum,
    damaged,
    read_sealed,
    sealed,
)
from gad.settings.model import Inputs, build_model
from gad.settings.recipe import Recipe
from gad.settings.task import Scale, Target, Task, TaskCard

__all__ = ["FORMAT", "Model", "ModelFileError", "Part", "checksum", "load_model", "read_card"]

FORMAT = 3
"""Of the file. Format 1 has no checksum; 1 and 2 have one scaling for all members, and a recipe
without sections. All are read."""

_SCALE = "scale"


@dataclass(frozen=True, eq=False)
class Part:
    """Something a model brings along besides its networks: numbers, and what they mean.

    Parts have names (calibration, neighbours, …) and are nobody's business here: the file keeps
    ``settings`` in its card and each tensor as ``<part>/<name>``.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)


class Card(TypedDict):
    """What a model file says of itself.

    ``recipe`` has every setting, ``notes`` what :meth:`gad.report.summary.RunSummary.notes` keeps,
    ``parts`` the settings of each :class:`Part`; the others are as in :class:`Model`.
    """

    format: int
    members: int
    parameters: int
    delta: float
    recipe: dict[str, object]
    task: TaskCard
    preparation: dict[str, object] | None
    inputs: dict[str, object]
    features: list[str]
    notes: Mapping[str, Any]
    parts: dict[str, Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model with everything that is needed to use and to explain it.

    Attributes:
        members: the networks; several for an ensemble.
        scales: of each member, by its own training rows.
        recipe: how it was made.
        task: what it predicts, in which units.
        preparation: how molecules are turned into its inputs; None for a known set's own graphs.
        inputs: what it is fed.
        features: names of the user's columns it needs besides the molecule.
        notes: everything else of the card: summary, metrics, fingerprints, versions.
        parts: what else it brings along, by name.
    """

    members: list[GAD]
    scales: list[Scale]
    recipe: Recipe
    task: Task
    preparation: Preparation | None
    inputs: Inputs
    features: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)

    def card(self) -> Card:
        """What the file says of itself, as JSON can hold it."""
        preparation = self.preparation
        return {
            "format": FORMAT,
            "members": len(self.members),
            "parameters": sum(p.numel() for p in self.members[0].parameters()),
            "delta": self.members[0].delta,
            "recipe": self.recipe.to_dict(),
            "task": self.task.to_dict(),
            "preparation": None if preparation is None else preparation.to_dict(),
            "inputs": self.inputs.to_dict(),
            "features": list(self.features),
            "notes": self.notes,
            "parts": {name: part.settings for name, part in self.parts.items()},
        }

    def to_bytes(self, half: bool = False) -> bytes:
        """The file's content; with ``half``, matrices in half precision."""
        tensors: dict[str, Tensor] = {}
        for number, (member, scale) in enumerate(zip(self.members, self.scales, strict=True)):
            tensors |= {f"{number}.{name}": t for name, t in member.state_dict().items()}
            tensors |= {f"{_SCALE}/{number}.{name}": t for name, t in vars(scale).items()}
        for name, part in self.parts.items():
            tensors |= {f"{name}/{inner}": t for inner, t in part.tensors.items()}
        # Members of one split share a scale; a file wants every tensor on its own.
        tensors = {
            name: tensor.detach().to("cpu", copy=True).contiguous()
            for name, tensor in tensors.items()
        }
        if half:
            tensors |= {
                name: tensor.half()
                for name, tensor in tensors.items()
                if tensor.dim() == 2 and tensor.dtype == torch.float32
            }
        card = json.dumps(
            {**self.card(), "recipe": self.recipe.to_sections()}, sort_keys=True, allow_nan=True
        )
        return sealed(MOLECULES, card, tensors)

    def save(self, path: str | Path, half: bool = False) -> None:
        """Write the file, whole or not at all."""
        write_atomic(path, self.to_bytes(half))


def read_card(path: str | Path) -> Card:
    """What a file says of itself, without building the model; of any format as of the latest."""
    card = _read(path)[0]
    return cast("Card", {**card, "recipe": _recipe(path, card).to_dict()})


def _recipe(path: str | Path, card: dict[str, Any]) -> Recipe:
    try:
        return Recipe.from_dict(card["recipe"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path, error) from error


def load_model(path: str | Path) -> Model:
    """Read a model file; refuse, with a sentence, what is not one."""
    card, tensors = _read(path)
    if any(not bool(torch.isfinite(t).all()) for t in tensors.values() if t.is_floating_point()):
        raise ModelFileError(f"{path} is damaged: it has weights that are not finite")
    recipe = _recipe(path, card)
    try:
        task, inputs = Task.from_dict(card["task"]), Inputs.from_dict(card["inputs"])
        prepared = card["preparation"]
        preparation = None if prepared is None else Preparation.from_dict(prepared)
        count, parameters = int(card["members"]), int(card["parameters"])
        _check_size(path, recipe, inputs, task.outputs, count, parameters, tensors)
        members, scales = [], []
        for number in range(count):
            member = build_model(recipe, inputs, task.outputs, delta=float(card["delta"]))
            member.load_state_dict(_under(f"{number}.", tensors))
            members.append(member.eval().requires_grad_(False))
            scale = _under(f"{_SCALE}/{number}.", tensors)
            scales.append(Scale(scale["labels"].double(), scale["values"].float()))
            _check_scale(path, scales[-1], task, inputs)
        features = tuple(str(name) for name in card["features"])
        parts = {
            name: Part(dict(settings), _under(f"{name}/", tensors))
            for name, settings in card["parts"].items()
        }
        notes = dict(card["notes"])
    except ModelFileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        raise damaged(path, error) from error
    return Model(members, scales, recipe, task, preparation, inputs, features, notes, parts)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin so, without that beginning."""
    return {k[len(prefix) :]: t for k, t in tensors.items() if k.startswith(prefix)}


def _check_scale(path: str | Path, scale: Scale, task: Task, inputs: Inputs) -> None:
    wanted = ((2, len(task.names)), (2, inputs.graph_values))
    if (tuple(scale.labels.shape), tuple(scale.values.shape)) != wanted:
        raise ModelFileError(f"{path} is damaged: its scales do not fit its inputs and targets")


def _read(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    card, tensors = read_sealed(path, MOLECULES, FORMAT)
    if card["format"] < 3:
        try:
            _update(card, tensors)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise damaged(path, error) from error
    return card, tensors


def _update(card: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """What format 1 and 2 say, as format 3 does: targets one by one, a scale for each member."""
    task = card["task"]
    kind = "regression" if task["kind"] == "regression" else "binary"
    count = len(task["names"])
    labels = [task["mean"] or [0.0] * count, task["std"] or [1.0] * count]
    values = tensors.pop("feature_scale")
    # A member has many tensors: no more of them than that are named, whatever the card says.
    for number in range(min(int(card["members"]), len(tensors))):
        tensors[f"{_SCALE}/{number}.labels"] = torch.tensor(labels, dtype=torch.float64)
        tensors[f"{_SCALE}/{number}.values"] = values
    targets = zip(task["names"], task["units"] or [""] * count, strict=True)
    old = Task(tuple(Target(name, kind, unit) for name, unit in targets), task["loss"])
    card["task"] = old.to_dict()
    card["parts"] = {}


def _check_size(
    path: str | Path,
    recipe: Recipe,
    inputs: Inputs,
    outputs: int,
    count: int,
    parameters: int,
    tensors: dict[str, Tensor],
) -> None:
    """Refuse a card that asks for a larger model than the file has numbers for."""
    stored = sum(t.numel() for t in tensors.values())
    if not 1 <= count <= 10_000 or parameters * count > stored:
        raise ModelFileError(f"{path} is damaged: its card and its weights do not fit")
    chosen, width = recipe.model, recipe.model.width
    # At least one square matrix a layer: GAD's across its towers (and its parts), GCN's only one.
    parts = width // chosen.towers if chosen.network == "gad" else 0
    least = chosen.layers * width * (width + parts)
    rows = sum(inputs.atom_cardinalities) + inputs.atom_values
    if max(least, rows * max(width, 1), outputs) > stored or min(inputs.atom_cardinalities) < 1:
        raise ModelFileError(f"{path} is damaged: its card describes a model it does not hold")
