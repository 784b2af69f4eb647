"""Explanations of single predictions: what every atom contributes.

Contributions add up on a scale without limits: the numbers of a regression (their logarithm, where
that is what is learned) and, for classes, the logit log(p/(1 − p)) of a probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from gad.chem import parse, parse_block, quiet
from gad.chem.standardise import origins
from gad.data.known import load_esol
from gad.data.store.molecules import PackedMolecules, read_molecules
from gad.prediction.explanation.contributions import NAME, Additive, Atoms, Contributions
from gad.prediction.explanation.groups import Integers, types_and_groups
from gad.prediction.explanation.paths import Middle, Ways, middle_of, spread, ways_of
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

    ``atoms.sum(0) + whole == prediction − baseline``, see
    :mod:`gad.prediction.explanation.contributions`. T counts the columns of
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
        remainder: [T], what was missing in the sum before the atoms shared it evenly: rounding, and
            for several classes or an ensemble of classifiers what finite steps miss.
    """

    text: str
    prediction: Floats
    baseline: Floats
    atoms: Floats
    bonds: Floats | None
    whole: Floats
    particular: Floats
    remainder: Floats


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
    prediction = on_scale(model.task, told.values[rows])
    atoms, whole, particular, remainder = _explained(predictor, packed)
    # Whatever else takes part in a prediction, the user's own columns, is whole-molecule too.
    if model.features:
        whole += prediction - of_structure(predictor, packed)
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
            particular[graph],
            remainder[graph],
        )
    return found, rejects


def _explained(
    predictor: Predictor, packed: PackedMolecules
) -> tuple[Floats, Floats, Floats, Floats]:
    """What atoms [N, T] and whole-molecule values [G, T] contribute; particular and remainder."""
    known, predicted, atoms = (
        predictor.contributions,
        of_structure(predictor, packed),
        _atoms(packed),
    )
    ways = _ways(predictor, packed, known.middle)
    by_states, by_values = np.split(known.groups(atoms), 2, axis=1)
    offset, other = np.split(known.groups.offset, 2)
    size = packed.operators.graph_sizes.numpy().astype(np.float64)
    own = ways.atoms.numpy() - by_states - (offset / size[:, None])[atoms.molecule]
    moved = spread(predictor, packed.operators, torch.from_numpy(own)).numpy()
    found = by_states + by_values + moved
    whole = ways.whole.numpy() - other - _summed(atoms, by_values)
    difference = predicted - known.baseline
    remainder = difference - _summed(atoms, found) - whole
    found += (remainder / size[:, None])[atoms.molecule]
    return found, whole, difference - _summed(atoms, by_states + by_values), remainder


def _ways(predictor: Predictor, packed: PackedMolecules, middle: Middle) -> Ways:
    return ways_of(predictor, _plain(predictor, packed), middle, partial(_told, predictor))


def _told(predictor: Predictor, outputs: torch.Tensor) -> torch.Tensor:
    """Predictions [G, T] on the scale of contributions, by the outputs of all members."""
    values = predictor.in_units(outputs).mean(0).numpy()
    scaled = on_scale(predictor.model.task, predictor.trust.recalibrated(values))
    return torch.from_numpy(scaled)


def _atoms(packed: PackedMolecules) -> Atoms:
    return Atoms(*types_and_groups(packed), packed.operators.batch.numpy(), len(packed))


def _both(values: Floats) -> Floats:
    """[…, 2T] → […, T]: what comes by states and what comes by whole-molecule values, together."""
    by_states, by_values = np.split(values, 2, axis=-1)
    together: Floats = by_states + by_values
    return together


def _summed(atoms: Atoms, values: Floats) -> Floats:
    """Sums over the atoms of each molecule: [N, Q] → [G, Q]."""
    found = np.zeros((atoms.molecules, values.shape[1]))
    np.add.at(found, atoms.molecule, values)
    return found


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
    middle = middle_of(
        predictor, _plain(predictor, packed).take(torch.from_numpy(~apart).nonzero()[:, 0])
    )
    ways, atoms = _ways(predictor, packed, middle), _atoms(packed)
    sums = np.concatenate([_summed(atoms, ways.atoms.numpy()), ways.whole.numpy()], axis=1)
    groups = Additive.of(atoms, sums, ~apart)
    predicted = of_structure(predictor, packed)
    baseline = ways.start.numpy() + _both(groups.offset)
    usual = _summed(atoms, _both(groups(atoms)))
    judged = apart if apart.sum() > 1 else ~apart
    rest, spread = ((v[judged]).var(0) for v in (predicted - usual, predicted))
    share = np.divide(rest, spread, out=np.ones_like(spread), where=spread > 0)
    return Contributions(groups, middle, baseline, 1 - share)


def contributions_of(predictor: Predictor) -> Contributions:
    """Those a model brings along; for an older one they are learned from molecules at hand.

    These are the training molecules, or those of ESOL if the model keeps none.
    """
    model, neighbours = predictor.model, predictor.trust.neighbours
    if NAME in model.parts and (own := Contributions.from_part(model.parts[NAME])) is not None:
        return own
    assert model.preparation is not None
    texts = load_esol().smiles if neighbours is None else neighbours.smiles
    packed = read_molecules(list(texts), model.preparation)
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
