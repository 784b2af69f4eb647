"""Reading molecules: what RDKit reads is read, all else is a MoleculeError with a reason."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem
from rdkit.Chem import rdDistGeom

from gad.chem import MoleculeError, canonical, parse, parse_block, quiet
from gad.chem.molecule import MAX_ATOMS, MAX_CHARACTERS, usable
from tests.chem.real import IMPOSSIBLE, real

ETHANOL = Chem.MolToMolBlock(Chem.MolFromSmiles("CCO"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("CF(C)C", "Explicit valence for atom # 1 F, 3, is greater than permitted"),
        ("c1cccc1", "Can't kekulize mol. Unkekulized atoms: 0 1 2 3 4"),
        ("CC(", "SMILES Parse Error: syntax error while parsing: CC( (check for mistakes around"),
        ("C1CC", "SMILES Parse Error: unclosed ring for input: 'C1CC'"),
        ("CC>>CC", "SMILES Parse Error: syntax error"),
        ("CCO |^9:0|", "RDKit cannot read what follows the SMILES: |^9:0|"),
        ("", "the SMILES is empty"),
        (" \t\n", "the SMILES is empty"),
        ("C\0C", "the SMILES has the character '\\x00' in it"),
        ("\ud800", "the SMILES has the character '\\ud800' in it"),
        ("CéC méthane", "the SMILES has the character 'é' in it"),
        (None, "a SMILES is text, not None"),
        (math.nan, "a SMILES is text, not nan"),
        (b"CCO", "a SMILES is text, not b'CCO'"),
        ("x" * 1_000_000, "the SMILES has 1,000,000 characters; at most 30,000 are read"),
        ("C" * (MAX_ATOMS + 1), "the molecule has 10,001 atoms; at most 10,000 are read"),
        ("(" * MAX_CHARACTERS, "SMILES Parse Error: syntax error"),
        ("*" + "(C)" * 3000, "Pre-condition Violation: getValence"),
        ("C" * 300 + "Q", "(check for mistakes around position 301)"),
    ],
)
def test_reason(text, reason):
    with pytest.raises(MoleculeError) as caught:
        parse(text)
    message = str(caught.value)
    assert reason in message
    assert "\n" not in message
    assert len(message) < 300


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("CCO ethanol", "CCO"),
        ("CCO\tethanol\n", "CCO"),
        ("  CCO", "CCO"),
        ("CCO |$;;oxygen$|", "CCO"),
        ("CCO " + "x" * MAX_CHARACTERS, "CCO"),
        ("[H]C([H])([H])C", "CC"),
        ("[Na+].[Cl-]", "[Cl-].[Na+]"),
        ("[2H]C", "[2H]C"),
        ("[He]", "[He]"),
        ("*C", "*C"),
        ("[NH3]->[Cu+2]", "[Cu+2]<-[NH3]"),
    ],
)
def test_reads_what_rdkit_reads(text, meaning):
    assert canonical(parse(text)) == Chem.MolToSmiles(Chem.MolFromSmiles(meaning))


def told(mol):
    """What there is to know of a molecule that a quicker reading could lose."""
    atoms = [
        (a.GetSymbol(), a.GetIsotope(), a.GetFormalCharge(), a.GetTotalNumHs(), a.GetIsAromatic())
        for a in mol.GetAtoms()
    ]
    atoms += [
        (a.GetChiralTag(), a.GetNumRadicalElectrons(), a.GetPropsAsDict().get("_CIPCode"))
        for a in mol.GetAtoms()
    ]
    bonds = [(b.GetBondType(), b.GetStereo(), b.GetIsConjugated()) for b in mol.GetBonds()]
    return atoms, bonds, Chem.MolToSmiles(mol)


def test_nothing_is_lost_by_reading_quickly():
    for text, mol in real():
        assert told(parse(text)) == told(mol), text


@given(st.one_of(st.text(max_size=30), st.text("CNOPSclnos()[]=#123%+-@/\\.H*~:$ |", max_size=30)))
def test_any_text_is_a_molecule_or_a_molecule_error(text):
    try:
        assert parse(text).GetNumAtoms() > 0
    except MoleculeError as error:
        assert str(error)  # noqa: PT017


@given(st.lists(st.tuples(st.integers(0, len(ETHANOL) - 1), st.characters()), max_size=3))
def test_any_damaged_block_is_a_molecule_or_a_molecule_error(changes):
    text = list(ETHANOL)
    for place, character in changes:
        text[place] = character
    try:
        assert parse_block("".join(text)).GetNumAtoms() > 0
    except MoleculeError as error:
        assert str(error)  # noqa: PT017


def test_the_log_is_silent_and_then_as_before(capfd):
    with pytest.raises(MoleculeError):
        parse("CC(")
    with pytest.raises(MoleculeError):
        parse_block("x\n\n\n")
    with quiet, quiet:
        assert Chem.MolFromSmiles("CC(") is None
    parse("[H]")
    assert capfd.readouterr().err == ""
    assert Chem.MolFromSmiles("CC(") is None
    assert "SMILES Parse Error" in capfd.readouterr().err


def test_threads_get_their_own_reasons():
    def reason(length):
        with pytest.raises(MoleculeError) as caught:
            parse("C" * length + "(")
        return str(caught.value)

    lengths = [1 + k % 7 for k in range(1000)]
    with ThreadPoolExecutor(4) as pool:
        for length, message in zip(lengths, pool.map(reason, lengths), strict=True):
            assert f"parsing: {'C' * length}( (check" in message
            assert message.endswith(f"position {length + 1})")


def test_block():
    assert canonical(parse_block(ETHANOL)) == "CCO"
    assert canonical(parse_block(ETHANOL + "> <logS>\n1.1\n\n$$$$\n")) == "CCO"
    assert canonical(parse_block(Chem.MolToV3KMolBlock(parse("c1ccccc1[O-]")))) == "[O-]c1ccccc1"


def test_block_with_hydrogens_and_coordinates_keeps_its_stereochemistry():
    text = "C[C@@H](O)/C=C/Cl"
    mol = Chem.AddHs(parse(text))
    assert rdDistGeom.EmbedMolecule(mol, randomSeed=1) == 0
    block = Chem.MolToMolBlock(mol)
    assert canonical(parse_block(block)) == canonical(parse(text))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the mol block is empty"),
        (None, "a mol block is text, not None"),
        ("\0", "the mol block has a NUL character in it"),
        ("nonsense", "RDKit cannot read it as a mol block"),
        ("x\n\n\n", "Counts line too short"),
        (ETHANOL.replace(" C  ", " Qq ", 1), "Element 'Qq' not found"),
        (ETHANOL.replace(" C  ", " F  "), "Explicit valence for atom # 1 F, 2, is greater"),
        (ETHANOL[:150], "EOF"),
        ("\n\n\n  0  0  0  0  0  0  0  0  0  0999 V2000\nM  END\n", "the molecule has no atoms"),
    ],
)
def test_block_reason(text, reason):
    with pytest.raises(MoleculeError) as caught:
        parse_block(text)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_raw_molecule_is_completed_on_a_copy():
    raw = Chem.MolFromSmiles("C[C@H](O)c1ccccc1", sanitize=False)
    made = usable(raw)
    assert canonical(made) == canonical(parse("C[C@H](O)c1ccccc1"))
    assert raw.NeedsUpdatePropertyCache()
    with pytest.raises(MoleculeError, match="Explicit valence"):
        usable(Chem.MolFromSmiles("CF(C)C", sanitize=False))
    with pytest.raises(MoleculeError, match="no atoms"):
        usable(Chem.Mol())


@pytest.mark.parametrize("text", IMPOSSIBLE)
def test_real_rejects(text):
    with pytest.raises(MoleculeError, match="Explicit valence for atom"):
        parse(text)
