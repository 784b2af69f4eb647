"""POST /v1/predict, and what else is asked by JSON."""

from __future__ import annotations

import gzip
import json
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gad
from gad.data.known import load_esol
from gad.service.limits import Limits

pytestmark = pytest.mark.slow


def strict(text: str):
    """Read JSON; NaN is none."""

    def no(constant: str):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=no)


def asked(client, **body):
    answer = client.post("/v1/predict", json=body)
    assert answer.status_code == 200, answer.text
    return strict(answer.text)


def test_a_service_predicts_what_the_model_predicts(client, esol):
    smiles = list(load_esol().smiles[200:230])
    told = asked(client, smiles=smiles, model="esol")
    alone = gad.load(esol).predict_detailed(smiles)
    rows = told["predictions"]
    assert told["model"] == "esol"
    assert [row["smiles"] for row in rows] == smiles
    name = told["targets"][0]["name"]
    for key, values in (("values", alone.values), ("lower", alone.lower), ("upper", alone.upper)):
        np.testing.assert_allclose(
            [row[key][name] for row in rows], values[:, 0], rtol=1e-5, atol=1e-5
        )


def test_a_bad_smiles_has_its_reason_in_its_own_place(client):
    rows = asked(client, smiles=["CCO", "CF(C)C", "", "c1ccccc1"], explain=True, neighbours=2)
    errors = [row["error"] for row in rows["predictions"]]
    assert errors[0] is errors[3] is None
    assert "valence" in errors[1]
    assert "empty" in errors[2]
    good = asked(client, smiles=["CCO", "c1ccccc1"])["predictions"]
    for row, same in zip([rows["predictions"][0], rows["predictions"][3]], good, strict=True):
        assert row["values"]["target"] == pytest.approx(same["values"]["target"], rel=1e-5)
    assert rows["predictions"][1]["values"] == {"target": None}
    assert rows["predictions"][1]["explanation"] is None


def test_trust_and_explanations_are_those_of_the_model(client, esol):
    smiles = ["CC(=O)Oc1ccccc1C(=O)O", "CCO", "[Xe]"]
    rows = asked(client, smiles=smiles, explain=True, neighbours=3)["predictions"]
    alone = gad.load(esol).predict_detailed(smiles, uncertainty=True, neighbours=3)
    assert [row["domain"] for row in rows] == alone.domain
    np.testing.assert_allclose([row["similarity"] for row in rows], alone.similarity)
    for row, near in zip(rows, alone.neighbours, strict=True):
        assert [one["smiles"] for one in row["neighbours"]] == [one.smiles for one in near]
        assert [one["values"]["target"] for one in row["neighbours"]] == [
            one.values[0] for one in near
        ]
    assert [len(row["explanation"]["atoms"]) for row in rows] == [13, 3, 1]
    for row in rows:
        why = row["explanation"]
        total = why["baseline"][0] + sum(atom[0] for atom in why["atoms"]) + why["whole"][0]
        assert total == pytest.approx(row["values"]["target"], abs=1e-4)
    plain = asked(client, smiles=smiles[:1], uncertainty=False)["predictions"][0]
    assert plain["lower"] is plain["domain"] is plain["neighbours"] is plain["explanation"] is None


def test_nothing_to_predict_is_predicted(client):
    assert asked(client, smiles=[])["predictions"] == []


def test_words_probabilities_spread_and_own_columns(client, mixed):
    smiles = ["CCO", "c1ccccc1", "bad"]
    told = asked(client, smiles=smiles, model="mixed", features=[[10.0], [20.0], [30.0]])
    one, two, bad = told["predictions"]
    assert [target["kind"] for target in told["targets"]] == ["regression", "multiclass", "binary"]
    chances = one["probabilities"]["band"]
    assert set(chances) == {"low", "middle", "high"}
    assert math.isclose(sum(chances.values()), 1, rel_tol=1e-6)
    assert one["values"]["band"] == max(chances, key=chances.get)
    assert 0 <= two["values"]["hit"] <= 1
    assert one["std"]["logS"] >= 0
    assert bad["values"] == {"logS": None, "band": None, "hit": None}
    alone = gad.load(mixed).predict_detailed(smiles, features=[[10.0], [20.0], [30.0]])
    assert one["values"]["logS"] == pytest.approx(alone.values[0, 0], rel=1e-5)


