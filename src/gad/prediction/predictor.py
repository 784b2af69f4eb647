"""A trained model in use: molecules in, values in the user's units out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gad.data.store.molecules import NoMoleculesError, PackedMolecules, read_molecules
from gad.prediction.intervals import interval
from gad.prediction.model_file import Model, load_model

Floats = npt.NDArray[np.float64]
_BATCH = 256
# Standardised values of whole molecules are held within this: an outlier must not run away with a
# linear head.
_CLIP = 10.0


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predictions of n molecules; NaN in the rows that could not be used.

    Attributes:
        values: [n, T] in the user's units (probabilities for a classifier).
        std: [n, T] standard deviation over the ensemble, 0 for a single model.
        lower, upper: [n, T] conformal interval; NaN where the model has none.
        embeddings: [n, C] what the head reads, averaged over the ensemble; None unless asked for.
        rejects: row → why it could not be used.
        unseen: row → elements the model has no name for.
    """

    values: Floats
    std: Floats
    lower: Floats
    upper: Floats
    embeddings: Floats | None
    rejects: dict[int, str]
    unseen: dict[int, tuple[str, ...]]


class Predictor:
    """A model ready to predict; made by :func:`gad.load` or :func:`gad.train`.

    Example::

        model = gad.load("model.gad")
        model.predict(["CCO", "c1ccccc1", "not a molecule"])  # array([ 0.9, -2.1, nan])
    """

    def __init__(self, model: Model) -> None:
        self.model = model

    @staticmethod
    def load(path: str | Path) -> Predictor:
        """Read a model file."""
        return Predictor(load_model(path))

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of what is predicted."""
        return self.model.task.names

    @property
    def card(self) -> dict[str, Any]:
        """Everything the model file says about itself."""
        return self.model.card()

    def predict(self, molecules: Sequence[str], *, features: npt.ArrayLike | None = None) -> Floats:
        """Predict SMILES: [n], or [n, T] for several targets; NaN where one cannot be used."""
        values = self.explain(molecules, features=features).values
        return values[:, 0] if values.shape[1] == 1 else values

    def explain(
        self,
        molecules: Sequence[str],
        *,
        features: npt.ArrayLike | None = None,
        blocks: bool = False,
        embeddings: bool = False,
    ) -> Prediction:
        """Predict with all that is known of each row: spread, interval, rejects.

        Args:
            molecules: SMILES, or mol blocks with ``blocks``.
            features: the user's own columns [n, F] the model was trained with, if any.
            blocks: whether the texts are mol blocks.
            embeddings: also return what the head reads.
        """
        preparation = self.model.preparation
        if preparation is None:
            raise ValueError(
                "this model was trained on the graphs of a known data set and cannot read SMILES: "
                "use `gad evaluate`"
            )
        count = len(molecules)
        extra = self._features(features, count)
        try:
            packed = read_molecules(list(molecules), preparation, blocks=blocks)
        except NoMoleculesError as error:
            return self._assemble(
                count, torch.zeros(0, dtype=torch.int64), None, None, error.rejects
            )
        bad = {
            row: f"feature column {self.model.features[column]!r} is not a number"
            for row, column in zip(*np.nonzero(~np.isfinite(extra)), strict=True)
        }
        graph_values = torch.cat([packed.graph_values, extra_rows(extra, packed.rows)], dim=1)
        outputs, embedded = self.run(replace(packed, graph_values=graph_values), embeddings)
        rejects = {**packed.rejects, **{int(row): why for row, why in bad.items()}}
        result = self._assemble(count, packed.rows, outputs, embedded, rejects)
        return replace(result, unseen=packed.unseen)

    @torch.no_grad()
    def run(
        self, packed: PackedMolecules, embeddings: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Values of every member [members, G, T] in user units, and embeddings [G, C]."""
        task = self.model.task
        packed = replace(packed, graph_values=scale_values(packed.graph_values, self.model))
        members = self.model.members
        device = next(members[0].parameters()).device
        values = torch.zeros(len(members), len(packed), len(task.names), dtype=torch.float64)
        embedded: Tensor | None = None
        with one_thread():
            for graphs, batch in packed.batches(_BATCH):
                inputs = (batch if device.type == "cpu" else batch.to(device)).inputs()
                for number, member in enumerate(members):
                    read = member.embed(**inputs)
                    values[number, graphs] = task.to_user(member.head(read))
                    if embeddings:
                        if embedded is None:
                            embedded = torch.zeros(len(packed), read.shape[1], dtype=torch.float64)
                        embedded[graphs] += read.to("cpu", torch.float64) / len(members)
        return values, embedded

    def _features(self, features: npt.ArrayLike | None, count: int) -> Floats:
        names = self.model.features
        if features is None:
            if names and count:
                raise ValueError(f"this model needs the feature columns {', '.join(names)}")
            return np.zeros((count, 0))
        values = np.asarray(features, dtype=np.float64).reshape(count, -1)
        if values.shape[1] != len(names):
            raise ValueError(f"this model needs {len(names)} features, not {values.shape[1]}")
        return values

    def _assemble(
        self,
        count: int,
        rows: Tensor,
        outputs: Tensor | None,
        embedded: Tensor | None,
        rejects: dict[int, str],
    ) -> Prediction:
        """Put the usable rows where they belong and NaN everywhere else."""
        shape = (count, len(self.targets))
        values, std = np.full(shape, np.nan), np.full(shape, np.nan)
        spread = None
        if outputs is not None:
            at = rows.numpy()
            values[at] = outputs.mean(0).numpy()
            std[at] = outputs.std(0, correction=0).numpy()
            if embedded is not None:
                spread = np.full((count, embedded.shape[1]), np.nan)
                spread[at] = embedded.numpy()
        for table in (values, std) if spread is None else (values, std, spread):
            table[list(rejects)] = np.nan
        half = self.model.notes.get("uncertainty", {}).get("q", {})
        q = np.array([half.get(name, np.nan) for name in self.targets], dtype=np.float64)
        lower, upper = interval(values, q)
        return Prediction(values, std, lower, upper, spread, rejects, {})


def load(path: str | Path) -> Predictor:
    """Read a model file: ``gad.load("model.gad").predict(["CCO"])``."""
    return Predictor.load(path)


def extra_rows(extra: Floats, rows: Tensor) -> Tensor:
    """The rows of the user's features that belong to usable molecules, 0 for a bad number."""
    return torch.from_numpy(np.nan_to_num(extra[rows.numpy()])).to(torch.float32)


def scale_values(values: Tensor, model: Model) -> Tensor:
    """Whole-molecule values, standardised as in training."""
    return standardise(values, model.feature_scale)


def standardise(values: Tensor, scale: Tensor) -> Tensor:
    """(v − mean)/std, held within ±10."""
    mean, std = scale[0], scale[1]
    return ((values - mean) / std).clamp(-_CLIP, _CLIP)


@contextmanager
def one_thread() -> Iterator[None]:
    """Small products are quicker on one thread; processes use the other cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
