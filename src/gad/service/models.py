"""The table of models: what a request may name, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np

from gad.prediction.model_file import ModelFileError
from gad.prediction.predictor import NOTHING, Predictor
from gad.service.limits import Refusal
from gad.words import did_you_mean


@dataclass(frozen=True, eq=False)
class Served:
    """A model under its name."""

    name: str
    predictor: Predictor

    def warm(self) -> None:
        """Predict something: whatever is made on first use is there then."""
        features = np.zeros((1, len(self.predictor.model.features)))
        self.predictor.predict_detailed(["CC"], features=features, uncertainty=True)
        self.predictor.explain(["CC"], features=features)

    @property
    def times(self) -> list[list[float]]:
        """The times its channels have learned, layer by layer; none in a network without."""
        layers = self.predictor.model.members[0].diffusions()
        return [layer.times.detach().tolist() for layer in layers]

    @property
    def card(self) -> dict[str, object]:
        """What its file says of itself."""
        return {**self.predictor.card, "times": self.times}


class Models:
    """Models by name, in the order given; the first is the one that is meant by none."""

    def __init__(self, served: Sequence[Served]) -> None:
        if not served:
            raise ValueError("a service needs at least one model")
        self._by_name = {one.name: one for one in served}

    @staticmethod
    def load(paths: Mapping[str, Path]) -> Models:
        """Open the files, as safely as everywhere; one that cannot read SMILES is refused."""
        served = []
        for name, path in paths.items():
            predictor = Predictor.load(path)
            if predictor.model.preparation is None:
                raise ModelFileError(
                    f"{path} was trained on the graphs of a known data set and cannot read SMILES"
                )
            if not predictor.targets:
                raise ModelFileError(f"{path}: {NOTHING}")
            served.append(Served(name, predictor))
            served[-1].warm()
        return Models(served)

    @property
    def names(self) -> list[str]:
        """In order."""
        return list(self._by_name)

    def __iter__(self) -> Iterator[Served]:
        return iter(self._by_name.values())

    def find(self, name: str | None) -> Served:
        """The model of that name, the first if None; a refusal for any other name."""
        if name is None:
            return next(iter(self._by_name.values()))
        if name not in self._by_name:
            hint = did_you_mean(name[:80], self._by_name)
            raise Refusal(404, f"there is no model of that name{hint}; GET /v1/models lists them")
        return self._by_name[name]


def named(words: Sequence[str]) -> dict[str, Path]:
    """Names for model files: as in ``NAME=FILE``, else the file's; ``model.gad`` by its folder's.

    >>> list(named(["runs/a/model.gad", "tox.gad", "mine=runs/b/model.gad"]))
    ['a', 'tox', 'mine']
    """
    found: dict[str, Path] = {}
    for word in words:
        name, equals, rest = word.partition("=")
        given = bool(equals) and name.replace("-", "").replace("_", "").isalnum()
        path = Path(rest if given else word)
        if not given:
            name = path.stem if path.stem != "model" else path.absolute().parent.name or "model"
        if given and name in found:
            raise ValueError(f"two models are called {name!r}: give one of them another name")
        others = (f"{name}-{number}" for number in count(2))
        found[name if name not in found else next(n for n in others if n not in found)] = path
    return found
