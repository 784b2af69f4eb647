"""Wildman and Crippen's logP, which is a sum over atoms: explanations with a known truth."""

from __future__ import annotations

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdMolDescriptors


def contributions(text: str) -> np.ndarray:
    """Crippen's contributions to logP, those of hydrogens added to their atom."""
    mol = Chem.MolFromSmiles(text)
    full = Chem.AddHs(mol)
    each = np.array([pair[0] for pair in rdMolDescriptors._CalcCrippenContribs(full)])
    own = each[: mol.GetNumAtoms()].copy()
    for atom in list(full.GetAtoms())[mol.GetNumAtoms() :]:
        own[atom.GetNeighbors()[0].GetIdx()] += each[atom.GetIdx()]
    return own
