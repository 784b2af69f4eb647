"""Pages that are made from the program itself: commands, settings, recipes, Python names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import takewhile
from typing import Any

from website.markup import canonical, markdown_docstring
from website.paths import ROOT

SOURCE = ROOT / "src" / "gad"
_COMMANDS = """\
Every command has `--help` with the same text, `--json` for programs, and these exit codes: 0 done,
1 failed, 2 wrong usage, 3 rows rejected with `--strict`, 130 interrupted."""
_SETTINGS = """\
A recipe is a TOML file with these sections. `--set KEY=VALUE` changes one setting, and so does
`settings={"key": value}` in Python; a setting that is not named has its default. `gad recipes
--settings` prints this list."""


def _row(cells: Iterable[object]) -> str:
    """A row of a table; a bar inside a cell is escaped, but for those inside of code."""
    escaped = (re.sub(r"`[^`]*`|\|", _escaped, str(cell)) for cell in cells)
    return "| " + " | ".join(escaped) + " |"


def _escaped(found: re.Match[str]) -> str:
    return "\\|" if found[0] == "|" else found[0]


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    names = list(head)
    return "\n".join([_row(names), _row("---" for _ in names), *map(_row, rows)])


def _plain(text: str) -> str:
    """Rich's markup without its tags."""
    from rich.text import Text

    return Text.from_markup(text).plain


# --------------------------------------------------------------------------- commands
def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", {})
    if not inner:
        yield name, command
    for key, its in inner.items():
        yield from _commands(its, f"{name} {key}")


def all_commands() -> dict[str, Any]:
    """Every command of the command line, by its full name.

    >>> "gad nodes train" in all_commands()
    True
    """
    from typer.main import get_command

    from gad.cli.app import app

    return dict(_commands(get_command(app), "gad"))


def _default(parameter: Any) -> str:
    value = parameter.default
    if value in (None, False, (), []) or callable(value) or not parameter.show_default:
        return ""
    return f" Default: `{value}`."


def _options(command: Any) -> Iterator[str]:
    """Tables of a command's arguments and options, panel by panel."""
    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.params:
        if parameter.name == "help" or getattr(parameter, "hidden", False):
            continue
        if parameter.param_type_name == "argument":
            name, panel = f"`{parameter.metavar or parameter.name.upper()}`", "Arguments"
        else:
            wants = "" if parameter.is_flag else f" {parameter.metavar or parameter.type.name}"
            wants = wants.replace("|", " | ")  # so that a long list can be broken
            named = [*parameter.opts, *parameter.secondary_opts]
            name = ", ".join(f"`{n}{wants if n == named[0] else ''}`" for n in named)
            panel = getattr(parameter, "rich_help_panel", None) or "Options"
        text = _plain(parameter.help or "").strip() + _default(parameter)
        panels.setdefault(panel, []).append((name, text))
    for panel, rows in panels.items():
        yield f"**{panel}**\n\n" + _table(("", "meaning"), rows)


def _examples(epilog: str | None) -> str:
    commands = re.findall(r"(?m)^\$ (.+)$", _plain(epilog or ""))
    return "```sh\n" + "\n".join(commands) + "\n```" if commands else ""


def commands_page() -> str:
    """Every command with its options and examples, from the Typer application."""
    parts = [
        "# Commands",
        _COMMANDS,
    ]
    for name, command in all_commands().items():
        told = _plain(inspect.cleandoc(command.help or ""))
        parts += [f"## {name}", told, _examples(command.epilog), *_options(command)]
    return "\n\n".join(part for part in parts if part) + "\n"


# --------------------------------------------------------------------------- settings
def _shown(value: object) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{','.join(map(str, value))}`" if value else "none"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _allowed(setting: Any) -> str:
    if setting.choices:
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    if setting.kind is bool:
        return "`true`, `false`"
    if setting.kind not in (int, float):
        return "a word"
    top = f" to {setting.high:g}" if setting.high < 1e9 else " or more"
    return f"{setting.low:g}{top}"


def settings_page() -> str:
    """Every setting of a recipe, from its declaration, and every recipe."""
    from gad.settings.sections import SECTIONS, all_settings

    parts = [
        "# Settings and recipes",
        _SETTINGS,
    ]
    for section, kind in SECTIONS.items():
        rows = [
            (f"`{s.key}`", _shown(s.default), _allowed(s), s.meaning)
            for s in all_settings().values()
            if s.section == section
        ]
        about = inspect.cleandoc(kind.__doc__ or "")
        parts += [f"## [{section}]", re.sub(r":\w+:`([^`]+)`", r"`\1`", about)]
        parts.append(_table(("setting", "default", "allowed", "meaning"), rows))
    parts += ["## Recipes", "The recipes that come along, as they are:"]
    for file in sorted((SOURCE / "recipes").glob("*.toml")):
        lines = file.read_text(encoding="utf-8").splitlines()
        about = list(takewhile(lambda line: line.startswith("#"), lines))
        values = "\n".join(lines[len(about) :]).strip()
        told = " ".join(line.strip("# ") for line in about)
        parts += [f"### {file.stem}", told, f"```toml\n{values}\n```"]
    return "\n\n".join(part for part in parts if part) + "\n"


# --------------------------------------------------------------------------- Python
def rooms() -> list[str]:
    """The packages and modules of the library, in the order of the import contract."""
    layers = re.findall(r'(?m)^ +"(\(gad\..*)",$', (ROOT / "pyproject.toml").read_text("utf-8"))
    named = [name for line in layers for name in re.findall(r"gad\.(\w+)", line)]
    return [name for name in named if (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file()]


def _names(module: Any) -> str:
    """A table of what a module exports: name, first line, link to where it is described."""
    rows = []
    for name in sorted(getattr(module, "__all__", ()), key=str.lower):
        full, value = f"{module.__name__}.{name}", getattr(module, name)
        told = inspect.getdoc(value) or ""
        ours = getattr(value, "__module__", module.__name__).startswith("gad")
        if not ours or isinstance(value, str) or inspect.ismodule(value):
            continue
        shown = f'<autoref identifier="{canonical(full)}" optional><code>{full}</code></autoref>'
        first = told.partition("\n")[0] if callable(value) else ""
        rows.append((shown, markdown_docstring(first)))
    return _table(("name", "what it is"), rows) if rows else ""


def python_page() -> str:
    """The public names of ``gad``, and its rooms."""
    import gad

    listed = [f"- [`gad.{room}`]({room}.md)" for room in rooms()]
    return "\n\n".join([
        "# Python",
        "What `import gad` offers. Each name is loaded when it is first used.",
        _names(gad),
        "The rooms of the house, from the top storey down ([architecture](../../architecture.md)):",
        "\n".join(listed),
    ]) + "\n"  # fmt: skip


def room_page(room: str) -> str:
    """The reference of one room: mkdocstrings reads it from the source."""
    names = _names(import_module(f"gad.{room}"))
    shown = f"::: gad.{room}\n    options:\n      show_root_heading: false"
    return "\n\n".join(part for part in (f"# gad.{room}", names, shown) if part) + "\n"


def pages() -> dict[str, str]:
    """Every generated page by its place on the site."""
    made = {
        "reference/commands.md": commands_page(),
        "reference/settings.md": settings_page(),
        "reference/python/index.md": python_page(),
    }
    return made | {f"reference/python/{room}.md": room_page(room) for room in rooms()}
