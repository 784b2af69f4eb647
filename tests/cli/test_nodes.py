"""``gad nodes``: a table in, a model, a report and predictions out."""

from __future__ import annotations

import json

import pytest
import torch

from gad.cli.nodes import train
from tests.cli.calls import call, done, rows_of, same_weights, write_csv
from tests.node_graphs import two_groups

pytestmark = pytest.mark.slow

# One block that reaches a little beyond the neighbours.
QUICK = ("channels=16", "layers=1", "epochs=60", "time=2", "dropout=0.2")
QUICK = tuple(part for setting in QUICK for part in ("--set", setting))


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Two groups as tables; a tenth of the labels is missing."""
    graph, folder = two_groups(200), tmp_path_factory.mktemp("tables")
    rows = [
        {
            "name": f"v{i}",
            **{f"f{k}": round(float(v), 4) for k, v in enumerate(graph.x[i])},
            "group": "" if i % 10 == 0 else graph.classes[int(graph.y[i])],
        }
        for i in range(graph.num_nodes)
    ]
    write_csv(folder / "nodes.csv", rows)
    ends = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].t().tolist()
    write_csv(folder / "edges.csv", [{"from": f"v{a}", "to": f"v{b}"} for a, b in ends])
    return folder


@pytest.fixture(scope="module")
def trained(tables, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    called = done(
        "nodes", "train", tables, "--label", "group", "--out", out, "--json", *QUICK
    )  # fmt: skip
    return out, called.json


def test_training_tells_its_scores_and_leaves_a_report(trained):
    out, told = trained
    assert told["accuracy"] > 0.85
    assert told["data"]["classes"] == ["even", "odd"]
    assert told["split"]["train"] == 108
    assert "60 %" in told["split"]["how"]
    assert any("60 %" in text for text in told["messages"])
    assert torch.tensor(told["confusion"]["test"]).sum() == told["split"]["test"] == 36
    assert list(told["times"]) == ["blocks.0.diffusion"]
    assert all(time >= 0 for time in told["times"]["blocks.0.diffusion"])
    page = (out / "report.html").read_text()
    assert "Confusion matrix" in page
    assert "Learned times" in page
    assert json.loads((out / "summary.json").read_text())["accuracy"] == told["accuracy"]


def test_prediction_writes_every_node_by_name(trained, tables, tmp_path):
    out, _ = trained
    called = done(
        "nodes", "predict", out / "model.gad", tables, "--label", "group",
        "-o", tmp_path / "p.csv", "--json",
    ).json  # fmt: skip
    rows = rows_of(tmp_path / "p.csv")
    assert [row["node"] for row in rows] == [f"v{i}" for i in range(200)]
    assert list(rows[0]) == ["node", "prediction", "p(even)", "p(odd)"]
    assert float(rows[0]["p(even)"]) + float(rows[0]["p(odd)"]) == pytest.approx(1, abs=1e-5)
    labels = [row["group"] for row in rows_of(tables / "nodes.csv")]
    right = [r["prediction"] == label for r, label in zip(rows, labels, strict=True) if label]
    assert called["metrics"]["accuracy"] == pytest.approx(sum(right) / len(right))
    assert called["labelled"] == 180


def test_the_same_seed_gives_the_same_model_and_another_split_by_another(tables, tmp_path):
    def one(name, seed):
        return done(
            "nodes", "train", tables, "--label", "group", "--out", tmp_path / name,
            "--seed", seed, "--json", *QUICK,
        ).json  # fmt: skip

    first, again, other = one("a", "5"), one("b", "5"), one("c", "6")
    assert first["metrics"] == again["metrics"]
    assert first["metrics"] != other["metrics"]
    assert same_weights(tmp_path / "a" / "model.gad", tmp_path / "b" / "model.gad")


def test_bad_rows_go_to_rejects_and_strict_says_so(tables, tmp_path):
    for name in ("nodes.csv", "edges.csv"):
        (tmp_path / name).write_text((tables / name).read_text())
    with (tmp_path / "edges.csv").open("a") as file:
        file.write("v1,nobody\n")
    arguments = ("nodes", "train", tmp_path, "--label", "group", *QUICK)
    called = call(*arguments, "--out", tmp_path / "run", "--strict")
    assert called.code == 3
    (row,) = rows_of(tmp_path / "run" / "rejects.csv")
    assert row["table"] == "edges.csv"
    assert row["reason"] == "node 'nobody' is not in the table of nodes"
    again = call(*arguments, "--out", tmp_path / "run")
    assert again.code == 1
    assert "already holds a run" in again.err


def test_a_prediction_lists_what_it_left_out_and_makes_degrees_again(tables, tmp_path):
    for name in ("nodes.csv", "edges.csv"):
        (tmp_path / name).write_text((tables / name).read_text())
    rows = [{"name": row["name"], "group": row["group"]} for row in rows_of(tables / "nodes.csv")]
    write_csv(tmp_path / "bare.csv", rows)
    options = ("--label", "group", *QUICK, "--out", tmp_path / "run")
    done("nodes", "train", tmp_path / "bare.csv", *options)
    with (tmp_path / "edges.csv").open("a") as file:
        file.write("v1,nobody\n")
    called = call(
        "nodes", "predict", tmp_path / "run" / "model.gad", tmp_path, "-o", tmp_path / "p.csv"
    )
    assert called.code == 0, called.err
    assert "nodes are told apart by their degree" in called.err
    (row,) = rows_of(tmp_path / "rejects.csv")
    assert row["reason"] == "node 'nobody' is not in the table of nodes"


def test_what_cannot_be_used_is_said(tables, trained, tmp_path):
    out, _ = trained
    wrong = call("nodes", "train", tables, "--label", "group", "--set", "layer=3")
    assert wrong.code == 2
    assert "did you mean 'layers'?" in wrong.err
    wrong = call("nodes", "train", tables, "--label", "group", "--metric", "mae")
    assert wrong.code == 2
    wrong = call("predict", out / "model.gad", tables / "nodes.csv", "-o", tmp_path / "x.csv")
    assert "is a model of nodes: use it with `gad nodes predict`" in " ".join(wrong.err.split())
    (tmp_path / "nodes.csv").write_text("id,f0\nv1,1\nv2,2\n")
    (tmp_path / "edges.csv").write_text("a,b\nv1,v2\n")
    wrong = call("nodes", "predict", out / "model.gad", tmp_path, "-o", tmp_path / "x.csv")
    assert "there is no column 'f1'" in " ".join(wrong.err.split())
    assert not (tmp_path / "x.csv").exists()


def test_a_damaged_model_is_refused(trained, tables, tmp_path):
    out, _ = trained
    data = bytearray((out / "model.gad").read_bytes())
    data[-1] ^= 1
    (tmp_path / "model.gad").write_bytes(bytes(data))
    wrong = call("nodes", "predict", tmp_path / "model.gad", tables, "-o", tmp_path / "x.csv")
    assert wrong.code == 1
    assert "checksum" in wrong.err


@pytest.mark.parametrize("model", ["gad-s", "gcn", "sage", "gat"])
def test_every_model_trains_and_comes_back(model, tables, tmp_path):
    told = done(
        "nodes", "train", tables, "--label", "group", "--out", tmp_path / "run", "--json",
        *QUICK, "--set", f"model={model}", "--set", "directions=true",
    ).json  # fmt: skip
    assert told["accuracy"] > 0.8
    again = done(
        "nodes", "predict", tmp_path / "run" / "model.gad", tables, "--label", "group",
        "-o", tmp_path / "p.parquet", "--json",
    ).json  # fmt: skip
    assert again["metrics"]["accuracy"] > 0.8


def test_the_docstring_promises_what_is_written(trained):
    out, _ = trained
    for name in ("model.gad", "report.html", "summary.json"):
        assert name in (train.__doc__ or "")
        assert (out / name).exists()
