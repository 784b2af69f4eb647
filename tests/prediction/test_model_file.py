from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save

import gad
from gad.prediction.model_file import (
    FORMAT,
    ModelFileError,
    Part,
    checksum,
    load_model,
    read_card,
)


def rewritten(path, change):
    """The file with a changed card, and a checksum that fits it."""
    with safe_open(path, framework="pt") as file:
        card = json.loads(file.metadata()["gad"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(card, tensors)
    text = json.dumps(card)
    return save(tensors, metadata={"gad": text, "sha256": checksum(text, tensors)})


def earlier(path, version, change=None):
    """The file as an earlier version wrote it: one scale, a recipe without sections."""

    def older(card, tensors):
        card["format"] = version
        card["recipe"] = {k: v for part in card["recipe"].values() for k, v in part.items()}
        del card["parts"]
        scale = {name: tensors.pop(f"scale/0.{name}") for name in ("labels", "values")}
        for name in [name for name in tensors if name.startswith("scale/")]:
            del tensors[name]
        tensors["feature_scale"] = scale["values"]
        mean, std = scale["labels"].tolist()
        kinds = {target["kind"] for target in card["task"].pop("targets")}
        card["task"] |= {"mean": mean, "std": std} if kinds == {"regression"} else {"loss": "log"}
        if change is not None:
            change(card, tensors)

    return rewritten(path, older)


def test_a_model_survives_the_file(run):
    molecules = ["CCO", "c1ccccc1", "[Na+].[Cl-]", "C"]
    loaded = gad.load(run.directory / "model.gad")
    np.testing.assert_array_equal(loaded.predict(molecules), run.model.predict(molecules))
    assert loaded.model.recipe == run.model.model.recipe
    assert loaded.targets == ("target",)
    card = read_card(run.directory / "model.gad")
    assert card["task"]["kind"] == "regression"
    assert card["notes"]["data"]["fingerprint"] == run.summary["fingerprint"]
    assert {"torch", "rdkit"} <= set(card["notes"]["versions"])


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda card, _: card.update(format=FORMAT + 1), "newer format"),
        (lambda card, _: card.update(format=0), "older format"),
        (lambda card, _: card.update(format="?"), "card cannot be read"),
        (lambda card, _: card.update(members=99), "do not fit"),
        (lambda card, _: card["recipe"]["model"].update(width=99_990), "does not hold"),
        (lambda card, _: card["recipe"]["model"].update(layers=900), "does not hold|damaged"),
        (lambda card, _: card["recipe"]["model"].update(epochs=3), r"belongs into \[training\]"),
        (lambda card, _: card.update(parts=[1]), "damaged"),
        (lambda card, _: card["task"]["targets"][0].update(kind="odd"), "odd"),
        (lambda _, tensors: tensors.pop("scale/0.labels"), "damaged"),
        (lambda _, tensors: tensors.update({"scale/0.values": torch.zeros(2, 3)}), "scales"),
        (lambda card, _: card["recipe"].update(surprise=1), "surprise"),
        (lambda card, _: card["inputs"].update(atom_cardinalities=[10**9]), "does not hold"),
        (lambda card, _: card["inputs"].update(graph_values=-5), "damaged"),
        (lambda card, _: card.pop("task"), "damaged"),
        (lambda card, _: card["preparation"].update(surprise=1), "surprise"),
        (lambda _, tensors: tensors.pop("0.blocks.0.aggregation.bias"), "damaged"),
        (
            lambda _, tensors: tensors["0.blocks.0.aggregation.bias"].fill_(torch.nan),
            "not finite",
        ),
    ],
)
def test_a_card_that_does_not_fit_is_refused(run, tmp_path, change, hint):
    path = tmp_path / "model.gad"
    path.write_bytes(rewritten(run.directory / "model.gad", change))
    with pytest.raises(ModelFileError, match=hint):
        load_model(path)


def test_a_single_bit_is_noticed(run, tmp_path):
    path = tmp_path / "model.gad"
    good = (run.directory / "model.gad").read_bytes()
    start = 8 + int.from_bytes(good[:8], "little")
    for place in (start, (start + len(good)) // 2, len(good) - 1, good.index(b"mean")):
        bad = bytearray(good)
        bad[place] ^= 1
        path.write_bytes(bad)
        with pytest.raises(ModelFileError, match="damaged"):
            load_model(path)


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_earlier_format_is_read(run, tmp_path, version):
    path = tmp_path / "model.gad"
    path.write_bytes(earlier(run.directory / "model.gad", version))
    loaded = gad.load(path)
    np.testing.assert_array_equal(loaded.predict(["CCO"]), run.model.predict(["CCO"]))
    assert loaded.model.recipe == run.model.model.recipe
    then, now = read_card(path), read_card(run.directory / "model.gad")
    assert then["recipe"] == now["recipe"]
    assert then["task"] == now["task"]


def test_parts_are_kept_with_their_numbers(run, tmp_path):
    part = Part({"level": 0.9}, {"halves": torch.rand(3), "bits": torch.ones(2, dtype=torch.uint8)})
    replace(run.model.model, parts={"calibration": part}).save(tmp_path / "model.gad")
    found = load_model(tmp_path / "model.gad").parts["calibration"]
    assert found.settings == part.settings
    torch.testing.assert_close(found.tensors, part.tensors, rtol=0, atol=0)
    assert read_card(tmp_path / "model.gad")["parts"] == {"calibration": {"level": 0.9}}


def test_every_recorded_model_opens():
    """They are of format 2, from before recipes had sections."""
    files = sorted(Path(__file__).parents[2].glob("results/*/models/*.gad"))
    assert files
    for path in files:
        assert load_model(path).recipe.to_dict() == read_card(path)["recipe"]


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "model.gad"
    path.write_bytes(save({"x": torch.zeros(2)}))
    with pytest.raises(ModelFileError, match="not a model of this program"):
        load_model(path)
    torch.save({"x": torch.zeros(2)}, path)
    with pytest.raises(ModelFileError, match="not a model file"):
        load_model(path)
    with pytest.raises(ModelFileError, match="does not exist"):
        load_model(tmp_path / "nothing.gad")
    with pytest.raises(ModelFileError, match="is a folder"):
        load_model(tmp_path)
