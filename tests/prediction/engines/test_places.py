"""Files on this machine and behind URLs."""

from __future__ import annotations

import pytest

from gad.data.tables import TableError
from gad.prediction.engines.places import Place, opened, tables_of


@pytest.fixture
def folder(tmp_path):
    for name in ("b.csv", "a.csv", "c.txt.gz", "_hidden.csv", ".hidden.csv", "notes.md"):
        (tmp_path / name).write_text("smiles\nCCO\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "d.csv").write_text("smiles\nC\n")
    return tmp_path


@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("", ["a.csv", "b.csv", "c.txt.gz", "deep/d.csv"]),
        ("/b.csv", ["b.csv"]),
        ("/*b.csv", ["b.csv"]),
        ("/deep/*", ["deep/d.csv"]),
    ],
)
def test_tables_of_a_path_a_folder_and_a_pattern(folder, scheme, pattern, names):
    found = [str(place) for place, _ in tables_of(f"{scheme}{folder}{pattern}")]
    assert found == [f"{scheme}{folder}/{name}" for name in names]


@pytest.mark.parametrize("name", ["none", "none.csv", "*.parquet", "notes.md.csv"])
def test_no_table(folder, name):
    for scheme in ("", "file://"):
        with pytest.raises(TableError, match="there is no table"):
            tables_of(f"{scheme}{folder}/{name}")


def test_a_brackets_name_is_a_name(tmp_path):
    (tmp_path / "run[1].csv").write_text("smiles\nC\n")
    ((place, _),) = tables_of(str(tmp_path / "run[1].csv"))
    assert place.name == "run[1].csv"


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_what_is_written_is_read(tmp_path, scheme):
    place = Place(f"{scheme}{tmp_path}/new/folder") / "a.csv"
    assert place.state() is None
    place.write(b"smiles\nCCO\n")
    assert place.read() == b"smiles\nCCO\n"
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["a.csv"]
    with opened(place) as table:
        assert table.names == ("smiles",)
    before = place.state()
    place.write(b"smiles\nCCO\nCC\n")
    assert place.state() != before
    assert place in Place(str(tmp_path))
    assert place not in Place(str(tmp_path / "ne"))
    place.remove()
    assert place.state() is None


def test_messages_name_a_table_as_the_user_did(tmp_path):
    (tmp_path / "empty.csv").touch()
    url = f"file://{tmp_path}/empty.csv"
    with pytest.raises(TableError, match=f"^{url}: is empty"), opened(Place(url)):
        pass


def test_options_of_a_url_stay_behind():
    place = Place("s3://bucket/out?region=eu") / "a.csv"
    assert (str(place), place.name) == ("s3://bucket/out/a.csv?region=eu", "a.csv")
