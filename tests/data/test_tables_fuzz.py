"""Damaged tables are read or refused in words: no other error, no hang."""

from __future__ import annotations

import gzip
import io
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gad.data.tables import TableError, open_table
from gad.data.tables.columns import choose_columns
from gad.data.tables.numbers import numbers
from tests.corrupt import corruptions

SEEDS = range(max(3, 3 * int(os.environ.get("GAD_FUZZ_CASES", "0")) // 2000))

MOL = (
    "ethanol\n  made\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\n    0.0 0.0 0.0 C   0  0\nM  END\n"
)
CSV = (
    'smiles,"name, long",y\n' + 'CCO,"ethanol, ""pure""",1\nC,"two\nlines",2.5\nCl,Müller,NA\n' * 4
)
SMI = "smiles name\n" + "CCO ethanol\n[Na+].[Cl-]\tcommon salt\nC\n" * 4
SDF = f"{MOL}>  <logS>  (1)\n-0.77\n\n>  <note>\ntwo\nlines\n\n$$$$\n" * 4


def parquet() -> bytes:
    columns = {"smiles": ["CCO", "C", None] * 9, "y": [1.5, None, 2.5] * 9, "set": ["a"] * 27}
    table = pa.table(columns)
    table = table.set_column(2, "set", table["set"].dictionary_encode())
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=10)
    return out.getvalue()


FILES = {
    "csv": CSV.encode(),
    "tsv": CSV.replace(",", "\t").encode(),
    "txt": CSV.replace(",", ";").encode(),
    "smi": SMI.encode(),
    "sdf": SDF.encode(),
    "parquet": parquet(),
}
CASES = [
    *FILES.items(),
    *((f"{form}.gz", gzip.compress(FILES[form], mtime=0)) for form in ("csv", "smi", "sdf")),
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("form", "data"), CASES, ids=[form for form, _ in CASES])
def test_damage(tmp_path, form, data, seed):
    path = tmp_path / f"damaged.{form}"
    path.write_bytes(data)
    assert read(path) > 0
    outcomes = []
    for damaged in corruptions(data, seed):
        path.write_bytes(damaged)
        try:
            outcomes.append(read(path))
        except TableError as error:
            assert str(path) in str(error)  # noqa: PT017
            outcomes.append(None)
    # The damage is neither so small that nothing is refused nor so great that nothing is read.
    assert None in outcomes
    assert any(outcomes)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("form", ["csv.gz", "smi.gz", "sdf.gz"])
def test_damage_inside_the_compression(tmp_path, form, seed):
    path = tmp_path / f"damaged.{form}"
    for damaged in corruptions(FILES[form.removesuffix(".gz")], seed):
        path.write_bytes(gzip.compress(damaged))
        try:
            read(path)
        except TableError as error:
            assert str(path) in str(error)  # noqa: PT017


def read(path) -> int:
    """Do with a table what a program does; the number of rows without a fault."""
    table = open_table(path)
    good = 0
    for chunk in table.chunks(5):
        assert set(chunk.columns) == set(table.names)
        assert {len(values) for values in chunk.columns.values()} == {len(chunk)}
        assert chunk.blocks is None or len(chunk.blocks) == len(chunk)
        assert all(0 <= i < len(chunk) and reason for i, reason in chunk.rejects.items())
        for name, values in chunk.columns.items():
            numbers(values, name)
        good += len(chunk) - len(chunk.rejects)
    columns, notes = choose_columns(table, need_targets=False)
    assert bool(notes) == (columns.smiles is not None)
    return good
