"""Molecules from text; their graphs, names, descriptors, drawings. The one importer of RDKit."""

from __future__ import annotations

from gad.chem.descriptors import DESCRIPTOR_NAMES, descriptors, quick_descriptors
from gad.chem.draw import draw, draw_grid
from gad.chem.fast.descriptors import QUICK_DESCRIPTOR_NAMES
from gad.chem.fast.scaffold import scaffold
from gad.chem.featurize import (
    ATOM_FEATURES,
    BOND_FEATURES,
    Featurizer,
    MoleculeGraph,
    MoleculeGraphs,
)
from gad.chem.identity import canonical
from gad.chem.molecule import MoleculeError, parse, parse_block, quiet

__all__ = [
    "ATOM_FEATURES",
    "BOND_FEATURES",
    "DESCRIPTOR_NAMES",
    "QUICK_DESCRIPTOR_NAMES",
    "Featurizer",
    "MoleculeError",
    "MoleculeGraph",
    "MoleculeGraphs",
    "canonical",
    "descriptors",
    "draw",
    "draw_grid",
    "parse",
    "parse_block",
    "quick_descriptors",
    "quiet",
    "scaffold",
]
