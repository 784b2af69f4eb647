"""What is worked out from few numbers is what RDKit would have answered to many questions."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdMolDescriptors

from gad.chem import QUICK_DESCRIPTOR_NAMES, parse, quiet
from gad.chem.fast import arrays, environments, raw
from gad.chem.fast.descriptors import quick_descriptors_of
from gad.chem.fast.environments import contributed
from tests.chem.real import real

_ODD = r"""
    N->B n1(->B)ccccc1 C~C C=C~C=C [NH3]->[Pt](<-[NH3])(Cl)Cl C12C3C4C5C1[Fe]23451678C2C1C6C7C28
    [2H]C([2H])([2H])c1ccccc1 CC(C)(C)N([O])C(C)(C)C C[CH2] [CH2]C=C *C=C* [cH+]1cccccc1 [O]C=C
    C=CC([O])=O C=C[S] C=CS(=O)C=C C=CP(C)C=C [N]=C=C C[N]C=C [B]C=C C=CB(O)O O=[N+]([O-])C=C
    N=[N+]=[N-] C=C=C C#CC=C C=C[Si](C)(C)C [SiH2]=C=C C=C[Se]C S=C(N)N [Se]=C(N)N C=C[Cl+]
    c1ccc2cccc2cc1 C[n+]1ccccc1 [O-][n+]1ccccc1 O=c1cc[nH]cc1 C[B-](C)(C)C=C [CH+]=C C=[CH-]
    [C-]#[O+] [H][H] [H+] C=C[PH2]=O C=C[AsH2] O=[Sn](C)C O=[SnH]C=C O=[Ge](O)O O=[Si](C)C=C
    C=C[Sn]C C=C[Mg]C C=C[SnH]=C O=[Pb]=O [Na+].[Cl-] [He] [Al](Cl)(Cl)Cl C12C3C4C1C5C4C3C25
    CNS#CNCO Cc1ccc2nc3sc(=O)sc3nc2c1 CC(=O)N=P(N1CCCCC1)(N1CCCCC1)C(C)(C)C C1CC1N1CC1 C1CO1
    C/N=c1\cccco1 c1ccccc1-c1ccccc1 CC#CCC C1CCC2(CC1)CCCO2 On1c(=O)cccc1C C[C@H](O)F
    F/C=C/F [Li+].[B-](F)(F)(F)F OO SS [O-][Cl+3]([O-])([O-])[O-] CC(=O)[O-] C[N+](C)(C)C O O=S=O
"""


def odd():
    with quiet:
        return [Chem.MolFromSmiles(text) for text in _ODD.split()]


@pytest.fixture(params=["odd", "real"])
def molecules(request):
    return odd() if request.param == "odd" else [mol for _, mol in real()]


def assert_rdkit_agrees(mols):
    found = arrays.read(mols)
    atoms = [atom for mol in mols for atom in mol.GetAtoms()]
    expected = {
        "number": [a.GetAtomicNum() for a in atoms],
        "charge": [a.GetFormalCharge() for a in atoms],
        "degree": [a.GetDegree() for a in atoms],
        "hydrogens": [a.GetTotalNumHs(True) for a in atoms],
        "aromatic": [a.GetIsAromatic() for a in atoms],
        "valence": [a.GetTotalValence() for a in atoms],
        "molecule": [k for k, mol in enumerate(mols) for _ in mol.GetAtoms()],
    }
    for name, values in expected.items():
        np.testing.assert_array_equal(getattr(found, name), values, err_msg=name)

    bonds, rings = [], []
    for mol, start in zip(mols, found.starts.tolist(), strict=True):
        info = mol.GetRingInfo()
        rings += [info.MinAtomRingSize(k) for k in range(mol.GetNumAtoms())]
        for bond in mol.GetBonds():
            ends = sorted((start + bond.GetBeginAtomIdx(), start + bond.GetEndAtomIdx()))
            types = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC", "DATIVE", bond.GetBondType().name)
            kind = types.index(bond.GetBondType().name)
            ring = info.MinBondRingSize(bond.GetIdx())
            bonds.append((*ends, kind, bond.GetIsConjugated(), ring))
    np.testing.assert_array_equal(found.smallest_ring[0], rings)
    table = [*found.ends, found.kind, found.conjugated, found.smallest_ring[1]]
    np.testing.assert_array_equal(np.stack(table, axis=1), sorted(bonds))


def test_atoms_and_bonds(molecules):
    assert_rdkit_agrees(molecules)


def test_bonds_are_the_same_from_a_matrix_and_from_a_list(monkeypatch):
    mols = [*odd(), *(mol for _, mol in real(200))]
    expected = arrays.read(mols)
    monkeypatch.setattr(raw, "_LARGE", 0)
    found = arrays.read(mols)
    for name in ("ends", "kind", "idle"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert_rdkit_agrees(mols)


def test_quick_descriptors(molecules):
    found = dict(
        zip(QUICK_DESCRIPTOR_NAMES, quick_descriptors_of(arrays.read(molecules)).T, strict=True)
    )
    functions = {
        "polar_area": rdMolDescriptors.CalcTPSA,
        "area": rdMolDescriptors.CalcLabuteASA,
        "weight": rdMolDescriptors._CalcMolWt,
        "heavy_atoms": Chem.Mol.GetNumHeavyAtoms,
        "heteroatoms": rdMolDescriptors.CalcNumHeteroatoms,
        "donors": rdMolDescriptors.CalcNumLipinskiHBD,
        "acceptors": rdMolDescriptors.CalcNumLipinskiHBA,
        "rotatable_bonds": lambda mol: rdMolDescriptors.CalcNumRotatableBonds(mol, False),
        "rings": rdMolDescriptors.CalcNumRings,
        "aromatic_rings": rdMolDescriptors.CalcNumAromaticRings,
        "heterocycles": rdMolDescriptors.CalcNumHeterocycles,
        "saturated_rings": rdMolDescriptors.CalcNumSaturatedRings,
        "fraction_sp3": rdMolDescriptors.CalcFractionCSP3,
        "charge": Chem.GetFormalCharge,
    }
    crippen = np.array([rdMolDescriptors.CalcCrippenDescriptors(mol) for mol in molecules])
    expected = {name: [f(mol) for mol in molecules] for name, f in functions.items()}
    expected["logp"], expected["refractivity"] = crippen.T
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, atol=1e-9, err_msg=name)


def test_logp_does_not_depend_on_what_was_read_before(monkeypatch):
    """Equal surroundings, equal values: the first to come may not decide for the others."""
    read = [arrays.read([mol]) for mol in odd()]
    orders = [range(len(read)), reversed(range(len(read)))]
    results = []
    for order in orders:
        monkeypatch.setattr(environments, "_known", environments._Known())
        values = {k: contributed(read[k]) for k in order}
        results.append(np.concatenate([values[k] for k in range(len(read))]))
    np.testing.assert_array_equal(*results)


def test_logp_of_a_long_chain_is_the_sum_of_its_links():
    """RDKit's own stops at a thousand matches of a pattern, wherever the numbering put them."""
    logp = [contributed(arrays.read([parse("C" * n)])).sum(axis=0) for n in (10, 11, 700)]
    np.testing.assert_allclose(logp[2], logp[0] + 690 * (logp[1] - logp[0]))
