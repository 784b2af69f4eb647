"""Pictures: the same shapes as SVG and as PNG."""

from __future__ import annotations

import struct
import zlib
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from gad.chem.picture import BLACK, Picture

SVG = "{http://www.w3.org/2000/svg}"
RED = (1.0, 0.0, 0.0)


def pixels(png):
    """The colours of a PNG, [height, width, 3], by its own rules."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert (depth, kind) in {(8, 2), (8, 6)}
    size = {2: 3, 6: 4}[kind]
    data, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += 12 + length
    raw = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, -1)
    rows = np.zeros((height, width * size), np.int64)
    for y, (how, line) in enumerate(zip(raw[:, 0], raw[:, 1:].astype(np.int64), strict=True)):
        above = rows[y - 1] if y else np.zeros(width * size, np.int64)
        for x, value in enumerate(line):
            a = rows[y, x - size] if x >= size else 0
            b, c = above[x], above[x - size] if x >= size else 0
            p = [abs(b - c), abs(a - c), abs(a + b - 2 * c)]
            nearest = (a, b, c)[int(np.argmin(p))]
            rows[y, x] = (value + (0, a, b, (a + b) // 2, nearest)[how]) % 256
    return rows.reshape(height, width, size)[..., :3]


def test_shapes_are_where_they_should_be():
    picture = Picture(40, 20, "three shapes")
    picture.disc(10, 10, 6, fill=RED, edge=None)
    picture.box(20, 5, 8, 10, fill=(0.0, 0.0, 1.0))
    picture.line(32, 2, 32, 18, width=4)
    seen = pixels(picture.png(scale=1))
    assert seen.shape == (20, 40, 3)
    assert seen[10, 10].tolist() == [255, 0, 0]
    assert seen[10, 24].tolist() == [0, 0, 255]
    assert seen[10, 32].tolist() == [0, 0, 0]
    assert seen[2, 2].tolist() == [255, 255, 255]
    assert seen[4, 4].tolist() == [255, 255, 255]  # a corner of the disc's box
    assert picture.png(scale=2)[16:24] == struct.pack(">II", 80, 40)


def test_svg_says_the_same():
    picture = Picture(40, 20, "a <disc> & a word")
    picture.disc(10, 10.04, 6, fill=RED, hint="t < 1")
    picture.words(30, 10, "x & y", size=10, anchor="end")
    root = ET.fromstring(picture.svg())
    assert root.find(f"{SVG}title").text == "a <disc> & a word"
    circle = root.find(f"{SVG}circle")
    assert (circle.attrib["cx"], circle.attrib["cy"], circle.attrib["r"]) == ("10", "10", "6")
    assert circle.attrib["fill"] == "#ff0000"
    assert circle.find(f"{SVG}title").text == "t < 1"
    words = root.find(f"{SVG}text")
    assert (words.text, words.attrib["text-anchor"]) == ("x & y", "end")
    assert "href" not in picture.svg().decode()


def test_words_leave_ink():
    empty, written = Picture(60, 20), Picture(60, 20)
    written.words(30, 10, "t = 1", colour=BLACK)
    assert (pixels(empty.png(1)) == 255).all()
    ink = np.argwhere((pixels(written.png(1)) < 128).all(-1))
    assert len(ink) > 10
    assert 5 <= ink[:, 0].min() <= ink[:, 0].max() <= 15
    assert 12 <= ink[:, 1].min() <= ink[:, 1].max() <= 48


def test_refusals():
    picture = Picture(10, 10)
    with pytest.raises(ValueError, match="only ASCII"):
        picture.words(0, 0, "√t")
    with pytest.raises(ValueError, match="anchor middle, start, end, not 'left'"):
        picture.words(0, 0, "t", anchor="left")
