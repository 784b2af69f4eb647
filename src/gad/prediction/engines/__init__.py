"""Where molecules of files are predicted: in processes of this machine, or on a cluster."""

from __future__ import annotations

from gad.prediction.engines.base import Engine, PredictionSummary, Request
from gad.prediction.engines.local import LocalEngine

__all__ = ["Engine", "LocalEngine", "PredictionSummary", "Request"]
