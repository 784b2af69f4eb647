"""Reading: every format, every way in which real files are untidy."""

from __future__ import annotations

import gzip
import tracemalloc
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gad.data.tables import TableError, open_table
from gad.data.tables import sdf as table_sdf
from gad.data.tables import text as table_text

MOL = (
    "aspirin\n  made\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\n    0.0 0.0 0.0 C   0  0\nM  END\n"
)
MOL3 = "big\n  made\n\n  0  0  0     0  0            999 V3000\nM  V30 END CTAB\nM  END\n"


@pytest.fixture
def table(tmp_path):
    """Write bytes or text to a file of that name, and open it."""

    def make(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return open_table(path)

    return make


def rows(table, size=4096, start=0):
    """All rows as tuples, and the reasons of the rejected ones by row."""
    chunks = list(table.chunks(size, start))
    found = [row for chunk in chunks for row in zip(*chunk.columns.values(), strict=True)]
    rejects = {c.start + i: reason for c in chunks for i, reason in c.rejects.items()}
    return found, rejects


CSV = 'smiles,"name, long",y\nCCO,"ethanol, ""pure""",1\nC,"two\nlines",2\n'
CSV_ROWS = [("CCO", 'ethanol, "pure"', "1"), ("C", "two\nlines", "2")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", CSV),
        ("A.CSV", CSV),
        ("bom.csv", b"\xef\xbb\xbf" + CSV.encode()),
        ("utf16.csv", CSV.encode("utf-16")),
        ("utf16be.csv", b"\xfe\xff" + CSV.encode("utf-16-be")),
        ("no_end.csv", CSV.rstrip("\n")),
        ("blank.csv", "\n\n" + CSV + "\n  \n"),
        ("a.csv.gz", gzip.compress(CSV.encode(), mtime=0)),
        (
            "members.csv.gz",
            gzip.compress(CSV[:20].encode(), mtime=0) + gzip.compress(CSV[20:].encode(), mtime=0),
        ),
        ("forgot_the_ending.csv", gzip.compress(CSV.encode(), mtime=0)),
        ("zeros_at_the_end.csv", CSV.encode() + bytes(100)),
    ],
)
def test_csv_is_read_however_it_was_saved(table, name, content):
    opened = table(name, content)
    assert opened.format == "csv"
    assert opened.names == ("smiles", "name, long", "y")
    assert rows(opened) == (CSV_ROWS, {})


@pytest.mark.parametrize(("end", "inside"), [("\r\n", "\r\n"), ("\r", "\n")])
def test_line_ends_of_other_systems(table, end, inside):
    opened = table("a.csv", f'smiles,name{end}C,"two{inside}lines"{end}CC,b{end}')
    assert rows(opened) == ([("C", f"two{inside}lines"), ("CC", "b")], {})


@pytest.mark.parametrize(
    ("name", "content", "form"),
    [
        ("a.tsv", "smiles\ty\nCC,O\t1\n", "tsv"),
        ("a.tab", "smiles\ty\nCC,O\t1\n", "tsv"),
        ("a.txt", "smiles\ty\nCC,O\t1\n", "tsv"),
        ("chembl.csv", '"smiles";"y"\n"CC,O";"1"\n', "csv"),
        ("a.txt", "smiles|y\nCC,O|1\n", "csv"),
    ],
)
def test_delimiters(table, name, content, form):
    opened = table(name, content)
    assert (opened.format, opened.names) == (form, ("smiles", "y"))
    assert rows(opened) == ([("CC,O", "1")], {})


def test_latin_1_bytes_are_read_as_windows_wrote_them(table):
    opened = table("a.csv", b"smiles,name\nC,M\xfcller \x96 5 \xb5M\nCC,\xc3\xbc\n")
    assert rows(opened) == ([("C", "Müller – 5 µM"), ("CC", "ü")], {})


def test_ragged_rows_are_rejected_and_the_rest_goes_on(table):
    found, rejects = rows(table("a.csv", "smiles,name,y\nC,a\nCC,b,1\nCCC,c,2,extra\nO,d,3\n"))
    assert found == [("C", "a", ""), ("CC", "b", "1"), ("CCC", "c", "2"), ("O", "d", "3")]
    assert rejects == {
        0: "line 2 has 2 fields where the header has 3",
        2: "line 4 has 4 fields where the header has 3",
    }


