"""What a request may cost, and how it is told that it may not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.exceptions import HTTPException

# An atom of a SMILES: whatever stands in brackets, or one of the elements that may stand alone.
_ATOM = re.compile(r"\[[^\]]*\]|Br|Cl|[BCNOPSFIbcnops*]")


@dataclass(frozen=True)
class Limits:
    """The most that one request may ask for.

    Attributes:
        body: bytes of a JSON body.
        upload: bytes of a table.
        rows: of a table.
        molecules: of a JSON body.
        atoms: of one molecule: the eigenbasis of n atoms costs n³.
        seconds: from the first byte of a JSON request to its answer; of a table, without a byte.
        waiting: molecules in the queue; further requests are told to come again.
    """

    body: int = 4 << 20
    upload: int = 256 << 20
    rows: int = 1_000_000
    molecules: int = 4_096
    atoms: int = 1_000
    seconds: float = 60.0
    waiting: int = 16_384


class Refusal(HTTPException):
    """A request that is not answered; ``detail`` is a sentence for people."""


def atoms_in(text: str) -> int:
    """The number of atoms that a SMILES writes down, without reading it as a molecule.

    >>> atoms_in("CC(=O)Oc1ccccc1C(=O)O aspirin"), atoms_in("[Na+].[Cl-]"), atoms_in("BrCCl")
    (13, 2, 3)
    """
    words = text.split(maxsplit=1)
    return sum(1 for _ in _ATOM.finditer(words[0])) if words else 0


def checked(smiles: Sequence[str], limits: Limits) -> list[int]:
    """The atoms of each molecule, or a refusal that says what is too much."""
    if len(smiles) > limits.molecules:
        raise Refusal(
            413,
            f"{len(smiles):,} molecules are too many: at most {limits.molecules:,} in one request; "
            "send several, or a file to /v1/predict/file",
        )
    counts = [atoms_in(text) for text in smiles]
    for place, count in enumerate(counts):
        if count > limits.atoms:
            raise Refusal(413, f"smiles[{place}]: {too_large(count, limits)}")
    return counts


def too_large(count: int, limits: Limits) -> str:
    """Why a molecule is not predicted here.

    >>> too_large(5_000, Limits())
    'the molecule has 5,000 atoms; this service predicts at most 1,000'
    """
    return f"the molecule has {count:,} atoms; this service predicts at most {limits.atoms:,}"
