"""Damaged files, the same ones on every run."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_AWKWARD = (
    b"\0", b'"', b"\r", b"\n", b",", b"\t", b"$$$$\n", b"> <", b"M  END\n", b"\xff\xfe",
    b"\xef\xbb\xbf", b"\xe9", b"\xed\xa0\x80", b"\x1f\x8b", b"PAR1", b"PK\x03\x04", b"\x1a",
    b"\xff" * 8, b"9" * 400,
)  # fmt: skip


def corruptions(data: bytes, seed: int) -> Iterator[bytes]:
    """Yield ``data`` damaged in the ways files are: one after the other, some forty of them.

    First the certain ones: nothing at all, the first half, the file twice, other encodings, other
    line ends, all zeros. Then, drawn from ``seed``: flipped bits, cuts, holes, swapped pieces and
    insertions of bytes that mean something to some parser. Equal arguments give equal damage.

    >>> list(corruptions(b"smiles", 0)) == list(corruptions(b"smiles", 0))
    True
    """
    text = data.decode("latin-1")
    yield from (b"", data[:1], data[: len(data) // 2], data[:-1], data[1:], data + data)
    yield from (
        bytes(len(data)),
        data[::-1],
        data.replace(b"\n", b"\r\n"),
        data.replace(b"\n", b"\r"),
    )
    yield from (b"\xef\xbb\xbf" + data, text.encode("utf-16"), text.encode("utf-16-le"))

    draw = random.Random(seed)
    for damage in (_flip, _cut, _hole, _swap, _insert, _insert):
        for _ in range(5):
            yield damage(data, draw)


def _flip(data: bytes, draw: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(draw.choice((1, 1, 4, 32)) if data else 0):
        out[draw.randrange(len(out))] ^= 1 << draw.randrange(8)
    return bytes(out)


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randint(0, len(data))]


def _hole(data: bytes, draw: random.Random) -> bytes:
    start, stop = sorted(draw.randint(0, len(data)) for _ in range(2))
    return data[:start] + data[stop:]


def _swap(data: bytes, draw: random.Random) -> bytes:
    a, b, c = sorted(draw.randint(0, len(data)) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def _insert(data: bytes, draw: random.Random) -> bytes:
    place = draw.randint(0, len(data))
    return data[:place] + draw.choice(_AWKWARD) + data[place:]
