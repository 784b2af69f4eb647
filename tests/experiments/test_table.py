"""Tables say what the records say, and pages say what the tables say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gad.experiments import paper
from gad.experiments.docs import PAGES, filled, outdated, update
from gad.experiments.grid import grid
from gad.experiments.models import Run, recipe_of
from gad.experiments.records import read_record, write_record
from gad.experiments.table import against_dgn, load_rows, to_json
from tests.experiments.conftest import record

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


def test_the_papers_claims_follow_from_its_numbers():
    """More than 17 % on ZINC, and every property of QM9: a slip of the pen would show."""
    for edges in (False, True):
        best = min(paper.error("zinc", name, edges)[0] for name in ("gad-i", "gad-s"))
        assert best < (1 - 0.17) * paper.error("zinc", "dgn", edges)[0]
    for prop in paper.PROPERTIES:
        pna, dgn, gad = (paper.error("qm9", m, True, prop)[0] for m in ("pna", "dgn", "gad-s"))
        assert gad < dgn < pna


def test_rows_for_programs(tmp_path):
    record(
        tmp_path,
        "zinc",
        seed=1,
        test_mae=0.16,
        epochs=220,
        minutes=61.0,
        val_mae=0.21,
        val_trimmed=0.17,
    )
    record(tmp_path, "zinc")
    assert to_json(tmp_path, "zinc")["rows"] == [
        {
            "model": "gad-i", "edges": True, "recipe": "zinc-paper", "val_mae": [0.2, 0.21],
            "val_trimmed": [None, 0.17], "test_mae": [0.15, 0.16], "parameters": 99_000,
            "epochs": [200, 220], "minutes": [60.0, 61.0], "short": False, "paper": [0.139, 0.007],
        }
    ]  # fmt: skip


def test_only_like_runs_share_a_row(tmp_path):
    record(tmp_path, "zinc")
    record(tmp_path, "zinc", edges=False)
    record(tmp_path, "zinc", model="gad-s")
    record(tmp_path, "zinc", recipe="zinc-best")
    record(tmp_path, "zinc", settings={"batch_size": "16"})
    record(tmp_path, "zinc", settings={"epochs": "30"})
    record(tmp_path, "zinc", settings={"epochs": "60"})
    rows = load_rows(tmp_path, "zinc")
    assert [len(row.records) for row in rows] == [1] * 7
    assert [(row.model, row.edges, row.recipe, row.short) for row in rows] == [
        ("gad-i", False, "zinc-paper", False),
        ("gad-i", True, "zinc-paper", False),
        ("gad-i", True, "zinc-paper", True),
        ("gad-i", True, "zinc-paper", True),
        ("gad-i", True, "zinc-best", False),
        ("gad-i", True, "zinc-paper + batch_size=16", False),
        ("gad-s", True, "zinc-paper", False),
    ]


def test_a_recipe_that_has_changed_since_is_another(tmp_path):
    then = recipe_of(Run("zinc", "gad-i", "zinc-best", True, 0)).to_dict()
    record(tmp_path, "zinc", recipe="zinc-best")
    record(tmp_path, "zinc", recipe="zinc-best", full_recipe={**then, "layers": 7})
    rows = load_rows(tmp_path, "zinc")
    assert [row.recipe for row in rows] == ["zinc-best", "zinc-best (earlier)"]
    assert [line[2] for line in grid(tmp_path, "zinc", missing=False).lines] == [
        "zinc-best",
        "zinc-best (earlier)",
    ]
    plain = grid(tmp_path, "zinc", missing=False, variations=False)
    assert [line[2] for line in plain.lines] == ["zinc-best"]


def test_a_key_that_is_new_has_had_its_default(tmp_path):
    then = recipe_of(Run("zinc", "gad-i", "zinc-paper", True, 1)).to_dict()
    del then["cycles"]
    record(tmp_path, "zinc", seed=1, full_recipe=then)
    record(tmp_path, "zinc")
    assert [len(row.records) for row in load_rows(tmp_path, "zinc")] == [2]


def test_gad_against_dgn_under_equal_conditions_only(tmp_path):
    record(tmp_path, "zinc", test_mae=0.15)
    record(tmp_path, "zinc", recipe="zinc-best", test_mae=0.09)
    record(tmp_path, "zinc", model="dgn", test_mae=0.20)
    record(tmp_path, "zinc", model="dgn", test_mae=0.1, settings={"epochs": "30"})
    rows = load_rows(tmp_path, "zinc")
    found = {(row.model, row.recipe, row.short): against_dgn(row, rows) for row in rows}
    assert found.pop(("gad-i", "zinc-paper", False)) == pytest.approx(25.0)
    assert set(found.values()) == {None}
    (told,) = to_json(tmp_path, "zinc")["against_dgn"]
    assert told["percent"] == pytest.approx(25.0)
    assert told["paper"] == pytest.approx(17.26, abs=0.01)


def lines(folder: Path, data: str, **more) -> dict[tuple[str, ...], dict[str, str]]:
    made = grid(folder, data, **more)
    return {line[:3]: dict(zip(made.header, line, strict=True)) for line in made.lines}


def test_cells_for_people(tmp_path):
    for seed, error in enumerate((0.14, 0.15, 0.16)):
        record(tmp_path, "zinc", seed=seed, test_mae=error)
    record(tmp_path, "zinc", model="gcn", edges=False, settings={"epochs": "30"}, epochs=30)
    record(tmp_path, "zinc", recipe="zinc-best", val_trimmed=0.07)
    table = lines(tmp_path, "zinc")
    gad = table["GAD-i", "yes", "zinc-paper"]
    assert gad["ours"] == "0.150 ± 0.010"
    assert gad["paper"] == "0.139 ± 0.007"
    assert gad["trimmed"] == "–"
    assert table["GAD-i", "yes", "zinc-best"]["trimmed"] == "0.070"
    assert (gad["met"], gad["seeds"], gad["parameters"]) == ("yes", "3", "99,000")
    assert table["GCN", "no", "zinc-paper (short)"]["epochs"] == "30 of 300"
    assert table["GCN", "no", "zinc-paper (short)"]["met"] == "–"
    assert table["PNA", "yes", "–"]["ours"] == "not run"
    assert table["HIMP*", "yes", "–"]["ours"] == "not run"
    assert table["SMP*", "no", "–"]["paper"] == "0.219"
    assert ("GAD-i", "yes", "zinc-paper") in lines(tmp_path, "zinc", missing=False)
    assert ("PNA", "yes", "–") not in lines(tmp_path, "zinc", missing=False)


@pytest.mark.parametrize(("error", "met"), [(0.1530, "yes"), (0.1531, "no")])
def test_met_is_two_standard_deviations(tmp_path, error, met):
    record(tmp_path, "zinc", test_mae=error)
    assert lines(tmp_path, "zinc")["GAD-i", "yes", "zinc-paper"]["met"] == met


def test_qm9_by_property(tmp_path):
    short = {"recipe": "qm9", "settings": {"epochs": "20"}, "epochs": 20}
    record(tmp_path, "qm9", model="gad-s", property="zpve", test_mae=9.0, **short)
    record(tmp_path, "qm9", model="dgn", property="zpve", test_mae=10.0, **short)
    record(tmp_path, "qm9", model="dgn", property="mu", test_mae=0.5, **short)
    told = to_json(tmp_path, "qm9")
    assert [(row["property"], row["model"]) for row in told["rows"]] == [
        ("mu", "dgn"), ("zpve", "dgn"), ("zpve", "gad-s"),
    ]  # fmt: skip
    assert told["rows"][-1]["paper"] == [4.84, None]
    assert len(told["not_run"]) == 21 - 3
    zpve = lines(tmp_path, "qm9")["zpve (meV)", "GAD-s", "qm9 (short)"]
    assert (zpve["ours"], zpve["epochs"]) == ("9.00", "20 of 300")
    assert (zpve["below DGN, paper"], zpve["below DGN, ours"]) == ("19.7 %", "10.0 %")


def test_unfinished_runs_are_told_but_are_no_rows(tmp_path):
    record(tmp_path, "zinc", status="started", epochs=7)
    told = to_json(tmp_path, "zinc")
    assert told["rows"] == []
    assert [run["epochs"] for run in told["unfinished"]] == [7]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda values: [values], "it is no object"),
        (lambda values: {k: v for k, v in values.items() if k != "seed"}, "it has no seed"),
        (lambda values: {**values, "edges": "yes"}, "its edges is 'yes'"),
        (lambda values: {**values, "test_mea": 0.1}, "it has 'test_mea', which no record has"),
    ],
)
def test_what_is_no_record_is_refused(tmp_path, change, why):
    record(tmp_path, "zinc")
    (path,) = (tmp_path / "zinc").iterdir()
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(ValueError, match=f"0.json is not a record of a run: {why}"):
        to_json(tmp_path, "zinc")


@pytest.mark.parametrize("path", sorted(RESULTS.glob("[zq]*/*.json")), ids=lambda path: path.stem)
def test_every_record_there_is_can_be_read_and_written(path, tmp_path):
    found = read_record(path)
    write_record(tmp_path / "again.json", found)
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


PAGE = "before\n<!-- table: zinc, all runs -->\n<!-- end of table -->\nafter\n"


def test_pages_are_filled_from_the_records(tmp_path):
    (tmp_path / "README.md").write_text(PAGE, encoding="utf-8")
    record(tmp_path / "results", "zinc", test_mae=0.15)
    assert update(tmp_path) == ["README.md"]
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert text.startswith("before\n<!--")
    assert text.endswith("-->\nafter\n")
    assert "| 0.150 |" in text
    assert outdated(tmp_path) == []


@pytest.mark.parametrize("change", ["page", "records"])
def test_a_page_that_disagrees_is_found(tmp_path, change):
    page = tmp_path / "README.md"
    page.write_text(PAGE, encoding="utf-8")
    record(tmp_path / "results", "zinc", test_mae=0.15)
    update(tmp_path)
    if change == "page":
        page.write_text(page.read_text(encoding="utf-8").replace("0.150", "0.140"), "utf-8")
    else:
        record(tmp_path / "results", "zinc", test_mae=0.17, seed=1)
    assert outdated(tmp_path) == ["README.md"]


def test_an_unknown_table_is_refused(tmp_path):
    with pytest.raises(ValueError, match="zinc, in short"):
        filled(PAGE.replace("zinc, all runs", "zink"), tmp_path)


def test_pages_agree_with_the_records():
    """If this fails: python -m gad.experiments.docs."""
    for page in PAGES:
        assert "<!-- table: " in (ROOT / page).read_text(encoding="utf-8")
    assert outdated(ROOT) == []
