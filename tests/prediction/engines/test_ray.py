"""Twenty thousand rows on a cluster of two workers, one of which is killed."""

from __future__ import annotations

import contextlib
import csv
import os
import random
import signal
import socket
from dataclasses import replace

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gad
from gad.data.known import load_esol
from gad.data.tables import TableError
from gad.prediction.engines import LocalEngine, Request
from gad.prediction.engines.ray import RayEngine
from gad.reporter import Reporter
from tests.cli.calls import call, done, rows_of

ray = pytest.importorskip("ray", reason="the cluster engine needs the extra 'ray'")
# Ray warns of settings of its own.
pytestmark = pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\..*")
ROWS, FILES = 20_000, 4


@pytest.fixture(scope="module")
def cluster():
    """Two workers on this machine."""
    handlers = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A folder of four CSV files, one row in a hundred garbage, and the same in one file."""
    draw = random.Random(0)
    smiles = load_esol().smiles
    rows = [[i, draw.choice(smiles) if i % 100 else "C(("] for i in range(ROWS)]
    folder = tmp_path_factory.mktemp("library")
    (folder / "parts").mkdir()
    for k in range(FILES):
        write(folder / "parts" / f"{k}.csv", rows[k * ROWS // FILES : (k + 1) * ROWS // FILES])
    write(folder / "all.csv", rows)
    return folder


def write(path, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["id", "smiles"], *rows])


class Killer(Reporter):
    """Kills a worker as soon as the first unit is done."""

    def __init__(self):
        self.killed = []

    def progress(self, *_):
        if not self.killed:
            self.killed += [process.pid for process in actors()][:1]
            for pid in self.killed:
                os.kill(pid, signal.SIGKILL)


def actors():
    """The processes that score."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has just ended
            if any("MapWorker" in word for word in process.cmdline()):
                yield process


@pytest.mark.slow
def test_on_a_cluster(cluster, run, library, tmp_path, monkeypatch):
    """One test, lest every process of the test run starts a cluster of its own."""
    killed = predict_although_a_worker_dies(run, library)
    nothing_is_lost_or_doubled(*killed, run, library)
    a_run_goes_on_with_what_is_missing(*killed, run, library)
    monkeypatch.chdir(tmp_path)  # where the workers, which are there already, are not
    the_command_line_speaks_ray(run, tmp_path)
    a_dataset_gets_columns(run)


def predict_although_a_worker_dies(run, library):
    killer, out = Killer(), library / "out"
    request = Request(run.directory / "model.gad", library / "parts", out, uncertainty=True)
    told = RayEngine(rows=2048).predict(request, killer)
    assert killer.killed
    return out, told


