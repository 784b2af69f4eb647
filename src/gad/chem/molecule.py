"""Text to molecule: SMILES and SDF mol blocks, and the reason when one cannot be used."""

from __future__ import annotations

import re
from threading import Lock
from typing import TYPE_CHECKING, Any

from rdkit import Chem, rdBase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_ATOMS = 10_000
"""Larger molecules are refused: RDKit's canonical SMILES recurses, and overflows near 15,000."""

MAX_CHARACTERS = 30_000
"""The longest SMILES that is tried: a peptide of 1,000 residues has 20,000 characters."""

LABELLED = "_StereochemDone"
"""RDKit's mark on a molecule whose stereochemistry has been worked out."""

_LONGEST_REASON = 200
_CLOCK = re.compile(r"^\[\d\d:\d\d:\d\d\] ", re.MULTILINE)
# Drawn hydrogens, and what follows a blank: a name, an extension.
_UNCOMMON = re.compile(r"\s|\[H")
_STEREO = re.compile(r"[@/\\]")
_POSITION = re.compile(r"check for mistakes around position \d+")
_AS_WRITTEN: Any = Chem.SmilesParserParams()
_AS_WRITTEN.sanitize = _AS_WRITTEN.removeHs = False
# One thread at a time, lest a reason be read from the log of another.
_reading = Lock()


class _Quiet:
    """One block on RDKit's log, shared by all who are inside."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.inside = 0
        self.block: rdBase.BlockLogs | None = None

    def __enter__(self) -> None:
        with self.lock:
            self.inside += 1
            self.block = self.block or rdBase.BlockLogs()

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                self.block = None


quiet = _Quiet()
"""``with quiet:`` silences RDKit's log. :func:`parse` does so by itself; a loop over many molecules
that enters once saves a tenth of the time of parsing.

