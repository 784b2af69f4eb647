"""The nearest training molecules, compared with RDKit's own similarities."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from rdkit.DataStructs import BulkTanimotoSimilarity

from gad.chem.looks import look
from gad.data.known import load_esol
from gad.prediction.neighbours import Neighbours
from gad.settings.task import Target, Task

SMILES = load_esol().smiles[:150]


def kept(smiles=SMILES, targets=1, **changes) -> Neighbours:
    shape = (len(smiles), targets)
    given = {
        "bits": look(smiles).bits,
        "smiles": tuple(smiles),
        "values": np.arange(np.prod(shape), dtype=np.float64).reshape(shape),
        "bounds": np.zeros(shape, np.int8),
        "errors": np.ones(shape),
    }
    return Neighbours(**{**given, **changes})


def test_similarities_are_those_of_rdkit():
    make = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=1024)
    prints = [make.GetFingerprint(Chem.MolFromSmiles(s)) for s in SMILES]
    queries = load_esol().smiles[150:180]
    near = kept().near(look(queries).bits, 4)
    for row, text in enumerate(queries):
        own = make.GetFingerprint(Chem.MolFromSmiles(text))
        expected = np.array(BulkTanimotoSimilarity(own, prints))
        # Of equally similar ones the first comes first.
        order = np.argsort(-expected, kind="stable")[:4]
        np.testing.assert_allclose(near.similarity[row], expected[order], rtol=1e-9)
        np.testing.assert_array_equal(near.places[row], order)


def test_a_molecule_alone_finds_the_same_as_in_a_crowd():
    many = look(SMILES[:60]).bits
    together = kept().near(many, 3)
    alone = [kept().near(one[None], 3) for one in many]
    np.testing.assert_array_equal(together.places, np.concatenate([a.places for a in alone]))
    np.testing.assert_array_equal(
        together.similarity, np.concatenate([a.similarity for a in alone])
    )


def test_some_may_be_left_out_and_there_may_be_too_few():
    among = np.arange(150) % 2 == 1
    near = kept().near(look(SMILES[:10]).bits, 5, among)
    assert (near.places % 2 == 1).all()
    assert kept().near(look(["C"]).bits, 500).places.shape == (1, 150)
    nothing = kept(smiles=("C",)).near(look(["C"]).bits, 3, np.array([False]))
    assert nothing.places.shape == (1, 0)
    assert np.isnan(nothing.errors).all()


def test_errors_nearby_are_a_mean_by_similarity_cubed():
    rng = np.random.default_rng(0)
    errors = rng.random((150, 2))
    errors[::3, 1] = np.nan
    store = kept(targets=2, errors=errors)
    query = look(load_esol().smiles[200:205]).bits
    near = store.near(query, 150)
    for row in range(5):
        weight = np.empty(150)
        weight[near.places[row]] = (near.similarity[row] + 0.01) ** 3
        np.testing.assert_allclose(
            near.errors[row],
            [np.average(e[np.isfinite(e)], weights=weight[np.isfinite(e)]) for e in errors.T],
            rtol=1e-4,
        )


def test_what_was_measured_is_told_as_people_wrote_it():
    task = Task((Target("logS"), Target("hit", "binary", classes=("no", "yes"))))
    store = kept(
        smiles=("CCO", "C"),
        targets=2,
        values=np.array([[10.0, 1.0], [np.nan, np.nan]]),
        bounds=np.array([[1, 0], [0, 0]], np.int8),
    )
    assert store.told(task, 0, 0.5).values == (">10", "yes")
    assert store.told(task, 1, 0.5).values == (None, None)
    assert store.as_text(task) == (True, True)


def test_a_part_of_a_model_file_gives_the_same_back():
    task = Task((Target("a"), Target("b")))
    store = kept(targets=2, smiles=("CCO", "é\udc80"), bits=look(["CCO", "C"]).bits)
    store.values[0, 1] = store.errors[1, 0] = np.nan
    again = Neighbours.from_part(store.to_part(), task)
    assert again.smiles == store.smiles
    for name in ("bits", "values", "bounds", "errors"):
        np.testing.assert_array_equal(getattr(again, name), getattr(store, name))
    with pytest.raises(ValueError, match="do not fit"):
        Neighbours.from_part(store.to_part(), Task((Target("a"),)))
