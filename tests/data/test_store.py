"""Prepared molecules: named once, read back, scaffolds when asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from gad.chem import Featurizer, canonical, molecule, parse, scaffold
from gad.data.known import load_esol
from gad.data.rows import Source
from gad.data.store import cache
from gad.data.store.cache import prepare, scaffolds
from gad.data.store.molecules import Preparation, read_molecules
from gad.settings.recipe import Recipe
from gad.training.dataset import Splitting, load_dataset, split_dataset

TEXTS = ["OCC", "c1ccccc1O", "(", "C(C)O", "C[C@H](N)C(=O)O", "C1CC1Cc1ccncc1"]
SETTINGS = Preparation(Featurizer())


@pytest.fixture(autouse=True)
def away_from_home(tmp_path, monkeypatch):
    monkeypatch.setenv("GAD_CACHE", str(tmp_path))


def names(texts):
    return tuple(canonical(parse(text)) for text in texts if text != "(")


def test_molecules_are_named_and_the_names_are_kept():
    first, again = (prepare(TEXTS, SETTINGS) for _ in range(2))
    assert first.keys == again.keys == names(TEXTS)
    assert first.keys[0] == first.keys[2]
    assert list(again.rejects) == [2]
    torch.testing.assert_close(again.atom_values, first.atom_values)


def test_prediction_names_nothing():
    assert read_molecules(TEXTS, SETTINGS).keys == ()


def test_some_molecules_as_a_set_of_their_own():
    some = prepare(TEXTS, SETTINGS).take(torch.tensor([3, 0]))
    alone = read_molecules([TEXTS[4], TEXTS[0]], SETTINGS, keys=True)
    assert some.keys == alone.keys
    assert some.rows.tolist() == [4, 0]
    for name in ("atoms", "atom_values", "bonds", "graph_values"):
        torch.testing.assert_close(getattr(some, name), getattr(alone, name))


def test_walks_along_bonds_follow_the_bonds():
    """Kept in the cache, in batches, in selections, whatever the order of atoms."""
    settings = replace(SETTINGS, bond_walk=3)
    first, again = (prepare(TEXTS, settings) for _ in range(2))
    assert first.bond_values.shape == (len(first.bonds), 3)
    torch.testing.assert_close(again.bond_values, first.bond_values)
    assert prepare(TEXTS, SETTINGS).bond_values.shape == (len(first.bonds), 0)
    some = first.take(torch.tensor([3, 0]))
    alone = read_molecules([TEXTS[4], TEXTS[0]], settings)
    torch.testing.assert_close(some.bond_values, alone.bond_values)
    batch = first.batch(torch.tensor([3, 0]))
    # One step from i leads to any neighbour alike.
    degree = batch.operators.degree[batch.operators.target]
    torch.testing.assert_close(batch.bond_values[:, 0], 1 / degree.float())
    assert isinstance(batch.inputs()["edge_attr"], tuple)


def test_scaffolds_are_those_of_the_texts_and_are_kept(monkeypatch):
    texts = [text for text in TEXTS if text != "("]
    found = scaffolds(names(TEXTS))
    assert found == [scaffold(parse(text)) for text in texts]
    monkeypatch.setattr(cache, "_scaffold_chunk", lambda *_: pytest.fail("computed again"))
    assert scaffolds(names(TEXTS)) == found


def test_damaged_scaffolds_are_made_again(tmp_path):
    found = scaffolds(["CCO", "C1CC1"])
    (file,) = (tmp_path / "scaffolds").iterdir()
    for content in (b"[", b'["C"]', b"3", b"\xff"):
        file.write_bytes(content)
        assert scaffolds(["CCO", "C1CC1"]) == found


def test_a_training_reads_every_text_once(monkeypatch):
    table = load_esol()
    texts, labels = list(table.smiles[:60]), table.targets[:60]
    seen = []
    read = molecule.parse
    monkeypatch.setattr(molecule, "parse", lambda text: seen.append(text) or read(text))
    data = load_dataset(Source((texts, labels)), Recipe())
    assert seen == texts
    (split,), _ = split_dataset(data, Splitting("random"), seed=0)
    assert "scaffolds" not in vars(data)
    (by_scaffold,), _ = split_dataset(data, Splitting("scaffold"), seed=0)
    frames = np.array([scaffold(parse(text)) for text in texts])
    assert not set(frames[by_scaffold.train]) & set(frames[by_scaffold.test]) - {""}
    assert split != by_scaffold
