"""Molecules out of RDKit's binary form, as RDKit answers when it is asked atom by atom."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from rdkit import Chem

from gad import native
from gad.chem import parse_block, quiet
from gad.chem.fast import raw
from gad.chem.fast.arrays import read
from tests.chem.fast.test_arrays import odd
from tests.chem.real import real

pytestmark = pytest.mark.skipif(not native.status().active, reason=native.status().reason)

QUERIES = ("C~C", "C=C~C=C")


def assert_as_asked(found: raw.Raw, molecules: list[Chem.Mol]) -> None:
    expected = raw.asked(molecules)
    for field in fields(raw.Raw):
        values, those = getattr(found, field.name), getattr(expected, field.name)
        assert values.dtype == those.dtype
        if field.name.startswith("marked"):  # few may have a label; asked, all of them may
            assert not (values & ~those).any()
        else:
            np.testing.assert_array_equal(values, those, err_msg=field.name)


def test_this_rdkit_is_understood():
    assert raw._is_understood()


def test_whatever_the_molecules():
    molecules = [*odd(), *(mol for _, mol in real()), *odd()]
    assert_as_asked(raw.raw(molecules), molecules)


@pytest.mark.parametrize("text", ["C" * 255, "C" * 256, "C" * 300 + "O", "C1CC1." * 80 + "N"])
def test_large_molecules(text):
    molecules = [Chem.MolFromSmiles(t) for t in ("CO", text, "CN")]
    assert_as_asked(raw.raw(molecules), molecules)


def test_only_what_is_not_understood_is_asked(monkeypatch):
    with quiet:
        molecules = [Chem.MolFromSmiles(t) for t in (*QUERIES, "CCO", QUERIES[0], "c1ccccc1", "N")]
    asked = raw.asked
    seen = []
    monkeypatch.setattr(raw, "asked", lambda some: (seen.extend(some), asked(some))[1])
    found = raw.raw(molecules)
    assert len(seen) == 3
    monkeypatch.undo()
    assert_as_asked(found, molecules)


def test_labels_are_those_of_all_atoms():
    molecules = [mol for _, mol in real()]
    texts = ("C[C@H](N)C(=O)O", r"C/C=C/[C@@H](F)O", r"F/C=C\Cl", "C[S@](=O)CC", "CCO")
    molecules += map(Chem.MolFromSmiles, texts)
    fast = read(molecules)
    with native.plain():
        plain = read(molecules)
    assert fast.label.any()
    assert fast.bond_label.any()
    np.testing.assert_array_equal(fast.label, plain.label)
    np.testing.assert_array_equal(fast.bond_label, plain.bond_label)


def test_a_mol_block_with_coordinates():
    mol = Chem.AddHs(Chem.MolFromSmiles("CC(=O)N"))
    molecules = [parse_block(Chem.MolToMolBlock(mol))]
    assert_as_asked(raw.raw(molecules), molecules)


def test_damaged_bytes_are_not_understood_but_never_read_past():
    rng = np.random.default_rng(0)
    whole = Chem.MolFromSmiles(r"C/C=C/[C@@H]([NH3+])c1ccc2[nH]ccc2c1.[CH3:200]*").ToBinary(0)
    end = whole.index(b"\x42") + 1  # the rings
    for length in range(end):
        assert raw._in_c([whole[:length]]).sizes.size == 0
    for _ in range(500):
        text = bytearray(whole)
        text[rng.integers(len(text))] = rng.integers(256)
        found = raw._in_c([bytes(text)])
        assert (found.ends < found.number.size).all()
        assert (found.ring_atoms < found.number.size).all()


def test_another_format_is_asked():
    text = bytearray(Chem.MolFromSmiles("CCO").ToBinary(0))
    text[8] += 1
    assert raw._in_c([bytes(text)]).sizes.size == 0


def test_no_molecules():
    assert raw.raw([]).ends.shape == (2, 0)
