"""Names."""

from __future__ import annotations

import pytest
from rdkit import Chem

from gad.chem import canonical, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OCC", "CCO"),
        ("C1=CC=CC=C1", "c1ccccc1"),
        ("[H]O[H]", "O"),
        ("[2H]O[2H]", "[2H]O[2H]"),
        ("[Cl-].[Na+]", "[Cl-].[Na+]"),
        ("OC(=O)[C@H](C)N", "C[C@H](N)C(=O)O"),
    ],
)
def test_canonical(text, expected):
    assert canonical(parse(text)) == expected
    assert canonical(Chem.AddHs(parse(text))) == expected


def test_stereoisomers_have_different_names():
    for one, other in (("C[C@H](O)F", "C[C@@H](O)F"), ("F/C=C/F", "F/C=C\\F")):
        assert canonical(parse(one)) != canonical(parse(other))
