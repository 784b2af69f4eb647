"""Writing: whole or not at all, and resumed after a kill."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import textwrap
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gad
from gad.data.atomic import AtomicFile, write_atomic
from gad.data.tables import open_table
from gad.data.tables.base import TableError
from gad.data.tables.parts import PartsWriter
from gad.data.tables.writers import Reject, RejectsWriter, TableWriter

NAMES = ["smiles", "name", "y"]
ROWS = {
    "smiles": ["CCO", "C", "N"],
    "name": ['a "b", c', "two\nlines", "Müller"],
    "y": np.array([0.1, np.nan, -1e-7], dtype=np.float32),
}
FORMATS = ["csv", "tsv", "csv.gz", "tsv.gz", "parquet"]


def read(path):
    """The columns of a table, gathered."""
    table = open_table(path)
    columns = {name: [] for name in table.names}
    for chunk in table.chunks():
        assert not chunk.rejects
        for name, values in chunk.columns.items():
            columns[name] += values
    return columns


# ------------------------------------------------------------------------------------------- atomic


def test_atomic_file_leaves_the_old_one_until_commit(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with AtomicFile(path) as out:
        out.file.write(b"half")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"old"
    with pytest.raises(TypeError), AtomicFile(path) as out:
        out.file.writelines([b"half", None])
    assert path.read_bytes() == b"old"
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]  # noqa: PTH208


def test_atomic_file_follows_links_and_obeys_the_umask(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomic(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    (tmp_path / "plain").touch()
    assert (tmp_path / "real").stat().st_mode == (tmp_path / "plain").stat().st_mode


# ------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_written_is_read(tmp_path, form):
    path = tmp_path / f"out.{form}"
    with TableWriter(path, NAMES) as out:
        out.write(ROWS)
        out.write(ROWS)
        assert not path.exists()
        out.commit()
    found = read(path)
    assert list(found) == NAMES
    assert found["smiles"] == ROWS["smiles"] * 2
    assert found["name"] == ROWS["name"] * 2
    values = (
        [np.float32(0.1), None, np.float32(-1e-7)] if form == "parquet" else ["0.1", "", "-1e-07"]
    )
    assert found["y"] == values * 2
    assert os.listdir(tmp_path) == [path.name]  # noqa: PTH208


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_appears_without_commit(tmp_path, form):
    path = tmp_path / f"out.{form}"
    with TableWriter(path, NAMES) as out:
        out.write(ROWS)
    with pytest.raises(ValueError, match="these rows have"), TableWriter(path, NAMES) as out:
        out.write({})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_without_rows_has_its_columns(tmp_path, form):
    path = tmp_path / f"out.{form}"
    with TableWriter(path, NAMES) as out:
        out.commit()
    assert read(path) == {name: [] for name in NAMES}
    PartsWriter(path, NAMES, {}).commit()
    assert read(path) == {name: [] for name in NAMES}


def test_equal_tables_are_equal_files(tmp_path):
    for name in ("a.csv.gz", "b.csv.gz"):
        with TableWriter(tmp_path / name, NAMES) as out:
            out.write(ROWS)
            out.commit()
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


def test_floats_have_the_digits_of_their_precision(tmp_path):
    values = np.random.default_rng(0).normal(size=200).astype(np.float32) ** 5
    path = tmp_path / "out.csv"
    with TableWriter(path, ["a", "b", "c"]) as out:
        out.write({"a": values, "b": values.astype(np.float64) / 3, "c": [0.1 + 0.2] * 200})
        out.commit()
    found = read(path)
    np.testing.assert_array_equal(np.array(found["a"], dtype=np.float32), values)
    np.testing.assert_array_equal(np.array(found["b"], dtype=float), values.astype(np.float64) / 3)
    assert set(found["c"]) == {"0.30000000000000004"}
    assert max(len(Decimal(text).as_tuple().digits) for text in found["a"]) <= 9


def test_carriage_returns_stay_inside_their_cell(tmp_path):
    path = tmp_path / "out.csv"
    with TableWriter(path, ["a"]) as out:
        out.write({"a": ["x\ry", "x\r\ny", ""]})
        out.commit()
    assert read(path) == {"a": ["x\ny", "x\ny", ""]}


def typed(path):
    table = pa.table(
        {
            "smiles": pa.array(["C", None, "CC"], pa.large_string()),
            "y": pa.array([0.1, None, float("nan")], pa.float32()),
            "n": pa.array([1, None, 2**53 + 1]),
            "ok": pa.array([True, False, None]),
            "day": pa.array([datetime(2020, 1, 1), None, None], pa.timestamp("ns")),  # noqa: DTZ001
            "tiny": pa.array([1, None, 3], pa.timestamp("ns")),
            "list": pa.array([[1], [], None], pa.list_(pa.int8())),
            "none": pa.nulls(3),
        }
    )
    pq.write_table(table, path)
    return table


@pytest.mark.parametrize("parts", [False, True])
def test_parquet_comes_back_with_its_types(tmp_path, parts):
    original = typed(tmp_path / "in.parquet")
    table = open_table(tmp_path / "in.parquet")
    path = tmp_path / "out.parquet"
    names = [*table.names, "prediction"]
    out = (
        PartsWriter(path, names, {}, table.types)
        if parts
        else TableWriter(path, names, table.types)
    )
    for chunk in table.chunks(1):  # the first and the later parts have nothing in some columns
        out.write({**chunk.columns, "prediction": np.full(1, np.nan, dtype=np.float32)})
    out.commit()
    found = pq.read_table(path)
    assert found["prediction"].type == pa.float32()
    assert found["prediction"].null_count == 3
    for field in original.schema:
        kind = pa.string() if field.name == "none" else field.type
        assert found.schema.field(field.name).type == kind
        # As text, where NaN equals NaN and differs from null.
        assert str(found[field.name].combine_chunks()) == str(
            original[field.name].combine_chunks().cast(kind)
        )


def test_parquet_to_csv(tmp_path):
    typed(tmp_path / "in.parquet")
    table = open_table(tmp_path / "in.parquet")
    with TableWriter(tmp_path / "out.csv", table.names) as out:
        for chunk in table.chunks():
            out.write(chunk.columns)
        out.commit()
    found = read(tmp_path / "out.csv")
    assert found["smiles"] == ["C", "", "CC"]
    assert found["y"] == ["0.1", "", ""]
    assert found["n"] == ["1", "", str(2**53 + 1)]
    assert found["tiny"] == ["1970-01-01 00:00:00.000000001", "", "1970-01-01 00:00:00.000000003"]


def test_types_may_be_given_by_name(tmp_path):
    path = tmp_path / "out.parquet"
    with TableWriter(path, ["a"], {"a": "float32"}) as out:
        out.write({"a": [None, 1]})
        out.commit()
    assert pq.read_schema(path).field("a").type == pa.float32()


def test_values_that_do_not_fit_their_column(tmp_path):
    path = tmp_path / "out.parquet"
    with pytest.raises(TableError, match="column 'a' cannot be written to Parquet"):
        PartsWriter(path, ["a"], {}).write({"a": ["x", 1]})
    with TableWriter(path, ["a"]) as out:
        out.write({"a": [1]})
        with pytest.raises(TableError, match="rows differ in type"):
            out.write({"a": ["x"]})


@pytest.mark.parametrize(
    ("columns", "says"),
    [({"a": [1]}, "the table has columns"), ({"a": [1], "b": []}, "columns differ in length")],
)
def test_rows_must_fit_the_table(tmp_path, columns, says):
    with TableWriter(tmp_path / "a.csv", ["a", "b"]) as out, pytest.raises(ValueError, match=says):
        out.write(columns)


@pytest.mark.parametrize("begin", [TableWriter, lambda p, n: PartsWriter(p, n, {})])
def test_outputs_that_cannot_be_written_say_so_at_once(tmp_path, begin):
    with pytest.raises(TableError, match="there is no folder"):
        begin(tmp_path / "none" / "a.csv", ["a"])
    with pytest.raises(TableError, match="is a folder"):
        begin(tmp_path, ["a"])
    with pytest.raises(TableError, match="give the output one of these endings"):
        begin(tmp_path / "a.xlsx", ["a"])
    with pytest.raises(TableError, match=r"cannot be written \(File name too long\)"):
        begin(tmp_path / ("a" * 250 + ".csv"), ["a"])


def test_rejects(tmp_path):
    path = tmp_path / "rejects.csv"
    with RejectsWriter(path) as out:
        out.add(3, "C(C", "a branch, never closed")
        out.add(*Reject(7, "", "line 9 has 1 fields where the header has 2"))
        assert out.count == 2
        assert not path.exists()
        out.commit()
    with path.open(newline="") as lines:
        assert list(csv.reader(lines)) == [
            ["row", "smiles", "reason"],
            ["3", "C(C", "a branch, never closed"],
            ["7", "", "line 9 has 1 fields where the header has 2"],
        ]


# -------------------------------------------------------------------------------------------- parts


def chunk(i, n=10):
    return {
        "smiles": [f"C{j}" for j in range(i * n, (i + 1) * n)],
        "name": ["a, b"] * n,
        "y": np.linspace(i, i + 1, n).astype(np.float32),
    }


@pytest.mark.parametrize("form", FORMATS)
def test_parts_equal_the_whole(tmp_path, form):
    whole, joined = tmp_path / f"whole.{form}", tmp_path / f"joined.{form}"
    with TableWriter(whole, NAMES) as out:
        for i in range(5):
            out.write(chunk(i))
        out.commit()
    parts = PartsWriter(joined, NAMES, {"input": "a"})
    for i in range(5):
        parts.write(chunk(i))
        assert parts.done_rows == 10 * (i + 1)
        assert not joined.exists()
    parts.commit()
    assert read(joined) == read(whole)
    assert sorted(os.listdir(tmp_path)) == sorted([whole.name, joined.name])  # noqa: PTH208


KILLED = textwrap.dedent("""
    import os, signal, sys
    from gad.data import atomic
    from gad.data.tables.parts import PartsWriter
    from gad.data.tables.writers import Reject

    path, last, where = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)
    out = PartsWriter(path, ["i"], {"model": "m"})
    for i in range(0, 10 * last, 10):
        if where == "part" and i == 10 * (last - 1):
            atomic.os.fsync = die   # the last part is written but has no name yet
        out.write({"i": list(range(i, i + 10))}, rejects=[Reject(i + 10, "X", "bad")])
    if where == "commit":
        atomic.os.fsync = die
    out.commit()
