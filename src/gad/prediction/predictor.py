"""A trained model in use: molecules in, values in the user's units out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gad.chem.looks import look
from gad.data.store.molecules import NoMoleculesError, PackedMolecules, read_molecules
from gad.machine import as_many_threads
from gad.nn import GAD
from gad.prediction.blend import PART, Blend, blends_of, columns, origin_of
from gad.prediction.model_file import Card, Model, load_model
from gad.prediction.neighbours import Neighbour
from gad.prediction.sealed import ModelFileError, damaged
from gad.prediction.trust import NEAREST, Trust, spread_of

if TYPE_CHECKING:
    from ray.data import Dataset

    from gad.prediction.explanation.contributions import Contributions
    from gad.prediction.explanation.explain import Explanation

Floats = npt.NDArray[np.float64]
NOTHING = (
    "a base predicts nothing: train a model from it (gad train --from), or read its embeddings "
    "(gad embed)"
)
# On a processor what a block makes of a batch, atoms × channels, stays in its cache; a graphics
# card wants many atoms, as long as large molecules do not fill its memory.
_CELLS, _ATOMS_ON_CARD = 320_000, 1 << 14


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predictions of n molecules; NaN in the rows that could not be used.

    Attributes:
        values: [n, W] in the user's units, probabilities of 1 for two classes, of each class for
            more: W = T but for those (:meth:`gad.settings.task.Task.each` takes them apart).
        std: [n, W] standard deviation over the ensemble; None for a single model, which has none.
        lower, upper: [n, T] conformal interval; NaN where the model has none. It adapts to the
            molecule where uncertainty is asked for, and is of one width else.
        embeddings: [n, C] what the head reads, averaged over the ensemble; None unless asked for.
        rejects: row → why it could not be used.
        unseen: row → elements the model has no name for.
        domain: n words, inside, edge or outside, "" for rejected rows; None where uncertainty is
            not asked for, or the model does not know.
        similarity: [n] to the nearest training molecule; None where those are not kept.
        neighbours: of each row the nearest training molecules; None unless asked for.
        sets: of each row, for each target, the classes that cannot be ruled out; None within for a
            target that is a number and for rejected rows, None where there are no classes.
    """

    values: Floats
    std: Floats | None
    lower: Floats
    upper: Floats
    embeddings: Floats | None
    rejects: dict[int, str]
    unseen: dict[int, tuple[str, ...]]
    domain: list[str] | None = None
    similarity: Floats | None = None
    neighbours: list[list[Neighbour]] | None = None
    sets: list[tuple[tuple[str, ...] | None, ...]] | None = None

    def reject(self, rejects: Mapping[int, str]) -> None:
        """Let rows be unusable after all."""
        self.rejects.update(rejects)
        rows = list(rejects)
        arrays = (self.values, self.std, self.lower, self.upper, self.embeddings, self.similarity)
        for array in arrays:
            if array is not None:
                array[rows] = np.nan
        for row in rows:
            if self.domain is not None:
                self.domain[row] = ""
            if self.neighbours is not None:
                self.neighbours[row] = []
            if self.sets is not None:
                self.sets[row] = (None,) * len(self.sets[row])

    @property
    def warnings(self) -> dict[int, str]:
        """Row → why its prediction deserves less trust than others."""
        return {
            row: f"the model has no name for the element{'s' * (len(names) > 1)} {', '.join(names)}"
            for row, names in self.unseen.items()
            if row not in self.rejects
        }


