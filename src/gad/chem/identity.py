"""One name for all spellings of a molecule, and one for all molecules on the same frame."""

from __future__ import annotations

from rdkit import Chem

from gad.chem.molecule import quiet, usable, without_hydrogens


def canonical(mol: Chem.Mol) -> str:
    """RDKit's canonical isomeric SMILES: the same for every way to write the molecule.

    Hydrogens that are drawn as atoms make no difference. (The known exception: rings whose
    stereocentres depend on one another, such as some hexachlorocyclohexanes. Of the 19,000
    molecules of AqSolDB, Tox21, BBBP and ESOL, one has two names.)

    >>> from gad.chem import parse
    >>> canonical(parse("OCC")), canonical(parse("C([H])([H])([H])CO"))
    ('CCO', 'CCO')
    """
    return Chem.MolToSmiles(without_hydrogens(usable(mol)))


def scaffold(mol: Chem.Mol) -> str:
    """The Bemis–Murcko scaffold, rings and what links them, as a SMILES without stereochemistry.

    ``""`` for a molecule without rings.

    >>> from gad.chem import parse
    >>> scaffold(parse("CC(=O)Oc1ccccc1C(=O)O")), scaffold(parse("CCO"))
    ('c1ccccc1', '')
    """
    with quiet:
        frame = Chem.MurckoDecompose(without_hydrogens(usable(mol)))
        return Chem.MolToSmiles(frame, isomericSmiles=False)
