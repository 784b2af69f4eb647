"""The frame of a molecule in time proportional to its size; RDKit takes minutes for a protein."""

from __future__ import annotations

from itertools import repeat

from rdkit import Chem
from rdkit.Chem import Bond

from gad.chem.molecule import usable, without_hydrogens


def scaffold(mol: Chem.Mol) -> str:
    """The Bemis–Murcko scaffold as a SMILES without stereochemistry; "" without rings.

    Rings, the chains between them, and what is double-bonded to either: RDKit's own definition, but
    in time proportional to the molecule (RDKit's needs minutes for a protein).

    >>> from gad.chem import parse
    >>> scaffold(parse("CC(=O)Oc1ccccc1C(=O)O")), scaffold(parse("CCO"))
    ('c1ccccc1', '')
    """
    mol = without_hydrogens(usable(mol))
    if not mol.GetRingInfo().NumRings():
        return ""
    bonds = list(map(mol.GetBondWithIdx, range(mol.GetNumBonds())))
    begin, end = map(Bond.GetBeginAtomIdx, bonds), map(Bond.GetEndAtomIdx, bonds)
    pairs = list(zip(begin, end, strict=True))
    gone = _off_the_frame(mol.GetNumAtoms(), pairs)

    frame = Chem.RWMol(mol)
    kept = set()
    marks = map(Bond.GetSmarts, bonds, repeat(True))
    for (i, j), mark in zip(pairs, marks, strict=True):
        if (i in gone) == (j in gone):
            continue
        inside, outside = (j, i) if i in gone else (i, j)
        if mark == "=":
            kept.add(outside)
        else:
            _cap(frame.GetAtomWithIdx(inside))
    frame.BeginBatchEdit()
    for i in gone - kept:
        frame.RemoveAtom(i)
    frame.CommitBatchEdit()
    frame.UpdatePropertyCache(strict=False)
    return Chem.MolToSmiles(frame, isomericSmiles=False)


def _off_the_frame(atoms: int, pairs: list[tuple[int, int]]) -> set[int]:
    """Atoms that vanish when ends of chains are taken away until there are none."""
    neighbours: list[list[int]] = [[] for _ in range(atoms)]
    for i, j in pairs:
        neighbours[i].append(j)
        neighbours[j].append(i)
    degree = list(map(len, neighbours))
    ends = [i for i in range(atoms) if degree[i] < 2]
    gone = set(ends)
    while ends:
        for j in neighbours[ends.pop()]:
            degree[j] -= 1
            if degree[j] < 2 and j not in gone:
                gone.add(j)
                ends.append(j)
    return gone


def _cap(atom: Chem.Atom) -> None:
    """Put hydrogen where a substituent was, as RDKit's ``MurckoDecompose`` does."""
    if atom.GetIsAromatic() and atom.GetAtomicNum() != 6:
        atom.SetNoImplicit(True)
        atom.SetNumExplicitHs(1)
    else:
        atom.SetNoImplicit(False)
        atom.SetNumExplicitHs(0)
        atom.SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
