"""The search: real trials, resumed, shared, killed; spaces, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import asdict

import numpy as np
import optuna
import pytest

from gad.data.rows import Source
from gad.reporter import Reporter
from gad.settings.recipe import Recipe, load_recipe, recipe_names
from gad.training.fit import Hardware
from gad.training.run import train
from gad.tuning.bench import Bench
from gad.tuning.results import to_toml
from gad.tuning.search import tune
from gad.tuning.space import Choices, Range, SpaceError, load_space, space_names
from gad.tuning.storage import open_storage, quiet_optuna
from tests.cli.calls import call, command, done, esol_rows, rows_of, stopped, write_csv
from tests.experiments.conftest import rings

TINY = {"epochs": 1, "layers": 1}
SETTINGS = ("--set", "epochs=1", "--set", "layers=1")
SPACE = """
learning_rate = { range = [1e-3, 1e-2], log = true }
width = { range = [10, 20], step = 5 }
aggregators = [["mean", "dx"], ["mean", "max"]]
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write_csv(tmp_path_factory.mktemp("table") / "table.csv", esol_rows(60))


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    path = tmp_path_factory.mktemp("space") / "mine.toml"
    path.write_text(SPACE)
    return path


def write_space(path, text):
    path.write_text(text)
    return path


def states(file):
    """The states of the trials in a database, as written there."""
    with closing(sqlite3.connect(file)) as database:
        return [row[0] for row in database.execute("select state from trials order by number")]


# ------------------------------------------------------------------------------ a search


