from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

import gad
from gad import native
from gad.chem import parse
from gad.data.known import load_esol
from tests.chem.test_order import C60
from tests.conftest import TINY
from tests.graphs import SYMMETRIC
from tests.test_invariance import symmetric_graphs


def test_one_bad_molecule_loses_nothing(run):
    values = run.model.predict(["CCO", "not a molecule", "", "C" * 50])
    assert np.isfinite(values[[0, 3]]).all()
    assert np.isnan(values[[1, 2]]).all()
    told = run.model.predict_detailed(["CCO", "CF(C)C"])
    assert "valence" in told.rejects[1]
    assert np.isnan(run.model.predict(["?", "!"])).all()
    assert run.model.predict([]).shape == (0,)


def test_strange_chemistry_is_predicted(run):
    strange = [
        "[Na+].[Cl-]", "[He]", "[2H]C([2H])([2H])[2H]", "[CH3]", "C[N+](C)(C)C", "*C", "[Og]",
        "N->[Cu]<-N", "F[S](F)(F)(F)(F)F", "[Fe+2].[cH-]1cccc1.[cH-]1cccc1", "O.O.O",
    ]  # fmt: skip
    told = run.model.predict_detailed(strange)
    assert told.rejects == {}
    assert np.isfinite(told.values).all()
    assert 6 in told.unseen or 5 in told.unseen


@pytest.mark.slow
def test_a_peptide_of_five_hundred_residues(run):
    peptide = "N" + "CC(=O)N" * 499 + "CC(=O)O"
    assert np.isfinite(run.model.predict([peptide, "C"])).all()


def test_batch_is_one_by_one(run, table):
    together = run.model.predict(table[0][:50])
    alone = np.concatenate([run.model.predict([s]) for s in table[0][:50]])
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not native.status().active, reason=native.status().reason)
def test_compiled_embeddings_do_not_depend_on_the_batch_at_all():
    """To the last bit: trees jump at thresholds, and engines cut a table in different places."""
    smiles = list(load_esol().smiles[:300])
    embedder = gad.MoleculeEmbedder().fit(smiles)
    together = embedder.transform(smiles)
    order = np.random.default_rng(0).permutation(300)
    np.testing.assert_array_equal(embedder.transform([smiles[i] for i in order]), together[order])
    np.testing.assert_array_equal(embedder.transform(smiles[40:50]), together[40:50])


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
    told = run.model.predict_detailed(table[0])
    half = run.summary["uncertainty"]["q"]["target"]
    np.testing.assert_allclose(told.upper - told.lower, 2 * half, rtol=1e-6)
    assert told.std is None, "one model alone has no spread"


@pytest.mark.slow
def test_an_ensemble_has_a_spread(table, tmp_path):
    run = gad.train(table, settings=TINY, ensemble=2, out=tmp_path / "run", baselines=False)
    told = run.model.predict_detailed(table[0][:20])
    assert (told.std > 0).all()
    each = run.model.run(_packed(run, table[0][:20]))[0].numpy()
    np.testing.assert_allclose(told.values, each.mean(0), rtol=1e-6)


def _packed(run, smiles):
    from gad.data.store.molecules import read_molecules

    return read_molecules(smiles, run.model.model.preparation)


@pytest.mark.slow
def test_several_targets_with_missing_labels(table, tmp_path):
    smiles, values = table
    targets = np.stack([values, -values], axis=1)
    targets[::3, 0] = np.nan
    run = gad.train((smiles, targets), settings=TINY, out=tmp_path / "run", baselines=False)
    assert run.model.predict(smiles[:5]).shape == (5, 2)
    assert run.summary["targets"] == ["target_0", "target_1"]


@pytest.mark.slow
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


