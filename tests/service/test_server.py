"""The process: its start, its stop, and what it says."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from gad.service.server import listen
from tests.cli.calls import call, command


@contextmanager
def process(*arguments: object, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``gad serve`` in a process of its own, and its address."""
    started = subprocess.Popen(
        command("serve", *map(str, arguments), "--port", "0"),
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = started.stderr.readline()
        found = re.search(r"http://\S+/", line)
        assert found, line + started.stderr.read()
        yield started, found[0]
    finally:
        if started.poll() is None:
            started.kill()
        started.communicate()


@pytest.mark.slow
def test_a_stop_in_the_middle_of_an_upload_loses_only_that(esol: Path, tmp_path: Path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    options = (esol, "--grace", "3", "--json")
    with process(*options, TMPDIR=str(temporary)) as (server, url):
        place = httpx.URL(url)
        upload = socket.create_connection((place.host, place.port), timeout=30)
        upload.sendall(
            b"POST /v1/predict/file HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\n"
            b"Content-Length: 100000\r\n\r\nsmiles\nCCO\n"
        )
        while not list(temporary.iterdir()):  # it is being received
            time.sleep(0.02)
        answers: list[httpx.Response] = []
        body = {"smiles": ["CCO", "CCC"] * 150}
        other = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{url}v1/predict", json=body, timeout=60))
        )
        other.start()
        metrics = f"{url}metrics"
        while 'path="/v1/predict",' not in httpx.get(metrics).text and other.is_alive():
            if "gad_batch_molecules_count 0" not in httpx.get(metrics).text:
                break  # its first molecules are predicted
            time.sleep(0.01)
        server.send_signal(signal.SIGTERM)
        other.join(60)
        out, err = server.communicate(timeout=60)
        upload.close()
    assert [answer.status_code for answer in answers] == [200]
    assert len(answers[0].json()["predictions"]) == 300
    assert server.returncode == 0, err
    assert '"address"' in out
    assert not list(temporary.iterdir())


@pytest.mark.slow
def test_the_key_may_come_from_the_environment(esol: Path):
    with process(f"mine={esol}", GAD_API_KEY="secret") as (server, url):
        assert httpx.get(f"{url}v1/models").status_code == 401
        models = httpx.get(f"{url}v1/models", headers={"X-API-Key": "secret"}).json()["models"]
        assert [model["name"] for model in models] == ["mine"]
        server.send_signal(signal.SIGINT)
        out, _ = server.communicate(timeout=60)
    assert server.returncode == 0
    assert "secret" not in out


def test_a_place_that_is_taken_is_said(esol: Path):
    with listen("127.0.0.1", 0) as place:
        place.listen()
        port = place.getsockname()[1]
        called = call("serve", str(esol), "--port", str(port))
    assert called.code == 1
    assert f"127.0.0.1:{port}" in called.err
    assert "--port" in called.err


def test_a_file_that_is_no_model_is_refused(tmp_path: Path):
    path = tmp_path / "model.gad"
    path.write_bytes(b"\x80\x04K\x01.")  # a pickle
    called = call("serve", str(path))
    assert called.code == 1
    assert "model.gad" in called.err
    assert call("serve", str(tmp_path / "none.gad")).code == 1
    assert call("serve").code == 2


def test_without_the_extra_the_message_names_it(esol: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    called = call("serve", str(esol))
    assert called.code == 1
    assert "graph-anisotropic-diffusion[serve]" in called.err