@pytest.mark.parametrize(
    ("body", "code", "word"),
    [
        ({"smiles": ["CCO"], "model": "mixed"}, 422, "mass"),
        ({"smiles": ["CCO"], "model": "mixed", "features": [[1.0], [2.0]]}, 422, "2 rows"),
        ({"smiles": ["CCO"], "features": [[1.0]]}, 422, "no features"),
        ({"smiles": ["CCO"], "model": "esoll"}, 404, "esol"),
        ({"smiles": ["CCO"], "model": "../../../etc/passwd"}, 404, "/v1/models"),
        ({"smiles": "CCO"}, 422, "smiles"),
        ({"smiles": [1]}, 422, "smiles.0"),
        ({"smiles": ["CCO"], "file": "/etc/passwd"}, 422, "file"),
        ({"smiles": ["CCO"], "uncertainty": "yes"}, 422, "uncertainty"),
        ({}, 422, "smiles"),
        ({"smiles": ["C" * 1001]}, 413, "1,001 atoms"),
        ({"smiles": ["C"] * 4097}, 413, "4,097 molecules"),
    ],
)
def test_a_refusal_says_what_is_wrong(client, body, code, word):
    answer = client.post("/v1/predict", json=body)
    assert (answer.status_code, set(answer.json())) == (code, {"error"})
    assert word in answer.json()["error"]


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("content", "headers", "code", "words"),
    [
        (b'{"smiles": ["C"]}', {}, 415, "Content-Type: application/json"),
        (b"smiles=C", {"Content-Type": "application/x-www-form-urlencoded"}, 415, "send JSON"),
        (
            gzip.compress(b'{"smiles": ["C"]}', mtime=0),
            {**JSON, "Content-Encoding": "gzip"},
            415,
            "compress",
        ),
        (b"", JSON, 422, "the body is missing"),
        (b'["CCO"]', JSON, 422, 'must be an object, as in {"smiles": ["CCO"]}'),
        (b'{"smiles": "CCO"}', JSON, 422, 'smiles: must be a list, as in ["CCO"]'),
        (b'{"smiles": ["CCO"', JSON, 422, "the body is not JSON, from character 17 on"),
        (b'{"smiles": ["\xe9"]}', JSON, 422, "UTF-8"),
        (b"[" * 100_000, JSON, 422, "nested too deeply"),
        (b'{"smiles": ["C"], "features": [[NaN]], "model": "mixed"}', JSON, 422, "finite"),
    ],
)
def test_a_body_that_is_no_request_is_told_what_one_is(client, content, headers, code, words):
    answer = client.post("/v1/predict", content=content, headers=headers)
    assert answer.status_code == code
    assert words in answer.json()["error"]


def test_another_method_or_address_is_told_which_there_are(client):
    answer = client.get("/v1/predict")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["error"] == "this address answers POST, not GET"
    assert "/docs" in client.get("/v1/model").json()["error"]


@pytest.mark.parametrize("path", ["/", "/healthz", "/v1/models", "/metrics", "/openapi.json"])
def test_what_can_be_got_has_a_head(client, path):
    answer = client.head(path)
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


def test_requests_that_come_together_are_predicted_together(client, esol):
    smiles = list(load_esol().smiles[:48])
    with ThreadPoolExecutor(16) as threads:
        told = list(threads.map(lambda s: asked(client, smiles=[s], model="esol"), smiles))
    values = [answer["predictions"][0]["values"]["target"] for answer in told]
    np.testing.assert_allclose(values, gad.load(esol).predict(smiles), rtol=1e-4, atol=1e-4)
    sizes = [
        line for line in client.get("/metrics").text.splitlines() if "gad_batch_molecules" in line
    ]
    ones = next(int(line.split()[-1]) for line in sizes if 'le="1"' in line)
    total = next(int(line.split()[-1]) for line in sizes if "_count" in line)
    assert total > ones  # some batches had more than one molecule


