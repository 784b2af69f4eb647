"""scikit-learn estimators on lists of SMILES."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from gad.prediction.predictor import Predictor
from gad.training.run import train

_E = TypeVar("_E", bound="_MoleculeEstimator")


class _MoleculeEstimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators share: X is a sequence of SMILES, y one column or several."""

    _task: str

    def __init__(
        self,
        recipe: str = "default",
        epochs: int | None = None,
        ensemble: int = 1,
        validation_fraction: float = 0.1,
        settings: dict[str, Any] | None = None,
        random_state: int = 0,
    ) -> None:
        self.recipe = recipe
        self.epochs = epochs
        self.ensemble = ensemble
        self.validation_fraction = validation_fraction
        self.settings = settings
        self.random_state = random_state

    def fit(self: _E, X: Sequence[str], y: npt.ArrayLike) -> _E:
        """Train on SMILES ``X`` and labels ``y``; a part of them is held out for selection."""
        settings: dict[str, Any] = {**(self.settings or {}), "seed": self.random_state}
        if self.epochs is not None:
            settings["epochs"] = self.epochs
        share = float(self.validation_fraction)
        with tempfile.TemporaryDirectory() as folder:
            run = train(
                (_texts(X), self._labels(np.asarray(y))),
                task=self._task,
                recipe=self.recipe,
                settings=settings,
                ensemble=self.ensemble,
                fractions=(1 - share, share, 0.0),
                out=f"{folder}/run",
                baselines=False,
            )
        self.model_: Predictor = run.model
        self.n_features_in_ = 1
        return self

    def _labels(self, y: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        return y.astype(np.float64)

    def _values(self, X: Sequence[str]) -> npt.NDArray[np.float64]:
        check_is_fitted(self)
        return self.model_.predict(_texts(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        return tags


class MoleculeRegressor(RegressorMixin, _MoleculeEstimator):  # type: ignore[misc]
    """Regression on SMILES, for scikit-learn's ``cross_val_score``, ``GridSearchCV`` and pipelines.

    Args:
        recipe: a recipe's name or file.
        epochs: of training; the recipe's if None.
        ensemble: how many models to average.
        validation_fraction: the share held out to choose the best epoch.
        settings: further changes to the recipe.
        random_state: the seed.

    Example::

        cross_val_score(gad.MoleculeRegressor(epochs=30), smiles, solubility, cv=5)
    """

    _task = "regression"

    def predict(self, X: Sequence[str]) -> npt.NDArray[np.float64]:
        """Values in the units of ``y``; NaN for a SMILES that cannot be used."""
        return self._values(X)


class MoleculeClassifier(ClassifierMixin, _MoleculeEstimator):  # type: ignore[misc]
    """Binary classification on SMILES; see :class:`MoleculeRegressor` for the arguments."""

    _task = "classification"

    def _labels(self, y: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        self.classes_ = np.unique(y)
        if len(self.classes_) != 2:
            raise ValueError(f"a binary classifier needs two classes, not {len(self.classes_)}")
        return np.asarray(y == self.classes_[1], dtype=np.float64)

    def predict_proba(self, X: Sequence[str]) -> npt.NDArray[np.float64]:
        """Probabilities of the two classes [n, 2]; NaN for a SMILES that cannot be used."""
        positive = self._values(X)
        return np.stack([1 - positive, positive], axis=1)

    def predict(self, X: Sequence[str]) -> npt.NDArray[Any]:
        """The more likely class; the first one for a SMILES that cannot be used."""
        positive = self._values(X)
        return np.asarray(self.classes_[(positive > 0.5).astype(int)])


def _texts(molecules: Sequence[str]) -> list[str]:
    return [str(m) for m in np.asarray(molecules, dtype=object).ravel()]
