"""Runs are recorded from their first moment, go on where they stopped, and end the same."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from gad.experiments.harness import perform
from gad.experiments.jobs import perform_all
from gad.experiments.models import Run
from gad.experiments.records import (
    Record,
    model_path,
    read_record,
    record_path,
    unfinished_path,
    write_record,
)
from gad.experiments.sheet import Place
from gad.prediction.evaluation import evaluate_file
from gad.reporter import Reporter
from tests.cli.calls import same_weights

pytestmark = pytest.mark.slow

SETTINGS = (("batch_size", "8"), ("epochs", "3"), ("layers", "2"), ("width", "20"))
RUN = Run("zinc", "gad-i", "zinc-paper", True, 0, settings=SETTINGS)


@pytest.fixture(autouse=True)
def always_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints after every batch: the runs here are over in a second."""
    monkeypatch.setattr("gad.training.fit.CHECKPOINT_SECONDS", 0.0)


def place(folder: Path, **more) -> Place:
    return Place(folder / "runs", folder / "results", **more)


def stopped(folder: Path, run: Run = RUN) -> Record:
    """The record after one more epoch."""
    return perform(run, place(folder, until=time.time(), resume=True))


def test_a_record_has_all_that_made_the_number(graphs, tmp_path):
    record = perform(RUN, place(tmp_path))
    assert record == read_record(record_path(tmp_path / "results", RUN))
    assert record.status == "finished"
    assert record.short
    assert record.command == RUN.command
    assert (record.model, record.recipe, record.edges) == ("gad-i", "zinc-paper", True)
    assert record.full_recipe["width"] == record.width == 20
    assert record.data["fingerprint"] == graphs.fingerprint
    assert set(record.machine) == {"processor", "cores", "threads", "system", "python"}
    assert {"torch", "numpy"} <= set(record.versions)
    assert [len(values) for values in record.curve.values()] == [3, 3, 3]
    assert record.epochs == 3
    # The curve is in the target's units, and the best epoch is the one that was kept.
    best = min(record.curve["val_mae"])
    assert record.curve["val_mae"][record.best_epoch - 1] == best
    assert record.val_mae == pytest.approx(best, rel=1e-4)
    # Of sixteen molecules 0.5 % is none.
    assert record.val_trimmed == pytest.approx(record.val_mae, rel=1e-4)
    spread = np.abs(graphs.targets - np.median(graphs.targets)).mean()
    assert 0.1 * spread < record.test_mae < 5 * spread
    assert str(tmp_path) not in json.dumps(record.to_dict())


@pytest.mark.parametrize("ema", ["0", "0.9"])
def test_the_kept_model_gives_the_recorded_errors_again(graphs, tmp_path, ema):
    run = Run("zinc", "gad-s", "zinc-paper", True, 1, settings=(*SETTINGS, ("ema", ema)))
    record = perform(run, place(tmp_path))
    metrics = evaluate_file(tmp_path / "results" / record.model_file, "zinc").metrics
    for part in ("train", "val", "test"):
        assert metrics[part]["mean"]["mae"] == pytest.approx(
            getattr(record, f"{part}_mae"), abs=1e-6
        )
    assert record.parameters > 1000


def test_models_of_baselines_are_not_kept(graphs, tmp_path):
    run = Run("zinc", "gcn", "zinc-paper", False, 0, settings=SETTINGS)
    record = perform(run, place(tmp_path))
    assert record.model_file is None
    assert json.loads(record_path(tmp_path / "results", run).read_text())["model_file"] is None
    assert (place(tmp_path).folder(run) / "model.gad").is_file()
    best = Run("zinc", "dgn", "zinc-best", True, 0, settings=SETTINGS)
    assert perform(best, place(tmp_path)).model_file == model_path(Path(), best).as_posix()


def test_an_interrupted_run_ends_like_one_in_a_single_piece(graphs, tmp_path):
    whole = perform(RUN, place(tmp_path / "whole"))
    pieces = [stopped(tmp_path / "pieces") for _ in range(3)]
    assert [piece.status for piece in pieces] == ["unfinished", "unfinished", "finished"]
    assert [piece.epochs for piece in pieces] == [1, 2, 3]
    times = [piece.minutes for piece in pieces]
    assert 0 < times[0] < times[1] < times[2]
    own = ("minutes", "commit", "commit_at_end")
    assert {k: v for k, v in pieces[-1].to_dict().items() if k not in own} == {
        k: v for k, v in whole.to_dict().items() if k not in own
    }
    models = [model_path(tmp_path / name / "results", RUN) for name in ("whole", "pieces")]
    assert same_weights(*models)