def test_a_quote_that_never_closes_costs_one_row(table):
    found, rejects = rows(table("a.csv", 'smiles,y\nC,1\nCC,"2\nCCC,3\nO,4\n'))
    assert found == [("C", "1"), ("CC", '"2'), ("CCC", "3"), ("O", "4")]
    assert rejects == {1: "line 3 opens a quote and never closes it"}


def test_a_quote_inside_a_name_is_a_letter(table):
    opened = table("a.tsv", 'smiles\tname\nC\t2"-deoxy\nCC\tx\nCCC\t"5" pipe\n')
    assert rows(opened) == ([("C", '2"-deoxy'), ("CC", "x"), ("CCC", "5 pipe")], {})


def test_nul_bytes_reject_their_row(table):
    found, rejects = rows(table("a.csv", b'smiles,y\nC\0C,1\nCC,2\n"C\0",3\n\0\n'))
    assert found == [("CC", "1"), ("CC", "2"), ("C", "3")]
    assert rejects == {i: f"line {i + 2} has a NUL byte, which no text has" for i in (0, 2)}


def test_endless_lines_are_let_go(table, monkeypatch):
    monkeypatch.setattr(table_text, "LIMIT", 100)
    long = "C" * 1000
    quoted = 'O,"' + "x\n" * 100
    found, rejects = rows(table("a.csv", f"smiles,y\n{long},1\nCC,2\n{quoted}"))
    assert found[:3] == [("", ""), ("CC", "2"), ("O", '"x')]
    assert rejects[0] == "line 2 is longer than 16,777,216 characters"
    assert rejects[2] == "line 4 opens a quote and never closes it"
    assert len(found) == 3 + 99
    both = f'smiles,y\nO,"x\n{long},1\nCC,2\n'
    found, rejects = rows(table("a.csv", both))
    assert found == [("O", '"x'), ("", ""), ("CC", "2")]
    assert list(rejects) == [0, 1]
    found, rejects = rows(table("a.smi", f"{long} a\nCC b\n"))
    assert found == [("", ""), ("CC", "b")]
    assert list(rejects) == [0]


def test_cells_of_many_characters(table):
    long = "C" * 200_000  # more than the csv module takes of its own accord
    assert rows(table("a.csv", f'smiles,y\n"{long}",1\n')) == ([(long, "1")], {})


def test_header_only(table):
    for name, content in (("a.csv", "smiles,y\n"), ("a.smi", "smiles name\n")):
        assert rows(table(name, content)) == ([], {})


def test_nameless_columns_are_numbered(table):
    assert table("a.csv", ",smiles,\n0,C,1\n").names == ("column 1", "smiles", "column 3")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.csv", "", "is empty"),
        ("a.csv", "\n \n", "is empty"),
        ("a.smi", "", "is empty"),
        ("a.sdf", "\n\n", "is empty"),
        ("a.parquet", "", "cannot be read as Parquet"),
        ("a.parquet", "smiles,y\nC,1\n", "cannot be read as Parquet"),
        ("a.csv", "y,smiles, y\n", "columns 1 and 3 are both called 'y'"),
        ("a.csv", CSV.encode("utf-16-le"), "header line has a NUL byte"),
        ("a.smi", "C a\n".encode("utf-16-le"), "first line has a NUL byte"),
        ("a.csv", "\x01\x02,b\n", "control characters"),
        ("a.csv", 'smiles,"y\nC,1\n', "header line opens a quote"),
        ("a.csv", b"PK\x03\x04....", "Excel workbook"),
        ("a.csv", b"PAR1....", "is a Parquet file"),
        ("a.csv.gz", CSV, "is not gzip data"),
        ("a.csv.gz", gzip.compress(CSV.encode(), mtime=0)[:-12], "truncated"),
        ("a.xlsx", b"PK", "is not an Excel workbook"),
        ("a.xls", b"PK", "the ending of the name is not one of"),
        ("a.parquet.gz", b"\x1f\x8b", "the ending of the name is not one of"),
        ("noending", "smiles\nC\n", "the ending of the name is not one of"),
        ("odd.csv", CSV.encode("utf-16")[:-1], "cannot be read as text"),
    ],
)
def test_files_that_cannot_be_used_say_why(table, name, content, says):
    with pytest.raises(TableError, match=says) as error:
        list(table(name, content).chunks())
    assert name in str(error.value)


def test_paths_that_are_no_files(tmp_path):
    with pytest.raises(TableError, match="is a folder"):
        open_table(tmp_path)
    with pytest.raises(TableError, match="there is no such file"):
        open_table(tmp_path / "none.csv")


