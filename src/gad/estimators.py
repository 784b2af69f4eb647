"""scikit-learn estimators on lists of SMILES."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gad.data.rows import InMemory
from gad.prediction.bases import model_path
from gad.prediction.explanation.explain import Explanation
from gad.prediction.predictor import Prediction, Predictor
from gad.training.run import train

_E = TypeVar("_E", bound="_MoleculeEstimator")
# What an estimator is told as `gad.train` is.
_AS_IN_TRAIN = (
    "recipe", "ensemble", "transform", "standardise", "merge_duplicates", "metric", "neighbours",
)  # fmt: skip


class _MoleculeEstimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators share: X is a sequence of SMILES, y one column or several."""

    _task: str
    _errors: str

    def __init__(
        self,
        recipe: str = "default",
        epochs: int | None = None,
        ensemble: int = 1,
        validation_fraction: float = 0.1,
        settings: dict[str, Any] | None = None,
        random_state: int = 0,
        errors: str | None = None,
        calibration_fraction: float = 0.1,
        standardise: bool | Sequence[str] = False,
        merge_duplicates: str | None = None,
        metric: str | None = None,
        neighbours: bool = True,
        transform: str = "auto",
    ) -> None:
        self.recipe, self.settings, self.epochs = recipe, settings, epochs
        self.ensemble, self.random_state, self.errors = ensemble, random_state, errors
        self.validation_fraction = validation_fraction
        self.calibration_fraction = calibration_fraction
        self.standardise, self.merge_duplicates = standardise, merge_duplicates
        self.metric, self.neighbours, self.transform = metric, neighbours, transform

    def fit(
        self: _E,
        X: Any,
        y: npt.ArrayLike,
        sample_weight: npt.ArrayLike | None = None,
        features: npt.ArrayLike | None = None,
    ) -> _E:
        """Train; some rows are held out to choose the epoch, and some to calibrate.

        Args:
            X: n SMILES; or a table whose first column they are, the others being features.
            y: labels [n] or [n, T], NaN where missing.
            sample_weight: how much each row counts [n].
            features: further numbers given to the model [n, F]; it needs them to predict.
        """
        texts, extra = _taken(X, features)
        settings: dict[str, Any] = {**(self.settings or {}), "seed": self.random_state}
        if self.epochs is not None:
            settings["epochs"] = self.epochs
        val, test = float(self.validation_fraction), float(self.calibration_fraction)
        with tempfile.TemporaryDirectory() as folder:
            run = train(
                InMemory(texts, self._labels(np.asarray(y)), sample_weight, extra),
                task=self._task,
                settings=settings,
                fractions=(1 - val - test, val, test),
                out=f"{folder}/run",
                baselines=False,
                **{name: getattr(self, name) for name in _AS_IN_TRAIN},
            )
        self.model_: Predictor = run.model
        self.n_features_in_ = 1 + (0 if extra is None else extra.shape[1])
        return self

    def _labels(self, y: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Labels as they are learned; words of a regression are bounds such as ">10"."""
        return y.astype(np.float64) if y.dtype.kind in "biuf" else y

    def _trusted(self, X: Any, features: npt.ArrayLike | None) -> Prediction:
        """Predictions with intervals and sets."""
        check_is_fitted(self)
        texts, extra = _taken(X, features)
        return self.model_.predict_detailed(texts, features=extra, uncertainty=True)

    def _values(
        self, X: Any, errors: str | None, features: npt.ArrayLike | None
    ) -> npt.NDArray[np.float64]:
        """Predictions; SMILES that cannot be used are NaN or, with ``errors="raise"``, an error."""
        check_is_fitted(self)
        texts, extra = _taken(X, features)
        told = self.model_.predict_detailed(texts, features=extra)
        _refuse(told.rejects, texts, errors or self.errors or self._errors)
        values = told.values
        return values[:, 0] if values.shape[1] == 1 else values

    def explain(self, X: Any, features: npt.ArrayLike | None = None) -> list[Explanation | None]:
        """What each atom contributes to each prediction; None for a SMILES that cannot be used.

        The columns of a classifier are logits: of the second class where there are two, of each
        class where there are more, in the order of ``classes_``.
        """
        check_is_fitted(self)
        texts, extra = _taken(X, features)
        return self.model_.explain(texts, features=extra)

    def __sklearn_tags__(self) -> Any:
        return _reads_texts(super().__sklearn_tags__())


class MoleculeRegressor(RegressorMixin, _MoleculeEstimator):  # type: ignore[misc]
    """Regression on SMILES, for scikit-learn's ``cross_val_score``, ``GridSearchCV`` and pipelines.

    Labels may be bounds, such as ``">10"``.

    Args:
        recipe: a recipe's name or file.
        epochs: of training; the recipe's if None.
        ensemble: how many models to average.
        validation_fraction: the share held out to choose the best epoch.
        settings: further changes to the recipe.
        random_state: the seed.
        errors: what a SMILES that cannot be used does in ``predict``: ``"ignore"``, which is usual
            here, gives NaN, ``"raise"`` an error that names its row, counted from 1.
        calibration_fraction: the share held out to calibrate intervals, probabilities and sets.
        standardise, merge_duplicates, metric, neighbours: as in :func:`gad.train`.
        transform: of a regression, as in :func:`gad.train`.

    Example::

        cross_val_score(gad.MoleculeRegressor(epochs=30), smiles, solubility, cv=5)
        lower, upper = gad.MoleculeRegressor().fit(smiles, solubility).predict_interval(["CCO"])
    """

    _task, _errors = "regression", "ignore"

    def predict(
        self, X: Any, errors: str | None = None, features: npt.ArrayLike | None = None
    ) -> npt.NDArray[np.float64]:
        """Values in the units of ``y``; ``errors`` as in the constructor, for this call."""
        return self._values(X, errors, features)

    def predict_interval(
        self, X: Any, features: npt.ArrayLike | None = None
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The lower and upper ends of intervals that are to hold the truth nine times in ten.

        Shapes are those of :meth:`predict`; NaN for a SMILES that cannot be used.
        """
        told = self._trusted(X, features)
        if np.isnan(self.model_.trust.half).any():
            raise ValueError(
                "too few rows were held out to calibrate intervals (9 are needed for each target): "
                "fit more rows, or with a larger calibration_fraction"
            )
        ends = told.lower, told.upper
        lower, upper = (end[:, 0] if end.shape[1] == 1 else end for end in ends)
        return lower, upper


class MoleculeClassifier(ClassifierMixin, _MoleculeEstimator):  # type: ignore[misc]
    """Classification on SMILES, into two classes or more; arguments as :class:`MoleculeRegressor`.

    A class is no number that could be NaN, so ``errors`` is ``"raise"`` here unless said otherwise.
    """

    _task, _errors = "classification", "raise"

    def _labels(self, y: npt.NDArray[Any]) -> npt.NDArray[Any]:
        numbers: npt.NDArray[np.intp]
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"a classifier needs two classes, not {len(self.classes_)}")
        self._task = "classification" if len(self.classes_) == 2 else "multiclass"
        return numbers.astype(np.float64)

    def predict_proba(
        self, X: Any, errors: str = "ignore", features: npt.ArrayLike | None = None
    ) -> npt.NDArray[np.float64]:
        """Probabilities of the K classes [n, K]; NaN for a SMILES that cannot be used."""
        found = self._values(X, errors, features)
        return found if found.ndim == 2 else np.stack([1 - found, found], axis=1)

    def predict_set(
        self, X: Any, features: npt.ArrayLike | None = None
    ) -> list[tuple[Any, ...] | None]:
        """The classes that cannot be ruled out; None for a SMILES that cannot be used.

        Of the molecules of each class nine in ten have it in their set.
        """
        told = self._trusted(X, features)
        if told.sets is None:
            raise ValueError(
                "too few rows were held out to calibrate sets (9 are needed): fit more rows, or "
                "with a larger calibration_fraction"
            )
        names = self.classes_.tolist()
        return [
            None if own is None else tuple(names[int(number)] for number in own)
            for (own,) in told.sets
        ]

    def predict(
        self, X: Any, errors: str | None = None, features: npt.ArrayLike | None = None
    ) -> npt.NDArray[Any]:
        """The more likely class; ``errors`` as in the constructor, for this call.

        With ``"ignore"`` a SMILES that cannot be used has no class: NaN where classes are numbers,
        None where they are words.
        """
        likely = self.predict_proba(X, errors or self.errors or self._errors, features)
        found = np.asarray(self.classes_[np.nan_to_num(likely).argmax(1)])
        missing = np.isnan(likely[:, 0])
        if not missing.any():
            return found
        number = found.dtype.kind in "biuf"
        found = found.astype(np.float64 if number else object)
        found[missing] = np.nan if number else None
        return found


