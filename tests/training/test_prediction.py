from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

import gad
from gad.data.known import load_esol
from tests.training.conftest import TINY


def test_one_bad_molecule_loses_nothing(run):
    values = run.model.predict(["CCO", "not a molecule", "", "C" * 50])
    assert np.isfinite(values[[0, 3]]).all()
    assert np.isnan(values[[1, 2]]).all()
    told = run.model.explain(["CCO", "CF(C)C"])
    assert "valence" in told.rejects[1]
    assert np.isnan(run.model.predict(["?", "!"])).all()
    assert run.model.predict([]).shape == (0,)


def test_strange_chemistry_is_predicted(run):
    strange = [
        "[Na+].[Cl-]", "[He]", "[2H]C([2H])([2H])[2H]", "[CH3]", "C[N+](C)(C)C", "*C", "[Og]",
        "N->[Cu]<-N", "F[S](F)(F)(F)(F)F", "[Fe+2].[cH-]1cccc1.[cH-]1cccc1", "O.O.O",
    ]  # fmt: skip
    told = run.model.explain(strange)
    assert told.rejects == {}
    assert np.isfinite(told.values).all()
    assert 6 in told.unseen or 5 in told.unseen


def test_a_peptide_of_five_hundred_residues(run):
    peptide = "N" + "CC(=O)N" * 499 + "CC(=O)O"
    assert np.isfinite(run.model.predict([peptide, "C"])).all()


def test_batch_is_one_by_one(run, table):
    together = run.model.predict(table[0][:50])
    alone = np.concatenate([run.model.predict([s]) for s in table[0][:50]])
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-5)


def test_the_summary_of_a_run(run):
    files = {path.name for path in run.directory.iterdir()}
    assert {
        "model.gad",
        "report.html",
        "summary.json",
        "log.csv",
        "split.json",
        "run.json",
    } <= files
    rows = run.summary["rows"]
    assert rows["train"] + rows["val"] + rows["test"] == rows["used"] == 200
    assert {"train", "val", "test"} == set(run.summary["metrics"])
    assert run.summary["uncertainty"]["level"] == 0.9


def test_intervals_are_calibrated_on_the_test_rows(run, table):
    told = run.model.explain(table[0])
    half = run.summary["uncertainty"]["q"]["target"]
    np.testing.assert_allclose(told.upper - told.lower, 2 * half, rtol=1e-6)
    assert (told.std == 0).all()


def test_an_ensemble_has_a_spread(table, tmp_path):
    run = gad.train(table, settings=TINY, ensemble=2, out=tmp_path / "run", baselines=False)
    told = run.model.explain(table[0][:20])
    assert (told.std > 0).all()
    each = run.model.run(_packed(run, table[0][:20]))[0].numpy()
    np.testing.assert_allclose(told.values, each.mean(0), rtol=1e-6)


def _packed(run, smiles):
    from gad.data.molecules import read_molecules

    return read_molecules(smiles, run.model.model.preparation)


def test_several_targets_with_missing_labels(table, tmp_path):
    smiles, values = table
    targets = np.stack([values, -values], axis=1)
    targets[::3, 0] = np.nan
    run = gad.train((smiles, targets), settings=TINY, out=tmp_path / "run", baselines=False)
    assert run.model.predict(smiles[:5]).shape == (5, 2)
    assert run.summary["targets"] == ["target_0", "target_1"]


def test_estimators_stand_in_scikit_learn(table):
    smiles, values = table[0][:80], table[1][:80]
    settings = {k: v for k, v in TINY.items() if k != "epochs"}
    regressor = gad.MoleculeRegressor(epochs=1, settings=settings)
    assert clone(regressor).get_params() == regressor.get_params()
    scores = cross_val_score(regressor, smiles, values, cv=2)
    assert np.isfinite(scores).all()
    grid = GridSearchCV(regressor, {"epochs": [1, 2]}, cv=2).fit(smiles, values)
    assert grid.predict(["CCO"]).shape == (1,)
    classes = np.where(values > np.median(values), "soluble", "insoluble")
    classifier = gad.MoleculeClassifier(epochs=1, settings=settings).fit(smiles, classes)
    assert set(classifier.predict(smiles)) <= {"soluble", "insoluble"}
    np.testing.assert_allclose(classifier.predict_proba(smiles[:9]).sum(1), 1)
    assert np.isfinite(cross_val_score(classifier, smiles, classes, cv=2)).all()


def test_the_cache_gives_the_same_molecules(molecule_cache, table):
    from gad.data.cache import prepare
    from gad.training.build import preparation_of
    from gad.training.recipe import Recipe

    preparation = preparation_of(Recipe())
    smiles = [*table[0][:30], "nonsense"]
    first = prepare(smiles, preparation)
    path = molecule_cache / "molecules" / f"{preparation.fingerprint(smiles)}.safetensors"
    assert path.exists()
    second = prepare(smiles, preparation)
    assert second.rejects == first.rejects
    np.testing.assert_array_equal(second.operators.eigenvectors, first.operators.eigenvectors)
    path.write_bytes(path.read_bytes()[:1000])
    third = prepare(smiles, preparation)
    np.testing.assert_array_equal(third.atoms, first.atoms)


@pytest.mark.parametrize("spellings", [20])
def test_however_it_is_written(run, spellings):
    """The same prediction to 1e-4 of the target's spread for 1,000 molecules in 20 spellings."""
    from rdkit import Chem, RDLogger

    RDLogger.DisableLog("rdApp.*")
    esol = load_esol()
    molecules = list(esol.smiles[:1000])
    molecules += ["c1ccccc1", "C12C3C4C1C5C2C3C45", "C1CCCCC1", "CC(C)(C)C", "FS(F)(F)(F)(F)F"]
    std = run.model.model.task.std[0]
    written: list[str] = []
    for number, text in enumerate(molecules):
        molecule = Chem.MolFromSmiles(text)
        written += Chem.MolToRandomSmilesVect(molecule, spellings, randomSeed=number)
    values = run.model.predict(written).reshape(len(molecules), spellings)
    spread = values.max(1) - values.min(1)
    assert spread.max() < 1e-4 * std, molecules[int(spread.argmax())]
