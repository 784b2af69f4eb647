"""Several processes train one model as one process would on their batches together."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from tests.cli.calls import Called, call, command, esol_rows, rows_of, shell, stopped, weights_of
from tests.cli.calls import write_csv as write

pytestmark = pytest.mark.slow

TWO = ("--accelerator", "cpu", "--strategy", "ddp", "--devices", "2")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """101 molecules of different weight, some labels missing: 81 to train on."""
    rows = [
        {
            **row,
            "other": "" if place % 3 == 0 else len(row["smiles"]),
            "weight": 0.25 + place % 4,
        }
        for place, row in enumerate(esol_rows(101))
    ]
    return write(tmp_path_factory.mktemp("several") / "table.csv", rows)


def options(table: Path, batch: int, *more: str) -> tuple[str | Path, ...]:
    """A model with everything that could tell the processes apart: norms, clipping, averaging."""
    changes = {
        "width": 20, "layers": 2, "epochs": 3, "batch_size": batch, "dropout": 0, "ema": 0.9,
        "clip": 1, "optimizer": "adam", "learning_rate": 1e-4,
    }  # fmt: skip
    given = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    columns = ("--target", "logS", "--target", "other", "--weight", "weight")
    return ("train", table, *columns, *given, "--no-baselines", "--metric", "RMSE", *more)


def curve(run: Path) -> torch.Tensor:
    rows = [
        [float(v) for k, v in row.items() if k != "seconds"] for row in rows_of(run / "log.csv")
    ]
    return torch.tensor(rows, dtype=torch.float64)


def assert_same(one: Path, other: Path) -> None:
    """The same curve and the same weights, to the rounding of float32 sums in another order."""
    torch.testing.assert_close(curve(one), curve(other), rtol=2e-5, atol=1e-6)
    expected = weights_of(other / "model.gad")
    for name, weight in weights_of(one / "model.gad").items():
        torch.testing.assert_close(weight, expected[name], rtol=1e-3, atol=2e-5, msg=name)


@pytest.fixture(scope="module")
def whole(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One process at a batch of 40: the last of an epoch has a single row."""
    out = tmp_path_factory.mktemp("whole") / "run"
    called = shell(*options(table, 40), "--out", out)
    assert called.code == 0, called.err
    return out


def test_two_processes_give_the_curve_of_one_at_twice_the_batch(table, whole, tmp_path):
    called = shell(*options(table, 20, *TWO), "--out", tmp_path / "run", "--json")
    assert called.code == 0, called.err
    assert_same(tmp_path / "run", whole)


def test_a_batch_without_weight_moves_nothing(table, tmp_path):
    """Adam would go on by its momentum."""
    rows = [
        {**row, "weight": 0.0 if place % 2 else 1.0} for place, row in enumerate(rows_of(table))
    ]
    halved = write(tmp_path / "halved.csv", rows)
    for out, batch, more in (("one", 2, ()), ("two", 1, TWO)):
        called = shell(
            *options(halved, batch, *more), "--set", "epochs=1", "--out", tmp_path / out, "--json"
        )
        assert called.code == 0, called.err
    assert_same(tmp_path / "two", tmp_path / "one")


def test_killed_they_go_on_with_as_many_and_no_others(table, tmp_path):
    cut, checkpoint = tmp_path / "cut", tmp_path / "cut" / "member-0.ckpt"
    given = options(table, 5, *TWO)
    code, _ = stopped(
        signal.SIGTERM, checkpoint.exists, *given, "--out", cut, GAD_CHECKPOINT_SECONDS="0"
    )
    assert code == 130
    refused = call(*options(table, 5), "--out", cut, "--resume")
    assert refused.code == 1
    assert "began with 2 processes and cannot go on with 1" in refused.err
    for out, more in ((cut, ("--resume",)), (tmp_path / "whole", ())):
        called = shell(*given, "--out", out, *more)
        assert called.code == 0, called.err
    torch.testing.assert_close(curve(cut), curve(tmp_path / "whole"), rtol=0, atol=0)


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port: int = place.getsockname()[1]
        return port


def together(*calls: tuple[list[str], Mapping[str, str]]) -> list[Called]:
    """Processes that run at the same time, each with an environment of its own."""
    running = [
        subprocess.Popen(
            words, env={**os.environ, **environment}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for words, environment in calls
    ]  # fmt: skip
    told = [process.communicate(timeout=180) for process in running]
    return [Called(p.returncode, *t) for p, t in zip(running, told, strict=True)]


def test_torchrun_starts_them_on_two_machines(table, whole, tmp_path):
    """Each with one process, by one address; a second start finds the run finished."""
    given = options(table, 20, "--accelerator", "cpu", "--strategy", "ddp", "--devices", "1")
    for more in ((), ("--resume",)):
        runner = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nnodes",
            "2",
            "--nproc-per-node",
        ]
        runner += ["1", "--master-addr", "127.0.0.1", "--master-port", str(free_port())]
        gad = ["-m", *command(*given, "--num-nodes", "2", "--out", tmp_path / "run", *more)[2:]]
        found = together(*(([*runner, "--node-rank", str(n), *gad], {}) for n in range(2)))
        assert [called.code for called in found] == [0, 0], [called.err for called in found]
        assert "model.gad" in found[0].out
        assert found[1].out == ""
    assert_same(tmp_path / "run", whole)


def test_slurm_starts_them_by_srun(table, whole, tmp_path):
    """With the variables that srun sets for two tasks."""
    given = command(*options(table, 20, *TWO), "--out", tmp_path / "run")
    common = {
        "SLURM_JOB_ID": "4711", "SLURM_JOB_NAME": "train", "SLURM_NTASKS": "2", "SLURM_NODEID": "0",
        "SLURM_NTASKS_PER_NODE": "2", "SLURM_NNODES": "1", "SLURM_NODELIST": "127.0.0.1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
    }  # fmt: skip
    found = together(
        *((given, {**common, "SLURM_PROCID": f"{n}", "SLURM_LOCALID": f"{n}"}) for n in range(2))
    )
    assert [called.code for called in found] == [0, 0], [called.err for called in found]
    assert "model.gad" in found[0].out
    assert (found[1].out, found[1].err) == ("", "")
    assert_same(tmp_path / "run", whole)
