"""Where the trials of a search are kept, such that processes share them and any may be killed.

A file is an SQLite database: its transactions survive ``kill -9`` at any moment, and its locks let
processes of one machine work side by side. Anything with ``://`` is a database URL for Optuna.

A running trial gives a sign of life every few seconds. One that has been silent for four times as
long has lost its process: it is marked as failed, and its settings wait to be tried again.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optuna.storages import RDBStorage
    from optuna.trial import FrozenTrial

EXTRA = "Optuna is not installed: pip install 'graph-anisotropic-diffusion[tune]'"
HEARTBEAT_SECONDS = int(os.environ.get("GAD_HEARTBEAT_SECONDS", "15"))
_SILENCE = 4
# A trial that has taken its process with it so often is given up.
_TRIES = 3
_LOCK_SECONDS = 120


def need_optuna() -> None:
    """Say which extra is missing, if it is."""
    if importlib.util.find_spec("optuna") is None:
        raise ModuleNotFoundError(EXTRA)


@contextlib.contextmanager
def quiet_optuna() -> Iterator[None]:
    """Optuna speaks to its own users, in log lines and warnings; ours have a reporter."""
    need_optuna()
    import optuna

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="optuna")
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(level)


@contextlib.contextmanager
def open_storage(place: str | Path) -> Iterator[RDBStorage]:
    """The database of a path, made if it is not there, or of a URL; let go at the end."""
    storage = _open(str(place))
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


def _open(text: str) -> RDBStorage:
    from sqlalchemy.exc import SQLAlchemyError

    try:
        if "://" in text:
            return _database(text)
        path = Path(text)
        path.parent.mkdir(parents=True, exist_ok=True)
        _make(path)
        return _database(_url(path))
    except (SQLAlchemyError, RuntimeError, UnicodeError) as error:
        raise ValueError(
            f"the trials cannot be kept in {text}: {str(error).splitlines()[0]}"
        ) from error


def _url(path: Path) -> str:
    from sqlalchemy.engine import URL

    url = URL.create("sqlite", database=str(path)).render_as_string()
    return url.replace("{", "{{").replace("}", "}}")  # Optuna formats it


def _make(path: Path) -> None:
    """Make a database elsewhere and give it its name in one step.

    Two processes that make the tables of one file at the same time stand in each other's way.
    """
    if path.exists():
        return
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        storage = _database(_url(new))
        storage.remove_session()
        storage.engine.dispose()  # so that all of it is in the file
        with contextlib.suppress(FileExistsError):
            os.link(new, path)
    finally:
        new.unlink(missing_ok=True)


def _database(url: str) -> RDBStorage:
    import optuna
    from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback

    options: dict[str, object] = {}
    if url.startswith("sqlite"):
        options["connect_args"] = {"timeout": _LOCK_SECONDS}
    try:
        return RDBStorage(
            url,
            engine_kwargs=options,
            heartbeat_interval=HEARTBEAT_SECONDS,
            grace_period=_SILENCE * HEARTBEAT_SECONDS,
            heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(_TRIES - 1),
        )
    except optuna.exceptions.StorageInternalError as error:
        raise RuntimeError(str(error)) from error


def first_number(trial: FrozenTrial) -> int:
    """The number a trial had before any interruption: that of its checkpoint."""
    from optuna.storages import RetryHeartbeatStaleTrialCallback

    first = RetryHeartbeatStaleTrialCallback.retried_trial_number(trial)
    return trial.number if first is None else first


def is_cut_off(trial: FrozenTrial) -> bool:
    """Whether a trial ended without a result: killed, interrupted, or one too many."""
    return trial.state.name == "FAIL"
