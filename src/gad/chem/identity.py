"""One name for all spellings of a molecule."""

from __future__ import annotations

from rdkit import Chem

from gad.chem.molecule import usable, without_hydrogens


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
