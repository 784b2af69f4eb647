"""Inside, edge, outside: what a chemist would say of a model of ESOL."""

from __future__ import annotations

import numpy as np
import pytest

from gad.chem.looks import look
from gad.data.known import load_esol
from gad.prediction.domain import Domain
from gad.prediction.neighbours import Neighbours
from tests.chem.test_order import C60

PEPTIDE = "N" + "C(C)C(=O)N" * 59 + "CC(=O)O"
STRANGE = [C60, "[U](=O)=O", "O=[U+2]=O", PEPTIDE]


@pytest.fixture(scope="module")
def esol():
    smiles = list(dict.fromkeys(load_esol().smiles))[:900]
    looks = look(smiles)
    none = np.zeros((len(smiles), 0))
    return looks, Neighbours(looks.bits, tuple(smiles), none, none, none)


def of_esol(esol, similar: bool) -> Domain:
    looks, store = esol
    return Domain.of(looks, store.near(looks.bits, 2).similarity[:, 1] if similar else None)


def judged(esol, domain: Domain, smiles) -> list[str]:
    looks = look(smiles)
    return domain.judge(looks, esol[1].near(looks.bits, 1).similarity[:, 0])


@pytest.mark.parametrize("similar", [True, False])
def test_what_is_not_like_esol_is_not_inside(esol, similar):
    domain = of_esol(esol, similar)
    assert "inside" not in judged(esol, domain, STRANGE)
    assert judged(esol, domain, ["CCCO", "CCCCCCO", "Cc1ccccc1"]) == ["inside"] * 3


@pytest.mark.parametrize("similar", [True, False])
def test_most_molecules_of_the_same_kind_are_inside(esol, similar):
    others = list(dict.fromkeys(load_esol().smiles))[900:]
    words = judged(esol, of_esol(esol, similar), others)
    assert words.count("inside") > 0.8 * len(others)
    assert words.count("outside") < 0.1 * len(others)


def test_an_element_or_a_size_is_reason_enough():
    looks = look(["C" * n for n in range(1, 11)])
    domain = Domain.of(looks, np.full(10, 0.5))
    asked = look(["C" * 5, "C" * 4 + "[Si]", "C" * 12, "C" * 16])
    assert domain.judge(asked, np.ones(4)) == ["inside", "outside", "edge", "outside"]
    assert domain.judge(asked, np.zeros(4))[0] == "outside", "nothing is near"


def test_distance_is_that_of_mahalanobis(esol):
    looks, _ = esol
    domain = of_esol(esol, similar=False)
    covariance = np.cov(looks.values.T)
    covariance += np.diag(1e-3 * np.diag(covariance) + 1e-6)
    apart = looks.values[:7] - looks.values.mean(0)
    expected = [a @ np.linalg.solve(covariance, a) / 16 for a in apart]
    np.testing.assert_allclose(domain.distance(looks)[:7] ** 2, expected, rtol=1e-6)


@pytest.mark.parametrize("similar", [True, False])
def test_a_part_of_a_model_file_judges_the_same(esol, similar):
    domain = of_esol(esol, similar)
    again = Domain.from_part(domain.to_part())
    smiles = [*STRANGE, *load_esol().smiles[-50:]]
    assert judged(esol, again, smiles) == judged(esol, domain, smiles)


def test_one_training_molecule_is_enough_to_have_a_domain():
    domain = Domain.of(look(["CCO"]), None)
    assert domain.judge(look(["CCO"]), None) == ["inside"]