def test_an_unfinished_run_outlives_its_folder(graphs, tmp_path):
    whole = perform(RUN, place(tmp_path / "whole"))
    stopped(tmp_path)
    kept = unfinished_path(tmp_path / "results", RUN)
    assert {file.name for file in kept.iterdir()} == {"run.json", "member-0.ckpt"}
    shutil.rmtree(tmp_path / "runs")
    assert stopped(tmp_path).epochs == 2
    done = perform(RUN, place(tmp_path, resume=True))
    assert done.curve == whole.curve
    assert not (tmp_path / "results" / "unfinished").exists()


def test_a_run_that_began_before_a_key_existed_goes_on(graphs, tmp_path):
    stopped(tmp_path)
    path = place(tmp_path).folder(RUN) / "run.json"
    begun = json.loads(path.read_text())
    del begun["recipe"]["cycles"]
    path.write_text(json.dumps(begun))
    assert stopped(tmp_path).epochs == 2


def test_a_finished_run_is_not_repeated(graphs, tmp_path):
    first = perform(RUN, place(tmp_path))
    shutil.rmtree(tmp_path / "runs")
    assert perform(RUN, place(tmp_path, resume=True)) == first
    assert not (tmp_path / "runs").exists()
    with pytest.raises(FileExistsError, match="--resume"):
        perform(RUN, place(tmp_path))


@pytest.mark.parametrize("status", ["finished", "started"])
def test_a_run_does_not_go_on_by_another_recipe(graphs, tmp_path, status):
    perform(RUN, place(tmp_path)) if status == "finished" else stopped(tmp_path)
    path = record_path(tmp_path / "results", RUN)
    record = read_record(path)
    record.full_recipe["weight_decay"] = 0.5
    write_record(path, record)
    with pytest.raises(ValueError, match="earlier version of the recipe zinc-paper"):
        perform(RUN, place(tmp_path, resume=True))
    assert read_record(path) == record


def test_a_run_is_recorded_while_it_runs(graphs, tmp_path):
    seen = []

    class Listener(Reporter):
        def epoch(self, name, row, epochs):
            del name, epochs
            seen.append((row, read_record(record_path(tmp_path / "results", RUN))))

    perform(RUN, place(tmp_path), Listener())
    assert [record.status for _, record in seen] == ["started"] * 3
    assert [record.epochs for _, record in seen] == [1, 2, 3]
    for row, record in seen:
        assert record.curve["val_mae"][-1] == pytest.approx(row["val_loss"], rel=1e-4)
        assert record.test_mae is None


def test_a_run_that_fails_is_recorded_with_its_errors(graphs, tmp_path, monkeypatch):
    import gad.settings.task

    losses, calls = gad.settings.task.Task.losses, []

    def breaking(self, *arguments):
        calls.append(None)
        loss, weight = losses(self, *arguments)
        return (loss * float("nan"), weight) if len(calls) > 4 else (loss, weight)

    monkeypatch.setattr(gad.settings.task.Task, "losses", breaking)
    with pytest.raises(FloatingPointError):
        perform(RUN, place(tmp_path))
    record = read_record(record_path(tmp_path / "results", RUN))
    assert record.status == "failed"
    assert "not finite" in record.error
    assert record.val_mae > 0
    assert record.test_mae is None


def test_nothing_begins_when_one_of_the_runs_is_there(graphs, tmp_path):
    perform(RUN, place(tmp_path))
    other = Run("zinc", "pna", "zinc-paper", True, 0, settings=SETTINGS)
    with pytest.raises(FileExistsError):
        perform_all([other, RUN], place(tmp_path), jobs=2)
    assert not record_path(tmp_path / "results", other).exists()


def test_an_interrupted_run_says_so_and_goes_on(graphs, tmp_path):
    class Impatient(Reporter):
        def epoch(self, name, row, epochs):
            del name, row, epochs
            raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, SystemExit)):
        perform(RUN, place(tmp_path), Impatient())
    record = read_record(record_path(tmp_path / "results", RUN))
    assert (record.status, record.epochs) == ("unfinished", 1)
    whole = perform(RUN, place(tmp_path / "whole"))
    assert perform(RUN, place(tmp_path, resume=True)).curve == whole.curve
