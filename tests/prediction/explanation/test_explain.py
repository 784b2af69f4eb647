"""Contributions of atoms: they add up, follow the atoms, and do not depend on the spelling."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem

import gad
from gad.prediction.explanation.contributions import NAME
from gad.prediction.model_file import load_model
from tests.chem.test_order import C60
from tests.conftest import TINY

ODD = ["C", "[He]", "[Na+].[Cl-]", "O.O.O", C60, "*C", "[2H]C([2H])O", "[H][H]", "C[N+](C)(C)C"]


# Each of these trains a model of its own.
KINDS = [
    pytest.param(name, marks=pytest.mark.slow) for name in ("salts", "hydrogens", "many", "blended")
]


def renumbered(text, seed):
    """Another spelling, and where its atoms stood."""
    mol = Chem.MolFromSmiles(text)
    order = np.random.default_rng(seed).permutation(mol.GetNumAtoms()).tolist()
    other = Chem.RenumberAtoms(mol, order)
    spelled = Chem.MolToSmiles(other, canonical=False)
    written = other.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"]
    return spelled, [order[place] for place in written]


@pytest.mark.parametrize("name", ["plain", *KINDS, pytest.param("classes", marks=pytest.mark.slow)])
def test_contributions_add_up_to_the_prediction(name, smiles, request):
    model = request.getfixturevalue(name)
    texts = [*smiles[:40], *ODD, "not a molecule"]
    found = model.explain(texts)
    assert found.pop() is None
    values, task = model.predict_detailed(texts[:-1]).values, model.model.task
    for text, why, row in zip(texts, found, values, strict=False):
        assert why.atoms.shape == (Chem.MolFromSmiles(text).GetNumAtoms(), values.shape[1])
        assert why.bonds is None
        total = why.baseline + why.atoms.sum(0) + why.whole
        np.testing.assert_allclose(total, why.prediction, rtol=0, atol=1e-9)
        scale = np.repeat(
            model.model.scales[0].labels[1].numpy(), [t.outputs for t in task.targets]
        )
        assert (abs(why.remainder) <= 0.01 * scale).all()
        for target, span in zip(task.targets, task.spans, strict=True):
            told = why.prediction[span]
            if target.kind != "regression":
                told = 1 / (1 + np.exp(-told))
            elif target.transform == "log10":
                told = 10.0**told
            np.testing.assert_allclose(told, row[span], rtol=1e-9)
        np.testing.assert_array_equal(why.baseline, found[0].baseline)


@pytest.mark.parametrize("name", ["plain", *KINDS])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_spelling_makes_no_difference(name, seed, smiles, request):
    model = request.getfixturevalue(name)
    texts = [text for text in smiles[::7] if len(text) > 3]
    for why, other, (_, origin) in zip(
        model.explain(texts),
        model.explain([renumbered(text, seed)[0] for text in texts]),
        [renumbered(text, seed) for text in texts],
        strict=True,
    ):
        np.testing.assert_allclose(other.prediction, why.prediction, atol=1e-4)
        np.testing.assert_allclose(other.atoms, why.atoms[origin], atol=1e-4)


def test_equal_atoms_contribute_equally_and_others_do_not(plain):
    benzene, phenol = plain.explain(["c1ccccc1", "Oc1ccccc1"])
    np.testing.assert_allclose(benzene.atoms, benzene.atoms[:1].repeat(6, 0), atol=1e-6)
    np.testing.assert_allclose(phenol.atoms[2], phenol.atoms[6], atol=1e-6)
    assert abs(phenol.atoms[0] - phenol.atoms[2]) > 1e-3


@pytest.mark.slow
def test_written_hydrogens_belong_to_their_atom(plain, hydrogens):
    for model in (plain, hydrogens):
        short, long = model.explain(["CCO", "[H]C([H])([H])C([H])([H])O[H]"])
        assert long.atoms.shape == (3, 1)
        np.testing.assert_allclose(long.atoms, short.atoms, atol=1e-5)


@pytest.mark.slow
def test_what_standardising_removes_contributes_nothing(salts):
    salt, acid, other = salts.explain(
        ["[Na+].[O-]C(=O)c1ccccc1", "[O-]C(=O)c1ccccc1", "OC(=O)c1ccccc1"]
    )
    assert salt.atoms[0] == 0
    np.testing.assert_allclose(salt.atoms[1:], acid.atoms, atol=1e-5)
    np.testing.assert_allclose(acid.atoms, other.atoms, atol=1e-5)
    # 2-hydroxypyridine becomes 2-pyridone: the oxygen stays where it was written.
    one, two = salts.explain(["Oc1ccccn1", "O=c1cccc[nH]1"])
    np.testing.assert_allclose(one.atoms[0], two.atoms[0], atol=1e-5)
    np.testing.assert_allclose(one.atoms[6], two.atoms[6], atol=1e-5)


@pytest.mark.slow
def test_whole_molecule_values_are_apart(plain, many, blended):
    assert any(abs(why.whole[0]) > 1e-3 for why in blended.explain(["CCO", "c1ccccc1O"]))
    assert all(why.whole == 0 for why in plain.explain(["CCO", "c1ccccc1O"]))
    assert any(abs(why.whole[0]) > 1e-3 for why in many.explain(["CCO", "c1ccccc1O"]))


@pytest.mark.slow
def test_own_columns_belong_to_the_whole(tmp_path, smiles):
    rows = [f"{text},{k % 5},{len(text) + 3 * (k % 5)}" for k, text in enumerate(smiles)]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["smiles,pH,y", *rows]))
    settings = {**TINY, "descriptors": "false", "epochs": 6, "width": 40}
    run = gad.train(
        table, target="y", features=["pH"], settings=settings, out=tmp_path / "run",
        baselines=False,
    )  # fmt: skip
    low, high, bad = run.model.explain(["CCCO"] * 3, features=[[0.0], [4.0], [np.nan]])
    assert bad is None
    np.testing.assert_allclose(low.atoms, high.atoms, atol=1e-6)
    assert abs(low.whole - high.whole) > 1e-3


def test_one_by_one_is_as_together(plain, smiles):
    together = plain.explain(smiles[:10])
    for text, why in zip(smiles, together, strict=False):
        np.testing.assert_allclose(plain.explain([text])[0].atoms, why.atoms, atol=1e-5)


def test_the_model_file_has_what_it_takes(plain, tmp_path):
    plain.model.save(tmp_path / "model.gad")
    part = load_model(tmp_path / "model.gad").parts[NAME]
    assert len(part.settings["fidelity"]) == 1
    again = gad.load(tmp_path / "model.gad").explain(["CC(=O)Oc1ccccc1C(=O)O"])[0]
    why = plain.explain(["CC(=O)Oc1ccccc1C(=O)O"])[0]
    np.testing.assert_allclose(again.atoms, why.atoms, atol=1e-6)


def test_a_model_without_it_learns_from_the_package(plain):
    from dataclasses import replace

    from gad.prediction.predictor import Predictor

    bare = Predictor(replace(plain.model, parts={}))
    why = bare.explain(["CCOC(=O)c1ccccc1"])[0]
    total = why.baseline + why.atoms.sum(0) + why.whole
    np.testing.assert_allclose(total, why.prediction, atol=1e-9)


@pytest.mark.slow
def test_a_blend_of_another_version_is_refused_in_words(blended):
    from dataclasses import replace

    from gad.prediction.blend import PART
    from gad.prediction.model_file import Part
    from gad.prediction.predictor import Predictor
    from gad.prediction.sealed import ModelFileError

    parts = {**blended.model.parts, PART: Part({}, {})}
    old = Predictor(replace(blended.model, parts=parts))
    for ask in (old.predict, old.explain):
        with pytest.raises(ModelFileError, match="written by another version"):
            ask(["CCO"])


def test_nothing_to_explain(plain):
    assert plain.explain([]) == []
    assert plain.explain(["?", ""]) == [None, None]


@pytest.mark.slow
def test_estimators_explain(smiles):
    labels = np.array(["yes" if "O" in text else "no" for text in smiles[:60]])
    made = gad.MoleculeClassifier(epochs=1, settings=TINY | {"epochs": 1}).fit(smiles[:60], labels)
    why, none = made.explain(["CCO", "?"])
    assert none is None
    likely = made.predict_proba(["CCO"])[0, 1]
    assert why.prediction[0] == pytest.approx(np.log(likely / (1 - likely)), abs=1e-6)
