"""What each ingredient of a recipe is worth: short runs that differ from it in one thing."""

from __future__ import annotations

from pathlib import Path

from gad.experiments.grid import Grid
from gad.experiments.models import is_current
from gad.experiments.records import Record, read_records

RECIPE, EPOCHS, SEED = "zinc-best", "60", 0
_WORDS = {
    "DGN": "without diffusion (DGN)",
    "no bonds": "without bonds",
    "aggregators=mean,max,min": "without directions",
    "cycles=0": "without counts of cycles",
    "random_walk=0": "without random walks",
    "readout=mean": "mean over atoms alone",
    "ema=0": "without the average of weights",
}
"""What some changes take away."""


def ingredients(results: Path) -> Grid:
    """The recipe as it is, then every run that differs from it, the least harmful change first.

    ``difference`` is how much higher the validation error is than that of the recipe as it is.
    """
    runs = {
        _change(record): record
        for record in read_records(results, "zinc")
        if record.is_finished and _belongs(record)
    }
    usual = runs.pop("", None)
    ordered = sorted(runs.items(), key=lambda run: run[1].val_mae or 0)
    lines = [] if usual is None else [_line("as it is", usual, None)]
    lines += [_line(_WORDS.get(change, change), record, usual) for change, record in ordered]
    numbers = ("validation", "trimmed", "difference", "parameters", "minutes")
    return Grid(("zinc-best", *numbers), lines, 1)


def _belongs(record: Record) -> bool:
    about = record.recipe, record.seed, record.settings.get("epochs")
    return about == (RECIPE, SEED, EPOCHS) and is_current(record)


def _change(record: Record) -> str:
    """In what a run differs from the recipe, "" for nothing."""
    told = [f"{key}={value}" for key, value in sorted(record.settings.items()) if key != "epochs"]
    if record.model != "gad-i":
        told.insert(0, record.model.upper())
    if not record.edges:
        told.insert(0, "no bonds")
    return ", ".join(told)


def _line(what: str, record: Record, usual: Record | None) -> tuple[str, ...]:
    assert record.val_mae is not None
    trimmed = "–" if record.val_trimmed is None else f"{record.val_trimmed:.4f}"
    more = "–"
    if usual is not None and usual.val_mae is not None:
        more = f"{record.val_mae - usual.val_mae:+.4f}"
    size, minutes = record.parameters or 0, record.minutes or 0
    return what, f"{record.val_mae:.4f}", trimmed, more, f"{size:,}", f"{minutes:.0f}"
