"""``gad pretrain``, ``gad train --from``, ``--freeze``, and embeddings, end to end."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gad
from gad.prediction.model_file import load_model
from tests.cli.calls import call, done, esol_rows, rows_of, write_csv

pytestmark = pytest.mark.slow

SMALL = ("--set", "epochs=1", "--set", "width=16", "--set", "layers=2", "--workers", "1")


@pytest.fixture(scope="module")
def molecules(tmp_path_factory):
    rows = [{"smiles": row["smiles"]} for row in esol_rows(60)]
    return write_csv(tmp_path_factory.mktemp("corpus") / "molecules.csv", [*rows, {"smiles": "x("}])


@pytest.fixture(scope="module")
def base(molecules):
    path = molecules.with_name("small.gad")
    told = done("pretrain", molecules, "-o", path, *SMALL, "--attribution", "ours", "--json").json
    assert (told["molecules"], told["rejected"], told["epochs"]) == (60, 1, 1)
    return path


def test_a_finished_base_is_kept_and_not_written_over(base, molecules):
    assert "is there already" in call("pretrain", molecules, "-o", base, *SMALL).err
    before = base.read_bytes()
    again = done("pretrain", molecules, "-o", base, *SMALL, "--resume", "--json").json
    assert base.read_bytes() == before
    assert again["messages"] == [f"{base} is finished"]
    assert not list(base.parent.glob("*.ckpt*"))


def test_a_base_tells_of_itself_and_predicts_nothing(base, table, tmp_path):
    card = done("info", base, "--json").json
    assert card["task"]["targets"] == []
    assert card["notes"]["attribution"] == "ours"
    told = call("predict", base, table, "-o", tmp_path / "out.csv")
    assert told.code == 1
    assert "a base predicts nothing" in told.err


def test_a_model_starts_from_a_base(base, table, tmp_path):
    arguments = ("--set", "epochs=1", "--no-baselines", "--target", "logS")
    done("train", table, *arguments, "--from", base, "--freeze", "1", "--out", tmp_path / "run")
    ours, theirs = load_model(tmp_path / "run" / "model.gad"), load_model(base)
    assert ours.recipe.model.width == 16
    new, old = ours.members[0].state_dict(), theirs.members[0].state_dict()
    for name, tensor in old.items():
        same = torch.equal(new[name], tensor)
        assert same == (not name.startswith("blocks.1.") or name.endswith(".delta")), name
    assert ours.inputs.graph_values == 16  # descriptors are the recipe's own business


def test_frozen_altogether_a_base_embeds_as_before(base, table, tmp_path):
    done(
        "train", table, "--set", "epochs=1", "--no-baselines", "--target", "logS",
        "--from", base, "--freeze", "--out", tmp_path / "run",
    )  # fmt: skip
    before = gad.MoleculeEmbedder(str(base)).fit([]).transform(["CCO", "c1ccccc1"])
    model = str(tmp_path / "run" / "model.gad")
    after = gad.MoleculeEmbedder(model).fit([]).transform(["OCC", "c1ccccc1"])
    np.testing.assert_allclose(after[:, :-16], before, rtol=1e-4, atol=1e-5)


def test_a_network_that_does_not_fit_is_said(base, table, tmp_path):
    told = call(
        "train", table, "--target", "logS", "--from", base, "--set", "width=32",
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert told.code == 1
    assert "width = 32 does not fit" in told.err
    assert "width = 16" in told.err


def test_an_unknown_beginning_is_said(table, tmp_path):
    told = call("train", table, "--target", "logS", "--from", "scrach", "--out", tmp_path / "run")
    assert "did you mean 'scratch'" in told.err


@pytest.mark.parametrize("kind", ["base", "model"])
def test_a_table_is_embedded_row_by_row(kind, base, model, tmp_path):
    which = base if kind == "base" else model
    rows = [{"smiles": text, "name": k} for k, text in enumerate(["CCO", "x(", "c1ccccc1"])]
    table = write_csv(tmp_path / "some.csv", rows)
    out = tmp_path / "out.csv"
    told = done("embed", table, "-o", out, "--model", which, "--json").json
    assert (told["rows"], told["predicted"], told["rejected"]) == (3, 2, 1)
    found = rows_of(out)
    embedder = gad.MoleculeEmbedder(str(which), errors="ignore").fit([])
    expected = embedder.transform(["CCO", "x(", "c1ccccc1"])
    names = embedder.get_feature_names_out()
    for row, values in zip(found, expected, strict=True):
        if row["reject_reason"]:
            assert row["embedding_0"] == ""
        else:
            np.testing.assert_allclose([float(row[n]) for n in names], values, rtol=1e-5, atol=1e-6)
    assert [key for key in found[0] if key.endswith("_pred")] == []
    again = done("embed", table, "-o", out, "--model", which, "--resume")
    assert "is finished already" in again.err


def test_embeddings_refuse_what_they_cannot_read(base):
    embedder = gad.MoleculeEmbedder(str(base)).fit([])
    with pytest.raises(ValueError, match=r"row 2, 'x\('"):
        embedder.transform(["C", "x("])
    embedder.set_params(errors="ignore")
    found = embedder.transform(["C", "x("])
    assert np.isnan(found).all(axis=1).tolist() == [False, True]
    assert len(embedder.get_feature_names_out()) == found.shape[1]