""")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize(("where", "done"), [("part", 20), ("commit", 30)])
def test_resume_after_a_kill(tmp_path, form, where, done):
    path = tmp_path / f"out.{form}"
    command = [sys.executable, "-c", KILLED, str(path), "3", where]
    paths = os.pathsep.join(
        filter(None, [str(Path(gad.__file__).parents[1]), os.environ.get("PYTHONPATH")])
    )
    died = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, check=False)
    assert died.returncode == -signal.SIGKILL
    assert not path.exists()
    assert list(path.with_name(path.name + ".partial").glob(".*.tmp"))  # killed in the act

    out = PartsWriter(path, ["i"], {"model": "m"}, resume=True)
    assert out.done_rows == done
    for i in range(out.done_rows, 50, 10):
        out.write({"i": list(range(i, i + 10))}, rejects=[Reject(i + 10, "X", "bad")])
    assert list(out.rejects()) == [Reject(i, "X", "bad") for i in range(10, 60, 10)]
    out.commit()
    assert [int(i) for i in read(path)["i"]] == list(range(50))
    assert os.listdir(tmp_path) == [path.name]  # noqa: PTH208


def begun(path, **identity):
    out = PartsWriter(path, NAMES, {"input": "a", "model": "b", **identity})
    out.write(chunk(0))
    out.write(chunk(1))
    return out.folder


def test_parts_of_another_run_are_not_continued(tmp_path):
    path = tmp_path / "out.csv"
    begun(path)
    for identity, other in (
        ({"input": "a", "model": "c"}, "another model;"),
        ({"input": "x", "model": "c"}, "another input and model;"),
        ({"input": "a", "model": "b", "settings": "d"}, "another settings;"),
    ):
        with pytest.raises(TableError, match=other):
            PartsWriter(path, NAMES, identity, resume=True)
    with pytest.raises(TableError, match="another columns;"):
        PartsWriter(path, NAMES[:2], {"input": "a", "model": "b"}, resume=True)
    assert PartsWriter(path, NAMES, {"input": "a", "model": "b"}, resume=True).done_rows == 20
    assert PartsWriter(path, NAMES, {"input": "a", "model": "c"}).done_rows == 0
    assert PartsWriter(path, NAMES, {"input": "a", "model": "c"}, resume=True).done_rows == 0


def test_resuming_where_nothing_was_begun_begins(tmp_path):
    assert PartsWriter(tmp_path / "out.csv", NAMES, {}, resume=True).done_rows == 0


def test_only_parts_without_a_gap_count(tmp_path):
    path = tmp_path / "out.csv"
    folder = begun(path)
    next(folder.glob("*000-*.part")).unlink()
    out = PartsWriter(path, NAMES, {"input": "a", "model": "b"}, resume=True)
    assert out.done_rows == 0
    assert os.listdir(folder) == ["manifest.json"]  # noqa: PTH208


def test_a_damaged_manifest(tmp_path):
    path = tmp_path / "out.csv"
    (begun(path) / "manifest.json").write_text("{")
    with pytest.raises(TableError, match=r"manifest.json: is damaged"):
        PartsWriter(path, NAMES, {}, resume=True)


def test_the_manifest_explains_itself(tmp_path):
    folder = begun(tmp_path / "out.csv")
    assert json.loads((folder / "manifest.json").read_text()) == {
        "version": 2,
        "columns": NAMES,
        "input": "a",
        "model": "b",
    }


def test_a_finished_table_is_known_by_its_record(tmp_path):
    path = tmp_path / "out.csv"
    out = PartsWriter(path, NAMES, {"input": "a"})
    out.write(chunk(0), counts={"strange": 2})
    out.write(chunk(1), counts={"strange": 3})
    assert out.counts() == {"strange": 5}
    out.commit({"rows": 20})
    assert not out.folder.exists()

    def finished(**identity):
        parts = PartsWriter(path, NAMES, identity, resume=True)
        parts.discard()
        return parts.finished

    assert finished(input="a") == {"rows": 20}
    assert finished(input="b") is None
    record = tmp_path / ".out.csv.done"
    kept = record.read_text()
    for damaged in ("", "[]", "{", kept.replace("summary", "x")):
        record.write_text(damaged)
        assert finished(input="a") is None
    record.write_text(kept)
    assert finished(input="a") == {"rows": 20}
    path.write_bytes(path.read_bytes()[:-1])
    assert finished(input="a") is None


def test_files_of_others_outlive_a_commit(tmp_path):
    out = PartsWriter(tmp_path / "out.csv", NAMES, {})
    (out.folder / "thesis.tex").write_text("years of work")
    out.write(chunk(0))
    out.commit()
    assert os.listdir(out.folder) == ["thesis.tex"]  # noqa: PTH208
    assert len(read(tmp_path / "out.csv")["y"]) == 10


def test_folders_of_others_are_left_alone(tmp_path):
    folder = tmp_path / "out.csv.partial"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    for resume in (False, True):
        with pytest.raises(TableError, match=r"holds other things than parts of out\.csv"):
            PartsWriter(tmp_path / "out.csv", NAMES, {}, resume=resume)
    assert (folder / "thesis.tex").exists()
