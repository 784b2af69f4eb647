"""What every test shares: one thread, reproducible examples, and the way to data."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

from gad.data.known import load_esol
from gad.training.run import TrainingRun, train

torch.set_num_threads(1)
# Where the tests run in the background Ctrl-C is ignored, here and in every process they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every run and machine; HYPOTHESIS_PROFILE=explore looks for new ones, and
# quick draws few.
settings.register_profile("reproducible", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.register_profile("quick", settings.get_profile("reproducible"), max_examples=15)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "reproducible"))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with published data sets, for tests whose subject these sets are."""
    value = os.environ.get("GAD_DATA")
    if not value:
        pytest.skip("GAD_DATA is not set: it names the folder with the published data sets")
    folder = Path(value)
    if not folder.is_dir():
        # A wrong path is a mistake, not a reason to skip.
        pytest.fail(f"GAD_DATA={value} is not a folder")
    return folder


@pytest.fixture(scope="session")
def golden() -> dict[str, Any]:
    """Numbers printed by the authors' own layers, and those drawn in the paper's Figure 1."""
    file = Path(__file__).parent / "golden" / "diffusion.json"
    return json.loads(file.read_text(encoding="utf-8"))


TINY = {"epochs": 3, "width": 20, "layers": 2, "towers": 2, "batch_size": 32, "blend": False}


@pytest.fixture(scope="session", autouse=True)
def molecule_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One cache folder for all tests of a process, empty at first."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GAD_CACHE", str(folder))
        patch.delenv("GAD_DEBUG", raising=False)
        yield folder


@pytest.fixture(scope="session")
def table():
    """Two hundred molecules with their solubility."""
    esol = load_esol()
    return list(esol.smiles[:200]), esol.targets[:200, 0]


@pytest.fixture(scope="session")
def run(table, tmp_path_factory: pytest.TempPathFactory) -> TrainingRun:
    """One small trained model for many tests."""
    folder = tmp_path_factory.mktemp("run") / "run"
    return train(table, settings=TINY, out=folder, baselines=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest come first: as the last ones one worker would do them while others are idle."""
    items.sort(key=lambda item: not item.name.startswith("test_a_tutorial_runs"))
