"""Small models of every kind."""

from __future__ import annotations

import numpy as np
import pytest

import gad
from gad.data.known import load_esol
from tests.conftest import TINY

ROWS = slice(0, 1200, 6)


@pytest.fixture(scope="session")
def smiles():
    return list(load_esol().smiles[ROWS])


def _made(factory, name, labels, smiles, **more):
    out = factory.mktemp(name) / "run"
    more["settings"] = {**TINY, **more.get("settings", {})}
    return gad.train((smiles, labels), out=out, baselines=False, **more).model


@pytest.fixture(scope="session")
def plain(tmp_path_factory, smiles):
    """One regression without whole-molecule values."""
    labels = load_esol().targets[ROWS]
    settings = {"descriptors": "false", "epochs": 6, "width": 40}
    return _made(tmp_path_factory, "plain", labels, smiles, settings=settings)


@pytest.fixture(scope="session")
def salts(tmp_path_factory, smiles):
    """The same, of standardised molecules."""
    labels = load_esol().targets[ROWS]
    settings = {"descriptors": "false"}
    return _made(tmp_path_factory, "salts", labels, smiles, settings=settings, standardise=True)


@pytest.fixture(scope="session")
def hydrogens(tmp_path_factory, smiles):
    """One whose graphs have hydrogens."""
    labels = load_esol().targets[ROWS]
    settings = {"explicit_hydrogens": "true", "epochs": 1}
    return _made(tmp_path_factory, "hydrogens", labels, smiles, settings=settings)


@pytest.fixture(scope="session")
def many(tmp_path_factory, smiles):
    """An ensemble of two, with descriptors, on a number, its power of ten and two classes."""
    logs = load_esol().targets[ROWS]
    labels = np.concatenate([logs, 10.0**logs, logs > -2], axis=1).astype(object)
    return _made(tmp_path_factory, "many", labels, smiles, ensemble=2, transform="auto")


@pytest.fixture(scope="session")
def classes(tmp_path_factory, smiles):
    """Three classes, by words."""
    logs = load_esol().targets[ROWS][:, 0]
    words = np.where(logs > -1.5, "high", np.where(logs > -3, "middle", "low"))
    return _made(tmp_path_factory, "classes", words, smiles)


@pytest.fixture(scope="session")
def blended(tmp_path_factory, smiles):
    """A network with trees and a line beside it."""
    labels = load_esol().targets[ROWS]
    settings = {"descriptors": "false", "blend": "true"}
    return _made(tmp_path_factory, "blended", labels, smiles, settings=settings)
