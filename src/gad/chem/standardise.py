"""One form for the forms of a molecule: without counter-ions, uncharged, one tautomer.

What a chemist calls one compound may be written as an acid or its sodium salt, as 2-pyridone or
2-hydroxypyridine. The steps are RDKit's (``rdMolStandardize``), each can be chosen, and they are
applied in this order:

* ``fragment``: the largest fragment stays, counter-ions and solvents go;
* ``uncharge``: acids and bases are neutral where that is possible;
* ``tautomer``: RDKit's canonical tautomer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from rdkit import Chem
from rdkit.Chem.MolStandardize import rdMolStandardize

from gad.chem.identity import canonical
from gad.chem.molecule import (
    MoleculeError,
    parse,
    parse_block,
    quiet,
    usable,
    without_hydrogens,
)

STEPS = ("fragment", "uncharge", "tautomer")
_NUMBER = "gad_number"


@cache
def _step(name: str) -> Callable[[Chem.Mol], Chem.Mol]:
    if name == "fragment":
        chosen: Callable[[Chem.Mol], Chem.Mol] = rdMolStandardize.LargestFragmentChooser().choose
        return chosen
    if name == "uncharge":
        neutral: Callable[[Chem.Mol], Chem.Mol] = rdMolStandardize.Uncharger().uncharge
        return neutral
    one: Callable[[Chem.Mol], Chem.Mol] = rdMolStandardize.TautomerEnumerator().Canonicalize
    return one


def standardise(mol: Chem.Mol, steps: Sequence[str] = STEPS) -> Chem.Mol:
    """The molecule in the form that the steps leave.

    >>> canonical(standardise(parse("[Na+].[O-]C(=O)c1ccccc1")))
    'O=C(O)c1ccccc1'
    """
    with quiet:
        for name in STEPS:
            if name in steps:
                mol = _step(name)(mol)
        return mol


def standardise_texts(
    texts: Sequence[str], steps: Sequence[str], *, blocks: bool = False
) -> tuple[list[str], dict[int, str], dict[int, str]]:
    """Standardise SMILES, or mol blocks.

    Returns:
        SMILES for all that can be read (the others stay as they are); position → the new SMILES of
        those that are another molecule now; position → why one cannot be read.

    >>> texts, changed, unread = standardise_texts(["CCO", "CC(=O)[O-].[Na+]", "C("], STEPS)
    >>> changed, list(unread)
    ({1: 'CC(=O)O'}, [2])
    """
    read = parse_block if blocks else parse
    told, changed, unread = list(texts), {}, {}
    with quiet:
        for place, text in enumerate(texts):
            try:
                mol = read(text)
                after = canonical(standardise(mol, steps))
            except MoleculeError as error:
                unread[place] = str(error)
                continue
            except (RuntimeError, ValueError):  # RDKit gave up on a tautomer: as it is, then
                after = canonical(mol)
            if after != canonical(mol):
                changed[place] = after
            if blocks or place in changed:
                told[place] = after
    return told, changed, unread


def origins(mol: Chem.Mol, steps: Sequence[str], *, blocks: bool = False) -> list[int]:
    """Where the atoms come from that :func:`standardise_texts` leaves of a molecule.

    Args:
        mol: as it was read.
        steps: of standardising.
        blocks: whether it was read from a mol block, which is always written anew.

    Returns:
        for each atom of the standardised molecule, as it is read, its number in ``mol``.

    >>> origins(parse("[Na+].[O-]C(=O)C"), STEPS)
    [4, 2, 3, 1]
    """
    marked = Chem.Mol(mol)
    for atom in marked.GetAtoms():
        atom.SetIntProp(_NUMBER, atom.GetIdx())
    try:
        after = standardise(marked, steps)
    except (RuntimeError, ValueError):  # as it is, then
        after = marked
    after = without_hydrogens(usable(after))
    name = Chem.MolToSmiles(after)
    if name == canonical(mol) and not blocks:
        return list(range(mol.GetNumAtoms()))
    written = after.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"]
    return [after.GetAtomWithIdx(place).GetIntProp(_NUMBER) for place in written]
