"""A small set of graphs that goes by the name of zinc, and records to make tables of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gad.data import known
from gad.data.known.graphset import GraphSet, pointers
from gad.data.splits import Split
from gad.experiments.models import is_short, recipe_of, run_of
from gad.experiments.records import Record, write_record


def rings(count: int = 48) -> GraphSet:
    """Rings of three to nine atoms with a tail; the target is a sum over atoms and bonds."""
    random = np.random.default_rng(0)
    sizes, atoms, bonds, kinds, targets = [], [], [], [], []
    for _ in range(count):
        ring = int(random.integers(3, 10))
        pairs = [(i, i + 1) for i in range(ring)] + [(0, ring - 1)]
        pairs.sort()
        kind = random.integers(0, 28, ring + 1)
        order = random.integers(0, 3, len(pairs))
        sizes.append((ring + 1, len(pairs)))
        atoms.append(kind)
        bonds += pairs
        kinds.append(order)
        targets.append(0.1 * kind.sum() - order.sum())
    nodes, edges = np.array(sizes).T
    third = count // 3
    return GraphSet(
        name="zinc",
        node_ptr=pointers(nodes),
        atom_categories=np.concatenate(atoms).astype(np.uint8)[:, None],
        edge_ptr=pointers(edges),
        bonds=np.array(bonds, np.int32),
        bond_categories=np.concatenate(kinds).astype(np.uint8)[:, None],
        targets=np.array(targets, np.float64)[:, None],
        target_names=("y",),
        units=("",),
        split=Split(*np.split(np.arange(count), [third, 2 * third])),
        atom_cardinalities=(28,),
        bond_cardinalities=(3,),
    )


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> GraphSet:
    """While a test runs, these graphs are the known set zinc."""
    made = rings()
    monkeypatch.setitem(known.KNOWN, "zinc", lambda: made)
    return made


def record(folder: Path, data: str, **changes: Any) -> None:
    """Write a finished record of a run on ZINC or QM9."""
    values: dict[str, Any] = {
        "status": "finished", "model": "gad-i", "edges": True, "recipe": "zinc-paper", "seed": 0,
        "settings": {}, "parameters": 99_000, "epochs": 200, "minutes": 60.0, "val_mae": 0.2,
        "test_mae": 0.15, "data": {"name": data}, "command": "", "unit": "", "machine": {},
        "curve": {}, "short": False, "full_recipe": {}, **changes,
    }  # fmt: skip
    made = Record.from_dict(values)
    run = run_of(made)
    made.short = changes.get("short", is_short(run))
    made.full_recipe = changes.get("full_recipe", recipe_of(run).to_dict())
    path = folder / data / f"{len(list(folder.glob(f'{data}/*')))}.json"
    write_record(path, made)
