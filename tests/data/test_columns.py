"""Which column is what, and what a cell is worth."""

from __future__ import annotations

import math
import time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gad.data.known import load_esol
from gad.data.tables import TableError, open_table
from gad.data.tables.columns import Columns, choose_columns, looks_like_smiles
from gad.data.tables.numbers import decimal_commas, numbers, parse_number

MOLECULES = ["CCO", "c1ccccc1", "CC(=O)O", "[Na+].[Cl-]", "C/C=C\\C", "C%12CCCCC%12"]


@pytest.fixture
def table(tmp_path):
    """A CSV made of columns; ``smiles`` and ``y`` are filled in where they are called for."""

    def make(**columns):
        path = tmp_path / "some.csv"
        names = [name.replace("__", " ") for name in columns]
        lines = [names, *zip(*columns.values(), strict=True)]
        path.write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
        return open_table(path)

    return make


Y = [0.5, -1.25, "NA", 3, 2.5, 1e-3]
IDS = [f"C-{i}" for i in range(6)]


# ------------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        (" -1.5 ", -1.5),
        (".5", 0.5),
        ("5.", 5),
        ("+1E-3", 1e-3),
        ("True", 1),
        ("false", 0),
    ],
)
def test_numbers_are_read(text, value):
    assert parse_number(text) == value


@pytest.mark.parametrize(
    "text", ["", "  ", "NA", "n/a", "NaN", "null", "None", "-", "?", None, math.nan]
)
def test_nothing_is_nan(text):
    assert math.isnan(parse_number(text))


@pytest.mark.parametrize(
    "text",
    ["1,5", "inf", "-Infinity", "1e999", "1_000", ">3", "abc", "0x10", "１", "1 2", math.inf, [1]],
)
def test_the_rest_is_no_number(text):
    assert parse_number(text) is None


def test_numbers_of_a_typed_column():
    moment = pa.scalar(1, pa.timestamp("ns"))
    cells = [1, np.float32(0.5), None, True, pa.scalar(Decimal("2.50")), 10**400, moment]
    values, rejects = numbers(cells, "y")
    np.testing.assert_array_equal(values, [1, 0.5, np.nan, 1, 2.5, np.nan, np.nan])
    assert list(rejects) == [5, 6]
    assert rejects[6] == "column 'y': '1970-01-01 00:00:00.000000001' is not a number"


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("1,5", "column 'y': '1,5' has a comma; write decimals with a point"),
        ("<0.1", "column 'y': '<0.1' is a bound, not a number"),
        ("inf", "column 'y': 'inf' is infinite"),
        ("1e999", "column 'y': '1e999' is infinite"),
        ("active", "column 'y': 'active' is not a number"),
        ("x" * 1000, "column 'y': '" + "x" * 37 + "...' is not a number"),
    ],
)
def test_reasons_name_column_and_value(cell, reason):
    values, rejects = numbers(["1", cell], "y")
    np.testing.assert_array_equal(values, [1, np.nan])
    assert list(rejects) == [1]
    assert rejects[1].startswith(reason)


def test_a_million_numbers_take_seconds():
    cells = ["-3.6161271205000003", "", "1"] * 100_000
    start = time.process_time()
    values, rejects = numbers(cells, "y")
    assert time.process_time() - start < 3  # for 300,000: ten times what it needs
    assert not rejects
    assert values.shape == (300_000,)


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1,5", "2", "-0,25", "NA"], [1.5, 2, -0.25, math.nan]),
        (["0,250", "1,234", "12,000"], [0.25, 1.234, 12]),
        (["1.234,5", "-12.345.678,9", "3,0"], [1234.5, -12345678.9, 3]),
        (["1,5E-03", ",5", "+2,0e2"], [1.5e-3, 0.5, 200]),
    ],
)
def test_decimal_commas(cells, values):
    assert decimal_commas(cells)
    found, rejects = numbers(cells, "y", comma=True)
    np.testing.assert_array_equal(found, values)
    assert not rejects


