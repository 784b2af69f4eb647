"""The promise: one molecule gives one graph, one name, one scaffold, however it is written."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem

from gad.chem import Featurizer, MoleculeGraph, canonical, parse, scaffold
from tests.chem.real import real

FEATURIZERS = [
    Featurizer(),
    Featurizer(explicit_hydrogens=True),
]

C60 = (
    "c12c3c4c5c1c1c6c7c2c2c8c3c3c9c4c4c%10c5c5c1c1c6c6c%11c7c2c2c7c8c3c3c8c9c4c4c9c%10c5c5c1c1c6c6c"
    "%11c2c2c7c3c3c8c4c4c9c5c1c1c6c2c3c41"
)

SYMMETRIC = {
    "benzene": "c1ccccc1",
    "methane": "C",
    "neopentane": "CC(C)(C)C",
    "cubane": "C12C3C4C1C5C4C3C25",
    "dodecahedrane": "C12C3C4C5C1C6C7C2C8C3C9C4C1C5C6C2C7C8C9C12",
    "adamantane": "C1C2CC3CC1CC(C2)C3",
    "fullerene": C60,
    "ferrocene": "[Fe+2].c1cc[cH-]c1.c1cc[cH-]c1",
    "ferrocene with bonds": "C12C3C4C5C1[Fe]23451678C2C1C6C7C28",
    "coronene": "c1cc2ccc3ccc4ccc5ccc6ccc1c7c2c3c4c5c67",
    "porphine": "c1cc2cc3ccc(cc4ccc(cc5ccc(cc1n2)[nH]5)n4)[nH]3",
    "azulene": "c1ccc2cccc2cc1",
    "pentalene": "C1=CC2=CC=CC2=C1",
    "tropylium": "[cH+]1cccccc1",
    "tartaric acid, meso": "O[C@H](C(=O)O)[C@@H](O)C(=O)O",
    "dimethylcyclohexane, cis": "C[C@H]1CC[C@@H](C)CC1",
    "lindane": "Cl[C@H]1[C@H](Cl)[C@@H](Cl)[C@H](Cl)[C@H](Cl)[C@H]1Cl",
    "hexadiene": "C/C=C/C=C\\C",
    "a salt": "[Na+].[Na+].[O-]S(=O)(=O)[O-]",
    "a complex": "[NH3]->[Cu+2](<-[NH3])(<-[NH3])<-[NH3]",
    "cisplatin": "[NH3]->[Pt](<-[NH3])(Cl)Cl",
    "deuterated": "[2H]C([2H])([2H])c1ccccc1",
    "a radical": "CC(C)(C)N([O])C(C)(C)C",
    "imines of aromatic rings": "C/N=c1\\scc(C)n1/N=C/c1sccc1C",
}


def spellings(mol, count):
    """The molecule in many SMILES: from any atom, in any order; and with Kekulé's bonds."""
    kekule = Chem.Mol(mol)
    Chem.Kekulize(kekule, clearAromaticFlags=True)
    return [
        *Chem.MolToRandomSmilesVect(mol, count, randomSeed=7),
        *Chem.MolToRandomSmilesVect(kekule, 2, randomSeed=7),
    ]


def profile(graph):
    """Rows of atoms, and of bonds with those of their ends, sorted."""
    rows = [tuple(row) for row in graph.atom_categories.tolist()]
    ends = [tuple(sorted((rows[i], rows[j]))) for i, j in graph.bonds.tolist()]
    bonds = zip(ends, map(tuple, graph.bond_categories.tolist()), strict=True)
    return sorted(rows), sorted(bonds)


def sorted_values(graph):
    """Values, sorted within each column among atoms of equal categories."""
    rows = [tuple(row) for row in graph.atom_categories.tolist()]
    columns = graph.atom_values.T.tolist()
    return np.array([[v for _, v in sorted(zip(rows, column, strict=True))] for column in columns])


def each_graph(featurizer, texts):
    many = featurizer.read(texts)
    assert not many.rejects
    ends = many.sizes.cumsum()
    of_bond = np.searchsorted(ends, many.bonds[:, 0], side="right")
    for k, (end, size) in enumerate(zip(ends, many.sizes, strict=True)):
        atoms, bonds = slice(end - size, end), of_bond == k
        yield MoleculeGraph(
            many.atom_categories[atoms],
            many.atom_values[atoms],
            many.bonds[bonds] - end + size,
            many.bond_categories[bonds],
        )


def assert_one_graph(featurizer, texts):
    first, *others = each_graph(featurizer, texts)
    for text, graph in zip(texts[1:], others, strict=True):
        assert profile(graph) == profile(first), text
        np.testing.assert_allclose(
            sorted_values(graph), sorted_values(first), atol=1e-5, err_msg=text
        )


@pytest.mark.parametrize("featurizer", FEATURIZERS, ids=str)
@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_molecules(name, featurizer):
    mol = parse(SYMMETRIC[name])
    assert_one_graph(featurizer, [SYMMETRIC[name], *spellings(mol, 20)])


@pytest.mark.slow
def test_real_molecules():
    for text, mol in real(480):
        assert_one_graph(FEATURIZERS[0], [text, *spellings(mol, 20)])


@pytest.mark.slow
def test_real_molecules_with_hydrogens():
    for text, mol in real(240):
        assert_one_graph(FEATURIZERS[1], [text, *spellings(mol, 4)])


@pytest.mark.slow
def test_real_names():
    for _, mol in real(480):
        texts = spellings(mol, 5)
        assert {canonical(parse(text)) for text in texts} == {canonical(mol)}
        assert {scaffold(parse(text)) for text in texts} == {scaffold(mol)}


@pytest.mark.parametrize("featurizer", FEATURIZERS, ids=str)
def test_a_changed_molecule_is_noticed(featurizer):
    """The comparison above can fail: an isomer, an enantiomer, E for Z."""
    for one, other in (("CCO", "COC"), ("C[C@H](O)F", "C[C@@H](O)F"), ("F/C=C/F", "F/C=C\\F")):
        with pytest.raises(AssertionError):
            assert_one_graph(featurizer, [one, other])
