"""Clusters of similar molecules, after Butina (J. Chem. Inf. Comput. Sci. 1999, 39, 747)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from rdkit.DataStructs import BulkTanimotoSimilarity

SIMILAR = 0.4
"""Tanimoto similarity from which two molecules are neighbours (Morgan, radius 2, 2048 bits)."""


def clusters(smiles: Sequence[str], similar: float = SIMILAR) -> list[int]:
    """The number of each molecule's cluster.

    The molecule with the most neighbours and all of these are the first cluster; of the rest, the
    one that had the most is the next centre, and so on. Equal texts are compared once. Time grows
    with the square of the number of molecules.

    >>> clusters(["CCCCCCO", "CCCc1ccccc1", "CCCCCCCO", "CCCCc1ccccc1"])
    [0, 1, 0, 1]
    """
    distinct = sorted(set(smiles))
    make = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    prints = [make.GetFingerprint(Chem.MolFromSmiles(text)) for text in distinct]
    near = [
        np.flatnonzero(np.asarray(BulkTanimotoSimilarity(own, prints)) >= similar) for own in prints
    ]
    cluster = np.full(len(distinct), -1)
    found = 0
    for centre in sorted(range(len(distinct)), key=lambda i: (-len(near[i]), i)):
        if cluster[centre] < 0:
            members = near[centre][cluster[near[centre]] < 0]
            cluster[members], cluster[centre] = found, found
            found += 1
    place = dict(zip(distinct, cluster.tolist(), strict=True))
    first: dict[int, int] = {}
    return [first.setdefault(place[text], len(first)) for text in smiles]
