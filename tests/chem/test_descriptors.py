"""Descriptors: the right numbers for aspirin, finite numbers for all."""

from __future__ import annotations

import numpy as np
import pytest

from gad.chem import (
    DESCRIPTOR_NAMES,
    QUICK_DESCRIPTOR_NAMES,
    descriptors,
    parse,
    quick_descriptors,
)

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"


def test_aspirin():
    values = dict(zip(DESCRIPTOR_NAMES, descriptors(parse(ASPIRIN)), strict=True))
    assert values["MolLogP"] == pytest.approx(1.3101)
    assert values["MolWt"] == pytest.approx(180.159)
    assert values["TPSA"] == pytest.approx(63.60)
    assert values["NumHDonors"] == 1
    assert values["RingCount"] == 1


def test_aspirin_quickly():
    values = dict(zip(QUICK_DESCRIPTOR_NAMES, quick_descriptors(parse(ASPIRIN)), strict=True))
    assert values["logp"] == pytest.approx(1.3101)
    assert values["refractivity"] == pytest.approx(44.7103)
    assert values["polar_area"] == pytest.approx(63.60)
    assert values["weight"] == pytest.approx(180.159)
    assert values["heavy_atoms"] == 13
    assert values["heteroatoms"] == 4
    assert values["donors"] == 1
    assert values["acceptors"] == 4
    assert values["rings"] == values["aromatic_rings"] == 1
    assert values["heterocycles"] == values["saturated_rings"] == values["charge"] == 0
    assert values["fraction_sp3"] == pytest.approx(1 / 9)


@pytest.mark.parametrize(
    "text",
    ["[Fe]", "*", "[Na+].[Cl-]", "[2H]C", "[He]", "C" * 600, "c1ccccc1" * 30, "[Al](Cl)(Cl)Cl"],
)
@pytest.mark.parametrize(
    ("function", "names"),
    [(descriptors, DESCRIPTOR_NAMES), (quick_descriptors, QUICK_DESCRIPTOR_NAMES)],
)
def test_finite(text, function, names):
    values = function(parse(text))
    assert values.shape == (len(names),)
    assert values.dtype == np.float64
    assert np.isfinite(values).all()
    assert np.abs(values).max() <= 1e6


def test_large_molecules_keep_the_descriptors_that_are_quick():
    values = dict(zip(DESCRIPTOR_NAMES, descriptors(parse("C" * 600)), strict=True))
    assert values["MolWt"] == pytest.approx(600 * 12.011 + 1202 * 1.008)
    assert values["NumRotatableBonds"] == 597
    assert values["BertzCT"] == values["Chi0"] == values["MaxEStateIndex"] == 0


def test_names_are_distinct():
    assert len(set(DESCRIPTOR_NAMES)) == len(DESCRIPTOR_NAMES) > 200
    assert len(set(QUICK_DESCRIPTOR_NAMES)) == len(QUICK_DESCRIPTOR_NAMES)