def nothing_is_lost_or_doubled(out, told, run, library):
    request = Request(
        run.directory / "model.gad",
        library / "all.csv",
        library / "local.parquet",
        uncertainty=True,
    )
    local = LocalEngine(2).predict(request)
    found, expected = pq.read_table(out), pq.read_table(library / "local.parquet")
    assert found.column_names == [*expected.column_names, "source_file", "source_row"]
    assert found["id"].to_pylist() == [str(i) for i in range(ROWS)], "every row once, in order"
    for name in ("reject_reason", "domain"):
        assert found[name].equals(expected[name])
    for name in ("target_pred", "target_lower", "target_upper"):
        np.testing.assert_allclose(
            found[name].to_numpy(), expected[name].to_numpy(), rtol=1e-6, atol=1e-6
        )
    assert found["source_row"].to_pylist() == list(range(1, ROWS // FILES + 1)) * FILES
    assert [name[-5:] for name in found["source_file"].unique().to_pylist()] == [
        f"{k}.csv" for k in range(FILES)
    ]
    assert (told.rows, told.rejected) == (local.rows, local.rejected) == (ROWS, ROWS // 100)
    listed, other = rows_of(out / "_rejects.csv"), rows_of(library / "rejects.csv")
    assert [row["reason"] for row in listed] == [row["reason"] for row in other]
    numbers = [int(row["row"]) + int(row["source_file"][-5]) * ROWS // FILES for row in listed]
    assert numbers == [int(row["row"]) for row in other]


def a_run_goes_on_with_what_is_missing(out, told, run, library):
    request = Request(
        run.directory / "model.gad", library / "parts", out, uncertainty=True, resume=True
    )
    engine = RayEngine(rows=2048, workers=1)
    before = {path: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    assert engine.predict(request) == told, "it is finished"
    lost = sorted(before)[3]
    content = pq.read_table(lost)
    lost.unlink()
    assert engine.predict(request) == told
    assert pq.read_table(lost).equals(content)
    kept = {path: path.stat().st_mtime_ns for path in before if path != lost}
    assert kept == {path: time for path, time in before.items() if path != lost}


def the_command_line_speaks_ray(run, tmp_path):
    for k, molecule in enumerate(("CCO", "C(")):
        table = {"smiles": [molecule], "source_row": pa.array([7], pa.int8())}
        pq.write_table(pa.table(table), tmp_path / f"{k}.parquet")
    model, out = run.directory / "model.gad", tmp_path / "out"
    options = ("--engine", "ray", "--workers", "1", "--json")
    told = done("predict", model, "*.parquet", "-o", f"file://{out}", *options).json
    assert told["rejects"] == f"file://{out}/_rejects.csv"
    found = pq.read_table(out)
    assert found.schema.field("source_row").type == pa.int8(), "the user's own"
    assert found["source_row_gad"].to_pylist() == [1, 1]
    assert found["source_file"].to_pylist() == ["0.parquet", "1.parquet"]
    assert [bool(value) for value in found["target_pred"].to_pylist()] == [True, False]
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "a.csv").write_text("id,smiles\nx,CCO\n")
    pq.write_table(
        pa.table({"id": [7, None], "smiles": ["CCO", None]}), tmp_path / "mixed/b.parquet"
    )
    assert done("predict", model, "mixed", "-o", "both", *options).json["rows"] == 3
    assert pq.read_table(tmp_path / "both")["id"].to_pylist() == ["x", "7", None], "as text"
    (tmp_path / "other").mkdir()
    pq.write_table(pa.table({"smiles": ["C"]}), tmp_path / "other" / "a.parquet")
    pq.write_table(pa.table({"smile": ["C"]}), tmp_path / "other" / "b.parquet")
    refused = call("predict", model, "other", "-o", "o", *options[:-1])
    assert refused.code == 1
    assert "other/b.parquet: its columns (smile) are not those of the first table" in refused.err


def test_a_folder_of_other_things_is_left_alone(run, tmp_path, library):
    (tmp_path / "thesis.tex").write_text("years of work")
    request = Request(run.directory / "model.gad", library / "parts", tmp_path)
    with pytest.raises(TableError, match=r"other things than predictions \(thesis.tex\)"):
        RayEngine().predict(request)
    within = Request(run.directory / "model.gad", library / "parts", library / "parts")
    with pytest.raises(TableError, match="holds what is to be predicted"):
        RayEngine().predict(within)
    taken = Request(run.directory / "model.gad", library / "parts", tmp_path / "thesis.tex")
    with pytest.raises(TableError, match=r"thesis.tex: is a file"):
        RayEngine().predict(taken)
    text = Request(run.directory / "model.gad", library / "parts", tmp_path / "out.csv")
    with pytest.raises(TableError, match="a folder of Parquet files; leave the ending out"):
        RayEngine().predict(text)
    (tmp_path / "thesis.tex").unlink()
    (tmp_path / "earlier").mkdir()
    (tmp_path / "earlier" / "part-000000-000000.parquet").touch()
    with pytest.raises(TableError, match=r"earlier/part-000000-000000\.parquet"):
        RayEngine().predict(request)
    (tmp_path / "earlier" / "part-000000-000000.parquet").unlink()
    empty = Request(run.directory / "model.gad", tmp_path, tmp_path / "out")
    with pytest.raises(TableError, match="there is no table"):
        RayEngine().predict(empty)


def test_what_is_not_there_is_said_at_once(run, tmp_path, library):
    request = Request(run.directory / "model.gad", library / "parts", tmp_path / "out")
    with socket.socket() as taken:  # by nobody who listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ValueError, match=f"no Ray cluster answers at '{address}'"):
            RayEngine(address)._cluster("cpu").__enter__()
    with pytest.raises(ValueError, match="PyTorch knows no device 'tpux'"):
        RayEngine().predict(replace(request, accelerator="tpux"))


def a_dataset_gets_columns(run):
    rows = [{"id": k, "SMILES": text} for k, text in enumerate(["CCO", "C(", "c1ccccc1"])]
    dataset = gad.load(run.directory / "model.gad").predict_dataset(
        ray.data.from_items(rows), workers=1, uncertainty=True, neighbours=1
    )
    found = sorted(dataset.take_all(), key=lambda row: row["id"])
    assert list(found[0]) == [
        "id", "SMILES", "target_pred", "target_lower", "target_upper", "domain", "neighbour_1",
        "neighbour_1_similarity", "neighbour_1_target", "warning", "reject_reason",
    ]  # fmt: skip
    told = run.model.predict_detailed(["CCO", "C(", "c1ccccc1"], uncertainty=True)
    assert [row["domain"] for row in found] == told.domain
    expected = run.model.predict(["CCO", "c1ccccc1"])
    np.testing.assert_allclose([found[k]["target_pred"] for k in (0, 2)], expected, rtol=1e-6)
    assert found[1]["target_pred"] is None or np.isnan(found[1]["target_pred"])
    assert [bool(row["reject_reason"]) for row in found] == [False, True, False]
