"""The model file: one safetensors file, its weights and, in the header, a JSON card.

Opening a file runs nothing of it: the card is JSON, the weights are numbers, and both are checked
against each other before anything is built. There is no pickle.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from gad.data.atomic import write_atomic
from gad.data.store.molecules import Preparation
from gad.nn import GAD
from gad.settings.model import Inputs, build_model
from gad.settings.recipe import Recipe
from gad.settings.task import Task

FORMAT = 2
"""Of the file; one of format 1 has no checksum, and is read without."""

_KEY, _CHECKSUM = "gad", "sha256"


class ModelFileError(ValueError):
    """A model file that cannot be used; the message says why."""


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model with everything that is needed to use and to explain it.

    Attributes:
        members: the networks; several for an ensemble.
        recipe: how it was made.
        task: what it predicts, in which units, with which scaling.
        preparation: how molecules are turned into its inputs; None for a known set's own graphs.
        inputs: what it is fed.
        features: names of the user's columns it needs besides the molecule.
        feature_scale: mean and standard deviation of whole-molecule values, training set [2, D].
        notes: everything else of the card: summary, metrics, fingerprints, versions.
    """

    members: list[GAD]
    recipe: Recipe
    task: Task
    preparation: Preparation | None
    inputs: Inputs
    features: tuple[str, ...] = ()
    feature_scale: Tensor = field(default_factory=lambda: torch.zeros(2, 0))
    notes: dict[str, Any] = field(default_factory=dict)

    def card(self) -> dict[str, Any]:
        """The JSON of the file."""
        preparation = self.preparation
        return {
            "format": FORMAT,
            "members": len(self.members),
            "parameters": sum(p.numel() for p in self.members[0].parameters()),
            "delta": self.members[0].delta,
            "recipe": self.recipe.to_dict(),
            "task": self.task.to_dict(),
            "preparation": None if preparation is None else preparation.to_dict(),
            "inputs": {
                "atom_cardinalities": list(self.inputs.atom_cardinalities),
                "atom_values": self.inputs.atom_values,
                "bond_cardinalities": list(self.inputs.bond_cardinalities),
                "graph_values": self.inputs.graph_values,
            },
            "features": list(self.features),
            "notes": self.notes,
        }

    def to_bytes(self) -> bytes:
        """The file's content."""
        tensors = {"feature_scale": self.feature_scale}
        for number, member in enumerate(self.members):
            for name, tensor in member.state_dict().items():
                tensors[f"{number}.{name}"] = tensor.detach().cpu().contiguous()
        card = json.dumps(self.card(), sort_keys=True, allow_nan=True)
        sealed = {_KEY: card, _CHECKSUM: checksum(card, tensors)}
        return save(tensors, metadata=sealed)

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all."""
        write_atomic(path, self.to_bytes())


def checksum(card: str, tensors: dict[str, Tensor]) -> str:
    """One name for a card and its weights: a single bit changed gives another."""
    digest = hashlib.sha256(card.encode("utf-8", "surrogatepass"))
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"\0{name}\0{tensor.dtype}\0{list(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def read_card(path: str | Path) -> dict[str, Any]:
    """The card alone, without the weights."""
    return _read(path)[0]


def load_model(path: str | Path) -> Model:
    """Read a model file; refuse, with a sentence, what is not one."""
    card, tensors = _read(path)
    try:
        recipe = Recipe.from_dict(card["recipe"])
        task = Task.from_dict(card["task"])
        prepared = card["preparation"]
        preparation = None if prepared is None else Preparation.from_dict(prepared)
        shape = card["inputs"]
        inputs = Inputs(
            tuple(int(n) for n in shape["atom_cardinalities"]),
            int(shape["atom_values"]),
            tuple(int(n) for n in shape["bond_cardinalities"]),
            int(shape["graph_values"]),
        )
        count, parameters = int(card["members"]), int(card["parameters"])
        _check_size(path, recipe, inputs, len(task.names), count, parameters, tensors)
        scale = tensors.pop("feature_scale")
        members = []
        for number in range(count):
            model = build_model(recipe, inputs, len(task.names), delta=float(card["delta"]))
            prefix = f"{number}."
            own = {k[len(prefix) :]: t for k, t in tensors.items() if k.startswith(prefix)}
            model.load_state_dict(own)
            members.append(model.eval().requires_grad_(False))
        features = tuple(str(name) for name in card["features"])
        notes = dict(card["notes"])
    except ModelFileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelFileError(
            f"{path} is damaged or not a model of this program: {reason}"
        ) from error
    numbers = (scale, *tensors.values())
    if any(not bool(torch.isfinite(t).all()) for t in numbers if t.is_floating_point()):
        raise ModelFileError(f"{path} is damaged: it has weights that are not finite")
    return Model(members, recipe, task, preparation, inputs, features, scale, notes)


def _read(path: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    path = Path(path)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise ModelFileError(f"{path} {what}: a model is the file model.gad of a training run")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, MemoryError) as error:
        raise ModelFileError(f"{path} is not a model file, or is damaged: {error}") from error
    if _KEY not in metadata:
        raise ModelFileError(f"{path} is a safetensors file, but not a model of this program")
    try:
        card = json.loads(metadata[_KEY])
        version = int(card["format"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: its card cannot be read") from error
    if not 1 <= version <= FORMAT:
        age = "a newer" if version > FORMAT else "an older"
        raise ModelFileError(
            f"{path} has {age} format ({version}; this version reads up to {FORMAT}): "
            "use the version of gad that wrote it, or train again"
        )
    if version > 1 and metadata.get(_CHECKSUM) != checksum(metadata[_KEY], tensors):
        raise ModelFileError(f"{path} is damaged: its checksum does not fit")
    return card, tensors


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
    width, gad = recipe.width, recipe.network == "gad"
    # At least one square matrix a layer: GAD's across its towers (and its parts), GCN's only one.
    least = recipe.layers * width * (width + (width // recipe.towers if gad else 0))
    rows = sum(inputs.atom_cardinalities) + inputs.atom_values
    if max(least, rows * max(width, 1), outputs) > stored or min(inputs.atom_cardinalities) < 1:
        raise ModelFileError(f"{path} is damaged: its card describes a model it does not hold")
