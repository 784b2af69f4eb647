"""Explanations of single predictions: what every atom contributes.

Contributions add up on a scale without limits: the numbers of a regression (their logarithm, where
that is what is learned) and, for classes, the logit log(p/(1 − p)) of a probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from gad.chem import parse, parse_block, quiet
from gad.chem.standardise import origins
from gad.data.known import load_esol
from gad.data.store.molecules import PackedMolecules, read_molecules
from gad.prediction.explanation.contributions import NAME, Atoms, Contributions
from gad.prediction.explanation.groups import Integers, types_and_groups
from gad.settings.task import Task

if TYPE_CHECKING:
    from gad.prediction.predictor import Predictor

Floats = npt.NDArray[np.float64]
# A probability nearer to 0 or 1 than this is as good as certain.
_CERTAIN = 1e-12
# More molecules say hardly more of a few hundred features.
_MOST_MOLECULES = 4000


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a molecule's T predictions are what they are: n atoms, in the order of its SMILES.

    ``atoms.sum(0) + whole == prediction − baseline``. T counts the columns of
    :attr:`gad.prediction.predictor.Prediction.values`: one a target, one a class for three classes
    or more.

    Attributes:
        text: the molecule as it was given.
        prediction: [T], in units of the labels, log₁₀ of them with ``--transform log10``, or the
            logit of a probability.
        baseline: [T], what the contributions are added to; the same for all molecules.
        atoms: [n, T]; hydrogens count with the atom they are bound to, and atoms that standardising
            removed are 0.
        bonds: None: what a bond contributes is part of its two atoms' contributions.
        whole: [T] of whole-molecule values: what descriptors and a blended model say that groups of
            atoms do not, and the user's own columns. 0 where a model has none of them.
        particular: [T], how much of the prediction is this molecule's own: not what its groups of
            atoms contribute elsewhere.
    """

    text: str
    prediction: Floats
    baseline: Floats
    atoms: Floats
    bonds: Floats | None
    whole: Floats
    particular: Floats


def explain(
    predictor: Predictor,
    molecules: Sequence[str],
    *,
    features: npt.ArrayLike | None = None,
    blocks: bool = False,
) -> tuple[list[Explanation | None], dict[int, str]]:
    """An explanation for each molecule, None for one that cannot be used; and the reasons."""
    texts, model = list(molecules), predictor.model
    told = predictor.predict_detailed(texts, features=features, blocks=blocks)
    found: list[Explanation | None] = [None] * len(texts)
    rejects = dict(told.rejects)
    if model.preparation is None or len(rejects) == len(texts):
        return found, rejects
    packed = read_molecules(texts, model.preparation, blocks=blocks)
    known, rows = predictor.contributions, packed.rows.tolist()
    explained = of_structure(predictor, packed)
    atoms, whole, rest = known.explain(_atoms(predictor, packed), explained)
    # Whatever else takes part in a prediction, the user's own columns, is whole-molecule too.
    prediction = on_scale(model.task, told.values[rows])
    whole += prediction - explained
    ends = packed.operators.graph_sizes.cumsum(0).tolist()
    for graph, row in enumerate(rows):
        if row in rejects:
            continue
        span = slice(ends[graph - 1] if graph else 0, ends[graph])
        place = places(packed, span, texts[row], model.preparation.standardise, blocks)
        if place is None:
            rejects[row] = "its atoms cannot be followed through standardising"
            continue
        own = np.zeros((place.count, atoms.shape[1]))
        np.add.at(own, place.of_atoms, atoms[span])
        found[row] = Explanation(
            texts[row],
            prediction[graph],
            known.baseline.copy(),
            own,
            None,
            whole[graph],
            rest[graph],
        )
    return found, rejects


def of_structure(predictor: Predictor, packed: PackedMolecules) -> Floats:
    """What is predicted from the molecules alone [G, T]: the user's own columns at their means."""
    values = predictor.run(_plain(predictor, packed))[0].mean(0).numpy()
    return on_scale(predictor.model.task, predictor.trust.recalibrated(values))


