"""The elements the featuriser knows by name, and what it knows of each."""

from __future__ import annotations

import numpy as np
from rdkit import Chem

# Pauling's electronegativities, of the elements of drugs, salts, catalysts and pigments. Any other
# shares the category "other", and is known by its mass, radius and valence electrons alone.
_TEXT = """
H  2.20 Li 0.98 Be 1.57 B  2.04 C  2.55 N  3.04 O  3.44 F  3.98
Na 0.93 Mg 1.31 Al 1.61 Si 1.90 P  2.19 S  2.58 Cl 3.16
K  0.82 Ca 1.00 Ti 1.54 V  1.63 Cr 1.66 Mn 1.55 Fe 1.83 Co 1.88
Ni 1.91 Cu 1.90 Zn 1.65 Ga 1.81 Ge 2.01 As 2.18 Se 2.55 Br 2.96
Rb 0.82 Sr 0.95 Y  1.22 Zr 1.33 Nb 1.60 Mo 2.16 Ru 2.20 Rh 2.28
Pd 2.20 Ag 1.93 Cd 1.69 In 1.78 Sn 1.96 Sb 2.05 Te 2.10 I  2.66
Cs 0.79 Ba 0.89 La 1.10 Ce 1.12 Nd 1.14 Sm 1.17 Gd 1.20 Dy 1.22
W  2.36 Re 1.90 Os 2.20 Ir 2.20 Pt 2.28 Au 2.54 Hg 2.00 Tl 1.62 Pb 2.33 Bi 2.02
"""
_PAULING = _TEXT.split()
_ELECTRONEGATIVITY = dict(zip(_PAULING[::2], map(float, _PAULING[1::2]), strict=True))

VOCABULARY = (*_ELECTRONEGATIVITY, "other")
"""Names of the element categories; the last is every other element, and the dummy atom ``*``."""

OTHER = len(VOCABULARY) - 1
"""Category of what is not in the vocabulary."""

VALUE_NAMES = ("electronegativity", "mass", "radius", "valence_electrons")
"""Names of the columns of :data:`VALUES`."""

_TABLE = Chem.GetPeriodicTable()
_SYMBOLS = [_TABLE.GetElementSymbol(z) for z in range(119)]
_CATEGORIES = {name: category for category, name in enumerate(VOCABULARY)}

CATEGORY = bytes(_CATEGORIES.get(symbol, OTHER) for symbol in _SYMBOLS).ljust(256, bytes([OTHER]))
"""Atomic number → category, as a translation table for :meth:`bytes.translate`."""

VALUES = np.zeros((256, len(VALUE_NAMES)), dtype=np.float32)
"""Atomic number → electronegativity − 2.5 (0 where unknown), mass / 100 u, covalent radius in
ångström, valence electrons / 8: all of order 1."""
VALUES[1:119] = [
    (
        _ELECTRONEGATIVITY.get(_SYMBOLS[z], 2.5) - 2.5,
        _TABLE.GetAtomicWeight(z) / 100,
        _TABLE.GetRcovalent(z),
        _TABLE.GetNOuterElecs(z) / 8,
    )
    for z in range(1, 119)
]