@pytest.mark.parametrize(
    "cells",
    [
        [],
        ["1.5", "2"],
        ["1,234", "12,345"],  # thousands, or decimals: who knows
        ["1,234", "12,345", "1,234,567"],
        ["1,234.5", "1,5"],
        ["1,234"] * 20 + ["1,5"],  # more likely a slip
        ["1,5 mg", "Smith, J."],
    ],
)
def test_commas_in_doubt_are_not_read(cells):
    assert not decimal_commas(cells)


def test_points_among_decimal_commas_are_not_guessed():
    values, rejects = numbers(["1,5", "1.234", "1.5", "1,2,3"], "y", comma=True)
    np.testing.assert_array_equal(values, [1.5, np.nan, np.nan, np.nan])
    assert "has a point in a column with decimal commas" in rejects[1]
    assert list(rejects) == [1, 2, 3]


@pytest.mark.parametrize(("name", "mark"), [("a.csv", ";"), ("a.tsv", "\t"), ("a.csv", "|")])
def test_decimal_commas_are_looked_for_where_columns_are_separated_otherwise(tmp_path, name, mark):
    lines = [["smiles", "y"], *zip(MOLECULES, ["0,5", "1,25", "3", "", "-2,0", "1,5"], strict=True)]
    path = tmp_path / name
    path.write_text("".join(mark.join(line) + "\n" for line in lines))
    columns, _ = choose_columns(open_table(path), need_targets=True)
    assert columns == Columns("smiles", ("y",), decimal_commas=frozenset("y"))
    quoted = tmp_path / "b.csv"
    quoted.write_text("".join(f'{s},"{y}"\n' for s, y in lines))
    with pytest.raises(TableError, match="none of its columns is numeric"):
        choose_columns(open_table(quoted), need_targets=True)


# ------------------------------------------------------------------------------------------- SMILES


@pytest.mark.parametrize("text", [*MOLECULES, "*", "[2H]O[2H]", "C1CC1C1CC1", "N#N", " CCO "])
def test_smiles_look_like_smiles(text):
    assert looks_like_smiles(text)


@pytest.mark.parametrize(
    "text", ["", "aspirin", "A-3", "C-3", "1.5", "train", "CHEMBL25", "C(C", "CC O"]
)
def test_other_things_do_not(text):
    assert not looks_like_smiles(text)


@pytest.mark.parametrize(
    "name", ["smiles", "SMILES", "Canonical__SMILES", "smi", "rdkit_smiles", "mol"]
)
def test_smiles_by_name(table, name):
    opened = table(id=IDS, **{name: MOLECULES}, y=Y)
    columns, notes = choose_columns(opened, need_targets=True)
    name = name.replace("__", " ")
    assert columns == Columns(smiles=name, targets=("y",))
    assert notes == [
        f"smiles: column '{name}' (by its name)",
        "target: 'y', the only numeric column",
    ]


def test_smiles_by_content(table):
    columns, notes = choose_columns(
        table(id=IDS, what=MOLECULES, flag=["no"] * 6), need_targets=False
    )
    assert columns == Columns(smiles="what")
    assert notes == ["smiles: column 'what' (it holds SMILES)"]


def test_a_column_called_mol_that_holds_numbers_is_not_the_molecule(table):
    columns, _ = choose_columns(table(mol=IDS, what=MOLECULES), need_targets=False)
    assert columns.smiles == "what"


def test_several_smiles_columns_are_the_users_choice(table):
    opened = table(left=MOLECULES, right=MOLECULES)
    with pytest.raises(TableError, match="'left', 'right' could all hold the molecules; say which"):
        choose_columns(opened, need_targets=False)
    assert choose_columns(opened, smiles="right", need_targets=False) == (Columns("right"), [])


def test_no_smiles_column(table):
    with pytest.raises(TableError, match=r"no column holds SMILES.*Its columns: 'a', 'y'"):
        choose_columns(table(a=IDS, y=Y), need_targets=False)


