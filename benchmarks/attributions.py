"""Other ways to say what an atom contributes, to compare with: they are no part of the package."""

from __future__ import annotations

import copy

import numpy as np
import torch
from rdkit import Chem
from rdkit.Chem import Crippen
from torch import Tensor

from gad.chem import quiet
from gad.data.store.molecules import PackedMolecules, read_molecules
from gad.prediction.predictor import Predictor

STEPS = 32


class Encoded:
    """A network from its encoded atoms on, with the mean atom and bond of other molecules."""

    def __init__(self, model: Predictor, texts: list[str], others: list[str]) -> None:
        self.network, preparation = model.model.members[0], model.model.preparation
        self.packed = read_molecules(texts, preparation)
        self.atoms, self.bonds = self._encode(self.packed)
        atoms, bonds = self._encode(read_molecules(others, preparation))
        self.mean_atom, self.mean_bond = atoms.mean(0), bonds.mean(0)
        self.rest = copy.copy(self.network)
        self.rest._modules = dict(self.network._modules)
        self.rest.encoder = self.rest.edge_encoder = None

    @torch.no_grad()
    def _encode(self, packed: PackedMolecules) -> tuple[Tensor, Tensor]:
        atoms = self.network.encoder((packed.atoms, packed.atom_values))
        return atoms, self.network.edge_encoder(packed.bonds)

    def by_molecule(self, atoms: Tensor) -> list[np.ndarray]:
        return [part.numpy() for part in atoms.split(self.packed.operators.graph_sizes.tolist())]

    def integrated_gradients(self, steps: int = STEPS) -> list[np.ndarray]:
        """From the mean atom and the mean bond, by the midpoint rule; bonds half to each atom."""
        operators = self.packed.operators
        by, along = self.atoms - self.mean_atom, self.bonds - self.mean_bond
        atoms, bonds = torch.zeros(len(by)), torch.zeros(len(along))
        for step in range(steps):
            share = (step + 0.5) / steps
            x = (self.mean_atom + share * by).requires_grad_()
            e = (self.mean_bond + share * along).requires_grad_()
            gradients = torch.autograd.grad(self.rest(x, operators, e).sum(), [x, e])
            atoms += (gradients[0] * by).sum(1) / steps
            bonds += (gradients[1] * along).sum(1) / steps
        atoms.index_add_(0, operators.source, bonds / 2)
        atoms.index_add_(0, operators.target, bonds / 2)
        return self.by_molecule(atoms)

    @torch.no_grad()
    def replacing(self) -> list[np.ndarray]:
        """What an atom's replacement by the mean atom changes."""
        operators = self.packed.operators
        full = self.rest(self.atoms, operators, self.bonds)[:, 0]
        found = torch.zeros(len(self.atoms))
        starts = operators.graph_sizes.cumsum(0) - operators.graph_sizes
        for place in range(int(operators.graph_sizes.max())):
            there = place < operators.graph_sizes
            at = (starts + place)[there]
            atoms = self.atoms.clone()
            atoms[at] = self.mean_atom
            found[at] = (full - self.rest(atoms, operators, self.bonds)[:, 0])[there]
        return self.by_molecule(found)


def deleting_from_the_truth(texts: list[str]) -> list[np.ndarray]:
    """What deleting an atom changes in Crippen's own logP: the most that deletion could find."""
    found = []
    for text in texts:
        mol = Chem.MolFromSmiles(text)
        full = Crippen.MolLogP(mol)
        Chem.Kekulize(mol, clearAromaticFlags=True)
        found.append(np.array([full - _without(mol, k) for k in range(mol.GetNumAtoms())]))
    return found


def _without(mol: Chem.Mol, atom: int) -> float:
    if mol.GetNumAtoms() == 1:
        return 0.0
    edited = Chem.RWMol(mol)
    for other in edited.GetAtomWithIdx(atom).GetNeighbors():
        bond = edited.GetBondBetweenAtoms(atom, other.GetIdx())
        if other.GetNoImplicit():
            other.SetNumExplicitHs(other.GetNumExplicitHs() + int(bond.GetBondTypeAsDouble()))
        other.SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
    edited.RemoveAtom(atom)
    with quiet:
        Chem.SanitizeMol(edited)
    return float(Crippen.MolLogP(edited))