class MoleculeEmbedder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """SMILES to numbers for other people's models: what a network reads of a molecule.

    Args:
        model: ``"base"``, which ships with the package, or a model file.
        errors: what a SMILES that cannot be used does: ``"raise"`` an error that names its row,
            counted from 1, ``"ignore"`` gives a row of NaN.

    Example::

        make_pipeline(gad.MoleculeEmbedder(), StandardScaler(), RidgeCV()).fit(smiles, solubility)
    """

    def __init__(self, model: str = "base", errors: str = "raise") -> None:
        self.model = model
        self.errors = errors

    def fit(self, X: Sequence[str], y: Any = None) -> MoleculeEmbedder:
        """Read the model; there is nothing to learn from ``X``."""
        del X, y
        self.model_ = Predictor.load(model_path(self.model))
        if self.model_.model.features:
            raise ValueError(
                f"{self.model} reads the columns {', '.join(self.model_.model.features)} besides "
                "molecules: choose a model that reads molecules alone"
            )
        self.n_features_in_ = 1
        return self

    def transform(self, X: Sequence[str]) -> npt.NDArray[np.float64]:
        """Embeddings [n, C] of n SMILES."""
        check_is_fitted(self)
        texts = _texts(X)
        told = self.model_.predict_detailed(texts, embeddings=True)
        _refuse(told.rejects, texts, self.errors)
        assert told.embeddings is not None
        return told.embeddings

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[Any]:
        """``embedding_0`` and so on."""
        del input_features
        check_is_fitted(self)
        count = self.model_.model.members[0].embedding_channels
        return np.array([f"embedding_{k}" for k in range(count)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        return _reads_texts(super().__sklearn_tags__())


def _reads_texts(tags: Any) -> Any:
    """scikit-learn's tags of something that reads one column of texts."""
    tags.input_tags.string = True
    tags.input_tags.two_d_array = False
    tags.input_tags.one_d_array = True
    return tags


def _refuse(rejects: dict[int, str], texts: Sequence[str], errors: str) -> None:
    """Raise where SMILES cannot be used, if that is asked for."""
    if errors not in {"raise", "ignore"}:
        raise ValueError(f"errors is 'raise' or 'ignore', not {errors!r}")
    if rejects and errors == "raise":
        rows = sorted(rejects.items())
        listed = "; ".join(f"row {row + 1}, {texts[row]!r}: {why}" for row, why in rows[:5])
        more = f"; and {len(rows) - 5} more" if len(rows) > 5 else ""
        raise ValueError(
            f"{len(rows)} of {len(texts)} SMILES cannot be used (rows count from 1): {listed}"
            f"{more}. errors='ignore' gives a missing value instead."
        )


def _taken(
    X: Any, features: npt.ArrayLike | None
) -> tuple[list[str], npt.NDArray[np.float64] | None]:
    """SMILES and features: X is a list of SMILES, or a table whose first column they are."""
    table = np.asarray(X, dtype=object)
    extra: list[npt.NDArray[np.float64]] = []
    if features is not None:
        extra.append(np.asarray(features, np.float64).reshape(len(table), -1))
    if table.ndim == 2 and table.shape[1] > 1:
        extra.insert(0, table[:, 1:].astype(np.float64))
        table = table[:, 0]
    return _texts(table), np.concatenate(extra, axis=1) if extra else None


def _texts(molecules: Any) -> list[str]:
    return [str(m) for m in np.asarray(molecules, dtype=object).ravel()]
