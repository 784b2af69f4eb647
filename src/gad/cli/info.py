"""``gad info`` and ``gad recipes``: what a model, and what a recipe, says of itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gad.cli.console import Outcome, facts
from gad.cli.options import Model

if TYPE_CHECKING:
    from gad.prediction.model_file import Card
    from gad.prediction.model_file import Model as FileModel
    from gad.settings.setting import Setting
    from gad.settings.task import TargetCard


def info(model: Model) -> Outcome:
    """Show what a model predicts, how well, and how it was made."""
    from rich.console import Group
    from rich.text import Text

    from gad.prediction.bases import model_path
    from gad.prediction.model_file import load_model, read_card
    from gad.report.report import terminal_summary
    from gad.report.summary import RunSummary

    path = model_path(model)
    loaded = load_model(path)  # refuses a file whose card and weights do not fit
    card = read_card(path)
    task, notes = card["task"], card["notes"]
    if not task["targets"]:
        title = Text(f"{model}: a base for models to start from; it predicts nothing", "bold")
        told = {**notes["pretraining"], "attribution": notes["attribution"]}
        shown = Group(title, "", facts({**_facts(card, notes), **told}))
        return Outcome({"path": str(model), **card}, shown)
    named = [_named(target) for target in task["targets"]]
    about = {"task": task["kind"], "targets": task["names"], "units": task["units"]}
    shown = Group(
        Text(f"{model}: {task['kind']} of {', '.join(named)}", style="bold"),
        "",
        terminal_summary(RunSummary.from_dict({**notes, **about})),
        "",
        facts(_facts(card, notes, _blend(loaded))),
    )
    return Outcome({"path": str(model), **card}, shown)


def _named(target: TargetCard) -> str:
    """A target with its unit or classes, and how it is learned, if not as it is."""
    transform = target["transform"].replace("none", "")
    told = ", ".join(filter(None, (target["unit"], "/".join(target["classes"]), transform)))
    return f"{target['name']} ({told})" if told else str(target["name"])


def _facts(card: Card, notes: Mapping[str, Any], blend: str | None = None) -> dict[str, object]:
    """The rest of the card, as names and values."""
    rows, data = notes.get("rows", {}), notes.get("data", {})
    members = card["members"]
    return {
        "data": data.get("title"),
        "rows": _rows(rows) if rows else None,
        "data SHA-256": data.get("fingerprint"),
        "needs columns": ", ".join(card["features"]) or None,
        "parameters": f"{card['parameters']:,}" + (f" × {members} models" if members > 1 else ""),
        "blend": blend,
        **_trust(card, notes.get("uncertainty") or {}),
        "options": _listed(notes.get("options") or {}, "=") or None,
        "judged by": notes.get("metric"),
        "recipe": _listed(card["recipe"], "=", ", "),
        "versions": _listed(notes.get("versions") or {}),
        "commit": notes.get("commit"),
        "file format": card["format"],
    }


def _blend(model: FileModel) -> str | None:
    """How much network, trees and kernel count, on average over targets and members."""
    from gad.prediction.predictor import Predictor

    own = [blend.shares.mean(dim=1) for blend in Predictor(model).blends if blend is not None]
    if not own:
        return None
    shares = (sum(part) / len(own) for part in zip(*own, strict=True))
    names = ("network", "trees", "kernel")
    return ", ".join(f"{share:.0%} {name}" for share, name in zip(shares, names, strict=True))


def _trust(card: Card, told: Mapping[str, Any]) -> dict[str, str | None]:
    """What the model keeps to say how far to trust it."""
    by, width = told.get("difficulty") or {}, told.get("width") or {}
    learned = {
        target["name"]: target["transform"].replace("none", "")
        for target in card["task"]["targets"]
    }
    intervals = [
        f"{learned.get(name, '')} {name} ± {q:.4g}".lstrip()
        + (f", by {by[name]}: ± {q * width[name]:.4g} on average" if name in by else "")
        for name, q in (told.get("q") or {}).items()
    ]
    classes = [
        f"{name}: expected calibration error {own['calibration_error']:.3g}, "
        + (f"recalibrated by {how}" if (how := own.get("recalibration")) != "none" else "as it is")
        for name, own in (told.get("classes") or {}).items()
        if own.get("calibration_error") is not None
    ]
    parts: Mapping[str, Any] = card["parts"]
    domain, kept = parts.get("domain"), parts.get("neighbours")
    return {
        "interval": "; ".join(intervals) or None,
        "probabilities": "; ".join(classes) or None,
        "domain": domain
        and f"{domain['by']}: inside to {domain['inside']:.3g}, edge to {domain['edge']:.3g}",
        "neighbours": f"{kept['molecules']:,} training molecules" if kept else None,
    }


def _rows(rows: Mapping[str, int]) -> str:
    from gad.report.summary import PARTS

    parts = [f"{rows[part]:,} {name}" for part, name in PARTS.items() if part in rows]
    return f"{rows['used']:,} of {rows['read']:,} used: {', '.join(reversed(parts))}"


def _listed(values: Mapping[str, Any], between: str = " ", after: str = ", ") -> str:
    def text(value: Any) -> str:
        return "+".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)

    return after.join(f"{key}{between}{text(value)}" for key, value in values.items())


def recipes(
    settings: Annotated[
        bool, typer.Option("--settings", help="List every setting of a recipe with its meaning.")
    ] = False,
) -> Outcome:
    """List the recipes that come with the package, or the settings a recipe has."""
    from gad.settings.recipe import load_recipe, recipe_names

    if settings:
        return _settings()
    found = {
        name: {"about": _about(name), "settings": load_recipe(name).to_dict()}
        for name in recipe_names()
    }
    shown = facts({name: recipe["about"] for name, recipe in found.items()})
    return Outcome({"recipes": found}, shown)


def _settings() -> Outcome:
    """Every setting, by section: its default, what it may be, and what it means."""
    from rich.console import Group
    from rich.text import Text

    from gad.settings.sections import SECTIONS
    from gad.settings.setting import settings_of

    found = {name: settings_of(kind) for name, kind in SECTIONS.items()}
    told = {name: {key.key: key.to_dict() for key in keys} for name, keys in found.items()}
    shown: list[Any] = []
    for section, keys in found.items():
        shown += [
            Text(f"[{section}]", style="bold"),
            facts({setting.key: _explained(setting) for setting in keys}),
            "",
        ]
    return Outcome({"settings": told}, Group(*shown[:-1]))


def _explained(setting: Setting) -> str:
    """A setting in a line: its default, what it means, and its limits where they are not clear."""
    value = json.dumps(setting.default).replace('"', "")
    limits = ""
    if not all(choice in setting.meaning for choice in setting.choices):
        limits = f" ({', '.join(setting.choices)})"
    elif setting.is_number and setting.high < 1e9:
        limits = f" ({setting.low:g} to {setting.high:g})"
    return f"{value}: {setting.meaning}{limits}"


def _about(name: str) -> str:
    """What a recipe's first lines, its comment, say of it."""
    from gad.settings.recipe import shipped

    comment = takewhile(lambda line: line.startswith("#"), shipped(name).splitlines())
    return " ".join(line.lstrip("# ") for line in comment)