@pytest.mark.parametrize("name", ["a.csv", "a.sdf", "a.parquet"])
def test_a_file_that_vanishes(table, tmp_path, name):
    pq.write_table(pa.table({"smiles": ["C"]}), tmp_path / "b.parquet")
    content = {"a.csv": CSV, "a.sdf": MOL}.get(name) or (tmp_path / "b.parquet").read_bytes()
    opened = table(name, content)
    opened.path.unlink()
    with pytest.raises(TableError, match="no such file"):
        list(opened.chunks())
    with pytest.raises(TableError, match="no such file"):
        opened.fingerprint()


# ------------------------------------------------------------------------------------------- SMILES


@pytest.mark.parametrize(
    "content", ["CCO ethyl alcohol\n\nC\n", "SMILES name\nCCO\tethyl alcohol\nC"]
)
def test_smiles_files_with_and_without_a_header(table, content):
    for name in ("a.smi", "a.smiles", "a.txt"):
        if name == "a.txt" and "\t" in content:
            continue  # a .txt with tabs is a table
        opened = table(name, content)
        assert (opened.format, [n.lower() for n in opened.names]) == ("smi", ["smiles", "name"])
        assert rows(opened) == ([("CCO", "ethyl alcohol"), ("C", "")], {})


def test_smiles_file_with_further_columns(table):
    found, rejects = rows(table("a.smi.gz", gzip.compress(b"smiles id y\nC a 1\nCC b\nO\0 c 2\n")))
    assert found == [("C", "a", "1"), ("CC", "b", ""), ("O", "c", "2")]
    assert rejects == {
        1: "line 3 has 2 fields where the header has 3",
        2: "line 4 has a NUL byte, which no text has",
    }


# ---------------------------------------------------------------------------------------------- SDF


def test_sdf(table):
    text = (
        f"{MOL}>  <logS>  (1)\n-0.77\n\n> 25 <note>\ntwo\n> lines\n\n$$$$\n"
        f"{MOL3}> <a <b> c>\n1\n\n> <logS>\n\n$$$$ \n"
        f"{MOL}"
    )
    for content in (text, text.replace("\n", "\r\n"), text.encode("utf-8-sig")):
        opened = table("a.sdf", content)
        assert opened.names == ("name", "logS", "note", "a <b> c")
        assert opened.rows == 3
        assert rows(opened) == (
            [
                ("aspirin", "-0.77", "two\n> lines", ""),
                ("big", "", "", "1"),
                ("aspirin", "", "", ""),
            ],
            {},
        )
        assert [b for c in opened.chunks(2) for b in c.blocks] == [MOL, MOL3, MOL]


def test_sdf_rejects(table, monkeypatch):
    broken = MOL.replace("M  END\n", "")
    opened = table("a.sdf", f"{MOL}$$$$\n{broken}> <y>\n1\n\n$$$$\n$$$$\nO\0{MOL}$$$$\n")
    found, rejects = rows(opened)
    assert found == [("aspirin", ""), ("aspirin", "1"), ("", ""), ("Oaspirin", "")]
    missing = "the mol block has no 'M  END' line"
    assert rejects == {1: missing, 2: missing, 3: "the record has a NUL byte, which no text has"}

    monkeypatch.setattr(table_sdf, "LIMIT", 100)
    endless = table("a.sdf", f"{MOL}> <y>\n{'1' * (3 << 20)}\n\n$$$$\n{MOL}$$$$\n")
    _, rejects = rows(endless)
    assert endless.rows == 2
    assert list(rejects) == [0]
    assert "is a $$$$ line missing?" in rejects[0]


def test_a_property_called_name_wins_over_the_title(table):
    assert rows(table("a.sdf", f"{MOL}> <name>\nmine\n\n$$$$\n")) == ([("mine",)], {})


# ------------------------------------------------------------------------------------------ Parquet


