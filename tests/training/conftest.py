"""One small trained model for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gad.data.known import load_esol
from gad.training.run import TrainingRun, train

TINY = {"epochs": 3, "width": 20, "layers": 2, "towers": 2, "batch_size": 32}


@pytest.fixture(scope="session", autouse=True)
def molecule_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GAD_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def table():
    """Two hundred molecules with their solubility."""
    esol = load_esol()
    return list(esol.smiles[:200]), esol.targets[:200, 0]


@pytest.fixture(scope="session")
def run(table, tmp_path_factory: pytest.TempPathFactory) -> TrainingRun:
    folder = tmp_path_factory.mktemp("run") / "run"
    return train(table, settings=TINY, out=folder, baselines=False)