@dataclass(frozen=True, eq=False)
class Said:
    """What networks say of G molecules.

    Attributes:
        outputs: [members, G, W], in units of what is learned.
        embedded: [G, C] what the heads read, averaged over the ensemble; None unless asked for.
        read: [G, R] by the network that training started from; None where no blend asks for it.
    """

    outputs: Tensor
    embedded: Tensor | None
    read: Tensor | None


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

    def to(self, accelerator: str) -> Predictor:
        """Move the networks to ``cpu``, ``gpu`` or a device that PyTorch knows by that name.

        ``auto`` is a graphics card where there is one.
        """
        device = device_of(accelerator)
        if device.type == "cuda" and not torch.cuda.is_available():
            raise ValueError("there is no graphics card that PyTorch can use: choose cpu")
        for member in self.model.members:
            member.to(device)
        return self

    @cached_property
    def trust(self) -> Trust:
        """What the model keeps to say how far to trust it."""
        try:
            return Trust.of(self.model)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise damaged("the model", error) from error

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of what is predicted."""
        return self.model.task.names

    @property
    def card(self) -> Card:
        """Everything the model file says about itself."""
        return self.model.card()

    def predict(
        self, molecules: Sequence[str], *, features: npt.ArrayLike | None = None
    ) -> npt.NDArray[Any]:
        """Predict SMILES: [n], or [n, T] for several targets; NaN where one cannot be used.

        Where the labels were words the likeliest class is given by its name, and None in place of
        NaN; :meth:`predict_detailed` has the probabilities.
        """
        if not self.targets:
            raise ValueError(NOTHING)
        values = self.predict_detailed(molecules, features=features).values
        told = self.model.task.decide(values)
        return told[0] if len(told) == 1 else np.stack(told, axis=1)

    def predict_detailed(
        self,
        molecules: Sequence[str],
        *,
        features: npt.ArrayLike | None = None,
        blocks: bool = False,
        embeddings: bool = False,
        uncertainty: bool = False,
        neighbours: int = 0,
    ) -> Prediction:
        """Predict with all that is known of each row: spread, interval, rejects.

        Args:
            molecules: SMILES, or mol blocks with ``blocks``.
            features: the user's own columns [n, F] the model was trained with, if any.
            blocks: whether the texts are mol blocks.
            embeddings: also return what the head reads.
            uncertainty: look at every molecule beside the training set: intervals that adapt to
                it, its domain and, of classes, prediction sets.
            neighbours: return so many of the nearest training molecules.
        """
        preparation = self.model.preparation
        if preparation is None:
            raise ValueError(
                "this model was trained on the graphs of a known data set and cannot read SMILES: "
                "use `gad evaluate`"
            )
        count, trust = len(molecules), self.trust
        if neighbours and trust.neighbours is None:
            raise ValueError(
                "this model keeps no training molecules (it was trained with --no-neighbours, or "
                "before they were kept): predict without --neighbours"
            )
        looking = trust.domain is not None and (uncertainty or neighbours > 0)
        extra = self._features(features, count)
        try:
            packed = read_molecules(list(molecules), preparation, blocks=blocks, keys=looking)
        except NoMoleculesError as error:
            result = self._empty(count, embeddings, error.rejects)
            return self._trusted(result, None, np.empty(0), uncertainty, neighbours)
        graph_values = torch.cat([packed.graph_values, extra_rows(extra, packed.rows)], dim=1)
        outputs, embedded = self.run(replace(packed, graph_values=graph_values), embeddings)
        result = self._empty(count, embeddings, packed.rejects)
        at = packed.rows.numpy()
        result.values[at] = trust.recalibrated(outputs.mean(0).numpy())
        if result.std is not None:
            result.std[at] = outputs.std(0, correction=0).numpy()
        if result.embeddings is not None and embedded is not None:
            result.embeddings[at] = embedded.numpy()
        result.unseen.update(packed.unseen)
        result = self._trusted(result, packed, outputs.numpy(), uncertainty, neighbours)
        result.reject(
            {
                int(row): f"feature column {self.model.features[column]!r} is not a number"
                for row, column in zip(*np.nonzero(~np.isfinite(extra)), strict=True)
            }
        )
        return result

    def _trusted(
        self,
        result: Prediction,
        packed: PackedMolecules | None,
        outputs: Floats,
        uncertainty: bool,
        neighbours: int,
    ) -> Prediction:
        """The prediction with its intervals and all that was asked for about trust."""
        trust, task, count = self.trust, self.model.task, len(result.values)
        width, store = trust.half, trust.neighbours
        if trust.domain is not None and (uncertainty or neighbours):
            result = replace(
                result,
                domain=[""] * count if uncertainty else None,
                similarity=None if store is None else np.full(count, np.nan),
                neighbours=[[] for _ in range(count)] if neighbours else None,
            )
            if packed is not None:
                width = self._looked(result, packed, outputs, neighbours)
        result.lower[:], result.upper[:] = task.around(result.values, width)
        return replace(result, sets=trust.sets(result.values)) if uncertainty else result

    def _looked(
        self, result: Prediction, packed: PackedMolecules, outputs: Floats, neighbours: int
    ) -> Floats:
        """Look at molecules beside the training set, fill in what was found, and give widths."""
        trust, task, at = self.trust, self.model.task, packed.rows.numpy()
        looks, near, similarity = look(packed.keys), None, None
        if trust.neighbours is not None and result.similarity is not None:
            with as_many_threads(1):
                near = trust.neighbours.near(looks.bits, max(NEAREST, neighbours))
            similarity = result.similarity[at] = near.similarity[:, :1].max(1, initial=0.0)
            if result.neighbours is not None:
                for row, places, similar in zip(at, near.places, near.similarity, strict=True):
                    nearest = list(zip(places.tolist(), similar.tolist(), strict=True))
                    result.neighbours[row] = [
                        trust.neighbours.told(task, *one) for one in nearest[:neighbours]
                    ]
        if result.domain is None or trust.domain is None:
            return trust.half
        for row, word in zip(at, trust.domain.judge(looks, similarity), strict=True):
            result.domain[row] = word
        known = trust.evidence(looks, near, result.values[at], spread_of(task, outputs))
        width = np.full((len(result.values), len(self.targets)), np.nan)
        width[at] = trust.widths(known, len(at))
        return width

    def explain(
        self, molecules: Sequence[str], *, features: npt.ArrayLike | None = None
    ) -> list[Explanation | None]:
        """Why: what each atom contributes to each prediction; None where one cannot be used.

        Example::

            why = gad.load("model.gad").explain(["CCO"])[0]
            why.atoms  # [3, T], in the order of the SMILES
            why.baseline + why.atoms.sum(0) + why.whole  # the prediction
        """
        from gad.prediction.explanation.explain import explain

        return explain(self, molecules, features=features)[0]

    @cached_property
    def contributions(self) -> Contributions:
        """What groups of atoms contribute to the model's predictions."""
        from gad.prediction.explanation.explain import contributions_of

        return contributions_of(self)

    def predict_dataset(
        self,
        dataset: Dataset,
        *,
        smiles: str | None = None,
        uncertainty: bool = False,
        neighbours: int = 0,
        embeddings: bool = False,
        workers: int | None = None,
        accelerator: str = "cpu",
        num_gpus: float | None = None,
    ) -> Dataset:
        """Add the columns of ``gad predict`` to a Ray data set, on its cluster.

        Args:
            dataset: rows with a column of SMILES, and the model's feature columns if it has any.
            smiles: that column; guessed if None.
            uncertainty: add the interval, the spread of an ensemble, and the domain.
            neighbours: add so many of the nearest training molecules.
            embeddings: add what the head reads.
            workers: actors that predict; None for as many as the cluster has room for.
            accelerator: where the networks run, as in :meth:`to`.
            num_gpus: graphics cards of each actor.
        """
        from gad.prediction.engines.ray import RayEngine

        engine = RayEngine(workers=workers, accelerator=accelerator, num_gpus=num_gpus)
        return engine.predict_dataset(
            self.model, dataset, smiles=smiles, uncertainty=uncertainty,
            neighbours=neighbours, embeddings=embeddings,
        )  # fmt: skip

    def run(
        self, packed: PackedMolecules, embeddings: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Values of every member [members, G, W] in user units, and embeddings [G, C]."""
        said = self.listen(packed, embeddings)
        mixed = list(said.outputs)
        if PART in self.model.parts:
            with as_many_threads(1):
                x = columns(packed.counts, packed.graph_values, said.read)
                mixed = [
                    network if blend is None else blend(network, x)
                    for network, blend in zip(mixed, self.blends, strict=True)
                ]
        return self.in_units(mixed), said.embedded

    def in_units(self, outputs: Iterable[Tensor]) -> Tensor:
        """Outputs of every member → values in user units, or probabilities [members, G, W]."""
        task, scales = self.model.task, self.model.scales
        told = [task.to_user(own, scale) for own, scale in zip(outputs, scales, strict=True)]
        return torch.stack(told)

    @cached_property
    def blends(self) -> list[Blend | None]:
        """What stands beside each network, see :mod:`gad.prediction.blend`."""
        try:
            return blends_of(self.model)
        except (KeyError, TypeError) as error:
            raise ModelFileError(
                "what stands beside the network was written by another version of gad, or is "
                "damaged: train the model again"
            ) from error

    @cached_property
    def origin(self) -> GAD | None:
        """The network that training started from, where a blend reads molecules by it."""
        return origin_of(self.model)

    @torch.no_grad()
    def listen(self, packed: PackedMolecules, embeddings: bool = False) -> Said:
        """What every network says, embeddings if they are asked for, and what the origin reads."""
        members, scales, origin = self.model.members, self.model.scales, self.origin
        device = next(members[0].parameters()).device
        count, double = len(packed), torch.float64
        outputs = torch.zeros(len(members), count, self.model.task.outputs, dtype=double)
        embedded = read = None
        if embeddings:
            embedded = torch.zeros(count, members[0].embedding_channels, dtype=double)
        if origin is not None:
            read = torch.zeros(count, origin.to(device).embedding_channels)
        atoms = _CELLS // members[0].channels if device.type == "cpu" else _ATOMS_ON_CARD
        with as_many_threads(1):
            for graphs, batch in packed.batches(atoms):
                there = batch if device.type == "cpu" else batch.to(device)
                for number, (member, scale) in enumerate(zip(members, scales, strict=True)):
                    scaled = replace(there, graph_values=scale.standardise(there.graph_values))
                    seen = member.embed(**scaled.inputs())
                    outputs[number, graphs] = member.head(seen).to("cpu", double)
                    if embedded is not None:
                        embedded[graphs] += seen.to("cpu", double) / len(members)
                if origin is not None and read is not None:
                    alone = replace(there, graph_values=there.graph_values[:, :0])
                    read[graphs] = origin.embed(**alone.inputs()).cpu()
        return Said(outputs, embedded, read)

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

    def _empty(self, count: int, embeddings: bool, rejects: dict[int, str]) -> Prediction:
        """Of so many rows, none of them predicted yet."""

        def missing(width: int) -> Floats:
            return np.full((count, width), np.nan)

        model, width = self.model, self.model.task.outputs
        return Prediction(
            values=missing(width),
            std=missing(width) if len(model.members) > 1 else None,
            lower=missing(len(self.targets)),
            upper=missing(len(self.targets)),
            embeddings=missing(model.members[0].embedding_channels) if embeddings else None,
            rejects=rejects,
            unseen={},
        )


def load(path: str | Path) -> Predictor:
    """Read a model file: ``gad.load("model.gad").predict(["CCO"])``."""
    return Predictor.load(path)


def extra_rows(extra: Floats, rows: Tensor) -> Tensor:
    """The rows of the user's features that belong to usable molecules, 0 for a bad number."""
    return torch.from_numpy(np.nan_to_num(extra[rows.numpy()])).to(torch.float32)


def device_of(accelerator: str) -> torch.device:
    """The device that ``cpu``, ``gpu``, ``auto`` or PyTorch's own name of it stands for.

    >>> device_of("cpu"), device_of("gpu")
    (device(type='cpu'), device(type='cuda'))
    """
    usual = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.device({"gpu": "cuda", "auto": usual}.get(accelerator, accelerator))
    except RuntimeError as error:
        raise ValueError(
            f"PyTorch knows no device {accelerator!r}: choose cpu, gpu or auto"
        ) from error