def test_a_classifier_has_no_class_for_what_it_cannot_read(table):
    smiles, values = table[0][:60], table[1][:60]
    settings = {k: v for k, v in TINY.items() if k != "epochs"}
    classes = np.where(values > np.median(values), "soluble", "insoluble")
    words = gad.MoleculeClassifier(epochs=1, settings=settings).fit(smiles, classes)
    wrong = ["CCO", "not a molecule", "CC"]
    with pytest.raises(ValueError, match=r"1 of 3 .*row 2, 'not a molecule': .*errors='ignore'"):
        words.predict(wrong)
    found = words.predict(wrong, errors="ignore")
    assert found[1] is None
    assert set(found[[0, 2]]) <= {"soluble", "insoluble"}
    assert np.isnan(words.predict_proba(wrong)[1]).all()
    with pytest.raises(ValueError, match="row 2"):
        words.predict_proba(wrong, errors="raise")
    with pytest.raises(ValueError, match="'raise' or 'ignore', not 'coerce'"):
        words.predict(wrong, errors="coerce")
    numbers = gad.MoleculeClassifier(epochs=1, settings=settings, errors="ignore")
    found = numbers.fit(smiles, (values > np.median(values)).astype(int)).predict(wrong)
    np.testing.assert_array_equal(np.isnan(found), [False, True, False])
    assert numbers.predict(["CCO"]).dtype.kind == "i"


def test_a_regressor_says_nan_or_raises(table):
    settings = {k: v for k, v in TINY.items() if k != "epochs"}
    regressor = gad.MoleculeRegressor(epochs=1, settings=settings).fit(table[0][:60], table[1][:60])
    np.testing.assert_array_equal(np.isnan(regressor.predict(["CC", "?"])), [False, True])
    with pytest.raises(ValueError, match=r"row 2, '\?'"):
        regressor.predict(["CC", "?"], errors="raise")


def test_the_cache_gives_the_same_molecules(molecule_cache, table):
    from gad.data.store.cache import prepare
    from gad.settings.model import preparation_of
    from gad.settings.recipe import Recipe

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


SPELLINGS = 20


@pytest.fixture(scope="module")
def hydrogens(table, tmp_path_factory):
    """A model that sees every hydrogen as an atom."""
    settings = {**TINY, "epochs": 1, "explicit_hydrogens": True}
    folder = tmp_path_factory.mktemp("hydrogens") / "run"
    return gad.train(table, settings=settings, out=folder, baselines=False)


def spread(run, molecules):
    """By how much predictions differ between spellings, in units of the target's deviation [M]."""
    written: list[str] = []
    for number, molecule in enumerate(molecules):
        written += Chem.MolToRandomSmilesVect(molecule, SPELLINGS, randomSeed=number)
    told = run.model.predict_detailed(written)
    assert not told.rejects
    values = told.values.reshape(len(molecules), SPELLINGS)
    deviation = run.model.model.scales[0].labels[1, 0].item()
    assert values.mean(1).std() > 0.01 * deviation, "all alike proves nothing"
    return (values.max(1) - values.min(1)) / deviation


@pytest.mark.slow
@pytest.mark.parametrize("model", ["run", "hydrogens"])
def test_however_it_is_written(request, model):
    """The same prediction to 1e-4 of the target's deviation, for 1,000 molecules."""
    texts = load_esol().smiles[: 1000 if model == "run" else 300]
    found = spread(request.getfixturevalue(model), [parse(text) for text in texts])
    assert found.max() < 1e-4, texts[int(found.argmax())]


