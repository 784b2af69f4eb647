"""Prepared molecules on disk, by content and settings.

A cache file is named by the hash of everything that went into it, is written beside its place and
moved there whole, and is read by memory map: two processes that prepare the same set at the same
time write the same bytes, a killed writer leaves nothing that would be read, and a damaged file is
made again.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from gad.data.atomic import write_atomic
from gad.data.known.places import cache_folder
from gad.data.store.molecules import (
    NoMoleculesError,
    PackedMolecules,
    Preparation,
    made_with,
    read_molecules,
)
from gad.machine import as_many_threads, cores
from gad.operators import GraphOperators
from gad.parallel import in_order

# Molecules worked out at once, by one process.
CHUNK = 1024
_Chunk: TypeAlias = tuple[int, Sequence[str]]  # the row of the first, and the molecules
_T = TypeVar("_T")


def prepare(
    molecules: Sequence[str],
    preparation: Preparation,
    *,
    blocks: bool = False,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> PackedMolecules:
    """Prepare and name molecules on all cores, or read them back if that was done before.

    ``progress`` is called with the number of molecules done so far.
    """
    name = preparation.fingerprint(molecules) + ("-blocks" if blocks else "")
    path = cache_folder() / "molecules" / f"{name}.safetensors"
    found = read_packed(path)
    if found is not None:
        if progress:
            progress(len(molecules))
        return found
    parts: list[PackedMolecules] = []
    rejects: dict[int, str] = {}
    done = 0
    for part in _in_chunks(partial(_prepare_chunk, preparation, blocks), molecules, workers):
        if isinstance(part, dict):
            rejects.update(part)
        else:
            parts.append(part)
        done = min(done + CHUNK, len(molecules))
        if progress:
            progress(done)
    if not parts:
        raise NoMoleculesError(rejects)
    result = PackedMolecules.concatenate(parts)
    result.rejects.update(rejects)
    _keep(path, packed_bytes(result))
    return result


def scaffolds(keys: Sequence[str], *, workers: int | None = None) -> list[str]:
    """The scaffolds of molecules by their names, on all cores, or read back.

    >>> scaffolds(["Cc1ccccc1", "CCO"])
    ['c1ccccc1', '']
    """
    digest = hashlib.sha256(json.dumps([made_with(), *keys]).encode("utf-8", "surrogatepass"))
    path = cache_folder() / "scaffolds" / f"{digest.hexdigest()}.json"
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, list) and len(found) == len(keys):
            return found
    result = [frame for part in _in_chunks(_scaffold_chunk, keys, workers) for frame in part]
    _keep(path, json.dumps(result).encode())
    return result


def _in_chunks(
    function: Callable[[_Chunk], _T], molecules: Sequence[str], workers: int | None
) -> Iterator[_T]:
    """What a function makes of one chunk of molecules after the other, on all cores."""
    firsts = range(0, len(molecules), CHUNK)
    chunks = ((first, molecules[first : first + CHUNK]) for first in firsts)
    return in_order(function, chunks, 1 if len(firsts) == 1 else workers or cores())


def _prepare_chunk(
    preparation: Preparation, blocks: bool, chunk: _Chunk
) -> PackedMolecules | dict[int, str]:
    first_row, molecules = chunk
    try:
        with as_many_threads(1):
            return read_molecules(
                molecules, preparation, blocks=blocks, first_row=first_row, keys=True
            )
    except NoMoleculesError as error:
        return error.rejects


def _scaffold_chunk(chunk: _Chunk) -> list[str]:
    from gad.chem import parse, quiet, scaffold

    with quiet:
        return [scaffold(parse(key)) for key in chunk[1]]


def _keep(path: Path, content: bytes) -> None:
    """Write a file of the cache. One that cannot be written costs time, not the run."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)


_ARRAYS = ("atoms", "atom_values", "bonds", "bond_values", "graph_values", "rows", "counts")


def packed_bytes(molecules: PackedMolecules) -> bytes:
    """The content of a file of prepared molecules."""
    tensors = {name: getattr(molecules, name).contiguous() for name in _ARRAYS}
    tensors["keys"] = torch.frombuffer(
        bytearray("\n".join(molecules.keys), "utf-8"), dtype=torch.uint8
    )
    operators = molecules.operators
    plain: dict[str, object] = {}
    for f in fields(operators):
        value = getattr(operators, f.name)
        if f.name.startswith("_") or value is None:
            continue
        if hasattr(value, "contiguous"):
            tensors[f"operators.{f.name}"] = value.contiguous()
        else:
            plain[f.name] = value
    notes = {"operators": plain, "rejects": molecules.rejects, "unseen": molecules.unseen}
    return save(tensors, metadata={"gad": json.dumps(notes)})


def read_packed(path: Path) -> PackedMolecules | None:
    """Read back :func:`packed_bytes` by memory map; None where there is no whole one."""
    try:
        with safe_open(path, framework="pt") as file:
            notes = json.loads(file.metadata()["gad"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        operators = GraphOperators(
            **notes["operators"],
            **{
                name.removeprefix("operators."): tensor
                for name, tensor in tensors.items()
                if name.startswith("operators.")
            },
        )
        return PackedMolecules(
            **{name: tensors[name] for name in _ARRAYS},
            operators=operators,
            rejects={int(row): why for row, why in notes["rejects"].items()},
            unseen={int(row): tuple(names) for row, names in notes["unseen"].items()},
            keys=tuple(tensors["keys"].numpy().tobytes().decode().split("\n")),
        )
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, struct.error):
        return None
