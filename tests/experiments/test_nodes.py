"""``gad reproduce nodes`` and ``gad table nodes``, tried on a small graph in the place of five."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from gad.cli.nodes import NODE_MODELS as CLI_MODELS
from gad.cli.nodes import NODE_SETS as CLI_SETS
from gad.experiments import nodes
from gad.experiments.nodes import (
    FORM,
    NODE_SETS,
    SEARCH,
    Cell,
    NodePlace,
    NodeRow,
    against_best,
    node_rows,
    reproduce_nodes,
)
from gad.settings.nodes import NODE_MODELS, NodeSettings
from tests.cli.calls import call, done
from tests.node_graphs import two_groups


@pytest.fixture
def small(monkeypatch):
    """Cora is two groups, and two settings are tried for a few epochs."""
    graph = replace(two_groups(80), name="cora")
    graph = replace(graph, splits=(graph.split(0, 0)[0],))
    monkeypatch.setattr("gad.data.known.nodes.load_known_nodes", lambda _: graph)
    base = NodeSettings(channels=8, layers=1, epochs=4, filters=("mean",))
    monkeypatch.setitem(SEARCH, "cora", (base, [{"dropout": 0.0}, {"learning_rate": 0.1}]))


def test_every_set_is_searched_with_at_most_eight_settings_the_same_for_all():
    assert (CLI_SETS, CLI_MODELS) == (NODE_SETS, NODE_MODELS)
    for data in NODE_SETS:
        trials = {model: Cell(data, model).trials() for model in NODE_MODELS}
        assert 2 <= len(trials["gcn"]) <= 8
        assert len({json.dumps(t.to_dict()) for t in trials["gcn"]}) == len(trials["gcn"])
        # All but what GAD alone has: what its blocks read, and whether its outputs diffuse.
        assert set(FORM.get(data, {})) <= {"filters", "time", "smooth"}
        same = {"model": "gcn", **dict.fromkeys(("filters", "time", "smooth"))}
        for one, other in pairwise(trials.values()):
            assert [t.to_dict() | same for t in one] == [t.to_dict() | same for t in other]


def test_the_best_setting_on_validation_is_trained_with_every_seed(small, tmp_path):
    place = NodePlace(tmp_path, seeds=3)
    (record,) = reproduce_nodes([Cell("cora", "gad-i")], place)
    assert record["status"] == "finished"
    scores = [trial["val"] for trial in record["search"]]
    best = record["search"][scores.index(max(scores))]["settings"]
    assert record["settings"] == best
    assert [run["seed"] for run in record["runs"]] == [0, 1, 2]
    assert record["runs"][0]["val"] == max(scores)  # the same training again
    assert len(record["runs"][0]["curve"]["val_score"]) == record["runs"][0]["epochs"]
    assert all("test" not in trial for trial in record["search"])
    assert {"command", "commit", "machine", "versions", "parameters"} <= set(record)


def test_what_was_stopped_goes_on_and_ends_the_same(small, tmp_path):
    cell = Cell("cora", "gcn")
    (whole,) = reproduce_nodes([cell], NodePlace(tmp_path / "a", seeds=2))
    over = NodePlace(tmp_path / "b", until=0.0, seeds=2)
    (record,) = reproduce_nodes([cell], over)
    assert record["status"] == "not started"

    class Once(NodePlace):
        """Over after the first training."""

        @property
        def is_over(self):
            return self.path(cell).exists() and '"val": 0' in self.path(cell).read_text()

    (record,) = reproduce_nodes([cell], Once(tmp_path / "b", seeds=2))
    assert record["status"] == "unfinished"
    assert [trial["val"] is None for trial in record["search"]] == [False, True]
    with pytest.raises(FileExistsError, match="--resume"):
        reproduce_nodes([cell], NodePlace(tmp_path / "b", seeds=2))
    (record,) = reproduce_nodes([cell], NodePlace(tmp_path / "b", resume=True, seeds=2))
    scores = [[run[part] for run in r["runs"] for part in ("val", "test")] for r in (whole, record)]
    assert scores[0] == scores[1]


def test_the_commands_and_the_table(small, tmp_path):
    arguments = ("--data", "cora", "--results", tmp_path, "--seeds", "2")
    for model in ("gad-s", "sage"):
        done("reproduce", "nodes", *arguments, "--model", model)
    done("reproduce", "nodes", *arguments, "--model", "gad-s", "--set", "directions=true")
    again = done("reproduce", "nodes", *arguments, "--model", "sage", "--resume", "--json")
    assert again.json["messages"] == ["cora_sage is finished"]
    told = done("table", "nodes", "--results", tmp_path, "--json").json
    models = [row["model"] for row in told["rows"]]
    assert models == ["gad-s", "gad-s (directions=true)", "sage"]
    row = told["rows"][0]
    assert (row["data"], row["metric"]) == ("cora", "accuracy")
    assert len(row["val"]) == len(row["test"]) == 2
    assert row["parameters"] > 0
    assert row["against"]["model"] == "sage"
    shown = done("table", "nodes", "--results", tmp_path, "--markdown").out
    assert "| cora | gad-s |" in shown
    wrong = call("reproduce", "nodes", *arguments, "--model", "gatt")
    assert wrong.code == 2
    assert "did you mean 'gat'?" in wrong.err


def test_seeds_are_compared_in_pairs():
    def row(model, test):
        return NodeRow("cs", model, "accuracy", "finished", test, test, 1)

    ours, weak = row("gad-i", [0.90, 0.92, 0.94]), row("gcn", [0.5, 0.5, 0.5])
    best = row("sage", [0.91, 0.92, 0.95])
    found = against_best(ours, [ours, weak, best])
    assert found is not None
    assert found["model"] == "sage"
    assert found["difference"] == pytest.approx(-0.02 / 3)
    assert found["standard_error"] == pytest.approx(0.01 / 3)
    assert found["holds"] is False
    level = row("gad-s", [0.92, 0.91, 0.95])
    assert against_best(level, [level, best])["holds"] is True
    assert against_best(best, [ours, best]) is None


def test_a_file_that_is_no_record_is_named(tmp_path):
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "x.json").write_text("{}")
    with pytest.raises(ValueError, match=r"x\.json is not a record of nodes"):
        node_rows(tmp_path)
    assert nodes.FOLDER == "nodes"
