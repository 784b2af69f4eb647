"""Group additivity: it finds what is additive, and its algebra is that of a dense posterior."""

from __future__ import annotations

import numpy as np
from rdkit import Chem
from rdkit.Chem import Crippen

from gad.chem import Featurizer
from gad.data.known import load_esol
from gad.data.store.molecules import Preparation, read_molecules
from gad.prediction.explanation.contributions import (
    GROUP,
    TYPE,
    Additive,
    Atoms,
)
from gad.prediction.explanation.groups import types_and_groups
from tests.reference import crippen


def test_crippens_contributions_are_found_in_his_sums():
    texts = list(load_esol().smiles)
    packed = read_molecules(texts, Preparation(Featurizer()))
    values = np.array([[Crippen.MolLogP(Chem.MolFromSmiles(text))] for text in texts])
    molecule = packed.operators.batch.numpy()
    given = Atoms(*types_and_groups(packed), molecule, len(texts))
    held = np.arange(len(texts)) % 8 == 0
    groups = Additive.of(given, values, ~held)
    atoms, found, sums = groups(given)[:, 0], [], []
    for k in np.flatnonzero(held):
        own, truth = atoms[molecule == k], crippen.contributions(texts[k])
        sums.append(own.sum() + groups.offset[0])
        if len(own) > 2 and truth.std() > 1e-6:
            found.append(np.corrcoef(own, truth)[0, 1])
    assert np.mean(found) > 0.85
    assert np.corrcoef(sums, values[held, 0])[0, 1] > 0.98


def test_the_algebra_is_that_of_a_normal_posterior():
    random = np.random.default_rng(0)
    molecule = np.repeat(np.arange(40), 5)
    types, groups = random.integers(0, 4, 200), random.integers(0, 9, 200) + (1 << 62)
    sums, used = random.normal(size=(40, 2)), np.arange(40) > 2
    found = Additive.of(Atoms(types, groups, molecule, 40), sums, used)
    # By conditioning a normal distribution; the noise has variance 1, b a flat prior.
    keys = np.unique(np.concatenate([types, groups]))
    x = (keys == types[:, None]) * 1.0 + (keys == groups[:, None]) * 1.0
    design = np.stack([np.append(x[molecule == k].sum(0), 1.0) for k in range(3, 40)])
    full = np.diag(np.append(np.where(keys < 1 << 62, 1 / TYPE, 1 / GROUP), 1e6))
    gain = full @ design.T @ np.linalg.inv(design @ full @ design.T + np.eye(37))
    mean = gain @ sums[3:]
    np.testing.assert_allclose(found.offset, mean[-1], atol=1e-6)
    # A type and a group nobody has seen are worth nothing.
    new = Atoms(np.array([0, 77]), np.append(groups[0], (1 << 62) + 999), np.zeros(2, int), 1)
    own = mean[:-1][(keys == 0) | (keys == groups[0])].sum(0)
    np.testing.assert_allclose(found(new), [own, [0.0, 0.0]], atol=1e-6)


def test_groups_see_the_bond_and_not_the_order():
    packed = read_molecules(["CC(=O)O", "OC(C)=O", "CC(O)O"], Preparation(Featurizer()))
    types, groups = types_and_groups(packed)
    assert groups[1] == groups[5]
    assert groups[1] != groups[9]
    assert types[0] == types[6] == types[8]
    assert groups[0] == groups[6]
    assert set(types) & set(groups) == set()
