"""Killed in the middle, a command goes on with --resume to the very same result."""

from __future__ import annotations

import itertools
import signal
from pathlib import Path

from tests.cli.calls import TINY, call, done, rows_of, same_weights, stopped


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
