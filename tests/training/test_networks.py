"""Recipe keys that choose a network and what is read off the graph, from recipe to model file."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

import gad
from gad.data.known import GraphSet
from gad.data.rows import Source
from gad.data.splits import Split
from gad.data.store.molecules import read_molecules
from gad.nn import GADBlock, count_parameters
from gad.nn.baselines import NETWORKS, WITHOUT_EDGES, BaselineBlock
from gad.nn.himp import HIMP
from gad.nn.smp import SMP
from gad.operators.cycles import count_cycles
from gad.prediction.model_file import load_model
from gad.settings.model import Inputs, build_model, preparation_of
from gad.settings.recipe import Recipe, RecipeError
from gad.settings.sections import HEADS, NO_BONDS, all_settings
from gad.training.dataset import load_dataset
from tests.prediction.test_model_file import earlier

RINGS = ["c1ccccc1", "C1CC1C", "CCO", "C", "C1CC2CCC1C2", "c1ccc2ccccc2c1", "[Na+].[Cl-]"]
CASES = [(n, e) for n in ("gad", *NETWORKS) for e in (True, False)]
CASES = [(n, e) for n, e in CASES if not (e and n in WITHOUT_EDGES)]


def recipe_of(network, **changes):
    own = {"edges": network not in WITHOUT_EDGES, "cycles": 8 if network == "gsn" else 0}
    return Recipe().override({"network": network, **own, **changes})


def test_recipes_and_layers_know_the_same_networks():
    assert all_settings()["network"].choices == ("gad", *NETWORKS)
    assert NO_BONDS == WITHOUT_EDGES


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"network": "gcm"}, "did you mean 'gcn'"),
        ({"network": "gcn"}, "'gcn' cannot use bonds: set edges = false"),
        ({"network": "sage"}, "'sage' cannot use bonds"),
        ({"network": "monet"}, "'monet' cannot use bonds"),
        ({"network": "gsn"}, "set cycles, for example to 8"),
        ({"network": "gat"}, f"width = 100 is not a multiple of the heads of gat = {HEADS}"),
        ({"cycles": 2}, "shortest cycle has length 3"),
        ({"cycles": 99}, "out of range"),
        ({"laplacian": "combinatoric"}, "did you mean 'combinatorial'"),
        ({"field": "turned"}, "choose from paper, transposed"),
    ],
)
def test_a_mistake_is_named(changes, hint):
    with pytest.raises(RecipeError, match=hint):
        Recipe().override(changes)


@pytest.mark.parametrize(("network", "edges"), CASES)
def test_the_widest_network_within_the_budget(network, edges):
    recipe = recipe_of(network, edges=edges, width=0, budget=100_000)
    columns = (3, *[5] * 6) if network == "gsn" else (3,)
    inputs = Inputs((28,), 6 if network == "gsn" else 0, columns, 0)
    model = build_model(recipe, inputs, 1)
    whole = {"himp": HIMP, "smp": SMP}  # one block of as many layers
    block = whole.get(network, GADBlock if network == "gad" else BaselineBlock)
    assert all(isinstance(b, block) for b in model.blocks)
    assert len(model.blocks) == (1 if network in whole else recipe.model.layers)
    assert 60_000 < count_parameters(model) <= 100_000
    wider = build_model(
        recipe.override({"width": model.channels + recipe.model.width_step}), inputs, 1
    )
    assert count_parameters(wider) > 100_000


@pytest.mark.slow
@pytest.mark.parametrize("network", ["gad", *NETWORKS])
def test_from_smiles_to_a_model_file_and_back(network, tmp_path):
    settings = {
        "network": network, "edges": network not in WITHOUT_EDGES, "cycles": 8, "random_walk": 4,
        "laplacian": "combinatorial", "field": "transposed", "epochs": 2, "width": 40, "layers": 2,
        "descriptors": False, "value_norm": True,
    }  # fmt: skip
    targets = np.arange(4.0 * len(RINGS))
    run = gad.train((RINGS * 4, targets), settings=settings, out=tmp_path / "run", baselines=False)
    loaded = gad.load(tmp_path / "run" / "model.gad")
    wanted = run.model.predict(RINGS)
    assert np.isfinite(wanted).all()
    np.testing.assert_array_equal(loaded.predict(RINGS), wanted)
    np.testing.assert_allclose(loaded.predict(["C1C2CC(C1)CC2"]), wanted[4], rtol=0, atol=1e-4)
    preparation = loaded.model.preparation
    assert (preparation.cycles, preparation.combinatorial, preparation.transposed) == (8, 1, 1)
    again = gad.train(
        (RINGS * 4, targets), start_from=tmp_path / "run" / "model.gad", out=tmp_path / "more",
        settings={"epochs": 1, "learning_rate": 1e-12, "warmup": 0}, baselines=False,
    )  # fmt: skip
    assert again.model.model.recipe.model.network == network
    assert again.model.model.recipe.molecules.cycles == 8
    assert again.model.model.recipe.model.value_norm


def test_files_from_before_these_keys_can_be_read(run, tmp_path):
    def old(card, tensors):
        for key in ("network", "cycles", "laplacian", "field", "value_norm"):
            del card["recipe"][key]
        for key in ("cycles", "combinatorial", "transposed"):
            del card["preparation"][key]

    path = tmp_path / "old.gad"
    path.write_bytes(earlier(run.directory / "model.gad", 1, old))
    assert load_model(path).recipe == run.model.model.recipe
    np.testing.assert_array_equal(gad.load(path).predict(RINGS[:3]), run.model.predict(RINGS[:3]))


# ------------------------------------------------------------------------------ what is fed


def outputs(recipe, data, graphs):
    torch.manual_seed(0)
    model = build_model(recipe, data.inputs, 1).eval()
    return model(**data.packed.batch(torch.tensor(graphs)).inputs())


@pytest.mark.parametrize("network", ["gad", "gin", "gat", "gatedgcn"])
def test_a_model_without_bonds_does_not_see_them(network):
    recipe = recipe_of(network, edges=False, descriptors=False, width=40)
    blind = load_dataset(Source((["CCCC", "CC=CC"], [0.0, 1.0])), recipe)
    blind.packed.atoms.zero_()
    one, other = outputs(recipe, blind, [0, 1])
    torch.testing.assert_close(one, other, rtol=0, atol=0)
    seeing = recipe.override({"edges": "true"})
    one, other = outputs(seeing, blind, [0, 1])
    assert not torch.equal(one, other)


def test_cycles_are_features_of_atoms_and_bonds():
    data = load_dataset(Source((["C1CC1C", "CC"], [0.0, 1.0])), Recipe.of(cycles=4))
    plain = load_dataset(Source((["C1CC1C", "CC"], [0.0, 1.0])), Recipe())
    assert data.inputs.atom_values == plain.inputs.atom_values + 2
    assert data.inputs.bond_cardinalities == (*plain.inputs.bond_cardinalities, 5, 5)
    assert data.packed.atom_values[:, -2:].tolist() == [[1, 0]] * 3 + [[0, 0]] * 3
    operators = data.packed.operators
    on_ring = (operators.source < 3) & (operators.target < 3)
    assert data.packed.bonds[:, -2:].tolist() == [[int(x), 0] for x in on_ring]


def test_values_are_normalised_where_they_enter():
    """Columns of very different size weigh the same, whatever unit they are in."""
    inputs = Inputs((4,), 3, (3,), 0)
    atoms, values = torch.randint(4, (50, 1)), torch.randn(50, 3)
    torch.manual_seed(0)
    encoder = build_model(Recipe.of(value_norm=True), inputs, 1).encoder
    scaled = encoder((atoms, values * torch.tensor([0.5, 1.0, 40.0]) + 7))
    torch.testing.assert_close(scaled, encoder((atoms, values)), rtol=0, atol=1e-3)
    assert build_model(Recipe(), inputs, 1).encoder.norm is None
    assert build_model(Recipe.of(value_norm=True), Inputs((4,), 0, (3,), 0), 1).encoder.norm is None


def test_counts_of_cycles_enter_messages_without_bonds_too():
    """The ring of naphthalene's middle bond is seen although single and double bonds are not."""
    recipe = recipe_of("gsn", edges=False, descriptors=False, width=40)
    data = load_dataset(Source((RINGS, list(range(len(RINGS))))), recipe)
    before = outputs(recipe, data, [5])
    data.packed.bonds[:, :-6] = 0
    torch.testing.assert_close(outputs(recipe, data, [5]), before, rtol=0, atol=0)
    data.packed.bonds[:, -6:] = 0
    assert not torch.equal(outputs(recipe, data, [5]), before)