def test_a_file_without_a_header(table):
    with pytest.raises(TableError, match=r"its first line is a molecule .'CCO'., not a header"):
        choose_columns(table(CCO=MOLECULES, a=Y), need_targets=False)


# ------------------------------------------------------------------------------------------ targets


@pytest.mark.parametrize(
    "name", ["id", "ID", "index", "Unnamed:__0", "mol_id", "CompoundID", "cas", "w"]
)
def test_identifiers_are_not_targets(table, name):
    opened = table(**{name: [7, 3, 9, 1, 4, 8]}, smiles=MOLECULES, y=Y)
    assert choose_columns(opened, need_targets=True)[0].targets == ("y",)


def test_counters_are_not_targets(table):
    opened = table(x=[1, 2, 3, 5, 8, 9], smiles=MOLECULES, y=Y)
    assert choose_columns(opened, need_targets=True)[0].targets == ("y",)
    with pytest.raises(
        TableError, match=r"numeric columns \('x'\) look like identifiers or counters"
    ):
        choose_columns(table(x=range(6), smiles=MOLECULES), need_targets=True)


def test_acid_is_not_an_id(table):
    opened = table(smiles=MOLECULES, pKa_acid=Y)
    assert choose_columns(opened, need_targets=True)[0].targets == ("pKa_acid",)


def test_several_numeric_columns_are_the_users_choice(table):
    opened = table(smiles=MOLECULES, a=Y, b=Y)
    with pytest.raises(TableError, match="'a', 'b' are all numeric; say which to learn"):
        choose_columns(opened, need_targets=True)
    assert choose_columns(opened, need_targets=False)[0].targets == ()
    assert choose_columns(opened, targets=["b", "a"], need_targets=True)[0].targets == ("b", "a")
    assert choose_columns(opened, weight="a", need_targets=True)[0] == Columns(
        "smiles", ("b",), weight="a"
    )


def test_bounds_are_numbers(table):
    opened = table(smiles=MOLECULES, IC50=["1.5", ">10", "<= 0.1", "~3", "", "7"])
    assert choose_columns(opened, need_targets=True)[0].targets == ("IC50",)


def test_words_that_are_repeated_are_classes(table):
    opened = table(smiles=MOLECULES * 2, name=list("abcdefghijkl"), hit=["active", "dead"] * 6)
    columns, notes = choose_columns(opened, need_targets=True)
    assert columns.targets == ("hit",)
    assert "target: 'hit', the only column of words that are repeated" in notes
    two = table(smiles=MOLECULES * 2, maker=["X", "Y"] * 6, hit=["active", "dead"] * 6)
    with pytest.raises(TableError, match="none of its columns is numeric"):
        choose_columns(two, need_targets=True)


def test_nothing_to_learn(table):
    with pytest.raises(TableError, match="none of its columns is numeric"):
        choose_columns(table(smiles=MOLECULES, a=list("uvwxyz")), need_targets=True)
    with pytest.raises(TableError, match="it has no rows to learn from"):
        choose_columns(table(smiles=[], a=[]), need_targets=True)
    assert choose_columns(table(smiles=[], a=[]), need_targets=False)[0].smiles == "smiles"


# ---------------------------------------------------------------------------- explicit names


def test_names_are_found_in_capitals_or_not_and_said(table):
    opened = table(smiles=MOLECULES, logS=Y, x=Y, s=IDS)
    columns, notes = choose_columns(
        opened, smiles="SMILES", targets=["logs"], features=["x"], split="s", need_targets=True
    )
    assert columns == Columns("smiles", ("logS",), None, ("x",), "s")
    assert [note.split(" in ")[0] for note in notes] == [
        "smiles: 'SMILES' is written 'smiles'",
        "target: 'logs' is written 'logS'",
    ]


