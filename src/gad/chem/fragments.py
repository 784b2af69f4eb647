"""Molecules cut into the pieces that chemists name: rings, chains, functional groups."""

from __future__ import annotations

from dataclasses import dataclass

from rdkit import Chem

from gad.chem.molecule import quiet

# Pieces as :func:`fragments` writes them, by the names that people use.
_NAMES = {
    "*C": "methyl", "*C*": "CH2", "*C(*)*": "CH", "*C(*)(*)*": "quaternary carbon",
    "*O": "hydroxyl", "*O*": "ether oxygen", "*OC": "methoxy", "*CO": "CH2OH", "*N": "amino",
    "*N*": "NH", "*N(*)*": "tertiary nitrogen", "*NC": "methylamino", "*N(C)C": "dimethylamino",
    "*C#N": "cyano", "*[N+](=O)[O-]": "nitro", "*F": "fluorine", "*Cl": "chlorine",
    "*Br": "bromine", "*I": "iodine", "*C(F)(F)F": "trifluoromethyl", "*S": "thiol",
    "*S*": "sulfide", "*C=O": "aldehyde", "*C(*)=O": "ketone", "*C(=O)O": "carboxylic acid",
    "*C(=O)[O-]": "carboxylate", "*C(N)=O": "carboxamide", "*OC(C)=O": "acetoxy",
    "*C(C)=O": "acetyl", "*NC(C)=O": "acetamido", "*C(=O)OC": "methyl ester",
    "*C(=O)O*": "ester", "*C(=O)N*": "amide", "*NC(*)=O": "amide", "*S(N)(=O)=O": "sulfonamide",
    "*C=C": "vinyl", "*c1ccccc1": "phenyl", "*c1ccc(*)cc1": "phenylene (1,4)",
    "*c1cccc(*)c1": "phenylene (1,3)", "*c1ccccc1*": "phenylene (1,2)",
    "*c1cccc2ccccc12": "naphthyl", "*c1ccc2ccccc2c1": "naphthyl", "c1ccccc1": "benzene",
    "*c1ccccn1": "pyridyl", "*c1cccnc1": "pyridyl", "*c1ccncc1": "pyridyl",
    "*C1CCCCC1": "cyclohexyl", "*N1CCOCC1": "morpholino", "*N1CCCCC1": "piperidino",
    "*CO*": "CH2O", "*C(*)O": "CHOH", "*[Si](C)(C)C": "trimethylsilyl",
    "*C(Cl)(Cl)Cl": "trichloromethyl", "*S(=O)(=O)O": "sulfonic acid",
}  # fmt: skip


@dataclass(frozen=True)
class Fragment:
    """A piece of a molecule.

    Attributes:
        smiles: with * where it was cut off.
        atoms: its atoms in the molecule.
    """

    smiles: str
    atoms: tuple[int, ...]

    @property
    def name(self) -> str:
        """For people: a name where there is one, else the SMILES."""
        ring = "ring " if any(letter.isdigit() for letter in self.smiles) else ""
        return _NAMES.get(self.smiles, ring + self.smiles)


def fragments(mol: Chem.Mol) -> list[Fragment]:
    """The molecule in pieces, every atom in one of them.

    Cut are single bonds between a ring and what hangs from it, and between carbons outside rings of
    which one is saturated: rings stay whole, and so do functional groups.

    >>> from gad.chem import parse
    >>> [piece.name for piece in fragments(parse("CCc1ccccc1C(=O)O"))]
    ['methyl', 'CH2', 'phenylene (1,2)', 'carboxylic acid']
    """
    cut = [bond.GetIdx() for bond in mol.GetBonds() if _parts(bond)]
    with quiet:
        flat = Chem.Mol(mol)
        Chem.RemoveStereochemistry(flat)
        if cut:
            flat = Chem.FragmentOnBonds(flat, cut, dummyLabels=[(0, 0)] * len(cut))
        found = [
            Fragment(
                Chem.MolFragmentToSmiles(flat, list(piece)),
                tuple(sorted(atom for atom in piece if atom < mol.GetNumAtoms())),
            )
            for piece in Chem.GetMolFrags(flat)
        ]
    return sorted(found, key=lambda fragment: fragment.atoms)


def _parts(bond: Chem.Bond) -> bool:
    if bond.IsInRing() or bond.GetBondType() != Chem.BondType.SINGLE:
        return False
    ends = bond.GetBeginAtom(), bond.GetEndAtom()
    if any(atom.IsInRing() for atom in ends):
        return True
    if any(atom.GetAtomicNum() != 6 for atom in ends):
        return False
    saturated = sum(map(_saturated, ends))
    # The methyl of an acetyl stays with it.
    return saturated == 2 or (saturated == 1 and all(atom.GetDegree() > 1 for atom in ends))


def _saturated(atom: Chem.Atom) -> bool:
    return all(bond.GetBondType() == Chem.BondType.SINGLE for bond in atom.GetBonds())
