"""Features mean what their names say, for ordinary and for odd molecules."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from rdkit import Chem

from gad.chem import (
    ATOM_FEATURES,
    BOND_FEATURES,
    Featurizer,
    MoleculeError,
    parse,
    quick_descriptors,
)
from gad.chem.elements import CATEGORY, OTHER, VALUES, VOCABULARY

ATOM = {name: column for column, name in enumerate(ATOM_FEATURES)}
BOND = {name: column for column, name in enumerate(BOND_FEATURES)}


def atoms(text, feature, **settings):
    return Featurizer(**settings)(text).atom_categories[:, ATOM[feature]].tolist()


def bonds(text, feature, **settings):
    return Featurizer(**settings)(text).bond_categories[:, BOND[feature]].tolist()


@pytest.mark.parametrize(
    ("text", "feature", "expected"),
    [
        ("CC(C)(C)O", "neighbours", [1, 4, 1, 1, 1]),
        ("*" + "(C)" * 100, "neighbours", [6] + [1] * 100),
        ("C[N+](C)(C)CC(=O)[O-]", "charge", [3, 4, 3, 3, 3, 3, 3, 2]),
        ("[Fe+6]", "charge", [6]),
        ("[Pb-4]", "charge", [0]),
        ("CC=C", "hydrogens", [3, 1, 2]),
        ("[2H]C", "hydrogens", [0, 4]),
        ("CS(=O)(=O)C", "valence", [4, 6, 2, 2, 4]),
        ("c1cc[nH]c1", "aromatic", [1, 1, 1, 1, 1]),
        ("CC1CC1", "ring", [0, 1, 1, 1]),
        ("c1ccc2[nH]ccc2c1", "ring", [4, 4, 4, 3, 3, 3, 3, 3, 4]),
        ("C1" + "C" * 298 + "C1", "ring", [6] * 300),
        ("C[CH2]", "valence", [4, 3]),
        ("N[C@@H](C)C(=O)O", "cip", [0, 2, 0, 0, 0, 0]),
        ("N[C@H](C)C(=O)O", "cip", [0, 1, 0, 0, 0, 0]),
    ],
)
def test_atom_feature(text, feature, expected):
    assert atoms(text, feature) == expected


@pytest.mark.parametrize(
    ("text", "feature", "expected"),
    [
        ("CC=CC#N", "type", [0, 1, 0, 2]),
        ("c1ccccc1", "type", [3] * 6),
        ("C1=CC=CC=C1", "type", [3] * 6),
        ("[NH3]->[Cu+2]", "type", [4]),
        ("C~C", "type", [5]),
        ("[Rh]$[Rh]", "type", [5]),
        ("C/N=c1\\cccco1", "type", [0, 1, 3, 3, 3, 3, 3, 3]),
        ("C=CC=CC", "conjugated", [1, 1, 1, 0]),
        ("C1CC1C", "ring", [1, 1, 1, 0]),
        ("F/C=C/F", "cip", [0, 1, 0]),
        ("F/C=C\\F", "cip", [0, 2, 0]),
        ("FC=CF", "cip", [0, 0, 0]),
    ],
)
def test_bond_feature(text, feature, expected):
    assert bonds(text, feature) == expected


@pytest.mark.parametrize(
    "text",
    [
        "[Na+]",
        "[He]",
        "C",
        "*",
        "[H][H]",
        "[2H]C",
        "[Na+].[Cl-].O",
        "[CH3]",
        "[O][O]",
        "[NH3]->[Cu+2]",
        "Cl[Pt](Cl)([NH3])[NH3]",
        "[Fe+2].c1cc[cH-]c1.c1cc[cH-]c1",
        "[Og]",
        "[Al](Cl)(Cl)Cl",
        "C[Si](C)(C)O[Si](C)(C)C",
        "F[P-](F)(F)(F)(F)F.[Li+]",
        "C1CC1",
        "N#N",
    ],
)
@pytest.mark.parametrize("hydrogens", [False, True])
def test_odd_molecules(text, hydrogens):
    featurizer = Featurizer(explicit_hydrogens=hydrogens)
    graph = featurizer(text)
    mol = Chem.AddHs(parse(text)) if hydrogens else parse(text)
    n, b = mol.GetNumAtoms(), mol.GetNumBonds()
    assert graph.atom_categories.shape == (n, len(featurizer.atom_cardinalities))
    assert graph.atom_values.shape == (n, featurizer.atom_values)
    assert graph.bonds.shape == (b, 2)
    assert graph.bond_categories.shape == (b, len(featurizer.bond_cardinalities))
    assert graph.atom_categories.dtype == graph.bond_categories.dtype == np.uint8
    assert graph.atom_values.dtype == np.float32
    assert graph.bonds.dtype == np.int32
    assert (graph.atom_categories < featurizer.atom_cardinalities).all()
    assert (graph.bond_categories < featurizer.bond_cardinalities).all()
    assert (graph.bonds[:, 0] < graph.bonds[:, 1]).all()
    assert np.isfinite(graph.atom_values).all()
    for array in (graph.atom_categories, graph.atom_values, graph.bonds, graph.bond_categories):
        assert array.flags.writeable
        assert array.flags.c_contiguous


def test_unseen_elements_are_named():
    graph = Featurizer()("*.[He].[Og].[Og].C")
    assert graph.unseen == ("*", "He", "Og")
    assert (graph.atom_categories[:4, 0] == OTHER).all()
    assert Featurizer()("CCO.[Na+].[Bi]").unseen == ()


def test_vocabulary():
    table = Chem.GetPeriodicTable()
    for category, symbol in enumerate(VOCABULARY[:-1]):
        assert CATEGORY[table.GetAtomicNumber(symbol)] == category
    assert CATEGORY[0] == OTHER
    assert len(CATEGORY) == 256
    np.testing.assert_allclose(VALUES[8], [3.44 - 2.5, 0.15999, 0.66, 0.75], atol=1e-6)
    assert np.abs(VALUES).max() < 3.5


@pytest.mark.parametrize("wrong", [None, float("nan"), 7, "", "CC("])
def test_what_is_no_molecule(wrong):
    with pytest.raises(MoleculeError):
        Featurizer()(wrong)


def test_a_molecule_object_gives_what_its_smiles_gives():
    text = "C[C@H](O)/C=C/c1ccccc1"
    for settings in itertools.product([False, True], repeat=2):
        featurizer = Featurizer(*settings)
        expected = featurizer(text)
        for mol in (parse(text), Chem.AddHs(parse(text))):
            graph = featurizer(mol)
            np.testing.assert_array_equal(graph.atom_categories, expected.atom_categories)
            np.testing.assert_array_equal(graph.bonds, expected.bonds)
            np.testing.assert_array_equal(graph.bond_categories, expected.bond_categories)
            np.testing.assert_allclose(graph.atom_values, expected.atom_values, atol=1e-6)


def test_a_molecule_that_was_pickled_keeps_its_labels():
    mol = pickle.loads(pickle.dumps(parse("N[C@@H](C)/C=C/F")))
    assert not any(atom.HasProp("_CIPCode") for atom in mol.GetAtoms())
    graph, expected = Featurizer()(mol), Featurizer()("N[C@@H](C)/C=C/F")
    np.testing.assert_array_equal(graph.atom_categories, expected.atom_categories)
    np.testing.assert_array_equal(graph.bond_categories, expected.bond_categories)


TEXTS = [
    *("CCO", "nonsense", "[Na+].[Cl-]", "[He]", "C[C@H](N)C(=O)O", "", "F/C=C/F", "c1ccccc1"),
    *("[NH3]->[Pt](<-[NH3])(Cl)Cl", "C" * 200, "[2H]C([2H])O", "[H][H]", "CF(C)C", "C~C", "*"),
]


@pytest.mark.parametrize("settings", list(itertools.product([False, True], repeat=2)))
def test_many_are_one_by_one(settings):
    featurizer = Featurizer(*settings)
    many = featurizer.read(TEXTS, descriptors=True, first_row=10)
    assert list(many.rejects) == [11, 15, 22]
    assert "valence" in many.rejects[22]
    first, begin = 0, 0
    for row, size, values in zip(many.rows, many.sizes, many.descriptors, strict=True):
        mol = parse(TEXTS[row - 10])
        alone, own = featurizer(mol), slice(first, first + size)
        bonds = slice(begin, begin + len(alone.bonds))
        np.testing.assert_array_equal(many.atom_categories[own], alone.atom_categories)
        np.testing.assert_array_equal(many.atom_values[own], alone.atom_values)
        if not featurizer.explicit_hydrogens:  # which put their bonds behind all others
            np.testing.assert_array_equal(many.bonds[bonds] - first, alone.bonds)
            np.testing.assert_array_equal(many.bond_categories[bonds], alone.bond_categories)
        np.testing.assert_allclose(values, quick_descriptors(mol), rtol=1e-12, atol=1e-12)
        assert many.unseen.get(int(row), ()) == alone.unseen
        first, begin = first + size, begin + len(alone.bonds)
    assert (first, begin) == (len(many.atom_values), len(many.bonds))
    inside = np.repeat(np.arange(len(many)), many.sizes)[many.bonds]
    assert (inside[:, 0] == inside[:, 1]).all()


def test_many_may_be_none():
    graphs = Featurizer(explicit_hydrogens=True).read(["", "("])
    assert len(graphs) == 0
    assert sorted(graphs.rejects) == [0, 1]
    assert graphs.atom_values.shape == (0, 4)
    assert graphs.bonds.shape == (0, 2)


def test_one_of_many_can_be_taken_out():
    texts = ["CCO", "c1ccccc1", "[He]", "C=O"]
    for number, text in enumerate(texts):
        left = Featurizer().read(texts, descriptors=True).without(number, "too large")
        assert left.rejects == {number: "too large"}
        others = Featurizer().read([t for t in texts if t != text], descriptors=True)
        assert left.rows.tolist() == [k for k in range(4) if k != number]
        assert set(left.unseen) == ({2} if text != "[He]" else set())
        for name in ("sizes", "atom_categories", "bonds", "bond_categories", "descriptors"):
            np.testing.assert_array_equal(getattr(left, name), getattr(others, name))


def test_explicit_hydrogens():
    graph = Featurizer(explicit_hydrogens=True)("C")
    assert graph.atom_categories[:, ATOM["element"]].tolist() == [VOCABULARY.index("C")] + [0] * 4
    assert graph.atom_categories[:, ATOM["hydrogens"]].tolist() == [4, 0, 0, 0, 0]
    assert graph.bonds.tolist() == [[0, 1], [0, 2], [0, 3], [0, 4]]


def test_a_long_peptide():
    residues = ["C", "CC(C)C", "CO", "Cc1ccccc1", "Cc1c[nH]c2ccccc12"]
    text = "".join(f"N[C@@H]({residues[k % 5]})C(=O)" for k in range(500)) + "O"
    graph = Featurizer()(text)
    assert len(graph.atom_categories) == 4401
    assert graph.atom_categories[:, ATOM["cip"]].astype(bool).sum() == 500


@pytest.mark.parametrize("hydrogens", [False, True])
def test_settings_round_trip(hydrogens):
    featurizer = Featurizer(explicit_hydrogens=hydrogens)
    assert Featurizer.from_dict(json.loads(json.dumps(featurizer.to_dict()))) == featurizer


def test_settings_of_older_models_are_read():
    older = {"explicit_hydrogens": True, "contributions": False, "version": 2}
    assert Featurizer.from_dict(older) == Featurizer(explicit_hydrogens=True)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"explicit_hydrogens": True, "colour": "red"}, "unknown featuriser settings colour"),
        ({"contributions": True}, "unknown featuriser settings contributions"),
        ({"version": 99}, "these features are version 99, this gad makes version 2"),
        ({"explicit_hydrogens": "no"}, "explicit_hydrogens is true or false, not 'no'"),
    ],
)
def test_settings_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        Featurizer.from_dict(settings)


@pytest.mark.slow
def test_stereo_labels_do_not_depend_on_rdkits_perception():
    """RDKit has two perceptions of stereochemistry, chosen for the whole process."""
    program = (
        "from rdkit import Chem; Chem.SetUseLegacyStereoPerception(False)\n"
        "from gad.chem import Featurizer\n"
        "for text in ('N[C@@H](C)C(=O)O', 'F/C=C/F', 'F/C=C\\\\F', 'C[C@H](O)CC'):\n"
        "    graph = Featurizer()(text)\n"
        "    print(graph.atom_categories.tolist(), graph.bond_categories.tolist())\n"
    )
    expected = [
        f"{graph.atom_categories.tolist()} {graph.bond_categories.tolist()}"
        for graph in map(Featurizer(), ("N[C@@H](C)C(=O)O", "F/C=C/F", "F/C=C\\F", "C[C@H](O)CC"))
    ]
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == expected


def test_zinc_graphs_have_the_published_sizes(data_dir):
    with np.load(data_dir / "zinc12k" / "zinc12k.npz") as arrays:
        sizes = np.diff(arrays["val_node_ptr"]), np.diff(arrays["val_edge_ptr"])
    path = data_dir / "zinc12k" / "zinc12k_smiles.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts = {int(r["row"]): r["smiles"] for r in csv.DictReader(file) if r["split"] == "val"}
    featurizer = Featurizer()
    for row in range(0, 1000, 5):
        graph = featurizer(texts[row])
        assert (len(graph.atom_categories), len(graph.bonds)) == (sizes[0][row], sizes[1][row])
