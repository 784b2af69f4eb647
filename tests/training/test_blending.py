"""Trees and a kernel beside the network: the numbers of scikit-learn, shares that make sense."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import gad
from gad.data.known import load_esol
from gad.data.splits import Split
from gad.prediction.blend import _check, blends_of, columns
from gad.settings.task import Scale, Target, Task
from gad.training.blending import _grow, _Grown, _Judge, _kernel, _Labels, _labels, _planted

pytestmark = pytest.mark.slow

QUICK = {"width": 20, "layers": 2, "epochs": 3, "blend": True, "start": "scratch"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # runs without a folder of their own make one here


@pytest.fixture(scope="module")
def rows():
    known = load_esol()
    return list(known.smiles[:160]), np.asarray(known.targets[:160, 0])


@pytest.mark.parametrize("kind", ["regression", "binary", "multiclass"])
def test_trees_are_those_of_scikit_learn(kind):
    rng = np.random.default_rng(3)
    x = rng.poisson(0.7, size=(150, 30)).astype(np.float32)
    signal = x[:, 3] - 2 * x[:, 7] + rng.normal(0, 0.3, 150)
    y = {
        "regression": signal,
        "binary": (signal > 0).astype(float),
        "multiclass": np.digitize(signal, [-1.0, 1.0]).astype(float),
    }[kind]
    target = Target("y", kind, classes=("a", "b", "c") if kind == "multiclass" else ())
    used = np.array([k for k in range(30) if k != 11])
    own = _Labels(np.arange(150), y, np.ones(150))
    trees = _planted([[_grow(target, x[:, used], own, used)]], torch.zeros(x.shape[1]))
    settings = {
        "max_iter": 300, "learning_rate": 0.05, "max_depth": 8, "max_leaf_nodes": 31,
        "min_samples_leaf": 3, "l2_regularization": 1.0, "max_features": 0.3,
        "early_stopping": False, "random_state": 0,
    }  # fmt: skip
    known = (
        HistGradientBoostingRegressor(**settings).fit(x[:, used], y)
        if kind == "regression"
        else HistGradientBoostingClassifier(**settings).fit(x[:, used], y)
    )
    new = rng.poisson(0.7, size=(40, 30)).astype(np.float32)
    expected = (
        known.predict(new[:, used])
        if kind == "regression"
        else known.decision_function(new[:, used])
    )
    found = trees(torch.from_numpy(new)).numpy()
    np.testing.assert_allclose(found, expected.reshape(40, -1), rtol=1e-4, atol=1e-4)


def test_trees_of_several_targets_stand_side_by_side():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 4)).astype(np.float32)
    every = np.arange(4)
    both = [
        _grow(Target(str(k)), x, _Labels(np.arange(80), x[:, k].astype(float), np.ones(80)), every)
        for k in range(2)
    ]
    together = _planted([[own] for own in both], torch.zeros(4))(torch.from_numpy(x))
    for k, own in enumerate(both):
        torch.testing.assert_close(
            together[:, [k]], _planted([[own]], torch.zeros(4))(torch.from_numpy(x))
        )
    nothing = _planted([[_Grown([], np.array([2.5]), every)]], torch.zeros(4))
    assert nothing(torch.from_numpy(x)).unique().tolist() == [2.5]


def test_trees_that_lead_astray_are_refused(rows):
    model = gad.train(rows, settings=QUICK, baselines=False).model.model
    blend = blends_of(model)[0]
    width = model.parts["blend"].settings["columns"]
    _check(blend, width)
    with pytest.raises(ValueError, match="damaged"):
        _check(blend, 1)
    around = replace(blend, trees=replace(blend.trees, right=blend.trees.left))
    with pytest.raises(ValueError, match="damaged"):
        _check(around, width)
    blend.trees.left[3] = 10**9
    with pytest.raises(ValueError, match="damaged"):
        _check(blend, width)


def test_shares_follow_the_evidence_and_stay_put_without():
    rng = np.random.default_rng(1)
    truth = rng.normal(size=400)
    bad = rng.normal(size=400)
    for best in range(3):
        given = np.stack([truth if k == best else bad for k in range(3)])[:, :, None]
        judge = _Judge(
            Task((Target("y"),)),
            torch.from_numpy(given),
            _Labels(np.arange(400), truth, np.ones(400)),
            np.array([0.4, 0.3, 0.3]),
        )
        sure = judge(np.eye(3)[best])
        assert all(sure <= judge(np.eye(3)[k]) for k in range(3))
    few = _Judge(
        Task((Target("y"),)),
        torch.from_numpy(np.tile(truth[:10], (3, 1))[:, :, None] + 1.0),
        _Labels(np.arange(10), truth[:10], np.ones(10)),
        np.array([0.4, 0.3, 0.3]),
    )
    assert few(np.array([0.4, 0.3, 0.3])) < few(np.array([1.0, 0, 0]))


def test_a_blended_model_predicts_the_same_however_it_is_written_and_read_back(rows, tmp_path):
    run = gad.train(rows, settings=QUICK, baselines=False, out=tmp_path / "run")
    again = gad.load(tmp_path / "run" / "model.gad")
    spellings = [
        "OCC",
        "CCO",
        "C(O)C",
        "c1ccccc1C",
        "Cc1ccccc1",
        "[Na+].[O-]C=O",
        "[Na+].C(=O)[O-]",
    ]
    told = again.predict(spellings)
    np.testing.assert_allclose(told, run.model.predict(spellings), rtol=1e-5)
    np.testing.assert_allclose(told[:3], told[0], rtol=1e-5)
    np.testing.assert_allclose(told[3:5], told[3], rtol=1e-5)
    np.testing.assert_allclose(told[5:], told[5], rtol=1e-5)
    shares = blends_of(again.model)[0].shares
    torch.testing.assert_close(shares.sum(0), torch.ones(1, dtype=torch.float64))


def test_the_blend_is_the_weighted_mean_of_its_parts(rows):
    run = gad.train(rows, settings=QUICK, baselines=False)
    model = run.model.model
    from gad.data.store.molecules import read_molecules

    packed = read_molecules(["CCO", "c1ccccc1"], model.preparation)
    said = run.model.listen(packed)
    blend, x = blends_of(model)[0], columns(packed.counts, packed.graph_values, said.read)
    w = blend.shares[:, 0]
    expected = w[0] * said.outputs[0] + w[1] * blend.trees(x) + w[2] * blend.kernel(x)
    mean, std = model.scales[0].labels[:, 0]
    np.testing.assert_allclose(
        run.model.predict(["CCO", "c1ccccc1"]), (expected * std + mean)[:, 0].numpy(), rtol=1e-6
    )


def test_missing_labels_words_and_few_rows_are_no_trouble(tmp_path):
    known = load_esol()
    path = tmp_path / "mixed.csv"
    lines = ["smiles,y,word,rare"]
    for k, (text, value) in enumerate(zip(known.smiles[:90], known.targets[:90, 0], strict=True)):
        word = ("low", "middle", "high")[k % 3]
        bound = f">{value:.2f}" if k % 7 == 0 else f"{value:.2f}"
        lines.append(f"{text},{bound},{word if k % 5 else ''},{value if k < 12 else ''}")
    path.write_text("\n".join(lines))
    run = gad.train(
        path, target=["y", "word", "rare"], settings=QUICK, baselines=False, out=tmp_path / "run"
    )
    shares = blends_of(run.model.model)[0].shares
    assert shares.shape == (3, 5)
    assert shares[:, 4].tolist() == [1, 0, 0]  # too few labels for trees
    assert np.isfinite(run.model.predict_detailed(["CCO"]).values).all()


def test_ensembles_and_folds_have_a_blend_each(rows):
    run = gad.train(rows, settings={**QUICK, "epochs": 1}, baselines=False, folds=2, ensemble=2)
    blends = blends_of(run.model.model)
    assert len(blends) == 4
    assert torch.equal(blends[0].trees.value, blends[1].trees.value)
    assert not torch.equal(blends[0].trees.start, blends[2].trees.start)


@pytest.fixture(scope="module")
def from_base(rows, tmp_path_factory):
    """A model that starts from the base and goes far away from it."""
    settings = {"epochs": 1, "learning_rate": 0.01, "blend": True}
    made = {}
    for neighbours in (True, False):
        out = tmp_path_factory.mktemp("base") / "run"
        made[neighbours] = gad.train(
            (rows[0][:60], rows[1][:60]), settings=settings, baselines=False, out=out,
            neighbours=neighbours,
        )  # fmt: skip
    return made


def test_trees_and_kernel_read_molecules_as_the_base_does(from_base):
    run = from_base[True]
    again = gad.load(run.directory / "model.gad")
    smiles = ["CCO", "c1ccccc1", "[Na+].[O-]C=O"]
    base = gad.MoleculeEmbedder().fit(smiles).transform(smiles)
    own = gad.MoleculeEmbedder(str(run.directory / "model.gad")).fit(smiles).transform(smiles)
    from gad.data.store.molecules import read_molecules

    read = again.listen(read_molecules(smiles, again.model.preparation)).read
    np.testing.assert_allclose(read.numpy(), base, rtol=1e-4, atol=1e-4)
    assert np.abs(own[:, : base.shape[1]] - base).max() > 0.1  # training has moved the network
    np.testing.assert_allclose(again.predict(smiles), run.model.predict(smiles), rtol=1e-5)
    blend = blends_of(again.model)[0]
    assert len(blend.kernel.centres) == 48
    assert int(blend.kernel.column.min()) >= 1024  # not the counts
    assert int(blend.trees.column.max()) < 1024 + 16  # few molecules: not what the base reads


@pytest.mark.parametrize("neighbours", [True, False])
def test_too_few_rows_to_choose_by_leave_the_shares_as_they_are(neighbours):
    known = load_esol()
    rows = (list(known.smiles[:40]), known.targets[:40, 0])  # four for validation
    quick = {**QUICK, "epochs": 1}
    run = gad.train(rows, settings=quick, baselines=False, neighbours=neighbours)
    shares = blends_of(run.model.model)[0].shares[:, 0]
    expected = [0.3, 0.35, 0.35] if neighbours else [6 / 13, 7 / 13, 0]
    np.testing.assert_allclose(shares, expected)


def test_an_older_file_has_plain_steps_and_columns_that_count_alike(from_base):
    model = from_base[True].model.model
    part = model.parts["blend"]
    kept = {k: t for k, t in part.tensors.items() if not k.endswith(("soft", "scale"))}
    assert len(kept) == len(part.tensors) - 2
    older = replace(model, parts={**model.parts, "blend": replace(part, tensors=kept)})
    blend = blends_of(older)[0]
    assert not blend.trees.soft.any()
    assert bool((blend.kernel.scale == 1).all())


def test_a_file_that_keeps_no_training_molecules_has_no_kernel(from_base):
    model = from_base[False].model.model
    blend = blends_of(model)[0]
    assert blend.kernel.centres.numel() == 0
    assert float(blend.shares[2].abs().max()) == 0
    assert np.isfinite(from_base[False].model.predict(["CCO"])).all()


@pytest.mark.parametrize("n", [40, 320])
def test_a_kernel_machine_is_ridge_regression_with_that_kernel(n):
    from sklearn.metrics.pairwise import rbf_kernel

    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(n + 20, 5)).astype(np.float32))
    y = np.sin(2 * x[:, 0].double().numpy()) + x[:, 1].double().numpy()
    y += rng.normal(scale=0.3, size=len(y))
    rows = np.arange(n)
    split = Split(rows, np.arange(n, n + 20), np.arange(0))
    labels = [_Labels(rows, y[rows], np.ones(n))]
    kernel = _kernel(Task((Target("y"),)), labels, x, split, np.arange(5), range(3, 5))
    # Among few, two descriptors count as much as the three others.
    expected = [0.25] * 3 + [0.375] * 2 if n < 300 else [1.0] * 5
    np.testing.assert_allclose(kernel.scale.square(), expected, rtol=1e-6)
    found, z = kernel(x)[n:, 0].numpy(), kernel.standardise(x).double().numpy()
    between, across = rbf_kernel(z[:n], gamma=1 / 5), rbf_kernel(z[n:], z[:n], gamma=1 / 5)
    one = np.ones((n, 1))
    apart = []
    for strength in np.logspace(-2, 2, 9):
        system = np.block([[between + strength * np.eye(n), one], [one.T, np.zeros((1, 1))]])
        solved = np.linalg.solve(system, np.append(y[rows], 0.0))
        apart.append(np.abs(across @ solved[:-1] + solved[-1] - found).max())
    assert min(apart) < 1e-2  # its centres are kept in half precision
    assert sorted(apart)[1] > 2e-2
    assert np.corrcoef(found, y[n:])[0, 1] > 0.8
    torch.testing.assert_close(kernel(x[:7]), kernel(x)[:7], rtol=0, atol=1e-12)


def test_of_a_bound_the_network_is_learned_as_far_as_it_is_allowed():
    task, scale = Task((Target("y"),)), Scale(torch.tensor([[0.0], [1.0]]), torch.zeros(2, 0))
    said = torch.tensor([[1.0], [1.0], [1.0], [1.0], [1.0]])
    given = SimpleNamespace(
        targets=np.array([[0.5], [0.5], [2.0], [2.0], [np.nan]]), weights=np.ones(5),
        bounds=np.array([[0], [1], [1], [-1], [0]], np.int8),
    )  # fmt: skip
    own = _labels(task, given, np.arange(5)[::-1], scale, 0, said)
    assert own.rows.tolist() == [0, 1, 2, 3]
    assert own.learned.tolist() == [0.5, 1.0, 2.0, 1.0]
    # The first row is off by 1, the third by 0.5; the others are where they may be.
    judge = _Judge(
        Task((Target("y"),), "l1"), torch.full((3, 4, 1), 1.5), own, np.array([0.4, 0.3, 0.3])
    )
    assert judge(np.array([0.4, 0.3, 0.3])) == pytest.approx(1.5 / 4)
    given.bounds = None
    assert _labels(task, given, np.arange(5), scale, 0, said).ends is None
