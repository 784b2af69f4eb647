"""Bodies that mean harm, of many kinds; the same for the same random numbers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

PREDICT, FILE, DRAW = "/v1/predict", "/v1/predict/file", "/v1/draw"
JSON, CSV = {"Content-Type": "application/json"}, {"Content-Type": "text/csv"}
PATHS = (
    "/../../etc/passwd",
    "/page/../../../../etc/passwd",
    "/page/%2e%2e/%2e%2e/etc/passwd",
    "/page/..%2f..%2fapp.py",
    "/page//etc/passwd",
    "/v1/models/../../etc/passwd",
    "/page/page.js%00.html",
    "//etc/passwd",
    "/%ff%fe",
)
TRICKS = (
    "../../etc/passwd",
    "/etc/passwd",
    "file:///etc/passwd",
    "C:\\x",
    "\x00",
    "..%2f",
    "~/.ssh",
)

Body = tuple[str, bytes, dict[str, str]]


def bodies(count: int, chance: random.Random) -> Iterator[tuple[str, str, bytes, dict[str, str]]]:
    """So many bodies: their kind, where they go, what they hold, their headers."""
    kinds = list(KINDS)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        path, content, headers = KINDS[kind](chance)
        yield kind, path, content, headers


def _broken(chance: random.Random) -> Body:
    whole = json.dumps({"smiles": ["CCO", "c1ccccc1"], "uncertainty": True}).encode()
    cut = chance.randrange(1, len(whole) - 1)
    return PREDICT, chance.choice([whole[:cut], whole[cut:], whole + b"}", b"\xff" + whole]), JSON


def _noise(chance: random.Random) -> Body:
    return PREDICT, chance.randbytes(chance.randrange(1, 3000)), JSON


def _long(chance: random.Random) -> Body:
    text = chance.choice("C[(1%") * 10_000_000
    return PREDICT, json.dumps({"smiles": [text]}).encode(), JSON


def _deep(chance: random.Random) -> Body:
    depth = chance.randrange(2_000, 200_000)
    opening = chance.choice(['{"smiles":', "["])
    return chance.choice([PREDICT, DRAW]), (opening * depth).encode(), JSON


def _nested(chance: random.Random) -> Body:
    depth = chance.randrange(1, 200)
    return PREDICT, ('{"smiles":' + "[" * depth + '["C"]' + "]" * depth + "}").encode(), JSON


def _not_a_number(chance: random.Random) -> Body:
    word = chance.choice(["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000])
    shape = chance.choice(['{"smiles":[%s]}', '{"smiles":["C"],"neighbours":%s}', "%s"])
    return PREDICT, (shape % word).encode(), JSON


def _unknown_field(chance: random.Random) -> Body:
    name = chance.choice(["path", "file", "__class__", "Model", "smiles ", "a" * 5000, "\ud800"])
    return PREDICT, json.dumps({"smiles": ["CCO"], name: 1}).encode(), JSON


def _path_trick(chance: random.Random) -> Body:
    body = {"smiles": ["CCO"], "model": chance.choice(TRICKS)}
    return chance.choice([PREDICT, DRAW]), json.dumps(body).encode(), JSON


def _wrong_type(chance: random.Random) -> Body:
    value = chance.choice([None, 1, True, {"0": "C"}, [None], [["C"]], [True], ["\ud800"]])
    return PREDICT, json.dumps({"smiles": value}).encode(), JSON


def _too_many(chance: random.Random) -> Body:
    if chance.random() < 0.5:
        return PREDICT, json.dumps({"smiles": ["C"] * 5000}).encode(), JSON
    return PREDICT, json.dumps({"smiles": ["C" * chance.randrange(1001, 20_000)]}).encode(), JSON


def _bad_table(chance: random.Random) -> Body:
    content = chance.choice([b"", b"\x00" * 100, b"a,b\n1,2\n", b"smiles,smiles\nC,C\n", b"\n\n"])
    return FILE, content, CSV


def _bad_parquet(chance: random.Random) -> Body:
    content = b"PAR1" + chance.randbytes(chance.randrange(0, 2000)) + b"PAR1"
    return FILE, content, {"Content-Type": "application/vnd.apache.parquet"}


def _bad_form(chance: random.Random) -> Body:
    name = chance.choice(["../../x.exe", "x.pkl", "/etc/passwd", "x.csv.gz", "", "x.xlsx"])
    part = (
        f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\nCCO\r\n--b--'
    )
    broken = chance.choice([part, part[: len(part) // 2], "--b", ""])
    return FILE, broken.encode(), {"Content-Type": "multipart/form-data; boundary=b"}


def _wrong_media(chance: random.Random) -> Body:
    kind = chance.choice(["application/x-python-pickle", "text/html", "image/png", "x" * 3000])
    return FILE, b"smiles\nCCO\n", {"Content-Type": kind}


def _wrong_model_of_a_table(chance: random.Random) -> Body:
    del chance
    return f"{FILE}?model=../../etc/passwd", b"smiles\nCCO\n", CSV


KINDS: dict[str, Callable[[random.Random], Body]] = {
    "broken JSON": _broken,
    "noise": _noise,
    "a string of 10 MB": _long,
    "deep nesting": _deep,
    "nested lists": _nested,
    "no number": _not_a_number,
    "unknown field": _unknown_field,
    "path trick": _path_trick,
    "wrong type": _wrong_type,
    "too many": _too_many,
    "bad table": _bad_table,
    "bad Parquet": _bad_parquet,
    "bad form": _bad_form,
    "wrong media": _wrong_media,
    "wrong model of a table": _wrong_model_of_a_table,
}