def test_parquet_keeps_values(tmp_path):
    original = pa.table(
        {
            "smiles": pa.array(["C", None, "CC"], pa.large_string()),
            "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
            "y": pa.array([0.1, None, float("nan")], pa.float32()),
            "n": pa.array([1, None, 2**53 + 1]),
            "ok": pa.array([True, False, None]),
            "day": pa.array([datetime(2020, 1, 1), None, None], pa.timestamp("ns")),  # noqa: DTZ001
            "list": pa.array([[1], [], None], pa.list_(pa.int8())),
        }
    )
    pq.write_table(original, tmp_path / "a.parquet", row_group_size=2)
    opened = open_table(tmp_path / "a.parquet")
    assert (opened.format, opened.rows, opened.names) == (
        "parquet",
        3,
        tuple(original.column_names),
    )
    columns = {name: [] for name in opened.names}
    for chunk in opened.chunks(2):
        for name, values in chunk.columns.items():
            columns[name] += values
    assert columns["smiles"] == ["C", None, "CC"]
    assert columns["kind"] == ["a", "b", "a"]
    assert str(columns["y"][0]) == "0.1"
    chunk = next(opened.chunks())
    assert chunk.texts("smiles")[:2] == ["C", ""]
    assert chunk.texts("y")[:2] == ["0.1", ""]
    assert columns["n"] == [1, None, 2**53 + 1]
    for name, values in columns.items():
        again = pa.array(values, opened.types[name])
        # As text, where NaN equals NaN and differs from null.
        assert str(again) == str(original[name].combine_chunks().cast(again.type))


def test_parquet_text_that_is_not_utf_8(tmp_path):
    raw = pa.array([b"M\xfcller", None]).view(pa.string())
    pq.write_table(pa.table({"name": raw}), tmp_path / "a.parquet")
    assert rows(open_table(tmp_path / "a.parquet")) == ([("Müller",), (None,)], {})


# ---------------------------------------------------------------------------------------- streaming


def many(tmp_path, form, n=250):
    path = tmp_path / f"a.{form}"
    if form == "parquet":
        table = {"smiles": ["C" * i for i in range(n)], "y": list(range(n))}
        pq.write_table(pa.table(table), path, row_group_size=40)
    elif form == "sdf":
        path.write_text("".join(f"{MOL}> <y>\n{i}\n\n$$$$\n" for i in range(n)))
    else:
        lines = "".join(f'{"C" * i},"{i}\n"\n' for i in range(n))
        path.write_text("smiles,y\n" + lines if form == "csv" else lines.replace(",", " "))
    return open_table(path)


@pytest.mark.parametrize("form", ["csv", "smi", "sdf", "parquet"])
@pytest.mark.parametrize("start", [0, 1, 39, 40, 99, 249, 250, 400])
def test_a_later_start_gives_the_rest(tmp_path, form, start):
    opened = many(tmp_path, form)
    everything, _ = rows(opened)
    assert len(everything) >= 250
    for size in (1, 7, 1000):
        chunks = list(opened.chunks(size, start))
        assert all(0 < len(chunk) <= size for chunk in chunks)
        assert [c.start for c in chunks] == [
            start + sum(len(c) for c in chunks[:i]) for i in range(len(chunks))
        ]
        assert rows(opened, size, start)[0] == everything[start:]


@pytest.mark.parametrize(("size", "start"), [(0, 0), (1, -1)])
def test_chunks_of_nothing_are_refused_at_once(tmp_path, size, start):
    with pytest.raises(ValueError, match="size must be at least 1"):
        many(tmp_path, "csv").chunks(size, start)


@pytest.mark.parametrize("form", ["csv", "smi", "sdf"])
def test_memory_does_not_grow_with_the_file(tmp_path, form):
    def peak(n):
        opened = open_table(_long(tmp_path / f"{n}.{form}", form, n))
        tracemalloc.start()
        assert sum(len(chunk) for chunk in opened.chunks(100)) == n
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    assert peak(10_000) < 1.5 * peak(2_500)


def _long(path, form, n):
    row = {"csv": "C" * 500 + ",1\n", "smi": "C" * 500 + " a\n", "sdf": MOL * 5 + "$$$$\n"}[form]
    path.write_text(("smiles,y\n" if form == "csv" else "") + row * n)
    return path


def test_fingerprint_is_that_of_the_bytes(table):
    a = table("a.csv", CSV).fingerprint()
    assert a == table("b.csv", CSV).fingerprint()
    assert a != table("a.csv", CSV + "\n").fingerprint()
    assert len(a) == 64


def test_names_lose_control_characters_that_no_header_line_may_have(table, tmp_path):
    record = f"{MOL}>  <log\x0eS>\n1\n\n>  <\x01>\n2\n\n$$$$\n"
    assert table("a.sdf", record).names == ("name", "logS")
    pq.write_table(pa.table({"smi\x02les": ["C"], "\x03": [1]}), tmp_path / "a.parquet")
    assert open_table(tmp_path / "a.parquet").names == ("smiles", "column 2")
