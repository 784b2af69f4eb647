"""The table of what each ingredient of a recipe is worth."""

from __future__ import annotations

from gad.experiments.grid import grid
from gad.experiments.ingredients import ingredients
from gad.experiments.models import Run, recipe_of
from tests.experiments.conftest import record


def test_what_differs_is_named_and_compared(tmp_path):
    def run(val_mae, *, model="gad-i", seed=0, edges=True, **settings):
        record(
            tmp_path, "zinc", model=model, recipe="zinc-best", seed=seed, edges=edges,
            settings=settings, val_mae=val_mae, val_trimmed=val_mae / 2,
        )  # fmt: skip

    run(0.12, epochs="60")
    run(0.20, epochs="60", cycles="0")
    run(0.13, model="dgn", epochs="60")
    run(0.11, epochs="60", batch_size="16", bond_states="true")
    run(0.30, edges=False, epochs="60")
    run(0.01, epochs="200")  # of another length
    run(0.01, epochs="60", seed=1)
    table = ingredients(tmp_path)
    assert [line[:4] for line in table.lines] == [
        ("as it is", "0.1200", "0.0600", "–"),
        ("batch_size=16, bond_states=true", "0.1100", "0.0550", "-0.0100"),
        ("without diffusion (DGN)", "0.1300", "0.0650", "+0.0100"),
        ("without counts of cycles", "0.2000", "0.1000", "+0.0800"),
        ("without bonds", "0.3000", "0.1500", "+0.1800"),
    ]


def test_an_earlier_form_of_the_recipe_is_left_out(tmp_path):
    then = recipe_of(Run("zinc", "gad-i", "zinc-best", True, 0, settings=(("epochs", "60"),)))
    about = {"recipe": "zinc-best", "settings": {"epochs": "60"}}
    record(tmp_path, "zinc", **about, full_recipe={**then.to_dict(), "layers": 7})
    assert ingredients(tmp_path).lines == []


def test_a_short_run_does_not_stand_for_its_recipe(tmp_path):
    """Of it and a longer one of the recipe changed, the better on validation is shown."""
    short, long = {"epochs": "60"}, {"epochs": "200", "readout": "sum"}
    record(tmp_path, "zinc", recipe="zinc-best", settings=short, val_mae=0.2)
    record(tmp_path, "zinc", recipe="zinc-best", settings=long, val_mae=0.1)
    lines = grid(tmp_path, "zinc", missing=False, variations=False).lines
    assert [line[2] for line in lines] == ["zinc-best + readout=sum (short)"]