SYMMETRIC_MOLECULES = {
    **{f"ring of {n}": "C1" + "C" * (n - 2) + "C1" for n in range(3, 13)},
    **{f"annulene of {n}": "C1=" + "CC=" * (n // 2 - 1) + "C1" for n in range(4, 20, 2)},
    "methane": "C",
    "ammonia": "N",
    "water": "O",
    "hydrogen": "[H][H]",
    "a gas": "[He]",
    "neopentane": "CC(C)(C)C",
    "a dendrimer": "CC(C)(C)CC(CC(C)(C)C)(CC(C)(C)C)CC(C)(C)C",
    "hexafluoride": "FS(F)(F)(F)(F)F",
    "pentachloride": "ClP(Cl)(Cl)(Cl)Cl",
    "hexamethylbenzene": "Cc1c(C)c(C)c(C)c(C)c1C",
    "triphenylene": "c1ccc2c(c1)c1ccccc1c1ccccc21",
    "coronene": "c1cc2ccc3ccc4ccc5ccc6ccc1c7c2c3c4c5c67",
    "porphine": "c1cc2cc3ccc(cc4ccc(cc5ccc(cc1n2)[nH]5)n4)[nH]3",
    "tetrahedrane": "C12C3C1C23",
    "white phosphorus": "P12P3P1P23",
    "prismane": "C12C3C1C1C2C31",
    "cubane": "C12C3C4C1C5C2C3C45",
    "pentaprismane": "C12C3C4C5C1C1C2C3C4C51",
    "dodecahedrane": "C12C3C4C5C1C6C7C2C8C3C9C4C1C5C6C2C7C8C9C12",
    "fullerene": C60,
    "adamantane": "C1C2CC3CC1CC(C2)C3",
    "hexamine": "C1N2CN3CN1CN(C2)C3",
    "bicyclopentane": "C1C2CC1C2",
    "propellane": "C1C23CC12C3",
    "bicyclooctane": "C1CC2CCC1CC2",
    "triptycene": "c1ccc2c(c1)C1c3ccccc3C2c2ccccc12",
    "crown ether": "C1COCCOCCOCCOCCOCCO1",
    "sulfur": "S1SSSSSSS1",
    "siloxane cage": "[SiH]12O[SiH]3O[SiH]4O[SiH](O1)O[SiH]1O[SiH](O2)O[SiH](O3)O[SiH](O4)O1",
    "ferrocene": "[Fe+2].c1cc[cH-]c1.c1cc[cH-]c1",
    "ferrocene with bonds": "C12C3C4C5C1[Fe]23451678C2C1C6C7C28",
    "a complex": "[NH3]->[Co+3](<-[NH3])(<-[NH3])(<-[NH3])(<-[NH3])<-[NH3]",
    "tartaric acid, meso": "O[C@H](C(=O)O)[C@@H](O)C(=O)O",
    "two benzenes": "c1ccccc1.c1ccccc1",
    "three cubanes": ".".join(["C12C3C4C1C5C2C3C45"] * 3),
    "ions": "[Na+].[Na+].[Na+].[O-]P(=O)([O-])[O-]",
    "waters": "O.O.O.O",
    "imines of aromatic rings": "C/N=c1\\scc(C)n1/N=C/c1sccc1C",
}


def as_molecule(graph):
    """A graph made of atoms: of carbon where four bonds suffice, else of a metal."""
    degree = np.bincount(graph.pairs.ravel(), minlength=graph.num_nodes)
    molecule = Chem.RWMol()
    for _ in range(graph.num_nodes):
        molecule.AddAtom(Chem.Atom("C" if degree.max() <= 4 else "W"))
    for i, j in graph.pairs.tolist():
        molecule.AddBond(i, j, Chem.BondType.SINGLE)
    made = parse(Chem.MolToSmiles(molecule))
    assert (made.GetNumAtoms(), made.GetNumBonds()) == (graph.num_nodes, len(graph.pairs))
    return made


@pytest.mark.parametrize("model", ["run", "hydrogens"])
def test_symmetric_molecules_however_they_are_written(request, model):
    names = list(SYMMETRIC_MOLECULES)
    molecules = [parse(text) for text in SYMMETRIC_MOLECULES.values()]
    found = spread(request.getfixturevalue(model), molecules)
    assert found.max() < 1e-4, {names[k]: float(found[k]) for k in np.flatnonzero(found >= 1e-4)}


@pytest.mark.slow
@pytest.mark.parametrize("model", ["run", "hydrogens"])
def test_symmetric_graphs_however_they_are_written(request, model):
    """Every symmetric graph on which the engine is tested, as a molecule."""
    graphs = {**SYMMETRIC, **dict(enumerate(symmetric_graphs(200)))}
    names = list(graphs)
    found = spread(request.getfixturevalue(model), list(map(as_molecule, graphs.values())))
    assert found.max() < 1e-4, {names[k]: float(found[k]) for k in np.flatnonzero(found >= 1e-4)}
