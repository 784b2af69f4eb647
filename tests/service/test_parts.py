"""The small parts: limits, names of models, counts, the queue."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gad.chem import parse
from gad.data.known import load_esol
from gad.service.batching import Batcher, Wants
from gad.service.limits import Limits, Refusal, atoms_in
from gad.service.metrics import Metrics
from gad.service.models import Models, Served, named
from gad.service.schemas import Row


def test_atoms_are_counted_as_rdkit_counts_them():
    for smiles in load_esol().smiles:
        assert atoms_in(smiles) == parse(smiles).GetNumAtoms()


def test_models_have_names_of_their_own():
    words = ["runs/a/model.gad", "a.gad", "a=other/x.gad"]
    with pytest.raises(ValueError, match="'a'"):
        named(words)
    assert named(["x/a.gad", "y/a.gad", "z/a.gad"]) == {
        "a": Path("x/a.gad"), "a-2": Path("y/a.gad"), "a-3": Path("z/a.gad"),
    }  # fmt: skip
    assert named(["b=c/model.gad", "/tmp/p=q/model.gad"]) == {
        "b": Path("c/model.gad"), "p=q": Path("/tmp/p=q/model.gad"),
    }  # fmt: skip


def test_a_service_wants_models():
    with pytest.raises(ValueError, match="at least one"):
        Models([])


class Broken:
    """A model that fails, as only a fault of ours could make it."""

    @property
    def trust(self):
        raise RuntimeError("broken")


def test_the_queue_outlives_a_fault_and_lets_nobody_wait_behind_a_crowd(run):
    metrics = Metrics()
    batcher = Batcher(Limits(), metrics, full=16)
    broken, good = Served("broken", Broken()), Served("good", run.model)
    order: list[str] = []

    async def ask(model: Served, count: int, name: str) -> list[Row]:
        rows = await batcher.predict(model, Wants(), ["CCO"] * count, [3] * count)
        order.append(name)
        return rows

    async def together():
        with pytest.raises(RuntimeError, match="broken"):
            await ask(broken, 1, "broken")
        crowd = asyncio.create_task(ask(good, 160, "crowd"))
        await asyncio.sleep(0.05)
        return await asyncio.gather(crowd, ask(good, 1, "alone"))

    crowd, alone = asyncio.run(together())
    assert (len(crowd), len(alone)) == (160, 1)
    assert order == ["alone", "crowd"]
    batcher.stop()
    with pytest.raises(Refusal, match="stopping"):
        asyncio.run(ask(good, 1, "late"))


def test_batches_hold_only_so_many_atoms(run):
    metrics = Metrics()
    batcher = Batcher(Limits(), metrics, full=16, atoms=20)
    served = Served("good", run.model)
    texts, atoms = ["C" * 12, "C" * 30, "CC", "CCC"], [12, 30, 2, 3]
    rows = asyncio.run(batcher.predict(served, Wants(), texts, atoms))
    batcher.stop()
    assert [row.smiles for row in rows] == texts
    lines = metrics.text().splitlines()
    assert "gad_batch_molecules_count 3" in lines  # 12 | 30 | 2 and 3
