"""POST /v1/predict/file: what `gad predict` would write, streamed."""

from __future__ import annotations

import gzip
import io
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gad
from gad.data.known import load_esol
from gad.service.limits import Limits
from tests.cli.calls import done, write_csv

pytestmark = pytest.mark.slow

CSV, PARQUET = {"Content-Type": "text/csv"}, {"Content-Type": "application/vnd.apache.parquet"}


@pytest.fixture(scope="module")
def upload(tmp_path_factory) -> Path:
    """More than one chunk, some of it unreadable; a column that asks for quotes."""
    known = load_esol()
    smiles = [*known.smiles, "C(", "", "[Na+].[Cl-]", "[Xx]", *known.smiles[:820]]
    rows = [{"smiles": s, "remark": f'row "{k}", of many'} for k, s in enumerate(smiles)]
    return write_csv(tmp_path_factory.mktemp("upload") / "table.csv", rows)


def test_a_csv_comes_back_as_gad_predict_writes_it(client, esol, upload, tmp_path):
    out = tmp_path / "out.csv"
    done("predict", esol, upload, "-o", out, "--uncertainty", "--workers", "1")
    content = upload.read_bytes()
    path = "/v1/predict/file?uncertainty=true&model=esol"
    assert client.post(path, content=content, headers=CSV).content == out.read_bytes()
    form = client.post(path, files={"file": ("../../evil.csv", content, "text/csv")})
    assert form.content == out.read_bytes()
    assert "predictions.csv" in form.headers["content-disposition"]


def test_a_parquet_file_comes_back_as_gad_predict_writes_it(client, esol, upload, tmp_path):
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    rows = upload.read_text(encoding="utf-8").count("\n") - 1
    smiles = [None if k % 97 == 0 else "CC" * (k % 5) + "O" for k in range(rows)]
    pq.write_table(pa.table({"smiles": smiles, "n": pa.array(range(rows), pa.int16())}), source)
    done("predict", esol, source, "-o", out, "--workers", "1")
    answer = client.post("/v1/predict/file", content=source.read_bytes(), headers=PARQUET)
    assert answer.status_code == 200, answer.text
    assert pq.read_table(io.BytesIO(answer.content)).equals(pq.read_table(out))


def test_other_tables_are_read_and_csv_comes_back(client):
    answer = client.post(
        "/v1/predict/file",
        content="CCO ethanol\nC( broken\n",
        headers={"Content-Type": "chemical/x-daylight-smiles"},
    )
    lines = answer.text.splitlines()
    assert lines[0] == "smiles,name,target_pred,warning,reject_reason"
    assert lines[1].startswith("CCO,ethanol,")
    assert "Parse Error" in lines[2]
    asked = client.post(
        "/v1/predict/file?format=parquet", content="smiles\nCCO\n", headers=CSV
    ).content
    assert pq.read_table(io.BytesIO(asked)).column_names[0] == "smiles"


def test_tables_and_molecules_do_not_disturb_each_other(client, esol):
    smiles = list(load_esol().smiles[:300])
    table = "\n".join(["smiles", *smiles]).encode()

    def upload(_: int) -> list[str]:
        answer = client.post("/v1/predict/file?model=esol", content=table, headers=CSV)
        return [line.split(",")[-3] for line in answer.text.splitlines()[1:]]

    def alone(text: str) -> float:
        body = {"smiles": [text], "model": "esol"}
        return client.post("/v1/predict", json=body).json()["predictions"][0]["values"]["target"]

    with ThreadPoolExecutor(6) as threads:
        uploads = threads.map(upload, range(2))
        singles = list(threads.map(alone, smiles[:60]))
    wanted = gad.load(esol).predict(smiles)
    np.testing.assert_allclose(singles, wanted[:60], rtol=1e-4, atol=1e-4)
    for values in uploads:
        np.testing.assert_allclose(np.array(values, float), wanted, rtol=1e-4, atol=1e-4)


def test_a_molecule_that_is_too_large_is_one_row(served):
    client = served(limits=Limits(atoms=20))
    text = f"smiles\nCCO\n{'C' * 21}\nCC\n"
    lines = client.post("/v1/predict/file", content=text, headers=CSV).text.splitlines()
    assert lines[2].startswith("C" * 21 + ",,")
    assert "at most 20" in lines[2]
    assert [line.split(",")[1] != "" for line in (lines[1], lines[3])] == [True, True]


@pytest.mark.parametrize(
    ("content", "headers", "code", "word"),
    [
        (b"smiles\nCCO\n", {"Content-Type": "application/zip"}, 415, "csv"),
        (b"smiles\nCCO\n", {}, 415, "Content-Type"),
        (b"a,b\n1,2\n", CSV, 422, "say which one does (?smiles=)"),
        (b"", CSV, 422, "the table: is empty"),
        (b"PAR1 and nothing more", PARQUET, 422, "Parquet"),
        (gzip.compress(b"smiles\nCCO\n", mtime=0), CSV, 415, "compressed"),
        (b"smiles\nCCO\n", {**CSV, "Content-Encoding": "gzip"}, 415, "compressed"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(client, content, headers, code, word):
    answer = client.post("/v1/predict/file", content=content, headers=headers)
    assert answer.status_code == code, answer.text
    assert word in answer.json()["error"]
    assert "/tmp" not in answer.text
    assert "gad-upload" not in answer.text


def test_a_wish_that_is_not_known_is_refused(client):
    answer = client.post("/v1/predict/file?uncertanty=true", content=b"smiles\nC\n", headers=CSV)
    assert (answer.status_code, "uncertanty" in answer.json()["error"]) == (422, True)


def test_a_form_without_a_table_is_refused(client):
    for form in ({"other": (None, "x")}, {"file": (None, "smiles")}):
        assert client.post("/v1/predict/file", files=form).status_code == 422
    name = {"file": ("../../etc/passwd", b"smiles\nCCO\n")}
    assert client.post("/v1/predict/file", files=name).status_code == 415


def test_a_table_that_is_too_long_is_refused(served):
    client = served(limits=Limits(upload=2_000, rows=50))
    long = client.post("/v1/predict/file", content=b"smiles\n" + b"CCO\n" * 1000, headers=CSV)
    assert (long.status_code, "2,000 bytes" in long.text) == (413, True)
    rows = client.post("/v1/predict/file", content=b"smiles\n" + b"C\n" * 60, headers=CSV)
    assert (rows.status_code, "50 rows" in rows.text) == (413, True)
    small = io.BytesIO()
    pq.write_table(pa.table({"smiles": ["C"] * 60}), small)
    assert client.post(
        "/v1/predict/file", content=small.getvalue(), headers=PARQUET
    ).status_code == 413  # fmt: skip


def test_a_reader_that_goes_away_leaves_nothing_behind(client, upload, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with (
        httpx.Client(base_url=client.base_url, timeout=60) as other,
        other.stream(
            "POST", "/v1/predict/file", content=upload.read_bytes(), headers=CSV
        ) as answer,
    ):
        assert answer.status_code == 200
    for _ in range(200):
        if not list(tmp_path.iterdir()):
            break
        time.sleep(0.05)
    assert not list(tmp_path.iterdir())
    assert client.post("/v1/predict", json={"smiles": ["CCO"]}).status_code == 200
