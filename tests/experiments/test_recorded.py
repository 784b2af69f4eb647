"""The records that the tables quote: complete, honest, and their models still say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from gad.data.known.zinc import ZINC_FINGERPRINT
from gad.experiments.models import BUDGET
from gad.experiments.records import LARGEST_MODEL, Record, read_records
from gad.prediction.evaluation import evaluate_file

RESULTS = Path(__file__).parents[2] / "results"


def finished(data: str) -> list[Record]:
    return [r for r in read_records(RESULTS, data) if r.is_finished]


@pytest.mark.parametrize("data", ["zinc", "qm9"])
def test_records_are_honest(data):
    for record in finished(data):
        recipe = record.full_recipe
        assert not recipe["descriptors"]
        assert recipe["seed"] == record.seed
        assert "limit" not in record.settings
        assert record.epochs == len(record.curve["val_mae"]) <= recipe["epochs"]
        best = min(record.curve["val_mae"])
        assert record.curve["val_mae"][record.best_epoch - 1] == best
        assert record.val_mae == pytest.approx(best, rel=1e-3)
        if record.model_file is not None:
            assert (RESULTS / record.model_file).stat().st_size <= LARGEST_MODEL
        if data == "zinc":
            assert record.parameters <= int(record.settings.get("budget", BUDGET))
            assert record.data["fingerprint"] == ZINC_FINGERPRINT


def test_every_model_has_its_record():
    for data in ("zinc", "qm9"):
        known = {record.model_file for record in finished(data)}
        there = {file.relative_to(RESULTS).as_posix() for file in RESULTS.glob(f"{data}/models/*")}
        assert there == known - {None}


@pytest.mark.slow
def test_a_recorded_model_gives_its_recorded_error_again(data_dir):
    recorded = [record for record in finished("zinc") if record.model_file is not None]
    full = [record for record in recorded if not record.short]
    record = min(full, key=lambda r: r.val_mae)
    metrics = evaluate_file(RESULTS / record.model_file, "zinc").metrics
    for part in ("val", "test"):
        assert metrics[part]["mean"]["mae"] == pytest.approx(
            getattr(record, f"{part}_mae"), abs=1e-4
        )
