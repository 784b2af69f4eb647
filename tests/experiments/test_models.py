"""Rows of the paper's tables as recipes: the right parts, at the right size."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
import typer.main

from gad.cli.app import app
from gad.experiments.models import (
    BUDGET,
    CLOSE,
    MODELS,
    WITHOUT_BONDS,
    Run,
    fitted_recipe,
    is_current,
    is_short,
    parameters,
    recipe_of,
    run_of,
    settings_of,
)
from gad.experiments.records import Record
from gad.settings.model import Inputs
from gad.settings.recipe import RecipeError, load_recipe

ZINC, QM9 = Inputs((28,), 0, (3,), 0), Inputs((5,), 11, (3, 2), 0)


def zinc(model: str = "gad-i", recipe: str = "zinc-paper", edges: bool = True, **more) -> Run:
    return Run("zinc", model, recipe, edges, more.pop("seed", 0), budget=BUDGET, **more)


def qm9(model: str, **more) -> Run:
    return Run("qm9", model, "qm9", True, 0, "mu", **more)


SWITCHES = {
    "gad-i": {"scheme": "implicit", "k": 0, "network": "gad"},
    "gad-s": {"scheme": "spectral", "k": 30, "network": "gad"},
    "dgn": {"scheme": "none", "aggregators": ("mean", "max", "min", "dx"), "network": "gad"},
    "pna": {"scheme": "none", "aggregators": ("mean", "max", "min", "std"), "network": "gad"},
    "gcn": {"network": "gcn"},
    "gsn": {"network": "gsn", "cycles": 8},
}


def _as_tuple(value):
    return tuple(value) if isinstance(value, list) else value


@pytest.mark.parametrize("model", SWITCHES)
@pytest.mark.parametrize("recipe", ["zinc-paper", "zinc-authors"])
def test_a_model_is_its_switches(model, recipe):
    chosen = recipe_of(zinc(model, recipe, edges=False, seed=3))
    wanted = {**SWITCHES[model], "seed": 3, "edges": False, "descriptors": False}
    assert {key: _as_tuple(chosen.to_dict()[key]) for key in wanted} == wanted


def test_the_two_recipes_differ_as_the_paper_and_its_code_do():
    both = [recipe_of(zinc("gad-i", name)) for name in ("zinc-paper", "zinc-authors")]
    differing = {key for key, value in both[0].to_dict().items() if both[1].to_dict()[key] != value}
    assert differing == {"aggregators"}
    assert [set(recipe.model.aggregators) for recipe in both] == [
        {"mean", "max", "min", "av", "dx"},
        {"mean", "max", "min", "dx"},
    ]
    assert [recipe.training.batch_size for recipe in both] == [16, 16]
    assert recipe_of(zinc("gad-s", "zinc-authors")).training.batch_size == 64


@pytest.mark.parametrize("name", ["zinc-paper", "zinc-authors"])
def test_settings_of_the_paper(name):
    recipe = load_recipe(name).to_dict()
    settings = {
        "loss": "l1", "learning_rate": 1e-3, "weight_decay": 3e-6, "optimizer": "adam",
        "schedule": "plateau",
        "plateau_factor": 0.5, "plateau_patience": 15, "plateau_threshold": 0.004,
        "minimum_rate": 1e-5, "epochs": 300, "layers": 4, "towers": 5, "readout": "mean",
        "batch_norm": True, "graph_norm": True, "dropout": 0.0, "clip": 0.0, "ema": 0.0,
        "scalers": ["identity", "amplification", "attenuation"], "descriptors": False,
    }  # fmt: skip
    assert {key: recipe[key] for key in settings} == settings


@pytest.mark.parametrize(
    ("model", "edges"),
    [(m, e) for m in MODELS["zinc"] for e in (False, True) if not (e and m in WITHOUT_BONDS)],
)
def test_the_widest_model_within_the_budget(model, edges):
    recipe = fitted_recipe(zinc(model, edges=edges), ZINC)
    assert recipe.model.width == 0
    assert 0.8 * BUDGET < parameters(recipe, ZINC) <= BUDGET


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"layers": "6"}, {"width": "40"}], ids=str)
@pytest.mark.parametrize("model", ["dgn", "pna"])
def test_baselines_of_qm9_have_as_many_parameters_as_gad(model, changes):
    settings = settings_of(changes)
    target = parameters(fitted_recipe(qm9("gad-s", settings=settings), QM9), QM9)
    found = fitted_recipe(qm9(model, settings=settings), QM9)
    assert abs(parameters(found, QM9) / target - 1) <= CLOSE
    assert found.model.scheme == "none"
    assert found.model.layers == int(changes.get("layers", 8))


@pytest.mark.slow
def test_a_budget_for_qm9_binds_all():
    runs = [qm9(model, budget=60_000) for model in MODELS["qm9"]]
    counts = [parameters(fitted_recipe(run, QM9), QM9) for run in runs]
    assert counts[0] <= 60_000
    assert all(abs(count / counts[0] - 1) <= CLOSE for count in counts)


def test_only_what_was_asked_for_makes_a_run_short():
    assert not is_short(zinc())
    assert not is_short(zinc(settings=(("epochs", "300"),)))
    assert is_short(zinc(settings=(("epochs", "299"),)))
    assert is_short(zinc(limit=10))


def test_names_tell_runs_apart():
    runs = [
        zinc(), zinc("gad-s"), zinc(recipe="zinc-best"), zinc(edges=False), zinc(seed=1),
        zinc(limit=5), zinc(settings=(("k", "5"),)), zinc(settings=(("k", "6"),)), qm9("gad-s"),
        Run("zinc", "gad-i", "zinc-paper", True, 0, budget=500_000),
    ]  # fmt: skip
    assert len({run.name for run in runs}) == len(runs)
    assert len({run.command for run in runs}) == len(runs)
    assert all("/" not in run.name for run in runs)


@pytest.mark.parametrize(
    "run",
    [
        zinc("dgn", edges=False, seed=2, settings=settings_of({"laplacian": "combinatorial"})),
        zinc(limit=7, settings=settings_of({"epochs": "3", "aggregators": "mean,dx"})),
        qm9("pna", settings=settings_of({"epochs": "20"})),
        qm9("gad-s", budget=100_000),
    ],
    ids=lambda run: run.name,
)
def test_the_recorded_command_can_be_typed(run, monkeypatch):
    taken = []

    def perform_all(runs, *_, **__):
        taken.extend(runs)
        return []

    monkeypatch.setattr("gad.experiments.jobs.perform_all", perform_all)
    _, *arguments = shlex.split(run.command)
    typer.main.get_command(app)(arguments, standalone_mode=False)
    assert taken == [run]


@pytest.mark.parametrize("run", [zinc("dgn", seed=2, limit=3), qm9("pna", budget=70_000)])
def test_a_record_knows_its_run(run):
    fitted = fitted_recipe(run, ZINC if run.data == "zinc" else QM9)
    record = Record(
        status="started", command=run.command, model=run.model, recipe=run.recipe, edges=run.edges,
        target=run.target, seed=run.seed, settings=run.extras, short=False, unit="",
        data={"name": run.data}, machine={}, full_recipe=fitted.to_dict(), curve={},
    )  # fmt: skip
    assert run_of(record).name == run.name
    assert is_current(record)
    assert not is_current(replace(record, full_recipe={**fitted.to_dict(), "dropout": 0.5}))


MISTAKES = {
    "other loss": (zinc(settings=(("loss", "mse"),)), "leave loss at l1"),
    "too wide": (zinc(settings=(("width", "100"),)), "more than the budget"),
    "unknown key": (zinc(settings=(("widht", "100"),)), "did you mean 'width'"),
    "not on qm9": (Run("qm9", "gcn", "qm9", True, 0, "mu"), "gad-s, dgn, pna"),
}


@pytest.mark.parametrize(("run", "hint"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_explained(run, hint):
    with pytest.raises(RecipeError, match=hint):
        fitted_recipe(run, ZINC)


@pytest.mark.parametrize("key", ["seed", "edges", "budget", "descriptors"])
def test_what_makes_a_run_is_no_setting(key):
    with pytest.raises(RecipeError, match=key):
        settings_of({key: "1"})