@pytest.mark.parametrize("role", ["smiles", "targets", "weight", "features", "split"])
def test_a_missing_column_is_named_with_its_neighbour(table, role):
    value = ["solubilty"] if role in {"targets", "features"} else "solubilty"
    with pytest.raises(
        TableError, match=r"no column 'solubilty'. Did you mean 'Solubility'. Its columns: "
    ) as e:
        choose_columns(table(smiles=MOLECULES, Solubility=Y), **{role: value}, need_targets=False)
    assert "'smiles', 'Solubility'" in str(e.value)


def test_one_column_has_one_purpose(table):
    with pytest.raises(TableError, match="column 'y' is named for more than one purpose"):
        choose_columns(
            table(smiles=MOLECULES, y=Y), targets=["y"], features=["y"], need_targets=True
        )


# ---------------------------------------------------------------------------- other formats


def test_sdf_needs_no_smiles(tmp_path):
    record = "title\n  made\n\nM  END\n> <logS>\n{}\n\n> <id>\nx{}\n\n$$$$\n"
    path = tmp_path / "a.sdf"
    path.write_text("".join(record.format(y, y) for y in (0.5, 1.5, 0.25)))
    columns, notes = choose_columns(open_table(path), need_targets=True)
    assert columns == Columns(None, ("logS",))
    assert notes == ["target: 'logS', the only numeric column"]


def test_parquet(tmp_path):
    columns = {"id": range(6), "structure": MOLECULES, "active": [True, False, None] * 2}
    pq.write_table(pa.table({k: list(v) for k, v in columns.items()}), tmp_path / "a.parquet")
    opened = open_table(tmp_path / "a.parquet")
    assert choose_columns(opened, need_targets=True)[0] == Columns("structure", ("active",))


ESOL = load_esol()
NUMBERED = [f"A-{i}" for i in range(len(ESOL))]
PARTS = ["train", "val", "test"] * (len(ESOL) // 3)
LOG_S = ESOL.targets[:, 0].tolist()
# As they are published: AqSol, Delaney's solubilities, passage into the brain, ZINC.
PUBLISHED = {
    "logS": {"id": NUMBERED, "split": PARTS, "smiles": ESOL.smiles, "logS": LOG_S},
    "logp": {"smiles": ESOL.smiles, "logp": LOG_S},
    "p_np": {"smiles": ESOL.smiles, "p_np": [int(y > -2) for y in LOG_S]},
    "logP_SA_cycle_normalized": {
        "split": PARTS,
        "row": range(len(ESOL)),
        "index_in_full_split": range(7, 7 + len(ESOL)),
        "smiles": ESOL.smiles,
        "logP_SA_cycle_normalized": LOG_S,
    },
}


@pytest.mark.parametrize("target", PUBLISHED)
def test_published_tables_explain_themselves(table, target):
    opened = table(**PUBLISHED[target])
    assert choose_columns(opened, need_targets=True)[0] == Columns("smiles", (target,))
    read = []
    for chunk in opened.chunks():
        assert not chunk.rejects
        values, rejects = numbers(chunk.columns[target], target)
        assert not rejects
        read += values.tolist()
    assert read == PUBLISHED[target][target]


def test_a_panel_of_assays_has_many_targets_and_gaps(table):
    assays = ["NR-AR", "NR-AR-LBD", "NR-AhR", "SR-ARE"]
    cells = np.random.default_rng(0).choice(["0", "1", ""], (len(ESOL), len(assays)))
    opened = table(smiles=ESOL.smiles, **dict(zip(assays, cells.T, strict=True)))
    with pytest.raises(TableError, match=r"'NR-AR', 'NR-AR-LBD', .* are all numeric"):
        choose_columns(opened, need_targets=True)
    columns, _ = choose_columns(opened, targets=opened.names[1:], need_targets=True)
    parsed = [numbers(c.columns[t], t)[0] for c in opened.chunks() for t in columns.targets]
    values = np.concatenate(parsed)
    assert np.isnan(values).any()
    assert set(values[~np.isnan(values)]) == {0.0, 1.0}
