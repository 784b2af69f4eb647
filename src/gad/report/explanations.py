"""Explanations as a page and as pictures: molecules in one scale of colours, and words.

The page is ``templates/explanations.html.j2``; like the report of a run it needs nothing else.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from gad.chem import parse, parse_block
from gad.chem.coloured import Panel, draw_coloured
from gad.chem.draw import NEGATIVE, POSITIVE
from gad.chem.fragments import Fragment, fragments
from gad.prediction.explanation.explain import Explanation, explain
from gad.prediction.explanation.kernel import Kernel
from gad.prediction.explanation.tables import KERNELS, Explained
from gad.prediction.predictor import Predictor
from gad.report.text import number

if TYPE_CHECKING:
    from markupsafe import Markup

    from gad.settings.task import Target

Floats = npt.NDArray[np.float64]

MOST_CARDS = 100
"""Molecules drawn on a page or a picture."""

_NEIGHBOURS = 3
_MOST_FRAGMENTS = 12
# So many pieces of a molecule are named, each way.
_MOST_PIECES = 3
# Below this share of the scale a contribution is not worth a word.
_SMALL = 0.05


@dataclass(frozen=True)
class Piece:
    """A piece of a molecule, or a kind of piece over many molecules.

    Attributes:
        name: for people.
        smiles: with * where it was cut off.
        value: the sum of its atoms' contributions; the mean of such sums for many.
        count: how often it occurs.
        molecules: in how many molecules.
    """

    name: str
    smiles: str
    value: float
    count: int = 1
    molecules: int = 1


@dataclass(frozen=True)
class Near:
    """A training molecule that is similar: its picture, how similar, and what was measured."""

    picture: Markup
    similarity: float
    measured: str


@dataclass(frozen=True)
class Card:
    """One molecule and one target on the page."""

    row: int
    text: str
    target: str
    prediction: float
    told: str
    baseline: float
    atoms: float
    whole: float
    particular: float
    picture: Markup
    up: list[Piece]
    down: list[Piece]
    kernels: list[tuple[str, Markup]] = field(default_factory=list)
    near: list[Near] = field(default_factory=list)


@dataclass(frozen=True)
class Page:
    """Everything the page shows."""

    title: str
    scale: str
    largest: float
    fidelity: list[tuple[str, float]]
    cards: list[Card]
    pieces: dict[str, list[Piece]]
    total: int
    shown: int
    rejected: int
    several: bool


def render(
    predictor: Predictor, explained: Explained, kernels: Sequence[Kernel | None], title: str
) -> str:
    """The page of explanations as HTML."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from gad import __version__

    environment = Environment(
        loader=PackageLoader("gad.report"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters.update(number=number, signed=signed)
    page = make_page(predictor, explained, kernels, title)
    return environment.get_template("explanations.html.j2").render(
        page=page, version=__version__, low=_css(NEGATIVE), high=_css(POSITIVE)
    )


def make_page(
    predictor: Predictor, explained: Explained, kernels: Sequence[Kernel | None], title: str
) -> Page:
    """What the page shows of these explanations."""
    task, places = predictor.model.task, explained.places
    shown = explained.only(range(min(len(explained.found), MOST_CARDS)))
    largest = scale_of(explained)
    near = _neighbours(predictor, shown)
    cards, pieces = [], {}
    for column, place in zip(explained.columns, places, strict=True):
        target = _target(task.targets, task.spans, place)
        for k, (row, why) in enumerate(zip(shown.rows, shown.found, strict=True)):
            cards.append(
                _card(
                    explained,
                    row,
                    why,
                    column,
                    place,
                    target,
                    largest,
                    kernels[k],
                    near.get(row, ()),
                )
            )
        pieces[column] = _over_all(explained, place)
    # All targets of a molecule stand together.
    cards.sort(key=lambda card: card.row)
    kinds = {_target(task.targets, task.spans, place).kind for place in places}
    fidelity = predictor.contributions.fidelity[places].tolist()
    return Page(
        title,
        _scale_in_words(kinds, [_target(task.targets, task.spans, p).transform for p in places]),
        largest,
        list(zip(explained.columns, fidelity, strict=True)),
        cards,
        pieces,
        len(explained.found),
        len(shown.found),
        len(explained.rejects),
        len(places) > 1,
    )


def pictures(
    explained: Explained,
    kernels: Sequence[Kernel | None],
    format: Literal["svg", "png"],  # noqa: A002
) -> bytes:
    """All molecules, and the kernels of a chosen atom behind each, in one picture."""
    panels, largest = [], scale_of(explained)
    shown = explained.only(range(min(len(explained.found), MOST_CARDS)))
    for why, kernel in zip(shown.found, kernels, strict=False):
        molecule = _molecule(explained, why)
        for column, place in zip(explained.columns, explained.places, strict=True):
            caption = f"{column} {number(float(why.prediction[place]))}"
            panels.append(Panel(molecule, why.atoms[:, place].tolist(), caption))
        if kernel is not None:
            panels += [
                Panel(molecule, (largest * shade).tolist(), _of_kernel(kernel, k))
                for k, shade in enumerate(_shades(kernel))
            ]
    size = (420, 320) if len(panels) == 1 else (280, 230)
    return draw_coloured(panels, largest, size=size, format=format)


def scale_of(explained: Explained) -> float:
    """The end of the scale that all molecules share: nearly all contributions lie within."""
    values = [np.abs(why.atoms[:, explained.places]).ravel() for why in explained.found]
    sizes = np.concatenate(values) if values else np.zeros(0)
    most = float(np.quantile(sizes, 0.98)) if sizes.size else 0.0
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return float(
        next(f"{r * power:.2g}" for r in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if r * power >= most)
    )


def signed(value: float) -> str:
    """A contribution: always with its sign.

    >>> signed(0.123), signed(-2)
    ('+0.12', '−2.00')
    """
    return ("+" if value >= 0 else "−") + f"{abs(value):.2f}"


def _card(
    explained: Explained,
    row: int,
    why: Explanation,
    column: str,
    place: int,
    target: Target,
    largest: float,
    kernel: Kernel | None,
    near: Sequence[Near],
) -> Card:
    molecule, values = _molecule(explained, why), why.atoms[:, place]
    sums: dict[Fragment, float] = {
        piece: float(values[list(piece.atoms)].sum()) for piece in fragments(molecule)
    }
    named: dict[str, list[float]] = defaultdict(list)
    names = {piece.smiles: piece.name for piece in sums}
    for piece, value in sums.items():
        named[piece.smiles].append(value)
    pieces = [Piece(names[s], s, sum(v), len(v)) for s, v in named.items()]
    worth = [piece for piece in pieces if abs(piece.value) >= _SMALL * largest]
    ranked = sorted(worth, key=lambda piece: piece.value)
    prediction = float(why.prediction[place])
    return Card(
        row=row + 1,
        text="" if explained.blocks else why.text,
        target=column,
        prediction=prediction,
        told=_told(target, prediction),
        baseline=float(why.baseline[place]),
        atoms=float(values.sum()),
        whole=float(why.whole[place]),
        particular=float(why.particular[place]),
        picture=_svg(Panel(molecule, values.tolist()), largest),
        up=[piece for piece in reversed(ranked) if piece.value > 0][:_MOST_PIECES],
        down=[piece for piece in ranked if piece.value < 0][:_MOST_PIECES],
        kernels=[]
        if kernel is None
        else [
            (_of_kernel(kernel, k), _svg(Panel(molecule, shade.tolist()), 1.0))
            for k, shade in enumerate(_shades(kernel))
        ],
        near=list(near),
    )


def _over_all(explained: Explained, place: int) -> list[Piece]:
    """The kinds of pieces that matter most over all molecules: frequent and far from 0."""
    found: dict[str, list[float]] = defaultdict(list)
    within: dict[str, set[int]] = defaultdict(set)
    names: dict[str, str] = {}
    if len(explained.found) < 2:
        return []
    for k, why in enumerate(explained.found):
        for piece in fragments(_molecule(explained, why)):
            found[piece.smiles].append(float(why.atoms[list(piece.atoms), place].sum()))
            within[piece.smiles].add(k)
            names[piece.smiles] = piece.name
    kinds = [
        Piece(names[s], s, float(np.mean(v)), len(v), len(within[s]))
        for s, v in found.items()
        if len(within[s]) > 1
    ]
    # What a kind adds over all molecules, shrunk where there are few.
    kinds.sort(key=lambda piece: -abs(piece.value) * math.sqrt(piece.molecules))
    return sorted(kinds[:_MOST_FRAGMENTS], key=lambda piece: -piece.value)


def _neighbours(predictor: Predictor, shown: Explained) -> dict[int, list[Near]]:
    """Row → similar training molecules, coloured alike; none where the model keeps none."""
    if predictor.trust.neighbours is None or shown.blocks or not shown.found:
        return {}
    texts = [why.text for why in shown.found]
    features = np.zeros((len(texts), len(predictor.model.features)))
    told = predictor.predict_detailed(texts, features=features, neighbours=_NEIGHBOURS)
    lists = told.neighbours or []
    names = sorted({near.smiles for nearest in lists for near in nearest})
    zero = np.zeros((len(names), len(predictor.model.features)))
    whys = dict(zip(names, explain(predictor, names, features=zero)[0], strict=True))
    largest, place = scale_of(shown), shown.places[0]
    target = predictor.model.task.names.index(
        _target(predictor.model.task.targets, predictor.model.task.spans, place).name
    )
    found: dict[int, list[Near]] = {}
    for row, nearest in zip(shown.rows, lists, strict=True):
        found[row] = [
            Near(
                _svg(Panel(near.smiles, why.atoms[:, place].tolist()), largest),
                near.similarity,
                _measured(near.values[target]),
            )
            for near in nearest
            if (why := whys[near.smiles]) is not None
        ]
    return found


def _measured(value: float | str | None) -> str:
    if value is None:
        return "not measured"
    return value if isinstance(value, str) else number(value)


def _told(target: Target, prediction: float) -> str:
    """What a prediction on the scale of contributions is in the user's terms; "" if the same."""
    if target.kind != "regression":
        return f"probability {1 / (1 + math.exp(-prediction)):.2f}"
    if target.transform == "log10":
        return f"{number(float(target.backward(np.array(prediction))))} {target.unit}".strip()
    return target.unit


def _scale_in_words(kinds: set[str], transforms: Sequence[str]) -> str:
    said = []
    if kinds - {"regression"}:
        said.append("Of a class the logit is explained: 0 is a probability of 0.50, 2 one of 0.88.")
    if "log10" in transforms:
        said.append("Contributions add up on the decimal logarithm, which is what is learned.")
    return " ".join(said)


def _target(targets: Sequence[Target], spans: Sequence[slice], place: int) -> Target:
    return next(t for t, s in zip(targets, spans, strict=True) if s.start <= place < s.stop)


def _of_kernel(kernel: Kernel, k: int) -> str:
    return (
        f"atom {kernel.atom}, {KERNELS[k]} time {kernel.times[k]:.2g}, reach {kernel.reach[k]:.1f}"
    )


def _shades(kernel: Kernel) -> Floats:
    """The root of every share, so that small ones show as well [K, n]."""
    shades: Floats = np.sqrt(kernel.values.clip(0, 1)).T
    return shades


def _molecule(explained: Explained, why: Explanation) -> Any:
    return parse_block(why.text) if explained.blocks else parse(why.text)


def _svg(panel: Panel, largest: float) -> Markup:
    from markupsafe import Markup

    drawn = draw_coloured([panel], largest, size=(300, 230), bar=False)
    return Markup(drawn.decode())  # noqa: S704


def _css(colour: tuple[float, float, float]) -> str:
    return "rgb({:.0f},{:.0f},{:.0f})".format(*(255 * (1 - 0.9 * (1 - part)) for part in colour))
