"""From a row of the paper's tables to a recipe: which parts are switched on, and how wide."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gad.settings.recipe import Recipe, RecipeError, load_recipe, recipe_names

if TYPE_CHECKING:
    from gad.experiments.records import Record
    from gad.settings.model import Inputs

_PLAIN = {"scheme": "none", "k": 0}
# GAD-s keeps k eigenpairs; whoever does not need that keeps them all.
MODELS: dict[str, dict[str, dict[str, object]]] = {
    "zinc": {
        "gad-i": {"scheme": "implicit", "k": 0},
        "gad-s": {"scheme": "spectral", "k": 30},
        "dgn": {**_PLAIN, "aggregators": ("mean", "max", "min", "dx")},
        "pna": {**_PLAIN, "aggregators": ("mean", "max", "min", "std")},
        **{
            name: {**_PLAIN, "network": name}
            for name in ("gcn", "gin", "sage", "gat", "monet", "gatedgcn", "himp", "smp")
        },
        "gsn": {**_PLAIN, "network": "gsn", "cycles": 8},
    },
    "qm9": {
        # In a short run long times hardly move; these were chosen on validation molecules of mu.
        "gad-s": {"scheme": "spectral", "k": 25, "longest_time": 1.0},
        "dgn": {**_PLAIN, "aggregators": ("mean", "sum", "max", "dx")},
        "pna": {**_PLAIN, "aggregators": ("mean", "max", "min", "std")},
    },
}
"""Data set → model → what it changes in a recipe."""
# The authors' commands differ by scheme in this, too.
_ALSO: dict[tuple[str, str], dict[str, object]] = {("zinc-authors", "gad-i"): {"batch_size": 16}}
WITHOUT_BONDS = ("gcn", "gin", "sage", "gat", "monet")
"""Models that the paper has without edge features only."""
BUDGET = 100_000
"""The most parameters on ZINC."""
USUAL = {"zinc": BUDGET, "qm9": 0}
"""Data set → the most parameters, 0 for no limit."""
# What is chosen for a baseline of QM9 so that it has as many parameters as GAD-s.
_MATCHED = ("width", "budget", "edge_channels")
CLOSE = 0.02
"""How far, relatively, DGN's and PNA's parameters may be from GAD-s's on QM9."""


@dataclass(frozen=True)
class Run:
    """One model on one set from one seed: what a record is about.

    Attributes:
        data: zinc or qm9.
        model: a key of ``MODELS[data]``.
        recipe: a recipe's name or file.
        edges: bonds in the messages.
        seed: of everything random.
        target: the property of QM9.
        settings: changes to the recipe, as text.
        budget: the most parameters; 0 for what is usual: 100,000 on ZINC, the recipe's own width on
            QM9.
        limit: at most so many molecules of each part, 0 for all.

    Example:
        >>> Run("zinc", "gad-i", "zinc-paper", True, 0, settings=(("epochs", "30"),)).name
        'gad-i-zinc-paper-edges-s0+epochs=30'
    """

    data: str
    model: str
    recipe: str
    edges: bool
    seed: int
    target: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    budget: int = 0
    limit: int = 0

    @property
    def recipe_name(self) -> str:
        """The recipe's name, without its folder if it is a file."""
        return Path(self.recipe).name.removesuffix(".toml")

    @property
    def most(self) -> int:
        """The most parameters, 0 for no limit."""
        return self.budget or USUAL[self.data]

    @property
    def extras(self) -> dict[str, str]:
        """Everything in which this run departs from its recipe and the usual budget."""
        extras = dict(self.settings)
        if self.most != USUAL[self.data]:
            extras["budget"] = str(self.budget)
        if self.limit:
            extras["limit"] = str(self.limit)
        return extras

    @property
    def name(self) -> str:
        """Of its folder, its record and its model file."""
        parts = (
            *((self.target,) if self.target else ()),
            self.model,
            self.recipe_name,
            "edges" if self.edges else "no-edges",
            f"s{self.seed}",
        )
        return "-".join(parts) + "".join(
            f"+{key}={re.sub(r'[^A-Za-z0-9.,_-]', '_', value)}"
            for key, value in sorted(self.extras.items())
        )

    @property
    def command(self) -> str:
        """What to type for this run alone."""
        words = ["gad reproduce", self.data]
        if self.target:
            words.append(f"--property {self.target}")
        words += [f"--model {self.model} --recipe {self.recipe_name}"]
        words += ["--edges" if self.edges else "--no-edges", f"--seed {self.seed}"]
        extras = self.extras
        words += [f"--{key} {extras.pop(key)}" for key in ("budget", "limit") if key in extras]
        words += [f"--set {key}={value}" for key, value in sorted(extras.items())]
        return " ".join(words)


