"""Damaged recipes, models, tables and SMILES: a sentence or a reject, and nothing else.

``make test`` tries two thousand cases, ``make fuzz`` a hundred thousand: a fifth of them recipes, a
fifth models, a fifth SMILES and two fifths tables, which go all the way to a file of predictions.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import random
import signal
import time
from contextlib import contextmanager
from functools import lru_cache
from itertools import count, islice

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rdkit import Chem

from gad.data.tables import TableError, open_table
from gad.prediction.engines import LocalEngine, Request
from gad.prediction.model_file import ModelFileError, load_model
from gad.prediction.predictor import Predictor
from gad.settings.recipe import Recipe, RecipeError, load_recipe
from tests.corrupt import corruptions

CASES = int(os.environ.get("GAD_FUZZ_CASES", "2000"))
# So that several processes share the work.
PARTS = 4
PART = pytest.mark.parametrize("part", range(PARTS))
FIFTH = CASES // 5 // PARTS


def damaged(data, part, cases):
    """So many copies of ``data``, damaged each in another way, other ones in each part."""

    def distinct():
        seen = {_name(data)}
        for seed in count(part, PARTS):
            for bad in corruptions(data, seed):
                if _name(bad) not in seen:
                    seen.add(_name(bad))
                    yield bad

    return islice(distinct(), cases)


def _name(data):
    return hashlib.blake2b(data, digest_size=16).digest()


@contextmanager
def no_hang(seconds=60):
    """Fail a case that computes for so long."""

    def stop(*_):
        raise TimeoutError(f"more than {seconds} seconds")

    if not hasattr(signal, "SIGPROF"):
        start = time.process_time()
        yield
        assert time.process_time() - start < seconds
        return
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@PART
def test_recipes(tmp_path, part):
    good = (
        b'scheme = "implicit"\nepochs = 20\naggregators = ["mean", "dx"]\nlearning_rate = 1e-3\n'
        b"width = 0\ndescriptors = true\n# why\nreadout = 'sum'\n"
    )
    path = tmp_path / "recipe.toml"
    refused = 0
    for bad in damaged(good, part, FIFTH):
        path.write_bytes(bad)
        with no_hang():
            try:
                recipe = load_recipe(path)
            except RecipeError as error:
                assert str(error)  # noqa: PT017
                refused += 1
            else:
                assert Recipe.from_dict(recipe.to_dict()) == recipe
    assert refused > FIFTH // 4


@pytest.mark.slow
@PART
def test_models(run, tmp_path, part):
    """Whatever is damaged is refused; what is read is the model that was written."""
    good = (run.directory / "model.gad").read_bytes()
    path = tmp_path / "model.gad"
    expected = run.model.predict(["CCO", "c1ccccc1"])
    refused = 0
    for bad in damaged(good, part, FIFTH):
        path.write_bytes(bad)
        with no_hang():
            try:
                found = Predictor(load_model(path))
            except ModelFileError as error:
                assert str(path) in str(error)  # noqa: PT017
                refused += 1
            else:
                np.testing.assert_array_equal(found.predict(["CCO", "c1ccccc1"]), expected)
    assert refused > 0.9 * FIFTH


@PART
def test_smiles(run, table, part):
    """Damaged neighbours change nothing for the molecules that are whole."""
    draw = random.Random(part)
    smiles = table[0][:40]
    alone = run.model.predict(smiles)
    cases = FIFTH
    while cases > 0:
        rows, whole = [], []
        for text in smiles:
            whole.append(len(rows))
            rows.append(text)
            rows.extend(_broken(text, draw) for _ in range(3))
            cases -= 3
        with no_hang():
            told = run.model.predict_detailed(rows)
        np.testing.assert_allclose(told.values[whole, 0], alone, rtol=1e-5, atol=1e-5)
        assert np.isnan(told.values[list(told.rejects)]).all()
        usable = np.setdiff1d(np.arange(len(rows)), list(told.rejects))
        assert np.isfinite(told.values[usable]).all()
        assert all(told.rejects.values())


def _broken(text, draw):
    place = draw.randrange(len(text) + 1)
    piece = draw.choice(["(", "]", "%", "[", "1", "=", "\\", "é", "\0", "Xx", "[C@@@H]", "::", ""])
    return text[:place] + piece + text[place + draw.randrange(3) :]


def written(form, smiles):
    """The molecules as a file of that form."""
    if form == "parquet":
        out = io.BytesIO()
        columns = {"smiles": smiles, "number": list(map(float, range(len(smiles))))}
        pq.write_table(pa.table(columns), out, row_group_size=4)
        return out.getvalue()
    if form == "sdf":
        blocks = (Chem.MolToMolBlock(Chem.MolFromSmiles(text)) for text in smiles)
        records = (f"{b}>  <number>\n{k}\n\n$$$$\n" for k, b in enumerate(blocks))
        return "".join(records).encode()
    between, header = (" ", "") if form == "smi" else (",", "smiles,name\n")
    text = header + "".join(f"{s}{between}m{i}\n" for i, s in enumerate(smiles))
    return gzip.compress(text.encode(), mtime=0) if form.endswith(".gz") else text.encode()


SHARES = {"csv": 0.5, "smi": 0.5, "sdf": 0.4, "csv.gz": 0.3, "parquet": 0.3}


@pytest.mark.slow
@PART
@pytest.mark.parametrize("form", SHARES)
def test_tables(run, table, tmp_path, monkeypatch, form, part):
    """A damaged table is refused with a sentence, or every row of it comes out.

    A row whose molecule is whole is predicted as if its neighbours were.
    """
    # Neither is under test here: the undamaged model, and the safety of files from power cuts.
    monkeypatch.setattr(Predictor, "load", staticmethod(lru_cache(Predictor.load)))
    monkeypatch.setattr(os, "fsync", lambda _: None)
    smiles = list(dict.fromkeys(table[0]))[:8]
    expected = dict(zip(smiles, run.model.predict(smiles), strict=True))
    path, out = tmp_path / f"in.{form}", tmp_path / "out.csv"
    found, values = [], []
    for bad in damaged(written(form, smiles), part, int(FIFTH * SHARES[form])):
        path.write_bytes(bad)
        with no_hang():
            try:
                told = LocalEngine(1).predict(Request(run.directory / "model.gad", path, out))
            except TableError as error:
                assert str(path) in str(error)  # noqa: PT017
                continue
            rows = 0
            for chunk in open_table(out).chunks():
                rows += len(chunk)
                texts = chunk.columns.get("smiles", [""] * len(chunk))
                given = zip(texts, chunk.columns["target_pred"], strict=True)
                whole = [(text, value) for text, value in given if text in expected and value]
                found += [float(value) for _, value in whole]
                values += [expected[text] for text, _ in whole]
        assert rows == told.rows == told.predicted + told.rejected
    np.testing.assert_allclose(found, values, rtol=1e-4, atol=1e-4)
    assert form == "sdf" or len(found) > 2
