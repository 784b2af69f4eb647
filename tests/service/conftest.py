"""Models and services, each made once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest

from gad.data.known import load_esol
from gad.service.app import build_app
from gad.service.limits import Limits
from gad.service.models import Models
from gad.service.server import Server, address, listen
from gad.training.run import train
from tests.cli.calls import write_csv
from tests.conftest import TINY

Serving = Callable[..., httpx.Client]


@pytest.fixture(scope="session")
def esol(run) -> Path:
    """A regression of one target."""
    return run.directory / "model.gad"


def _trained(folder: Path, features: list[str]) -> Path:
    """Two members; a number, three classes by name, 0 or 1."""
    known = load_esol()
    logs = known.targets[:150, 0]
    bands = np.array(["low", "middle", "high"])[np.digitize(logs, [-4.0, -1.5])]
    rows = [
        {"smiles": s, "logS": float(y), "band": b, "hit": int(y > -2), "mass": 10.0 * len(s)}
        for s, y, b in zip(known.smiles, logs, bands, strict=False)
    ]
    run = train(
        write_csv(folder / "table.csv", rows),
        target=["logS", "band", "hit"],
        features=features,
        ensemble=2,
        settings={**TINY, "epochs": 2},
        out=folder / "run",
        baselines=False,
    )
    return run.directory / "model.gad"


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Targets of three kinds, and a column of the user's own."""
    return _trained(tmp_path_factory.mktemp("mixed"), ["mass"])


@pytest.fixture(scope="session")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Targets of three kinds, of the molecule alone."""
    return _trained(tmp_path_factory.mktemp("several"), [])


@contextmanager
def serving(
    paths: dict[str, Path], limits: Limits | None = None, api_key: str | None = None
) -> Iterator[str]:
    """A service in a thread of its own; its address."""
    ready = threading.Event()
    app = build_app(Models.load(paths), limits, api_key)
    with listen("127.0.0.1", 0) as place:
        server = Server(app, grace=1, ready=ready.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]})
        thread.start()
        try:
            assert ready.wait(60)
            yield address(place)
        finally:
            server.should_exit = True
            thread.join(60)
        assert not thread.is_alive()


@pytest.fixture(scope="session")
def url(esol: Path, mixed: Path) -> Iterator[str]:
    """Two models side by side."""
    with serving({"esol": esol, "mixed": mixed}) as url:
        yield url


@pytest.fixture(scope="session")
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=60) as client:
        yield client


@pytest.fixture
def served(esol: Path) -> Iterator[Serving]:
    """A function that starts a service with settings of its own."""
    with ExitStack() as stack:

        def start(**settings) -> httpx.Client:
            url = stack.enter_context(serving({"esol": esol}, **settings))
            return stack.enter_context(httpx.Client(base_url=url, timeout=60))

        yield start