def recipe_of(run: Run) -> Recipe:
    """The recipe of a run, with the model's switches, the seed, and the changes asked for.

    >>> recipe_of(Run("zinc", "dgn", "zinc-paper", False, 3)).model.aggregators
    ('mean', 'max', 'min', 'dx')
    """
    known = MODELS[run.data]
    if run.model not in known:
        raise RecipeError(f"{run.data} has no model {run.model!r}; there are {', '.join(known)}")
    shipped = load_recipe(run.recipe)
    switches = {**known[run.model], **_ALSO.get((run.recipe_name, run.model), {})}
    if shipped.molecules.random_walk or shipped.molecules.bond_walk:
        switches["k"] = 0  # probabilities of walks need the whole basis
    own = {"edges": run.edges, "seed": run.seed, "descriptors": False}
    if run.most:
        own |= {"width": 0, "budget": run.most}
    recipe = shipped.override({**switches, **own, **dict(run.settings)})
    if recipe.training.loss != "l1":
        raise RecipeError(
            f"loss = {recipe.training.loss!r}: the tables compare mean absolute errors, so that is "
            "what is trained and chosen by; leave loss at l1"
        )
    return recipe


def run_of(record: Record) -> Run:
    """The run that a record is about."""
    settings = dict(record.settings)
    budget, limit = (int(settings.pop(key, 0)) for key in ("budget", "limit"))
    return Run(
        record.data["name"],
        record.model,
        record.recipe,
        record.edges,
        record.seed,
        record.target,
        settings_of(settings),
        budget,
        limit,
    )


def is_current(record: Record) -> bool:
    """Whether the recipe of a record is still what its name stands for.

    A recipe that is not among those of the package is its owner's business.
    """
    if record.recipe not in recipe_names():
        return True
    run = run_of(record)
    try:
        now = recipe_of(run).to_dict()
    except RecipeError:
        return False
    then = Recipe.from_dict(record.full_recipe).to_dict()
    matched = _MATCHED if run.data == "qm9" and run.model != "gad-s" else ()
    return all(then[key] == value for key, value in now.items() if key not in matched)


def is_short(run: Run) -> bool:
    """Whether a run is allowed less than its recipe's whole schedule, or not all molecules."""
    return (
        bool(run.limit) or recipe_of(run).training.epochs < load_recipe(run.recipe).training.epochs
    )


def fitted_recipe(run: Run, inputs: Inputs) -> Recipe:
    """The recipe with the size that the experiment prescribes.

    On ZINC that is the widest model within the budget, which training finds by itself. On QM9 a
    baseline gets as many parameters as GAD-s.
    """
    recipe = recipe_of(run)
    if run.data == "qm9" and run.model != "gad-s":
        twin = recipe_of(replace(run, model="gad-s"))
        return match(recipe, parameters(twin, inputs), inputs)
    if run.most and (count := parameters(recipe, inputs)) > run.most:
        raise RecipeError(
            f"this model has {count:,} parameters, more than the budget of {run.most:,}: leave out "
            "width, or raise --budget"
        )
    return recipe


def parameters(recipe: Recipe, inputs: Inputs) -> int:
    """How many trainable parameters the model of a recipe has, for one target."""
    from gad.nn import count_parameters
    from gad.settings.model import build_model

    return count_parameters(build_model(recipe, inputs, 1))


def match(recipe: Recipe, target: int, inputs: Inputs) -> Recipe:
    """The recipe with the width and the bond channels that give so many parameters.

    Widths go in steps of the towers, which is coarse; channels of the bonds fill what is missing.
    """

    def of(width: int, channels: int) -> Recipe:
        return recipe.override({"width": width, "budget": 0, "edge_channels": channels})

    step, usual = recipe.model.towers, recipe.model.edge_channels
    width = step
    while parameters(of(width + step, 1), inputs) <= target:
        width += step
    channels = range(1, 4 * usual + 1) if recipe.model.edges else range(usual, usual + 1)
    candidates = [of(w, c) for w in (width, width + step) for c in channels]
    counts = [parameters(candidate, inputs) for candidate in candidates]
    close = [
        (abs(candidate.model.edge_channels - usual), candidate)
        for candidate, count in zip(candidates, counts, strict=True)
        if abs(count - target) <= 0.5 * CLOSE * target
    ]
    if not close:
        raise RecipeError(
            f"no width of {recipe.model.scheme} with these settings has {target:,} parameters ± 1 %"
        )
    return min(close, key=lambda pair: pair[0])[1]


def settings_of(text: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Settings in a fixed order; what has an option of its own, or is fixed, is refused."""
    for key in ("seed", "edges", "budget", "descriptors"):
        if key in text:
            option = {"seed": "--seed", "edges": "--edges", "budget": "--budget"}.get(key)
            raise RecipeError(
                f"--set {key} is not for experiments"
                + (f": use {option}" if option else ": their inputs are fixed")
            )
    return tuple(sorted(text.items()))
