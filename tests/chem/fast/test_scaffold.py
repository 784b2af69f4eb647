"""Scaffolds: RDKit's, in time proportional to the molecule."""

from __future__ import annotations

import pytest
from rdkit import Chem

from gad.chem import parse, scaffold
from tests.chem.real import real


def test_scaffold_is_rdkits():
    for _, mol in real():
        frame = Chem.MurckoDecompose(Chem.RemoveHs(mol))
        assert scaffold(mol) == Chem.MolToSmiles(frame, isomericSmiles=False)


def test_scaffold_of_a_protein():
    text = "N[C@@H](Cc1ccccc1)C(=O)" * 400 + "O"
    assert scaffold(parse(text)).count("c1ccccc1") == 400


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CCO", ""),
        ("[Na+].[Cl-]", ""),
        ("CC(=O)Oc1ccccc1C(=O)O", "c1ccccc1"),
        ("Cn1cccc1", "c1cc[nH]c1"),
        ("C[C@H]1CC[C@@H](C)CC1", "C1CCCCC1"),
        ("O=C1CCCC1", "O=C1CCCC1"),
        ("CC(C)Cc1ccc(Cc2ccncc2)cc1", "c1ccc(Cc2ccncc2)cc1"),
    ],
)
def test_scaffold(text, expected):
    assert scaffold(parse(text)) == expected
    assert scaffold(Chem.AddHs(parse(text))) == expected
