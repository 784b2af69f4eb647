"""A file predicted in parts, and put together again."""

from __future__ import annotations

import shutil

import pytest

from gad.data.tables import TableError
from gad.prediction.engines import LocalEngine, Request, local
from gad.prediction.engines.join import join_parts
from tests.cli.calls import call, done, rows_of


@pytest.fixture(scope="module")
def made(run, tmp_path_factory):
    """Ten blocks in four parts, and the same in one file."""
    folder = tmp_path_factory.mktemp("parts")
    cells = ["CCO,a", "C(,b", "[Og],c", 'CC,"two\nlines"', "N,"]
    text = "smiles,note\n" + "".join(f"{cell}\n" for cell in cells * 10)[:-1]
    (folder / "in.csv").write_text(text)
    model = run.directory / "model.gad"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "CHUNK", 5)
        LocalEngine(1).predict(Request(model, folder / "in.csv", folder / "whole.csv"))
        for k in range(1, 5):
            out = folder / f"{k}.csv"
            told = LocalEngine(1).predict(Request(model, folder / "in.csv", out, part=(k, 4)))
            assert told.rows == (15 if k < 3 else 10)
    return folder


def paths(folder, *numbers):
    return [folder / f"{k}.csv" for k in numbers]


def test_joined_parts_are_the_whole(made, tmp_path):
    told = done("join", *paths(made, 3, 1, 4, 2), "-o", tmp_path / "out.csv", "--json").json
    assert (tmp_path / "out.csv").read_bytes() == (made / "whole.csv").read_bytes()
    assert rows_of(tmp_path / "rejects.csv") == rows_of(made / "rejects.csv")
    assert (told["rows"], told["rejected"], told["unseen_elements"]) == (50, 10, 10)
    listed = [
        int(row["row"]) for k in range(1, 5) for row in rows_of(made / f"rejects-{k}-of-4.csv")
    ]
    assert sorted(listed) == [int(row["row"]) for row in rows_of(made / "rejects.csv")]


@pytest.mark.parametrize(
    ("numbers", "says"),
    [((1, 2, 4), "there is no part 3"), ((1, 2, 3, 3, 4), "are both part 3"), ((2,), "1, 3, 4")],
)
def test_a_missing_or_doubled_part_is_refused(made, tmp_path, numbers, says):
    refused = call("join", *paths(made, *numbers), "-o", tmp_path / "out.csv")
    assert refused.code == 1
    assert says in refused.err
    assert not list(tmp_path.iterdir())


def test_parts_that_do_not_belong_together_are_refused(run, made, tmp_path, monkeypatch):
    for name in ("1.csv", ".1.csv.done", "2.csv", ".2.csv.done"):
        shutil.copy(made / name, tmp_path / name)
    out = tmp_path / "out.csv"
    with (tmp_path / "1.csv").open("a") as file:
        file.write("C,,1,,\n")
    with pytest.raises(TableError, match=r"1.csv.* was changed after it was written"):
        join_parts(paths(tmp_path, 1, 2), out)
    with pytest.raises(TableError, match=r"there is no .whole2.csv.done"):
        join_parts([shutil.copy(made / "whole.csv", tmp_path / "whole2.csv")], out)
    with pytest.raises(TableError, match="is not a part"):
        join_parts([made / "whole.csv"], out)
    with pytest.raises(TableError, match="same ending"):
        join_parts(paths(made, 1, 2, 3, 4), tmp_path / "out.tsv")
    monkeypatch.setattr(local, "CHUNK", 5)
    request = Request(run.directory / "model.gad", made / "in.csv", tmp_path / "1.csv")
    for change, says in (
        ({"part": (1, 3)}, "one of 4 parts, .* one of 3"),
        ({"part": (1, 4), "uncertainty": True}, "another columns and settings"),
    ):
        LocalEngine(1).predict(Request(**{**vars(request), **change}))
        with pytest.raises(TableError, match=says):
            join_parts(paths(tmp_path, 1, 2), out)


def test_a_part_goes_on_where_it_stopped(run, made, tmp_path, monkeypatch):
    monkeypatch.setattr(local, "CHUNK", 5)
    request = Request(
        run.directory / "model.gad", made / "in.csv", tmp_path / "1.csv", resume=True, part=(1, 4)
    )
    written = 0
    write = local.PartsWriter.write

    def dies(self, *arguments):
        nonlocal written
        written += 1
        if written == 3:
            raise KeyboardInterrupt
        write(self, *arguments)

    monkeypatch.setattr(local.PartsWriter, "write", dies)
    with pytest.raises(KeyboardInterrupt):
        LocalEngine(1).predict(request)
    LocalEngine(1).predict(request)
    assert written == 4, "two blocks of three were there"
    assert (tmp_path / "1.csv").read_bytes() == (made / "1.csv").read_bytes()


def test_a_part_that_is_none(run, made, tmp_path):
    for text in ("0/4", "5/4", "2", "a/b"):
        refused = call(
            "predict", run.directory / "model.gad", made / "in.csv", "-o", tmp_path / "o.csv",
            "--part", text,
        )  # fmt: skip
        assert refused.code == 2
        assert "write I/N" in refused.err
