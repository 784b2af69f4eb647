"""A corpus: shards on disk, labels that are what RDKit says, batches across their seams."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from rdkit.Chem import Descriptors

from gad.chem import parse
from gad.chem.descriptors import CHEAPER_NAMES
from gad.chem.fingerprints import morgan_counts
from gad.data.known import load_esol
from gad.settings.model import preparation_of
from gad.settings.recipe import load_recipe
from gad.training.pretraining import corpus as module
from gad.training.pretraining.corpus import build_corpus
from gad.training.pretraining.pretext import Pretext, labels_of

SMILES = load_esol().smiles[:60]


@pytest.fixture
def corpus(monkeypatch, tmp_path):
    monkeypatch.setenv("GAD_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "SHARD", 25)
    return build_corpus([*SMILES, "no molecule("], preparation_of(load_recipe("base")), workers=1)


def test_labels_are_descriptors_and_fingerprints():
    values, bits = labels_of(SMILES[:5])
    for text, row, packed in zip(SMILES, values, bits, strict=False):
        told = dict(zip(CHEAPER_NAMES, row, strict=True))
        assert told["TPSA"] == pytest.approx(Descriptors.TPSA(parse(text)), abs=1e-3)
        expected = morgan_counts([parse(text)])[0] > 0
        np.testing.assert_array_equal(np.unpackbits(packed).astype(bool), expected)


def test_every_molecule_is_there_once_and_bad_ones_are_counted(corpus):
    assert (len(corpus), corpus.rejects, len(corpus.shards)) == (60, 1, 3)
    generator = torch.Generator().manual_seed(1)
    order = corpus.shuffled(torch.arange(60), generator)
    assert sorted(order.tolist()) == list(range(60))
    assert order.tolist() != corpus.shuffled(torch.arange(60), generator).tolist()


def test_a_batch_across_a_seam_has_the_molecules_and_the_labels_of_both_sides(corpus):
    rows = torch.tensor([3, corpus.sizes[0] + 1, 7])
    batch, targets, weights = corpus.batch(rows)
    assert batch.operators.num_graphs == len(targets) == len(weights) == 3
    for place, row in enumerate([3, 7, corpus.sizes[0] + 1]):  # shard by shard
        own, label, _ = corpus.batch(torch.tensor([row]))
        torch.testing.assert_close(targets[place], label[0])
        size = batch.operators.graph_sizes[place]
        assert size == own.operators.num_nodes


def test_shards_that_are_there_are_not_made_again(corpus, monkeypatch):
    monkeypatch.setattr(module, "_write_shard", None)
    again = build_corpus([*SMILES, "no molecule("], preparation_of(load_recipe("base")), workers=1)
    torch.testing.assert_close(again.pretext.centre, corpus.pretext.centre)
    assert again.rejects == 1


def test_targets_are_standardised_and_the_loss_is_least_at_the_truth(corpus):
    _, targets, weights = corpus.batch(torch.arange(20))
    descriptors = corpus.pretext.centre.numel()
    assert targets[:, :descriptors].abs().max() <= 4
    assert set(targets[:, descriptors:].unique().tolist()) == {0.0, 1.0}
    right = torch.cat([targets[:, :descriptors], 40 * (targets[:, descriptors:] - 0.5)], dim=1)
    total, weight = corpus.pretext.losses(right, targets, weights)
    assert total < 1e-5
    assert weight == 20
    wrong, _ = corpus.pretext.losses(-right, targets, weights)
    assert wrong > 10


def test_a_constant_descriptor_does_no_harm():
    values = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    values[:, 1] = 7
    pretext = Pretext.of(values)
    assert pretext.spread[1] == 1
    assert 0.5 < pretext.spread[0] < 1.5