def test_time_is_limited_and_the_service_goes_on(served):
    client = served(limits=Limits(seconds=0.4))
    answer = client.post("/v1/predict", json={"smiles": list(load_esol().smiles) * 3})
    assert answer.status_code == 408
    assert "seconds" in answer.json()["error"]
    codes = {408}
    for _ in range(200):  # the batch that was under way is still being finished
        if codes != {408}:
            break
        codes = {client.post("/v1/predict", json={"smiles": ["CCO"]}).status_code}
    assert codes == {200}


def test_more_than_may_wait_is_told_to_come_again(served):
    client = served(limits=Limits(waiting=300))
    smiles = list(load_esol().smiles[:290])
    with ThreadPoolExecutor(6) as threads:
        codes = list(
            threads.map(
                lambda _: client.post("/v1/predict", json={"smiles": smiles}).status_code, range(6)
            )
        )
    assert set(codes) == {200, 429}


def test_an_api_key_is_asked_for(served):
    client = served(api_key="süß")
    body = {"smiles": ["CCO"]}
    assert client.get("/").status_code == client.get("/healthz").status_code == 200
    for path in ("/v1/models", "/metrics"):
        assert client.get(path).status_code == 401
    for key in ("", "wrong", "süßer"):
        answer = client.post("/v1/predict", json=body, headers={b"X-API-Key": key.encode()})
        assert (answer.status_code, "X-API-Key" in answer.text) == (401, True)
    bearers = [{b"Authorization": f"{kind} süß".encode()} for kind in ("Bearer", "bearer")]
    for headers in ({b"X-API-Key": "süß".encode()}, *bearers):
        assert client.post("/v1/predict", json=body, headers=headers).status_code == 200


def test_models_tell_of_themselves(client):
    models = strict(client.get("/v1/models").text)["models"]
    assert [model["name"] for model in models] == ["esol", "mixed"]
    assert models[0]["card"]["recipe"]["scheme"] == "implicit"
    assert models[1]["features"] == ["mass"]
    assert all(t >= 0 for layer in models[0]["card"]["times"] for t in layer)


def test_the_interface_is_described_with_examples_and_comes_from_here(client):
    described = client.get("/openapi.json").json()
    assert {"/v1/predict", "/v1/predict/file", "/v1/models", "/healthz", "/metrics"} <= set(
        described["paths"]
    )
    example = described["components"]["schemas"]["PredictRequest"]["examples"][0]
    assert asked(client, **example)["predictions"]
    answer = described["components"]["schemas"]["PredictAnswer"]["examples"][0]
    assert answer["predictions"][1]["error"]
    query = described["paths"]["/v1/predict/file"]["post"]["parameters"]
    assert {one["name"] for one in query} == {"model", "uncertainty", "smiles", "format"}
    listing = client.get("/docs").text
    assert "/v1/predict/file" in listing
    for text in (listing, client.get("/").text):
        assert "http://" not in text
        assert "https://" not in text


def test_headers_let_nothing_in_from_elsewhere(client):
    policy = client.get("/").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'")


def test_metrics_are_prometheus_text(client):
    asked(client, smiles=["CCO", "bad"])
    lines = client.get("/metrics").text.splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert all(math.isfinite(float(line.rsplit(" ", 1)[1])) for line in samples)
    assert any('gad_molecules_total{model="esol",outcome="rejected"}' in line for line in samples)
    buckets = [
        int(line.rsplit(" ", 1)[1])
        for line in samples
        if line.startswith('gad_request_seconds_bucket{path="/v1/predict",')
    ]
    assert buckets == sorted(buckets)
