"""Pieces of molecules: every atom in one of them, whatever the spelling."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem

from gad.chem import parse
from gad.chem.coloured import Panel, draw_coloured
from gad.chem.draw import shade
from gad.chem.fragments import fragments
from gad.data.known import load_esol
from tests.chem.test_draw import fills, size_of


@pytest.mark.parametrize(
    ("smiles", "names"),
    [
        ("CC(=O)Oc1ccccc1C(=O)O", {"acetoxy", "phenylene (1,2)", "carboxylic acid"}),
        ("O=[N+]([O-])c1ccccc1Cl", {"nitro", "phenylene (1,2)", "chlorine"}),
        ("CCCCO", {"methyl", "CH2", "CH2OH"}),
        ("c1ccccc1", {"benzene"}),
        ("[Na+].[Cl-]", {"[Na+]", "[Cl-]"}),
        ("C", {"C"}),
    ],
)
def test_pieces_have_their_names(smiles, names):
    assert {piece.name for piece in fragments(parse(smiles))} == names


def test_every_atom_is_in_one_piece_and_spelling_makes_no_difference():
    for smiles in load_esol().smiles[::40]:
        mol = parse(smiles)
        pieces = fragments(mol)
        atoms = [atom for piece in pieces for atom in piece.atoms]
        assert sorted(atoms) == list(range(mol.GetNumAtoms()))
        other = Chem.MolFromSmiles(Chem.MolToSmiles(mol, doRandom=True))
        again = sorted(piece.smiles for piece in fragments(other))
        assert again == sorted(piece.smiles for piece in pieces)


def test_one_scale_for_all_panels():
    panels = [Panel("C", [1.0], "methane"), Panel("O", [-0.5])]
    for largest in (1.0, 2.0):
        drawn = draw_coloured(panels, largest)
        expected = [tuple(round(255 * part) for part in shade(v / largest)) for v in (1.0, -0.5)]
        np.testing.assert_allclose(fills(drawn)[:2], expected, atol=1)
    assert b"methane" in drawn
    assert size_of(draw_coloured(panels, 1.0, size=(100, 90), bar=False, format="png")) == (200, 90)


def test_what_cannot_be_drawn_leaves_its_place_empty():
    drawn = draw_coloured([Panel("C" * 600, [0.0] * 600, "too large")], 1.0)
    assert b"too large" in drawn
    assert not fills(drawn)
    assert draw_coloured([], 1.0)[:4] == b"<svg"