def test_a_molecule_with_too_many_cycles_is_set_aside(monkeypatch):
    monkeypatch.setattr("gad.operators.cycles._PER_NODE", 12)
    monkeypatch.setattr("gad.data.store.molecules.count_cycles", partial(count_cycles, limit=0))
    cubane = "C12C3C4C1C5C2C3C45"
    packed = read_molecules(["CCO", cubane, "C1CC1"], preparation_of(Recipe.of(cycles=8)))
    assert list(packed.rejects) == [1]
    assert "cycles" in packed.rejects[1]
    assert packed.rows.tolist() == [0, 2]
    assert len(packed.graph_values) == 2


# ------------------------------------------------------------------------------ known graphs


def graph_set(values=0):
    """Three graphs as a known set has them: a triangle, a square with a diagonal, an atom."""
    rng = np.random.default_rng(0)
    names = tuple(f"v{i}" for i in range(values))
    return GraphSet(
        name="three",
        node_ptr=np.array([0, 3, 7, 8]),
        atom_categories=rng.integers(0, 5, (8, 1)).astype(np.uint8),
        edge_ptr=np.array([0, 3, 8, 8]),
        bonds=np.array([[0, 1], [0, 2], [1, 2], [0, 1], [0, 2], [0, 3], [1, 2], [2, 3]], np.int32),
        bond_categories=rng.integers(0, 2, (8, 2)).astype(np.uint8),
        targets=np.array([[1.5], [2.5], [3.5]]),
        target_names=("y",),
        units=("eV",),
        split=Split([0], [1], [2]),
        atom_cardinalities=(5,),
        bond_cardinalities=(3, 2),
        atom_values=rng.standard_normal((8, values)).astype(np.float32),
        atom_value_names=names,
    )


