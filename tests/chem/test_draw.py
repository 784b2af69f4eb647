"""Drawings: well-formed, self-contained, of the asked size, with the asked colours."""

from __future__ import annotations

import re
import struct
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from rdkit import Chem

from gad.chem import Featurizer, MoleculeError, draw, draw_grid, parse
from gad.chem.draw import NEGATIVE, POSITIVE, layout

TEXT = "{http://www.w3.org/2000/svg}text"


def size_of(png):
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", png[16:24])


def fills(svg):
    """Fill colours of the discs, as (red, green, blue) in 0 … 255."""
    found = re.findall(rb"<ellipse[^>]*fill:#([0-9A-Fa-f]{6})", svg)
    return [tuple(bytes.fromhex(colour.decode())) for colour in found]


@pytest.mark.parametrize("values", [None, [-1, 0.5, 2], [0, 0, 0], [0, 1, 2], [-3, -2, 0]])
def test_svg_and_png(values):
    svg = draw("CCO", values=values, legend="ethanol", size=(300, 200))
    root = ET.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.attrib["width"] == "300px"
    assert root.attrib["height"] == "200px"
    assert b"href" not in svg
    assert [text.text for text in root.iter(TEXT)] == ["ethanol"]
    assert size_of(draw("CCO", values=values, size=(300, 200), format="png")) == (300, 200)


def test_captions_are_unicode_and_escaped():
    legend = "−1.2 ± 0.3 <b> & Å"
    root = ET.fromstring(draw("CCO", legend=legend))
    assert [text.text for text in root.iter(TEXT)] == [legend]
    assert size_of(draw("CCO", legend=legend, format="png")) == (420, 320)


def test_captions_stand_below_the_molecule():
    svg = draw("CC(=O)Oc1ccccc1C(=O)O", legend="aspirin", size=(200, 300))
    root = ET.fromstring(svg)
    (caption,) = root.iter(TEXT)
    top = float(caption.attrib["y"]) - float(caption.attrib["font-size"])
    paths = [path.attrib["d"] for path in root.iter("{http://www.w3.org/2000/svg}path")]
    lowest = max(float(y) for d in paths for y in re.findall(r"[ML] [\d.-]+[ ,]([\d.-]+)", d))
    assert 0 < lowest < top


def test_signs_have_their_colours():
    blue, white, vermilion = fills(draw("CCO", values=[-1, 0, 1]))
    assert white == (255, 255, 255)
    assert blue[2] > blue[0]
    assert vermilion[0] > vermilion[2]
    for colour, end in ((blue, NEGATIVE), (vermilion, POSITIVE)):
        for channel, target in zip(colour, end, strict=True):
            assert abs(channel / 255 - (1 - 0.9 * (1 - target))) < 0.01
    # The scale is symmetric, so half of the largest is half as far from white.
    half = fills(draw("CCO", values=[-0.5, 0, 1]))[0]
    assert abs((255 - half[0]) - (255 - blue[0]) / 2) <= 1


def test_discs_follow_the_atoms_of_the_molecule():
    mol = Chem.AddHs(parse("C"))
    assert len(fills(draw(mol, values=[1.0, 0.1, 0.1, 0.1, 0.1]))) == 5
    assert fills(draw(mol)) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"values": [1, 2]}, "2 values for 3 atoms"),
        ({"values": [1, 2, float("nan")]}, "not a finite number"),
        ({"format": "gif"}, "svg or png, not 'gif'"),
    ],
)
def test_refusals(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        draw("CCO", **arguments)


def test_what_cannot_be_drawn():
    with pytest.raises(MoleculeError, match="syntax error"):
        draw("CC(")
    with pytest.raises(MoleculeError, match="600 atoms are too many to draw"):
        draw("C" * 600)


def test_drawing_leaves_the_molecule_alone():
    mol = parse("c1ccccc1")
    draw(mol)
    assert mol.GetNumConformers() == 0
    assert mol.GetBondWithIdx(0).GetIsAromatic()


def test_grid():
    cells = [("CCO", "ethanol"), ("CC(", "unreadable"), (parse("C"), "méthane"), ("N", "")]
    root = ET.fromstring(draw_grid(cells, columns=3, size=(100, 80)))
    assert (root.attrib["width"], root.attrib["height"]) == ("300px", "160px")
    places = {t.text: (t.attrib["x"], t.attrib["y"]) for t in root.iter(TEXT)}
    assert places == {
        "ethanol": ("50.0", "72.0"),
        "unreadable": ("150.0", "72.0"),
        "méthane": ("250.0", "72.0"),
    }
    assert ET.fromstring(draw_grid([])).tag.endswith("svg")


def test_close_atoms_are_not_ringed():
    """RDKit would draw red rings where the atoms of a long molecule come close."""
    assert b"#FF0000" not in draw("C" * 80, size=(120, 80)).upper()


@pytest.mark.parametrize("hydrogens", [False, True])
@pytest.mark.parametrize("smiles", ["CC(=O)[O-].[Na+]", "c1ccc2ccccc2c1", "C#N", "[2H]C([2H])O"])
def test_layout_is_of_the_graph_that_is_learned_from(smiles, hydrogens):
    flat = layout(smiles, explicit_hydrogens=hydrogens)
    graph = Featurizer(explicit_hydrogens=hydrogens)(smiles)
    assert len(flat.places) == len(flat.symbols) == len(graph.atom_categories)
    assert sorted((i, j) for i, j, _ in flat.bonds) == sorted(map(tuple, graph.bonds.tolist()))
    lengths = [np.linalg.norm(flat.places[i] - flat.places[j]) for i, j, _ in flat.bonds]
    assert np.mean(lengths) == pytest.approx(1)
    apart = np.linalg.norm(flat.places[:, None] - flat.places, axis=-1)
    assert (apart + np.eye(len(apart))).min() > 0.3


def test_layout_names_what_is_no_plain_carbon():
    assert layout("CC(=O)[O-].[Na+]").symbols == ("", "", "O", "O-", "Na+")
    assert layout("C").symbols == ("C",)
    assert layout("[Fe+3]").symbols == ("Fe3+",)
    assert sorted(order for *_, order in layout("C#CC=C").bonds) == [1, 2, 3]
    assert sorted(order for *_, order in layout("c1ccccc1").bonds) == [1, 1, 1, 2, 2, 2]
