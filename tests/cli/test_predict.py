"""``gad predict`` and ``gad evaluate``: what comes out, in which order, and how sure."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from rdkit import Chem
from safetensors.torch import load, save

import gad
from gad.data.known.esol import load_esol
from tests.cli.calls import TINY, call, done, esol_rows, rows_of, write_csv

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models with a blend each, on 300 rows: enough test rows for an interval."""
    folder = tmp_path_factory.mktemp("ensemble")
    table = write_csv(folder / "table.csv", esol_rows(300))
    options = ("--ensemble", "2", "--set", "blend=true")
    done("train", table, *TINY, *options, "--out", folder / "run")
    return folder / "run" / "model.gad"


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Rows that can be used and rows that cannot, with columns of their own around them."""
    rows = [
        {"id": "a,1", "smiles": "CCO", "note": "first"},
        {"id": "b", "smiles": "not a molecule", "note": ""},
        {"id": "c", "smiles": "c1ccccc1", "note": 'says "so"'},
        {"id": "d", "smiles": "", "note": "nothing"},
        {"id": "e", "smiles": "CF(C)C", "note": "fluorine"},
        {"id": "f", "smiles": "[Na+].[Cl-]", "note": "salt"},
    ]
    return write_csv(tmp_path / "mixed.csv", rows)


def test_every_row_comes_out_in_order(model, mixed, tmp_path):
    out = tmp_path / "out.csv"
    called = done("predict", model, mixed, "-o", out)
    assert "3 of 6 rows" in called.out
    assert str(out) in called.out
    with out.open(newline="", encoding="utf-8") as file:
        header = next(csv.reader(file))
    assert header == ["id", "smiles", "note", "logS_pred", "warning", "reject_reason"]
    told, given = rows_of(out), rows_of(mixed)
    assert [{k: row[k] for k in given[0]} for row in told] == given
    assert [bool(row["logS_pred"]) for row in told] == [True, False, True, False, False, True]
    assert [bool(row["reject_reason"]) for row in told] == [False, True, False, True, True, False]
    assert "valence" in told[4]["reject_reason"]
    listed = rows_of(tmp_path / "rejects.csv")
    assert [(int(r["row"]), r["smiles"]) for r in listed] == [
        (2, "not a molecule"), (4, ""), (5, "CF(C)C")
    ]  # fmt: skip
    assert [r["reason"] for r in listed] == [told[i]["reject_reason"] for i in (1, 3, 4)]
    python = gad.load(model).predict([row["smiles"] for row in given])
    written = [float(row["logS_pred"] or "nan") for row in told]
    np.testing.assert_allclose(written, python, rtol=1e-6)


def test_strict(model, mixed, tmp_path):
    out = tmp_path / "out.csv"
    assert call("predict", model, mixed, "-o", out, "--strict").code == 3
    assert out.exists(), "the work is done all the same"
    clean = write_csv(tmp_path / "clean.csv", esol_rows(5))
    assert call("predict", model, clean, "-o", tmp_path / "o.csv", "--strict").code == 0


def test_every_format_says_the_same(model, mixed, tmp_path):
    for name in ("out.csv", "out.tsv", "out.parquet"):
        done("predict", model, mixed, "-o", tmp_path / name)
    told = rows_of(tmp_path / "out.csv")
    with (tmp_path / "out.tsv").open(newline="", encoding="utf-8") as file:
        assert list(csv.DictReader(file, delimiter="\t")) == told
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names == list(told[0])
    values = table["logS_pred"].to_numpy().astype(float)
    np.testing.assert_allclose(values, [float(r["logS_pred"] or "nan") for r in told], rtol=1e-6)
    refused = call("predict", model, mixed, "-o", tmp_path / "out.xlsx")
    assert refused.code == 1
    assert ".parquet" in refused.err


def test_uncertainty(ensemble, tmp_path):
    rows = esol_rows(60)
    table = write_csv(tmp_path / "table.csv", rows)
    out = tmp_path / "out.csv"
    done("predict", ensemble, table, "-o", out, "--uncertainty", "--embeddings")
    told = rows_of(out)
    names = ["smiles", "logS", "logS_pred", "logS_std", "logS_lower", "logS_upper"]
    assert list(told[0])[:6] == names
    assert list(told[0])[-1] == "reject_reason"
    channels = [name for name in told[0] if name.startswith("embedding_")]
    assert len(channels) >= 20
    array = {name: np.array([float(row[name]) for row in told]) for name in [*names[1:], *channels]}
    assert (array["logS_std"] > 0).all()
    lower, upper = array["logS_lower"], array["logS_upper"]
    assert ((lower < array["logS_pred"]) & (array["logS_pred"] < upper)).all()
    inside = (array["logS"] >= lower) & (array["logS"] <= upper)
    assert inside.mean() > 0.6
    assert all(array[name].std() > 0 for name in channels[:20])
    evaluated = done("evaluate", ensemble, table, "--json").json
    assert evaluated["coverage"] == pytest.approx(inside.mean())


def test_evaluate_counts_what_predict_writes(model, tmp_path):
    rows = [*esol_rows(40), {"smiles": "broken(", "logS": 1.0}, {"smiles": "CC", "logS": ""}]
    renamed = [{"smiles": r["smiles"], "measured": r["logS"]} for r in rows]
    table = write_csv(tmp_path / "table.csv", renamed)
    out = tmp_path / "out.csv"
    done("predict", model, table, "-o", out)
    errors = [
        abs(float(r["logS_pred"]) - float(r["measured"]))
        for r in rows_of(out)
        if r["logS_pred"] and r["measured"]
    ]
    found = done("evaluate", model, table, "--target", "measured", "--json").json
    assert found["rows"] == 42
    assert found["rejected"] == 1
    scores = found["metrics"]["all"]["targets"]["logS"]
    assert scores["n"] == len(errors) == 40
    assert scores["mae"] == pytest.approx(np.mean(errors), rel=1e-5)
    shown = done("evaluate", model, table, "--target", "measured").out
    assert f"{scores['mae']:.4g}" in shown
    refused = call("evaluate", model, table)
    assert refused.code == 1
    assert "'logS'" in refused.err


def test_a_known_set_is_evaluated_by_name(model):
    found = done("evaluate", model, "esol", "--json").json
    assert found["metrics"]["all"]["targets"]["logS"]["n"] == 1281


def test_a_taken_column_name_is_left_to_the_table(model, tmp_path):
    """Predicted twice, a table has the columns of both."""
    table = write_csv(tmp_path / "table.csv", [{"smiles": "CCO", "warning": "hot"}])
    once, twice = tmp_path / "once.csv", tmp_path / "twice.csv"
    told = done("predict", model, table, "-o", once, "--json").json
    assert told["columns"] == ["logS_pred", "warning_gad", "reject_reason"]
    assert any(
        "'warning' already: the new one is called 'warning_gad'" in m for m in told["messages"]
    )
    again = done("predict", model, once, "-o", twice, "--json").json
    assert again["columns"] == ["logS_pred_gad", "warning_gad_gad", "reject_reason_gad"]
    (row,) = rows_of(twice)
    assert list(row)[:2] == ["smiles", "warning"]
    assert row["warning"] == "hot"
    assert row["logS_pred"] == row["logS_pred_gad"]


def test_unseen_elements_are_in_the_table(model, tmp_path):
    table = write_csv(tmp_path / "t.csv", [{"smiles": s} for s in ("CCO", "C[Og]", "C(", "*C")])
    told = done("predict", model, table, "-o", tmp_path / "out.csv", "--json").json
    rows = rows_of(tmp_path / "out.csv")
    assert [bool(row["warning"]) for row in rows] == [False, True, False, True]
    assert "Og" in rows[1]["warning"]
    assert told["unseen_elements"] == 2


def test_one_model_alone_has_no_spread(model, ensemble, tmp_path):
    table = write_csv(tmp_path / "t.csv", [{"smiles": "CCO"}])
    told = done("predict", model, table, "-o", tmp_path / "o.csv", "--uncertainty", "--json").json
    assert told["columns"] == [
        "logS_pred",
        "logS_lower",
        "logS_upper",
        "domain",
        "warning",
        "reject_reason",
    ]
    assert "a single model has no spread" in " ".join(told["messages"])
    told = done("predict", ensemble, table, "-o", tmp_path / "o.csv", "--uncertainty", "--json")
    assert "logS_std" in told.json["columns"]


def test_embeddings_where_no_molecule_can_be_read(model, tmp_path):
    table = write_csv(tmp_path / "t.csv", [{"smiles": "C("}])
    told = done("predict", model, table, "-o", tmp_path / "o.csv", "--embeddings", "--json").json
    assert told["rejected"] == 1
    assert rows_of(tmp_path / "o.csv")[0]["embedding_0"] == ""


def test_resuming_what_is_finished_does_nothing(model, ensemble, mixed, tmp_path):
    out = tmp_path / "out.csv"

    def predict(*more: str | Path, model: Path = model) -> dict[str, object]:
        return done("predict", model, mixed, "-o", out, *more, "--json").json

    first = predict("--resume")
    before = out.stat().st_mtime_ns
    again = predict("--resume")
    assert any("is finished already" in text for text in again["messages"])
    assert {**again, "messages": 0} == {**first, "messages": 0}
    assert out.stat().st_mtime_ns == before
    assert call("predict", model, mixed, "-o", out, "--resume", "--strict").code == 3

    def anew(*more: str, model: Path = model) -> bool:
        nonlocal before
        told = predict(*more, model=model)
        assert not any("finished" in text for text in told["messages"])
        was, before = before, out.stat().st_mtime_ns
        return was != before

    assert anew(), "without --resume it is written again"
    assert anew("--resume", model=ensemble), "another model"
    assert anew("--resume"), "and back"
    assert anew("--resume", "--uncertainty"), "other settings"
    with mixed.open("a", encoding="utf-8") as file:
        file.write("g,CC,late\n")
    assert anew("--resume", "--uncertainty"), "another input"
    assert len(rows_of(out)) == 7
    out.write_text(out.read_text(encoding="utf-8").replace("first", "worst"), encoding="utf-8")
    assert anew("--resume", "--uncertainty"), "somebody has changed the output"


def _with_nan(content: bytes) -> bytes:
    """The model with a bias that is not a number."""
    tensors = load(content)
    with_nan = {**tensors, "0.head.layers.0.bias": tensors["0.head.layers.0.bias"] * float("nan")}
    size = int.from_bytes(content[:8], "little")
    return save(with_nan, metadata=json.loads(content[8 : 8 + size])["__metadata__"])


def test_a_damaged_model_is_refused(model, table, tmp_path):
    content = model.read_bytes()
    damaged = tmp_path / "damaged.gad"
    for name, wrong in {
        "cut": content[: len(content) // 2],
        "empty": b"",
        "card": content.replace(b'\\"layers\\": 2', b'\\"layers\\": 9'),
        "not finite": _with_nan(content),
    }.items():
        assert wrong != content, name
        damaged.write_bytes(wrong)
        for command in (["info", damaged], ["predict", damaged, table, "-o", tmp_path / "o.csv"]):
            refused = call(*command)
            assert refused.code == 1, name
            assert "damaged.gad" in refused.err
            assert "Traceback" not in refused.err
    assert not (tmp_path / "o.csv").exists()


def test_the_same_molecule_gives_the_same_prediction_however_it_is_written(model):
    """To 1e-4 of the spread of the labels, in twenty random SMILES of each of 200 molecules."""
    table = load_esol()
    predictor = gad.load(model)
    chosen = [Chem.MolFromSmiles(s) for s in table.smiles[::6][:200]]
    written = [
        text
        for molecule in chosen
        for text in Chem.MolToRandomSmilesVect(molecule, 20, randomSeed=7)
    ]
    assert len(set(written)) > 2000
    values = predictor.predict(written).reshape(len(chosen), 20)
    spread = float(table.targets.std())
    assert np.ptp(values, axis=1).max() < 1e-4 * spread
    assert values[:, 0].std() > 0.05 * spread, "the model tells molecules apart"
