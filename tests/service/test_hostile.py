"""Bodies that mean harm: refused with 4xx, and the service goes on."""

from __future__ import annotations

import json
import random
import socket
from urllib.parse import urlparse

import httpx
import pytest

from benchmarks.serve.hostile import PATHS, bodies

pytestmark = pytest.mark.slow


def test_hostile_bodies_are_refused_and_the_service_goes_on(client: httpx.Client):
    seen = set()
    for kind, path, content, headers in bodies(150, random.Random(7)):
        answer = client.post(path, content=content, headers=headers)
        assert 400 <= answer.status_code < 500, (kind, content[:80], answer.text[:200])
        assert answer.json()["error"]
        seen.add(kind)
    assert len(seen) >= 10
    good = client.post("/v1/predict", json={"smiles": ["CCO"]})
    assert good.status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_to_a_file(url: str, path: str):
    place = urlparse(url)
    with socket.create_connection((place.hostname, place.port), timeout=10) as line:
        line.sendall(
            f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode("latin-1")
        )
        told = b""
        while piece := line.recv(65536):
            told += piece
    assert told.split()[1] in {b"400", b"404", b"405"}
    assert b"root:" not in told


def test_a_body_without_end_is_cut(served):
    from gad.service.limits import Limits

    client = served(limits=Limits(body=10_000))

    def endless():
        for _ in range(200):
            yield b"[" * 1000

    answer = client.post(
        "/v1/predict", content=endless(), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 413


def test_a_body_that_does_not_come_is_not_waited_for(served):
    from gad.service.limits import Limits

    client = served(limits=Limits(seconds=0.5))
    place = client.base_url
    with socket.create_connection((place.host, place.port), timeout=20) as line:
        line.sendall(
            b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
        assert line.recv(65536).split()[1] == b"408"


def test_numbers_that_are_none_stay_out_of_the_answer(client):
    told = client.post("/v1/predict", json={"smiles": ["bad"] * 3}).text
    assert "NaN" not in told
    assert json.loads(told)["predictions"][0]["upper"]["target"] is None
