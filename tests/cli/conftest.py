"""Models trained once, and a cache of their own for all commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.calls import TINY, done, esol_rows, write_csv


@pytest.fixture(scope="session")
def esol_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on the known set."""
    folder = tmp_path_factory.mktemp("esol") / "run"
    done("train", "esol", *TINY, "--out", folder)
    return folder


@pytest.fixture(scope="session")
def model(esol_run: Path) -> Path:
    return esol_run / "model.gad"


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred molecules with their solubility."""
    return write_csv(tmp_path_factory.mktemp("table") / "table.csv", esol_rows(100))