def known(values=0, **recipe):
    return load_dataset(Source(graph_set(values)), Recipe.of(**recipe))


def test_known_graphs_get_nothing_but_the_graph():
    """Whatever the recipe says of descriptors and hydrogens: there is no molecule to ask."""
    data = known(descriptors=True, explicit_hydrogens=True)
    assert data.preparation is None
    assert data.inputs == Inputs((5,), 0, (3, 2), 0)
    assert data.packed.graph_values.shape == (3, 0)
    assert data.packed.atom_values.shape == (8, 0)
    assert torch.equal(data.packed.atoms, torch.from_numpy(graph_set().atom_categories))


def test_known_graphs_bring_their_values_before_what_is_computed():
    data = known(values=11, cycles=4, random_walk=2)
    assert data.inputs == Inputs((5,), 11 + 2 + 2, (3, 2, 5, 5), 0)
    given = torch.from_numpy(graph_set(11).atom_values)
    torch.testing.assert_close(data.packed.atom_values[:, :11], given)
    log = data.packed.atom_values[:, 11:13]
    counts = [[1, 0]] * 3 + [[2, 1], [1, 1], [2, 1], [1, 1], [0, 0]]
    torch.testing.assert_close(log, torch.log2(1 + torch.tensor(counts, dtype=torch.float32)))
    walks = data.packed.atom_values[:, 13:]
    torch.testing.assert_close(walks[:3], torch.tensor([[0.0, 0.5]] * 3), atol=1e-6, rtol=0)
    model = build_model(Recipe.of(cycles=4, random_walk=2), data.inputs, 1)
    assert torch.isfinite(model(**data.packed.batch(torch.arange(3)).inputs())).all()


def test_known_graphs_packed_in_parts_are_the_same(monkeypatch):
    whole = known(values=2, cycles=5, random_walk=3).packed
    monkeypatch.setattr("gad.data.store.graphs._GRAPHS_AT_ONCE", 2)
    parts = known(values=2, cycles=5, random_walk=3).packed
    assert parts.rows.tolist() == [0, 1, 2]
    for name in ("atoms", "atom_values", "bonds", "graph_values"):
        torch.testing.assert_close(getattr(parts, name), getattr(whole, name))
    for name in ("batch", "source", "target", "reverse", "members", "eigenvalues"):
        torch.testing.assert_close(getattr(parts.operators, name), getattr(whole.operators, name))
    # Eigenvectors may differ in sign, or turn within their space; what is made of them may not.
    x = torch.randn(8, 3)
    one, other = (p.operators.directional_derivative(x) for p in (parts, whole))
    torch.testing.assert_close(one, other)


def test_the_field_follows_the_recipe():
    plain, turned = known().packed.operators, known(field="transposed").packed.operators
    torch.testing.assert_close(turned.field, plain.field[plain.reverse])
    other = known(laplacian="combinatorial").packed.operators
    torch.testing.assert_close(other.eigenvalues, plain.eigenvalues)
    assert other.field.shape == plain.field.shape


def test_a_model_of_known_graphs_cannot_read_smiles(tmp_path):
    for network in ("gad", "gsn"):
        settings = {"epochs": 1, "width": 20, "layers": 2, "network": network, "cycles": 4}
        out = tmp_path / network
        run = gad.train(graph_set(), settings=settings, out=out, baselines=False)
        loaded = gad.load(out / "model.gad")
        with pytest.raises(ValueError, match="cannot read SMILES"):
            loaded.predict(["CCO"])
        data = load_dataset(Source(graph_set()), loaded.model.recipe)
        values, _ = loaded.run(data.packed)
        torch.testing.assert_close(values, run.model.run(data.packed)[0], rtol=0, atol=0)