>>> with quiet:
...     [parse(text).GetNumAtoms() for text in ("C", "CC")]
[1, 2]
"""


class MoleculeError(ValueError):
    """A molecule that cannot be used; the message is the reason, in one line.

    Where RDKit gives a reason it is RDKit's own:

    >>> parse("CF(C)C")
    Traceback (most recent call last):
        ...
    gad.chem.molecule.MoleculeError: Explicit valence for atom # 1 F, 3, is greater than permitted
    """


def parse(text: str) -> Chem.Mol:
    """Read a SMILES, as RDKit does, or raise :class:`MoleculeError` with the reason.

    Hydrogens become part of their heavy atom, and what follows the first blank (a name, a CXSMILES
    extension) is RDKit's business. RDKit's own log stays silent.

    >>> parse("CCO ethanol").GetNumAtoms()
    3
    """
    if not isinstance(text, str):
        raise MoleculeError(f"a SMILES is text, not {_clip(repr(text))}")
    if not text or text.isspace():
        raise MoleculeError("the SMILES is empty")
    if len(text) > MAX_CHARACTERS:
        length = len(text.split(maxsplit=1)[0])
        if length > MAX_CHARACTERS:
            raise MoleculeError(
                f"the SMILES has {length:,} characters; at most {MAX_CHARACTERS:,} are read"
            )
    mol = _attempt(_read_smiles, text)
    if mol is None:
        raise MoleculeError(_why_not_smiles(text))
    return _sized(mol)


def parse_all(
    texts: Iterable[str], *, blocks: bool = False, first_row: int = 0
) -> tuple[dict[int, Chem.Mol], dict[int, str]]:
    """Read many SMILES or mol blocks: row → molecule, and row → reason for those without one.

    >>> parse_all(["C", "CF(C)C"])[1]
    {1: 'Explicit valence for atom # 1 F, 3, is greater than permitted'}
    """
    read = parse_block if blocks else parse
    found: dict[int, Chem.Mol] = {}
    rejects: dict[int, str] = {}
    row = first_row - 1
    with quiet:
        for text in texts:
            row += 1
            try:
                found[row] = read(text)
            except MoleculeError as error:
                rejects[row] = str(error)
    return found, rejects


def parse_block(text: str) -> Chem.Mol:
    """Read one SDF record or mol file (V2000 or V3000), or raise :class:`MoleculeError`.

    Stereochemistry is taken from the coordinates; hydrogens become part of their heavy atom.
    """
    if not isinstance(text, str):
        raise MoleculeError(f"a mol block is text, not {_clip(repr(text))}")
    if not text or text.isspace():
        raise MoleculeError("the mol block is empty")
    mol = _attempt(Chem.MolFromMolBlock, text)
    if mol is None:
        raise MoleculeError(_why_not_block(text))
    return _sized(mol)


def usable(mol: Chem.Mol) -> Chem.Mol:
    """Return ``mol`` with rings, valences and aromaticity known, or raise :class:`MoleculeError`.

    A molecule that was read without being sanitised is completed on a copy.
    """
    mol = _sized(mol)
    if mol.NeedsUpdatePropertyCache():
        mol = Chem.Mol(mol)
        reason = _why_not_sane(mol)
        if reason:
            raise MoleculeError(reason)
        Chem.AssignStereochemistry(mol, cleanIt=True, force=True)
    return mol


def labelled(mol: Chem.Mol) -> Chem.Mol:
    """``mol`` with its stereochemistry worked out; a molecule that was pickled or edited has none.

    A SMILES without marks of stereochemistry has nothing to work out.
    """
    if not mol.HasProp(LABELLED):
        mol = Chem.Mol(mol)
        Chem.AssignStereochemistry(mol, cleanIt=True, force=True)
    return mol


def without_hydrogens(mol: Chem.Mol) -> Chem.Mol:
    """``mol`` with its hydrogens made part of their heavy atoms, where that loses nothing.

    Isotopes, hydride bridges and molecular hydrogen stay.
    """
    if mol.GetNumHeavyAtoms() == mol.GetNumAtoms():
        return mol
    with quiet:
        return Chem.RemoveHs(mol)


def _sized(mol: Chem.Mol) -> Chem.Mol:
    atoms = mol.GetNumAtoms()
    if not atoms:
        raise MoleculeError("the molecule has no atoms")
    if atoms > MAX_ATOMS:
        raise MoleculeError(f"the molecule has {atoms:,} atoms; at most {MAX_ATOMS:,} are read")
    return mol


def _read_smiles(text: str) -> Chem.Mol | None:
    """RDKit's reading without the steps that this text has no use for.

    Those are the search for hydrogens drawn as atoms, and for stereochemistry where there is no
    mark of any. RDKit itself looks for the latter when it is asked for a name or a drawing.
    """
    if _UNCOMMON.search(text):
        return Chem.MolFromSmiles(text)
    mol = Chem.MolFromSmiles(text, _AS_WRITTEN)
    if mol is not None:
        Chem.SanitizeMol(mol)
        if _STEREO.search(text):
            Chem.AssignStereochemistry(mol, cleanIt=True, force=True)
    return mol


def _attempt(reader: Callable[[str], Chem.Mol | None], text: str) -> Chem.Mol | None:
    if "\0" in text:
        return None
    if not quiet.inside:
        with quiet:
            return _attempt(reader, text)
    with _reading:
        try:
            return reader(text)
        except (RuntimeError, ValueError):
            # A broken CXSMILES extension, half a surrogate pair, an invariant inside RDKit.
            return None


def _why_not_smiles(text: str) -> str:
    """The reason, from a second reading in two steps: the syntax, then the chemistry."""
    smiles, *rest = text.split(maxsplit=1)
    strange = next((c for c in smiles if c == "\0" or not c.isascii()), None)
    if strange is not None:
        return f"the SMILES has the character {strange!r} in it"
    reason, mol = _captured(lambda: Chem.MolFromSmiles(text, _AS_WRITTEN))
    reason = reason if mol is None else _why_not_sane(mol)
    if not reason and rest and _attempt(Chem.MolFromSmiles, smiles) is not None:
        return f"RDKit cannot read what follows the SMILES: {_clip(rest[0])}"
    return reason or "RDKit cannot read it as a SMILES"


def _why_not_block(text: str) -> str:
    """The reason, as RDKit's reader of SDF files gives it."""
    if "\0" in text:
        return "the mol block has a NUL character in it"
    supplier = Chem.SDMolSupplier()

    def read() -> Chem.Mol | None:
        supplier.SetData(text)
        return next(iter(supplier), None)

    reason, _ = _captured(read)
    return reason.removeprefix("ERROR: ") or "RDKit cannot read it as a mol block"


def _why_not_sane(mol: Chem.Mol) -> str:
    """Sanitise ``mol`` in place; "" if that succeeds, else RDKit's reason."""
    with _reading, quiet:
        try:
            Chem.SanitizeMol(mol)
        except (RuntimeError, ValueError) as error:
            return _told(str(error).splitlines())
    return ""


def _captured(read: Callable[[], Chem.Mol | None]) -> tuple[str, Chem.Mol | None]:
    """What ``read`` writes to RDKit's error log, in one line, and what it returns.

    Syntax errors exist nowhere but in the log, which belongs to the whole process. An RDKit that
    cannot capture its log gives "".
    """
    capture: Any = getattr(rdBase, "CaptureErrorLog", rdBase.BlockLogs)
    with _reading, quiet, capture() as log:
        try:
            mol = read()
            text = _CLOCK.sub("", getattr(log, "messages", ""))
        except UnicodeError:
            return "it has characters that are not ASCII", None
        except (RuntimeError, ValueError) as error:
            return _told(str(error).splitlines()), None
    position = _POSITION.search(text)
    return _told(text.splitlines()) + (f" ({position[0]})" if position else ""), mol


def _told(lines: list[str]) -> str:
    """The first line; of a violated invariant its kind and what was violated, not where."""
    lines = [line for line in lines if line.strip(" *")] or [""]
    return _clip(": ".join(lines[:2]) if lines[0].endswith((" Violation", " Error")) else lines[0])


def _clip(text: str) -> str:
    """One line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 2] + " …"