def _plain(predictor: Predictor, packed: PackedMolecules) -> PackedMolecules:
    """The molecules with the means of the user's own columns."""
    model = predictor.model
    mean, own = model.scales[0].values[0], packed.graph_values
    own = own[:, : len(mean) - len(model.features)]
    added = mean[own.shape[1] :].expand(len(own), -1)
    return replace(packed, graph_values=torch.cat([own, added], dim=1))


def _atoms(predictor: Predictor, packed: PackedMolecules) -> Atoms:
    """Types and groups, and what is known of whole molecules: standardised values, a blend."""
    packed = _plain(predictor, packed)
    values = [predictor.model.scales[0].standardise(packed.graph_values).double()]
    beside = [b.beside(packed.counts, packed.graph_values) for b in predictor.blends if b]
    if beside:
        values.append(torch.stack(beside).mean(0))
    types, groups = types_and_groups(packed)
    return Atoms(types, groups, packed.operators.batch.numpy(), torch.cat(values, dim=1).numpy())


def on_scale(task: Task, values: Floats) -> Floats:
    """Predicted values on the scale on which contributions are added [n, T]."""
    told = np.empty_like(values, dtype=np.float64)
    for target, span in zip(task.targets, task.spans, strict=True):
        if target.kind == "regression":
            told[:, span] = target.forward(values[:, span])
        else:
            likely = values[:, span].clip(_CERTAIN, 1 - _CERTAIN)
            told[:, span] = np.log(likely / (1 - likely))
    return told


def columns_of(task: Task) -> list[tuple[str, str]]:
    """The name of each of the T columns, and the target it belongs to."""
    return [
        (target.name if target.outputs == 1 else f"{target.name}: {name}", target.name)
        for target in task.targets
        for name in (target.classes if target.outputs > 1 else ("",))
    ]


def learn(predictor: Predictor, packed: PackedMolecules, held: Integers) -> Contributions:
    """The contributions of groups to a model's predictions of these molecules.

    Args:
        predictor: the model.
        packed: the molecules it was trained on, and others.
        held: numbers of those others: the fidelity is measured on them.
    """
    apart = np.isin(np.arange(len(packed)), held)
    if len(packed) > _MOST_MOLECULES:
        some = np.sort(np.random.default_rng(0).permutation(len(packed))[:_MOST_MOLECULES])
        packed, apart = packed.take(torch.from_numpy(some)), apart[some]
    if apart.all():
        apart[:] = False
    predicted = of_structure(predictor, packed)
    return Contributions.of(_atoms(predictor, packed), predicted, np.flatnonzero(apart))


def contributions_of(predictor: Predictor) -> Contributions:
    """Those a model brings along; for one that has none they are learned from ESOL's molecules."""
    model = predictor.model
    if NAME in model.parts:
        return Contributions.from_part(model.parts[NAME])
    assert model.preparation is not None
    packed = read_molecules(list(load_esol().smiles), model.preparation)
    return learn(predictor, packed, np.arange(0, len(packed), 10))


@dataclass(frozen=True, eq=False)
class Places:
    """Where the atoms of a graph stand in the molecule as it was given, which has ``count``."""

    of_atoms: Integers
    count: int


def places(
    packed: PackedMolecules, span: slice, text: str, steps: Sequence[str], blocks: bool
) -> Places | None:
    """Where the atoms ``span`` of a packed set come from; None if they cannot be followed.

    Hydrogens that are atoms of the graph stand for the atom they are bound to.
    """
    with quiet:
        mol = parse_block(text) if blocks else parse(text)
        count = mol.GetNumAtoms()
        heavy = origins(mol, steps, blocks=blocks) if steps else list(range(count))
    size = span.stop - span.start
    place = np.array(heavy, dtype=np.int64)
    if len(heavy) < size:  # hydrogens stand behind, each bound to one atom
        operators = packed.operators
        target, source = operators.target.numpy(), operators.source.numpy()
        edges = (target >= span.start + len(heavy)) & (target < span.stop)
        parent = np.empty(size - len(heavy), dtype=np.int64)
        parent[target[edges] - span.start - len(heavy)] = source[edges] - span.start
        place = np.append(place, place[parent])
    return Places(place, count) if len(place) == size else None
