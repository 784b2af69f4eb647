"""Morgan counts against RDKit's own similarity."""

import numpy as np
from rdkit.Chem import rdFingerprintGenerator
from rdkit.DataStructs import BulkTanimotoSimilarity

from gad.chem import parse
from gad.chem.fingerprints import morgan_counts, tanimoto
from gad.data.known import load_esol


def test_similarity_is_that_of_rdkit():
    molecules = [parse(text) for text in load_esol().smiles[:40]]
    make = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=1024)
    prints = [make.GetFingerprint(mol) for mol in molecules]
    expected = np.array([BulkTanimotoSimilarity(own, prints) for own in prints])
    counts = morgan_counts(molecules)
    np.testing.assert_allclose(tanimoto(counts, counts), expected, atol=1e-6)


def test_many_equal_surroundings_are_counted_up_to_what_a_byte_holds():
    counts = morgan_counts([parse("C" * 300), parse("[He]")])
    assert counts[0].max() == 255
    assert counts[1].sum() == 1