@pytest.mark.slow
def test_a_search_and_its_continuation(table, space, tmp_path):
    """Three trials, then a fourth; the same four as in one go, and a recipe that trains."""
    ask = ("tune", table, "--space", space, *SETTINGS, "--out", tmp_path / "out")
    three = done(*ask, "--trials", "3", "--json").json
    assert [row["number"] for row in three["trials"]] == [0, 1, 2]
    assert three["metric"] == "mae"
    errors = [row["error"] for row in three["trials"]]
    assert three["best"]["error"] == min(errors)
    assert len(set(errors)) == 3

    shown = done(*ask, "--trials", "4")
    assert "4 finished" in shown.out
    four = done(*ask, "--trials", "4", "--json").json
    assert four["trials"][:3] == three["trials"]
    whole = tune(table, space=space, settings=TINY, trials=4, out=tmp_path / "whole")
    for cut, uncut in zip(four["trials"], whole.trials, strict=True):
        assert cut["settings"] == uncut.settings
        assert cut["error"] == pytest.approx(uncut.error, rel=1e-6)

    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == {"best.toml", "trials.csv", "study.db"}
    rows = rows_of(out / "trials.csv")
    assert [float(row["validation_error"]) for row in rows] == [r["error"] for r in four["trials"]]
    assert rows[0]["aggregators"] in {"mean,dx", "mean,max"}
    assert load_recipe(out / "best.toml") == load_recipe("default").override(
        {"start": "scratch", "blend": False, **TINY, **four["best"]["settings"]}
    )
    done("train", table, "--recipe", out / "best.toml", "--no-baselines", "--out", tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["metrics"]["val"]["mean"]["mae"] == pytest.approx(four["best"]["error"])


@pytest.mark.slow
def test_fewer_trials_than_there_are_need_no_training(table, space, tmp_path):
    first = tune(table, space=space, settings=TINY, trials=2, out=tmp_path)
    again = tune(table, space=space, settings=TINY, trials=1, out=tmp_path)
    assert again.trials == first.trials


def test_test_labels_are_not_there(table):
    """Whatever the test rows say, the same is found; and their labels cannot be read."""
    bench = Bench(Source(table), Recipe.of(epochs=1, layers=1, width=10))
    data, split = bench.prepared(bench.base)
    assert np.isnan(data.targets[split.test]).all()
    assert np.isfinite(data.targets[np.concatenate([split.train, split.val])]).all()
    assert len(split.test)


@pytest.mark.slow
def test_the_error_is_that_of_the_validation_rows(table):
    """By the metrics of an ordinary run with the same seed and split; classes by the log loss."""
    recipe = Recipe.of(epochs=2, layers=1, width=10, seed=3)
    found = Bench(Source(table), recipe).measure(recipe)
    run = train(table, recipe=recipe, baselines=False, out=table.parent / "same")
    assert found.error == pytest.approx(run.summary["metrics"]["val"]["mean"]["mae"])
    assert found.best_epoch == run.summary["best_epoch"] + 1
    assert found.parameters == run.summary["parameters"]


@pytest.mark.slow
def test_several_targets_and_classes(tmp_path):
    rows = esol_rows(60)
    for row in rows:
        row["large"] = 1000 * row["logS"]
        row["soluble"] = int(row["logS"] > -2)
    path = write_csv(tmp_path / "several.csv", rows)
    recipe = Recipe.of(epochs=1, layers=1, width=10)
    both = Bench(Source(path, targets=("logS", "large")), recipe).measure(recipe)
    assert 0.2 < both.error < 3  # in units of the spread: a thousand does not drown the other
    classes = Bench(Source(path, targets=("soluble",)), recipe)
    run = train(path, target="soluble", recipe=recipe, baselines=False, out=tmp_path / "run")
    wanted = run.summary["metrics"]["val"]["mean"]["log_loss"]
    assert classes.measure(recipe).error == pytest.approx(wanted)


@pytest.mark.slow
def test_any_metric_and_every_option_of_labels(space, tmp_path):
    rows = [{**row, "logS": ">-1" if row["logS"] > -1 else row["logS"]} for row in esol_rows(60)]
    table = write_csv(tmp_path / "table.csv", [*rows, rows[0], {"smiles": "broken(", "logS": 1}])
    arguments = (
        "tune", table, *SETTINGS, "--space", space, "--trials", "1", "--out", tmp_path / "out",
        "--target", "logS", "--standardise", "--merge-duplicates", "mean",
    )  # fmt: skip
    told = done(*arguments, "--metric", "Spearman", "--json").json
    assert told["metric"] == "spearman"
    assert told["recipe"]["standardise"] == ["fragment", "uncharge", "tautomer"]
    assert 0 <= told["best"]["error"] <= 2
    assert any("merged" in text for text in told["messages"])
    assert "1 − Spearman" in (tmp_path / "out" / "best.toml").read_text()
    assert "another metric" in call(*arguments, "--metric", "RMSE").err
    assert call(*arguments, "--metric", "ROC-AUC").code == 1


@pytest.mark.slow
def test_the_graphs_of_a_known_set(tmp_path):
    """They have their own split and no SMILES; trials differ in how many eigenpairs they keep."""
    space = write_space(tmp_path / "k.toml", "k = [5, 10]\nwidth = [10, 15]\n")
    found = tune(
        rings(), recipe="zinc-authors", settings={"epochs": 1, "layers": 1},
        space=space, trials=3, out=tmp_path / "out",
    )  # fmt: skip
    assert len(found.trials) == 3
    assert found.recipe.model.scheme == "spectral"
    assert found.best.settings["k"] in {5, 10}
    assert all(0 < row.error < 10 for row in found.trials)


@pytest.mark.slow
def test_settings_are_not_searched(table, space, tmp_path):
    said = Listening()
    found = tune(
        table, space=space, settings={**TINY, "width": 15}, trials=1, out=tmp_path, reporter=said
    )
    assert "width" not in found.best.settings
    assert found.recipe.model.width == 15
    assert "not searched, since set: width" in said.messages


class Listening(Reporter):
    def __init__(self):
        self.messages = []

    def message(self, text):
        self.messages.append(text)


@pytest.mark.slow
def test_trials_that_cannot_be_finished(table, tmp_path):
    """A rate that explodes and a width that does not fit its towers are given up, and counted."""
    space = write_space(tmp_path / "wild.toml", "towers = [5, 3]\nwidth = [15, 20]\n")
    found = tune(table, space=space, settings=TINY, trials=6, out=tmp_path / "out")
    wrong = [row for row in found.trials if row.settings == {"towers": 3, "width": 20}]
    assert len(found.trials) == 6
    assert wrong
    assert all(row.error is None and "not a multiple of towers" in row.why for row in wrong)
    assert found.best.error is not None
    shown = done(
        "tune", table, "--space", space, *SETTINGS, "--trials", "6", "--out", tmp_path / "out"
    )
    assert f"{len(wrong)} of them given up" in shown.out

    explosive = write_space(tmp_path / "rate.toml", "learning_rate = [9.0, 10.0]\n")
    settings = ("--set", "clip=0", "--set", "epochs=60", "--set", "loss=mse", "--set", "warmup=0")
    none = call(
        "tune", table, "--space", explosive, *settings, "--set", "batch_norm=false",
        "--trials", "2", "--out", tmp_path / "none",
    )  # fmt: skip
    assert none.code == 1
    assert "not one of 2 trials could be finished" in none.err


@pytest.mark.slow
def test_pruning_stops_on_the_way(table, tmp_path):
    space = write_space(tmp_path / "rate.toml", "learning_rate = [1e-2, 1e-9, 2e-9]\n")
    said = Listening()
    found = tune(
        table, space=space, settings={**TINY, "epochs": 3, "width": 10, "schedule": "constant"},
        trials=11, prune=True, out=tmp_path / "out", reporter=said,
    )  # fmt: skip
    pruned = [row for row in found.trials if "worse than the median" in row.why]
    assert pruned
    assert all(row.error is None and row.settings["learning_rate"] < 1e-3 for row in pruned)
    assert found.best.settings["learning_rate"] == 1e-2
    epochs = write_space(tmp_path / "epochs.toml", "epochs = [1, 2]\n")
    tune(
        table, space=epochs, settings={"layers": 1, "width": 10}, trials=1, prune=True,
        out=tmp_path / "epochs", reporter=said,
    )  # fmt: skip
    assert "no trial is given up early: epochs is searched" in said.messages


@pytest.mark.slow
def test_other_searches_are_refused(table, space, tmp_path):
    ask = ("tune", table, "--space", space, "--trials", "1", "--out", tmp_path)
    done(*ask, *SETTINGS)
    for changed, what in (
        ((*SETTINGS, "--set", "dropout=0.2"), "another recipe"),
        ((*SETTINGS, "--set", "width=10"), "another"),
        ((*SETTINGS, "--split", "scaffold"), "another split"),
    ):
        refused = call(*ask, *changed)
        assert refused.code == 1
        assert what in refused.err
        assert "--study" in refused.err
    done(*ask, *SETTINGS, "--split", "scaffold", "--study", "by scaffold")


@pytest.mark.slow
def test_interrupted_trials_come_back(table, space, tmp_path):
    """As by Ctrl-C: the trial is queued again, with its settings, and goes on."""

    class Impatient(Reporter):
        def epoch(self, *_):
            raise KeyboardInterrupt

    settings = {**TINY, "epochs": 2}
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        tune(table, space=space, settings=settings, trials=2, out=tmp_path, reporter=Impatient())
    assert states(tmp_path / "study.db") == ["FAIL", "WAITING"]
    found = tune(table, space=space, settings=settings, trials=2, out=tmp_path)
    assert states(tmp_path / "study.db") == ["FAIL", "COMPLETE", "COMPLETE"]
    uncut = tune(table, space=space, settings=settings, trials=2, out=tmp_path / "uncut")
    assert [row.settings for row in found.trials] == [row.settings for row in uncut.trials]
    assert not list(tmp_path.glob("*.ckpt"))


# ------------------------------------------------------------------------------ processes


@pytest.mark.slow
def test_two_processes_share_a_search(table, space, tmp_path):
    """Together they finish as many trials as asked for, not one more, and both say the same."""
    ask = command(
        "tune", table, "--space", space, *SETTINGS, "--trials", "6", "--out", tmp_path, "--json"
    )
    both = [
        subprocess.Popen(ask, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outs = [process.communicate(timeout=240) for process in both]
    assert [process.returncode for process in both] == [0, 0], outs
    one, two = (json.loads(out) for out, _ in outs)
    assert one["best"] == two["best"]
    assert one["trials"] == two["trials"]
    assert len(one["trials"]) == 6
    assert states(tmp_path / "study.db").count("COMPLETE") == 6
    tried = [json.dumps(row["settings"]) for row in one["trials"]]
    assert len(set(tried)) == 6
    worked = [sum("best" in text for text in told["messages"]) for told in (one, two)]
    assert sum(worked) == 6


@pytest.mark.slow
def test_a_killed_process_loses_nothing(table, space, tmp_path, monkeypatch):
    """kill -9 in the middle of a trial: another process finishes it from its checkpoint."""
    monkeypatch.setenv("GAD_HEARTBEAT_SECONDS", "1")
    monkeypatch.setenv("GAD_CHECKPOINT_SECONDS", "0")
    ask = (
        "tune", table, "--space", space, "--set", "epochs=30", "--set", "layers=1",
        "--trials", "2", "--out", tmp_path,
    )  # fmt: skip
    code, _ = stopped(signal.SIGKILL, lambda: bool(list(tmp_path.glob("trial-*.ckpt"))), *ask)
    assert code == -signal.SIGKILL
    left = states(tmp_path / "study.db")
    assert left[-1] == "RUNNING"
    told = subprocess.run(
        command(*ask, "--json"), capture_output=True, text=True, timeout=240, check=True
    )
    found = json.loads(told.stdout)
    assert len(found["trials"]) == 2
    now = states(tmp_path / "study.db")
    assert now.count("COMPLETE") == 2
    assert now[len(left) - 1] == "FAIL"
    assert not list(tmp_path.glob("*.ckpt"))
    again = next(row for row in found["trials"] if row["number"] > len(left) - 1)
    assert again["epochs"] == 30
    uncut = tune(
        table, space=space, settings={"epochs": 30, "layers": 1}, trials=2,
        out=tmp_path / "uncut", hardware=Hardware("cpu", 1),
    )  # fmt: skip
    # A process that starts while the heart still seems to beat goes on with the next trial, and
    # takes up the one that was cut off after it.
    both = [
        sorted(rows, key=lambda row: json.dumps(row["settings"]))
        for rows in (found["trials"], [asdict(row) for row in uncut.trials])
    ]
    for cut, whole in zip(*both, strict=True):
        assert cut["settings"] == whole["settings"]
        assert cut["error"] == pytest.approx(whole["error"], rel=1e-5)


# ------------------------------------------------------------------------------ storage


@pytest.mark.slow
def test_a_storage_of_ones_own(table, space, tmp_path):
    file = tmp_path / "deep" / "a {b} 50%.db"
    found = tune(table, space=space, settings=TINY, trials=1, out=tmp_path / "out", storage=file)
    assert file.is_file()
    assert not (tmp_path / "out" / "study.db").exists()
    assert found.storage == str(file)
    url = f"sqlite:///{tmp_path / 'by-url.db'}"
    tune(table, space=space, settings=TINY, trials=1, out=tmp_path / "out", storage=url)
    assert (tmp_path / "by-url.db").is_file()
    assert states(tmp_path / "by-url.db") == ["COMPLETE"]


@pytest.mark.slow
def test_two_machines_share_a_search_by_its_address(table, space, tmp_path):
    """Their folders, caches and copies of the data are their own; the storage's URL is the same."""
    url, running = f"sqlite:///{tmp_path / 'shared.db'}", []
    with quiet_optuna(), open_storage(url):
        pass  # the database is there before anybody searches, as a server's is
    for machine in ("one", "two"):
        home = tmp_path / machine
        home.mkdir()
        for file in (table, space):
            (home / file.name).write_bytes(file.read_bytes())
        ask = (
            "tune",
            table.name,
            "--space",
            space.name,
            *SETTINGS,
            "--trials",
            "4",
            "--out",
            "out",
        )
        running.append(
            subprocess.Popen(
                command(*ask, "--storage", url, "--json"), cwd=home, text=True,
                env={**os.environ, "GAD_CACHE": str(home / "cache"), "GAD_NATIVE": "0"},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
        )  # fmt: skip
    told = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0, 0], [err for _, err in told]
    finished = states(tmp_path / "shared.db").count("COMPLETE")
    assert 4 <= finished <= 5  # the other may be at work on one when the last is finished
    for machine, (out, _) in zip(("one", "two"), told, strict=True):
        assert json.loads(out)["study"] == "table.csv"
        assert len(rows_of(tmp_path / machine / "out" / "trials.csv")) >= 4
        assert (tmp_path / machine / "out" / "best.toml").is_file()


@pytest.mark.parametrize(
    ("storage", "sentence"),
    [("broken.db", "broken.db: "), ("nonsense://x", "nonsense://x: "), ("a-folder", "a-folder")],
)
def test_storages_that_cannot_be_used(table, space, tmp_path, monkeypatch, storage, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.db").write_text("this is no database, however long it is " * 40)
    (tmp_path / "a-folder").mkdir()
    refused = call(
        "tune", table, "--space", space, *SETTINGS, "--trials", "1", "--storage", storage
    )
    assert refused.code == 1
    assert "the trials cannot be kept in" in refused.err
    assert sentence in refused.err
    assert "Traceback" not in refused.err


def test_optuna_is_left_as_it_was():
    before = optuna.logging.get_verbosity()
    with quiet_optuna():
        assert optuna.logging.get_verbosity() != before
    assert optuna.logging.get_verbosity() == before


def test_a_new_file_is_complete_at_once(tmp_path):
    """Its tables are there before its name is, so a second process never meets half of them."""
    with quiet_optuna(), open_storage(tmp_path / "s.db"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["s.db"]
    with closing(sqlite3.connect(tmp_path / "s.db")) as database:
        tables = {row[0] for row in database.execute("select name from sqlite_master")}
    assert {"studies", "trials", "trial_heartbeats", "alembic_version"} <= tables


@pytest.mark.slow
def test_without_optuna(table, space, tmp_path):
    """The extra is named. In a process of its own, where the library is hidden."""
    hide = "import sys; sys.modules['optuna'] = None; from gad.cli import main; main()"
    told = subprocess.run(
        [sys.executable, "-c", hide, "tune", str(table), "--out", str(tmp_path)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert told.returncode == 1
    assert "pip install 'graph-anisotropic-diffusion[tune]'" in told.stderr
    assert "Traceback" not in told.stderr


# ------------------------------------------------------------------------------ spaces


def test_the_papers_space():
    """Appendix A, word for word."""
    assert load_space("qm9-paper").keys == {
        "weight_decay": Choices((3e-3, 3e-4, 3e-5, 3e-6, 3e-7)),
        "dropout": Choices((0.0, 0.1, 0.2, 0.3)),
        "learning_rate": Choices((1e-3,)),
        "batch_size": Choices((128, 256)),
        "layers": Choices((6, 7, 8, 9, 10)),
        "width": Choices((75, 90, 130, 150)),
        "k": Choices((15, 20, 25)),
        "aggregators": Choices(
            ("mean,av,dx", "mean,max,min,dx", "mean,max,min,av,dx", "mean,sum,max,dx")
        ),
    }


@pytest.mark.parametrize("name", space_names())
def test_shipped_spaces_fit_the_recipes(name):
    recipe = "qm9" if name.startswith("qm9") and "qm9" in recipe_names() else "default"
    base = load_recipe(recipe)
    space = load_space(name)
    space.check(base)
    for key, axis in space.keys.items():
        for value in axis.samples():
            found = base.override({key: value}).to_dict()[key]
            assert found == (value.split(",") if isinstance(found, list) else value)


def test_what_a_file_says(tmp_path):
    space = load_space(
        write_space(
            tmp_path / "s.toml",
            "layers = { range = [2, 6] }\nema = { choices = [0, 0.9] }\nedges = [true, false]\n"
            "dropout = { range = [0.0, 0.3], step = 0.1 }\n",
        )
    )
    assert space.keys == {
        "layers": Range(2, 6, whole=True),
        "ema": Choices((0, 0.9)),
        "edges": Choices((True, False)),
        "dropout": Range(0.0, 0.3, step=0.1),
    }
    with quiet_optuna():
        study = optuna.create_study()
        seen = [space.suggest(study.ask()) for _ in range(20)]
    assert {type(settings["layers"]) for settings in seen} == {int}
    assert {settings["edges"] for settings in seen} == {True, False}
    assert {round(settings["dropout"], 9) for settings in seen} <= {0.0, 0.1, 0.2, 0.3}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("width = [1", "is not TOML"),
        ("widht = [10, 20]", "unknown key 'widht' (did you mean 'width'?)"),
        ("width = 10", "width = 10 is one value; write [10]"),
        ("width = []", "width has no choices"),
        ("width = [10, 10]", "a choice twice"),
        ("width = ['a']", "width wants a whole number"),
        ("width = [12]", "not a multiple of towers"),
        ("width = [{ a = 1 }]", "width cannot be {'a': 1}"),
        ("width = { range = [10] }", "range = [low, high]"),
        ("width = { range = [20, 10] }", "low comes first"),
        ("width = { range = [10, 20.5] }", "are whole numbers"),
        ("width = { range = [10, 20], step = 3 }", "does not get from 10 to 20 by 3"),
        ("width = { range = [10, 20], step = -5 }", "a step above 0"),
        ("width = { range = [10, 20], choices = [1] }", "either choices"),
        ("width = { low = 1, high = 2 }", "width has 'high'"),
        ("width = { log = true }", "either choices"),
        ("dropout = { range = [0.0, 0.5], log = true }", "starts above 0"),
        ("dropout = { range = [0.1, 0.5], log = true, step = 0.1 }", "not both"),
        ("dropout = { range = [0.1, 0.5], log = 1 }", "true or false"),
        ("dropout = { range = [0.0, inf] }", "are numbers"),
        ("dropout = { range = [0.0, 2.0] }", "dropout = 2.0 is out of range"),
        ("scheme = { range = [1, 2] }", "scheme is no number"),
        ("scheme = ['implicit', 'explicit']", "scheme = 'explicit' is not known"),
        ("aggregators = ['mean', 'dx']", "aggregators is a list of words"),
        ("aggregators = [['mean', 'sxd']]", "'sxd' is not known"),
    ],
)
def test_spaces_that_cannot_be_searched(table, tmp_path, text, sentence):
    path = write_space(tmp_path / "s.toml", text)
    refused = call("tune", table, "--space", path, "--trials", "1", "--out", tmp_path / "out")
    assert refused.code == 2
    assert sentence in refused.err
    assert "Traceback" not in refused.err
    assert not (tmp_path / "out").exists()


def test_names_of_spaces(table, tmp_path):
    with pytest.raises(SpaceError, match="did you mean 'qm9-paper'"):
        load_space("qm9-papper")
    with pytest.raises(SpaceError, match="cannot read the space"):
        load_space(tmp_path / "missing.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpaceError, match="cannot read the space"):
        load_space(tmp_path / "bytes.toml")
    with pytest.raises(SpaceError, match="nothing to search"):
        load_space("qm9-paper").without(list(load_space("qm9-paper").keys)).check(Recipe())


def test_values_may_need_one_another(tmp_path):
    """A width that fits only one of the searched numbers of towers is no mistake."""
    load_space(write_space(tmp_path / "s.toml", "towers = [4, 5]\nwidth = [16, 25]\n")).check(
        Recipe()
    )
    none = load_space(write_space(tmp_path / "n.toml", "towers = [4, 5]\nwidth = [17, 25]\n"))
    with pytest.raises(SpaceError, match="17"):
        none.check(Recipe())


def test_recipes_as_files(tmp_path):
    for recipe in (
        Recipe(),
        Recipe.of(width=60, aggregators=("mean",), weight_decay=3e-7, edges=False),
    ):
        path = tmp_path / "r.toml"
        path.write_text(to_toml(recipe, "Two\nlines"))
        assert load_recipe(path) == recipe
