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
    VALUE,
    Atoms,
    Contributions,
)
from gad.prediction.explanation.groups import types_and_groups
from tests.reference import crippen


def test_crippens_contributions_are_found_in_his_sums():
    texts = list(load_esol().smiles)
    packed = read_molecules(texts, Preparation(Featurizer()))
    values = np.array([[Crippen.MolLogP(Chem.MolFromSmiles(text))] for text in texts])
    held, molecule = np.arange(0, len(texts), 8), packed.operators.batch.numpy()
    given = Atoms(*types_and_groups(packed), molecule, np.zeros((len(texts), 0)))
    known = Contributions.of(given, values, held)
    assert known.fidelity[0] > 0.97
    atoms, whole, _ = known.explain(given, values)
    assert not whole.any()
    found = []
    for k in held:
        own, truth = atoms[molecule == k, 0], crippen.contributions(texts[k])
        np.testing.assert_allclose(own.sum() + known.baseline[0], values[k, 0], atol=1e-9)
        if len(own) > 2 and truth.std() > 1e-6:
            found.append(np.corrcoef(own, truth)[0, 1])
    assert np.mean(found) > 0.85


def test_the_algebra_is_that_of_conditioning_a_normal_distribution():
    random = np.random.default_rng(0)
    molecule = np.repeat(np.arange(40), 5)
    types, groups = random.integers(0, 4, 200), random.integers(0, 9, 200) + (1 << 62)
    predicted, values = random.normal(size=(40, 2)), random.normal(size=(40, 3))
    held = np.array([0, 1, 2])
    known = Contributions.of(Atoms(types, groups, molecule, values), predicted, held)
    # A molecule with a type and a group nobody has seen.
    new_types, new_groups = np.array([0, 3, 77, 77]), groups[:4].copy()
    new_groups[3] = (1 << 62) + 999
    told, z = np.array([[1.5, -2.0]]), random.normal(size=3)
    new = Atoms(new_types, new_groups, np.zeros(4, dtype=int), z[None])
    atoms, whole, rest = known.explain(new, told)

    keys = np.unique(np.concatenate([types, groups, new_types, new_groups]))
    prior = np.append(np.where(keys < 1 << 62, 1 / TYPE, 1 / GROUP), np.full(3, 1 / VALUE))

    def features(of_types, of_groups):
        counts = (keys == of_types[:, None]) * 1.0 + (keys == of_groups[:, None]) * 1.0
        return np.concatenate([counts, np.zeros((len(counts), 3))], axis=1)

    x = features(types, groups)
    design = np.stack([x[molecule == k].sum(0) for k in range(3, 40)])
    design[:, -3:] = values[3:]
    # With a flat prior on b; the noise has variance 1.
    design = np.concatenate([design, np.ones((37, 1))], axis=1)
    full = np.diag(np.append(prior, 1e6))
    gain = full @ design.T @ np.linalg.inv(design @ full @ design.T + np.eye(37))
    mean, covariance = gain @ predicted[3:], full - gain @ design @ full
    mean, covariance = mean[:-1], covariance[:-1, :-1]
    own = features(new_types, new_groups)
    last = np.append(np.zeros(len(keys)), z)
    total = own.sum(0) + last
    rho = told[0] - known.baseline - total @ mean
    gain = covariance @ total / (total @ covariance @ total)
    np.testing.assert_allclose(atoms, own @ mean + np.outer(own @ gain, rho), atol=1e-6)
    np.testing.assert_allclose(whole[0], last @ mean + (last @ gain) * rho, atol=1e-6)
    np.testing.assert_allclose(rest[0], rho, atol=1e-6)
    np.testing.assert_allclose(atoms.sum(0) + whole[0], told[0] - known.baseline, atol=1e-12)


def test_groups_see_the_bond_and_not_the_order():
    packed = read_molecules(["CC(=O)O", "OC(C)=O", "CC(O)O"], Preparation(Featurizer()))
    types, groups = types_and_groups(packed)
    assert groups[1] == groups[5]
    assert groups[1] != groups[9]
    assert types[0] == types[6] == types[8]
    assert groups[0] == groups[6]
    assert set(types) & set(groups) == set()
