"""What engines share: what is asked for, how a chunk of rows is scored, what is told of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gad.data.tables import Chunk, Table
from gad.data.tables.base import digest
from gad.data.tables.columns import Columns, choose_columns
from gad.data.tables.encode import Column
from gad.data.tables.numbers import numbers, said_commas
from gad.data.tables.writers import Reject
from gad.prediction.predictor import NOTHING, Prediction, Predictor
from gad.reporter import Reporter

WARNING, REJECT = "warning", "reject_reason"


@dataclass(frozen=True)
class Request:
    """What is to be predicted; an engine says where that happens.

    Attributes:
        model: a model file.
        data: a table of molecules.
        output: where every input row goes, in input order: the input's own columns first, then
            ``<target>_pred`` and what is asked for, then ``warning`` and ``reject_reason``. A name
            that the input has already gets ``_gad`` behind it.
        smiles: the column of the molecules; None to guess it.
        uncertainty: add ``<target>_std``, where the model is an ensemble, for a regression the
            interval ``<target>_lower``, ``<target>_upper``, for classes the prediction set
            ``<target>_set`` (``none`` if all are ruled out), and ``domain``.
        neighbours: add so many of the nearest training molecules: ``neighbour_1``,
            ``neighbour_1_similarity``, ``neighbour_1_<target>``, and so on.
        embeddings: add what the head reads, ``embedding_0`` and so on.
        resume: go on with an interrupted run; one that is finished stays as it is.
        part: (I, N) for the I-th of N parts: every N-th block of rows, from the I-th on. All parts,
            from 1 to N, are put together by :func:`gad.prediction.engines.join.join_parts`.
        accelerator: where the networks run: cpu, gpu, auto or a device of PyTorch.
    """

    model: str | Path
    data: str | Path
    output: str | Path
    smiles: str | None = None
    uncertainty: bool = False
    embeddings: bool = False
    resume: bool = False
    part: tuple[int, int] | None = None
    accelerator: str = "cpu"
    neighbours: int = 0


@dataclass(frozen=True)
class PredictionSummary:
    """What became of the rows.

    Attributes:
        output: where they are.
        rows, predicted, rejected: how many there are.
        rejects: the file that lists the rejected ones; None without any.
        unseen_elements: molecules with elements the model has no name for.
        targets: what is predicted.
        columns: the names of the added columns.
    """

    output: str
    rows: int
    predicted: int
    rejected: int
    rejects: str | None
    unseen_elements: int
    targets: list[str]
    columns: list[str]

    def to_dict(self) -> dict[str, object]:
        """As JSON can hold it."""
        return asdict(self)

    def told(self, reporter: Reporter) -> PredictionSummary:
        """The same, once people have heard what they should know."""
        if self.unseen_elements:
            reporter.message(
                f"{self.unseen_elements} molecules have elements the model has no name for"
            )
        return self


class Engine(Protocol):
    """Predicts files."""

    def predict(self, request: Request, reporter: Reporter) -> PredictionSummary:
        """Do what is asked; the output appears whole or not at all."""


@dataclass(frozen=True)
class Scored:
    """Rows with everything that is added to them.

    Attributes:
        columns: all columns of the output.
        rejects: the rows that cannot be used.
        unseen: how many molecules have elements the model has no name for.
    """

    columns: dict[str, Column]
    rejects: list[Reject]
    unseen: int


@dataclass(frozen=True)
class Scorer:
    """Scores chunks of rows. Small enough to travel; a process loads the model when it first does.

    Attributes:
        model, stamp: the model file, and the digest of its bytes.
        columns: the parts that the table's columns play.
        names: added column → the name under which it is written.
        uncertainty, embeddings, accelerator, neighbours: as in :class:`Request`.
        loaded: the model itself, where it is here already and nothing travels.
    """

    model: str
    stamp: str
    columns: Columns
    names: Mapping[str, str]
    uncertainty: bool
    embeddings: bool
    accelerator: str = "cpu"
    neighbours: int = 0
    loaded: Predictor | None = None

    def __call__(self, chunk: Chunk) -> Scored:
        """Score the rows of a chunk; what its reader rejected stays rejected."""
        prediction = self._predict(chunk)
        added = added_columns(prediction, self.predictor, self.uncertainty, self.neighbours)
        smiles = self.columns.smiles
        texts = chunk.texts(smiles) if smiles is not None else [""] * len(chunk)
        return Scored(
            {**chunk.columns, **{self.names[name]: values for name, values in added.items()}},
            [
                Reject(chunk.start + row + 1, texts[row], why)
                for row, why in sorted(prediction.rejects.items())
            ],
            len(prediction.warnings),
        )

    def identity(self) -> dict[str, str]:
        """What the predictions depend on, besides the rows."""
        settings = (self.columns.smiles, self.uncertainty, self.embeddings, self.neighbours)
        return {"model": self.stamp, "settings": json.dumps(settings)}

    @property
    def predictor(self) -> Predictor:
        """The model, loaded once by each process."""
        return self.loaded or _loaded(self.model, self.stamp, self.accelerator)

    def _predict(self, chunk: Chunk) -> Prediction:
        columns, smiles = self.columns, self.columns.smiles
        features = np.zeros((len(chunk), len(columns.features)))
        for place, name in enumerate(columns.features):
            features[:, place], _ = numbers(
                chunk.columns[name], name, comma=name in columns.decimal_commas
            )
        prediction = self.predictor.predict_detailed(
            (chunk.blocks or []) if smiles is None else chunk.texts(smiles),
            features=features,
            blocks=smiles is None,
            embeddings=self.embeddings,
            uncertainty=self.uncertainty,
            neighbours=self.neighbours,
        )
        prediction.reject(chunk.rejects)
        return prediction


def scorer_for(
    request: Request,
    table: Table,
    reporter: Reporter,
    extra: Iterable[str] = (),
    loaded: Predictor | None = None,
) -> Scorer:
    """Find the columns of a table and the names of what is added; say what was guessed or renamed.

    Args:
        request: what is asked for.
        table: the input, or its first part.
        reporter: hears what was guessed.
        extra: names of columns that the engine adds itself.
        loaded: the model itself, where it is here already; its file is not looked at then.
    """
    path = Path(request.model)
    # Loading it says what is wrong with it.
    stamp = digest(path) if loaded is None and path.is_file() else ""
    predictor = loaded or _loaded(str(request.model), stamp, request.accelerator)
    if not predictor.model.task.targets and not request.embeddings:
        raise ValueError(NOTHING)
    columns, messages = choose_columns(
        table, smiles=request.smiles, features=predictor.model.features, need_targets=False
    )
    messages += said_commas(sorted(columns.decimal_commas))
    if request.uncertainty and len(predictor.model.members) == 1:
        messages.append("a single model has no spread: there is no column of it (_std)")
    if request.uncertainty and predictor.trust.domain is None:
        messages.append("this model does not know its training set: there is no column domain")
    if request.uncertainty and (unknown := predictor.trust.without_interval):
        messages.append(
            f"no interval is known of {', '.join(unknown)}: there were too few test rows with an "
            "exact label"
        )
    none = predictor.predict_detailed(
        [],
        embeddings=request.embeddings,
        uncertainty=request.uncertainty,
        neighbours=request.neighbours,
    )
    usual = [*added_columns(none, predictor, request.uncertainty, request.neighbours), *extra]
    names = free_names(usual, table.names)
    messages += [
        f"{table.path} has a column {name!r} already: the new one is called {free!r}"
        for name, free in names.items()
        if free != name
    ]
    for text in messages:
        reporter.message(text)
    return Scorer(
        str(request.model),
        stamp,
        columns,
        names,
        request.uncertainty,
        request.embeddings,
        request.accelerator,
        request.neighbours,
        loaded,
    )


def free_names(wanted: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """Names for new columns: as wanted, or with ``_gad`` behind where that one is taken.

    >>> free_names(["y_pred", "warning"], ["smiles", "warning"])
    {'y_pred': 'y_pred', 'warning': 'warning_gad'}
    """
    wanted, used = list(wanted), set(taken)
    names = {}
    for name in wanted:
        free = name
        while free in used or (free != name and free in wanted):
            free += "_gad"
        names[name] = free
        used.add(free)
    return names


def added_columns(
    prediction: Prediction, predictor: Predictor, uncertainty: bool, neighbours: int
) -> dict[str, Column]:
    """Everything that is added to the rows, by its usual name."""
    task, trust = predictor.model.task, predictor.trust
    columns: dict[str, Column] = {}
    decided = task.decide(prediction.values)
    for place, (target, own) in enumerate(task.each(prediction.values)):
        added: dict[str, Any] = {"pred": decided[place]}
        if target.classes:
            each = own if own.ndim == 2 else np.stack([1 - own, own], axis=1)
            added |= {f"p_{name}": each[:, k] for k, name in enumerate(target.classes)}
        if uncertainty and prediction.std is not None and target.kind != "multiclass":
            added["std"] = prediction.std[:, task.spans[place].start]
        if uncertainty and target.kind == "regression":
            added |= {"lower": prediction.lower[:, place], "upper": prediction.upper[:, place]}
        if uncertainty and trust.targets[place].sets is not None:
            added["set"] = np.array([_set(row[place]) for row in prediction.sets or ()], object)
        for what, values in added.items():
            columns[f"{target.name}_{what}"] = (
                ["" if name is None else name for name in values.tolist()]
                if values.dtype == object
                else values.astype(np.float32)
            )
    if prediction.domain is not None:
        columns["domain"] = list(prediction.domain)
    if neighbours:
        columns |= _neighbour_columns(prediction, predictor, neighbours)
    if prediction.embeddings is not None:
        for place, column in enumerate(prediction.embeddings.T):
            columns[f"embedding_{place}"] = column.astype(np.float32)
    for name, said in ((WARNING, prediction.warnings), (REJECT, prediction.rejects)):
        columns[name] = [said.get(row, "") for row in range(len(prediction.values))]
    return columns


def _set(classes: tuple[str, ...] | None) -> str:
    return "" if classes is None else "|".join(classes) or "none"


def _neighbour_columns(
    prediction: Prediction, predictor: Predictor, count: int
) -> dict[str, Column]:
    """The nearest training molecules with what was measured, the nearest first."""
    task, store = predictor.model.task, predictor.trust.neighbours
    rows = prediction.neighbours or []
    as_text = (False,) * len(task.names) if store is None else store.as_text(task)
    columns: dict[str, Column] = {}
    for place in range(count):
        found = [row[place] if place < len(row) else None for row in rows]
        name = f"neighbour_{place + 1}"
        columns[name] = ["" if near is None else near.smiles for near in found]
        columns[f"{name}_similarity"] = np.array(
            [np.nan if near is None else near.similarity for near in found], dtype=np.float32
        )
        for k, (target, text) in enumerate(zip(task.names, as_text, strict=True)):
            values = [None if near is None else near.values[k] for near in found]
            columns[f"{name}_{target}"] = (
                ["" if value is None else _said(value) for value in values]
                if text
                else np.array([np.nan if v is None else v for v in values], dtype=np.float32)
            )
    return columns


def _said(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


@lru_cache(maxsize=2)
def _loaded(model: str, stamp: str, accelerator: str) -> Predictor:
    del stamp  # another file under the same name is another model
    return Predictor.load(model).to(accelerator)
