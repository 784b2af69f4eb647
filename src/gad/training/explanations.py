"""What a model will need to explain itself, learned at the end of its training."""

from __future__ import annotations

import numpy as np

from gad.data.splits import Split
from gad.prediction.explanation.contributions import NAME
from gad.prediction.explanation.explain import learn
from gad.prediction.model_file import Model, Part
from gad.prediction.predictor import Predictor
from gad.training.dataset import Dataset


def explanations(model: Model, dataset: Dataset, split: Split) -> dict[str, Part]:
    """The contributions of groups; nothing for graphs of a known set, which have no molecules."""
    if model.preparation is None:
        return {}
    held = np.concatenate([split.val, split.test])
    return {NAME: learn(Predictor(model), dataset.packed, held).to_part()}
