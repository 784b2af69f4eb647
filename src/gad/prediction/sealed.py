"""Weights and a JSON card in one safetensors file, sealed by a checksum.

Opening a file runs nothing of it. What the card means is the business of whoever reads it: models
of molecules (:mod:`gad.prediction.model_file`) and of nodes (:mod:`gad.prediction.nodes`).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

MOLECULES, NODES = "gad", "gad-nodes"
_CHECKSUM = "sha256"
# The command for a model of each kind.
_COMMANDS = {MOLECULES: ("molecules", "gad predict"), NODES: ("nodes", "gad nodes predict")}


class ModelFileError(ValueError):
    """A model file that cannot be used; the message says why."""


def sealed(kind: str, card: str, tensors: dict[str, Tensor]) -> bytes:
    """The content of a file."""
    return save(tensors, metadata={kind: card, _CHECKSUM: checksum(card, tensors)})


def checksum(card: str, tensors: dict[str, Tensor]) -> str:
    """One name for a card and its weights: a single bit changed gives another."""
    digest = hashlib.sha256(card.encode("utf-8", "surrogatepass"))
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"\0{name}\0{tensor.dtype}\0{list(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def read_sealed(
    path: str | Path, kind: str, newest: int
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The card and the weights of a file, once they are found to belong together.

    Args:
        path: of the file.
        kind: :data:`MOLECULES` or :data:`NODES`.
        newest: the highest format that the caller can read.
    """
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
    if kind not in metadata:
        for other, (what, command) in _COMMANDS.items():
            if other in metadata:
                raise ModelFileError(f"{path} is a model of {what}: use it with `{command}`")
        raise ModelFileError(f"{path} is a safetensors file, but not a model of this program")
    try:
        card = json.loads(metadata[kind])
        version = card["format"] = int(card["format"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: its card cannot be read") from error
    if not 1 <= version <= newest:
        age = "a newer" if version > newest else "an older"
        raise ModelFileError(
            f"{path} has {age} format ({version}; this version reads up to {newest}): "
            "use the version of gad that wrote it, or train again"
        )
    # The first files of molecules had no checksum.
    unsealed = kind == MOLECULES and version == 1
    if not unsealed and metadata.get(_CHECKSUM) != checksum(metadata[kind], tensors):
        raise ModelFileError(f"{path} is damaged: its checksum does not fit")
    return card, tensors


def damaged(path: str | Path, error: Exception) -> ModelFileError:
    """What to raise where a card or its weights make no sense."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return ModelFileError(f"{path} is damaged or not a model of this program: {reason}")
