"""Damaged recipes, models, tables and SMILES: a sentence or a reject, and nothing else.

``make test`` tries two thousand cases, ``make fuzz`` a hundred thousand.
"""

from __future__ import annotations

import os
import random
from itertools import count, islice

import numpy as np
import pytest

from gad.training.files import predict_file
from gad.training.model_file import ModelFileError, load_model
from gad.training.recipe import RecipeError, load_recipe
from tests.corrupt import corruptions

CASES = int(os.environ.get("GAD_FUZZ_CASES", "2000"))


def damaged(data, cases):
    """So many damaged copies of ``data``, never the whole of it."""
    every = (bad for seed in count() for bad in corruptions(data, seed) if bad != data)
    return islice(every, cases)


def test_recipes(tmp_path):
    good = b'scheme = "implicit"\nepochs = 20\naggregators = ["mean", "dx"]\nlearning_rate = 1e-3\n'
    path = tmp_path / "recipe.toml"
    refused = 0
    for bad in damaged(good, CASES // 4):
        path.write_bytes(bad)
        try:
            load_recipe(path)
        except RecipeError:
            refused += 1
    assert refused > CASES // 16


def test_models(run, tmp_path):
    good = (run.directory / "model.gad").read_bytes()
    path = tmp_path / "model.gad"
    refused = 0
    for bad in damaged(good, CASES // 4):
        path.write_bytes(bad)
        try:
            load_model(path)
        except ModelFileError:
            refused += 1
    assert refused > CASES // 16


def test_smiles(run, table):
    """Damaged neighbours change nothing for the molecules that are whole."""
    draw = random.Random(0)
    smiles = table[0][:40]
    alone = run.model.predict(smiles)
    cases = CASES // 4
    while cases > 0:
        rows, whole = [], []
        for text in smiles:
            whole.append(len(rows))
            rows.append(text)
            rows.extend(_broken(text, draw) for _ in range(3))
            cases -= 3
        told = run.model.explain(rows)
        np.testing.assert_allclose(told.values[whole, 0], alone, rtol=1e-5, atol=1e-5)
        assert np.isnan(told.values[list(told.rejects)]).all()
        usable = np.setdiff1d(np.arange(len(rows)), list(told.rejects))
        assert np.isfinite(told.values[usable]).all()
        assert all(told.rejects.values())


def _broken(text, draw):
    place = draw.randrange(len(text) + 1)
    piece = draw.choice(["(", "]", "%", "[", "1", "=", "\\", "é", "\0", "Xx", "[C@@@H]", "::", ""])
    return text[:place] + piece + text[place + draw.randrange(3) :]


@pytest.mark.parametrize("name", ["in.csv", "in.smi"])
def test_tables(run, table, tmp_path, name):
    """A damaged table is refused with a sentence, or every row of it comes out."""
    from gad.data.tables import TableError, open_table

    smiles = table[0][:12]
    header = "smiles,name\n" if name.endswith("csv") else ""
    separator = "," if name.endswith("csv") else " "
    good = header + "".join(f"{s}{separator}m{i}\n" for i, s in enumerate(smiles))
    path, out = tmp_path / name, tmp_path / "out.csv"
    for bad in damaged(good.encode(), max(20, CASES // 40)):
        path.write_bytes(bad)
        try:
            told = predict_file(run.directory / "model.gad", path, out, workers=1)
        except TableError:
            continue
        rows = sum(len(chunk) for chunk in open_table(out).chunks())
        assert rows == told["rows"] == told["predicted"] + told["rejected"]
