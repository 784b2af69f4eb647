"""Killed in the middle, a command goes on with --resume to the very same result."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from gad.reporter import Reporter
from gad.training.run import train
from tests.cli.calls import TINY, call, done, esol_rows, rows_of, same_weights, stopped

pytestmark = pytest.mark.slow


def test_train_killed_and_resumed_gives_the_same_weights(table, tmp_path):
    def options(out: Path) -> tuple[str | Path, ...]:
        more = ("--set", "epochs=12", "--set", "batch_size=20", "--set", "dropout=0.1")
        return ("train", table, *TINY, *more, "--set", "ema=0.9", "--out", out)

    checkpoint = tmp_path / "cut" / "member-0.ckpt"
    seen: set[int] = set()

    def half_way() -> bool:
        if checkpoint.exists():
            seen.add(checkpoint.stat().st_mtime_ns)
        return len(seen) > 12

    code, _ = stopped(
        signal.SIGKILL, half_way, *options(tmp_path / "cut"), GAD_CHECKPOINT_SECONDS="0"
    )
    assert code == -signal.SIGKILL
    assert checkpoint.exists()
    assert not (tmp_path / "cut" / "model.gad").exists()
    done(*options(tmp_path / "cut"), "--resume")
    done(*options(tmp_path / "whole"))
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    assert same_weights(cut / "model.gad", whole / "model.gad")

    def curve(run: Path) -> list[dict[str, str]]:
        return [{k: v for k, v in r.items() if k != "seconds"} for r in rows_of(run / "log.csv")]

    assert curve(cut) == curve(whole)
    assert not checkpoint.exists()


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "kill"])
def test_train_interrupted_leaves_a_checkpoint_of_that_moment(by, table, tmp_path):
    """The batch ends, a checkpoint is written, the exit code is 130."""
    options = ("train", table, *TINY, "--set", "epochs=30", "--set", "batch_size=8")
    checkpoint = tmp_path / "member-0.ckpt"
    before = -1

    def a_while_after_the_first() -> bool:
        nonlocal before
        if not checkpoint.exists():
            return False
        before = steps_of(checkpoint)
        time.sleep(0.2)
        return True

    code, err = stopped(
        by, a_while_after_the_first, *options, "--out", tmp_path,
        GAD_CHECKPOINT_SECONDS="1",
    )  # fmt: skip
    assert code == 130
    assert "continue with --resume" in err
    assert "Traceback" not in err
    assert steps_of(checkpoint) > before > 0
    done(*options, "--out", tmp_path, "--resume")
    assert [int(float(row["epoch"])) for row in rows_of(tmp_path / "log.csv")] == list(range(30))


def steps_of(checkpoint: Path) -> int:
    return int(torch.load(checkpoint, weights_only=False)["global_step"])


class Impatient(Reporter):
    """Presses Ctrl-C after so many epochs."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def epoch(self, name: str, row: Mapping[str, float], epochs: int) -> None:
        del name, epochs
        if row["epoch"] + 1 == self.epochs:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("epochs", [2, 4])
def test_training_interrupted_in_python_goes_on_to_the_same_weights(tmp_path, epochs):
    data = list(zip(*[(row["smiles"], row["logS"]) for row in esol_rows(60)], strict=True))
    settings = {"width": 20, "layers": 2, "epochs": 4, "dropout": 0.1}

    def run(folder: str, **options: Any) -> Path:
        out = tmp_path / folder
        train(tuple(data), settings=settings, out=out, baselines=False, **options)
        return out / "model.gad"

    with pytest.raises(KeyboardInterrupt):
        run("cut", reporter=Impatient(epochs))
    assert (tmp_path / "cut" / "member-0.ckpt").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert same_weights(run("cut", resume=True), run("whole"))


def test_a_run_is_resumed_only_as_it_was_started(table, tmp_path):
    done("train", table, *TINY, "--out", tmp_path)
    refused = call("train", table, *TINY, "--set", "epochs=3", "--out", tmp_path, "--resume")
    assert refused.code == 1
    assert "another recipe" in refused.err


def test_predict_killed_and_resumed_gives_the_same_file(model, tmp_path):
    table = tmp_path / "many.csv"
    parts = ["C", "O", "N", "CC", "C(=O)", "C#C", "S", "C(F)", "CCO"]
    words = ("C" + "".join(p) + "O" for p in itertools.product(parts, repeat=4))
    lines = [f"{i},{word}" for i, word in enumerate(words)]
    lines[5000] = "5000,broken("
    table.write_text("\n".join(["id,smiles", *lines, ""]), encoding="utf-8")
    assert len(lines) > 3 * 2048

    out = tmp_path / "cut.csv"
    partial = tmp_path / "cut.csv.partial"
    code, _ = stopped(
        signal.SIGKILL,
        lambda: any(partial.glob("*.part")),
        *("predict", model, table, "-o", out, "--workers", "1"),
    )
    assert code == -signal.SIGKILL
    assert not out.exists()
    assert any(partial.glob("*.part"))
    other = tmp_path / "other.csv"
    other.write_text("id,smiles\n1,CCO\n", encoding="utf-8")
    refused = call("predict", model, other, "-o", out, "--resume")
    assert refused.code == 1
    assert "another input" in refused.err
    done("predict", model, table, "-o", out, "--resume", "--workers", "1")
    assert not partial.exists()
    # On two cores, without interruption: the same bytes.
    done("predict", model, table, "-o", tmp_path / "whole.csv", "--workers", "2")
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    rejected = [row["id"] for row in rows_of(out) if row["reject_reason"]]
    assert rejected == ["5000"]
    assert [row["row"] for row in rows_of(tmp_path / "rejects.csv")] == ["5001"]
