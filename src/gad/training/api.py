"""The few names Python users need."""

from __future__ import annotations

from pathlib import Path

from gad.training.predictor import Predictor


def load(path: str | Path) -> Predictor:
    """Read a model file: ``gad.load("model.gad").predict(["CCO"])``."""
    return Predictor.load(path)
