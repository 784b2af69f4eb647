"""Options, declared once: those that several commands share, and groups of them as dataclasses.

A command takes a group as one argument, and :func:`unfolded` gives Typer an option for each of its
fields. Options without a panel are the common ones: they come first in the help.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gad.words import did_you_mean

if TYPE_CHECKING:
    from gad.cli.console import Outcome

COLUMNS, SPLITTING, OUTPUT, RUNNING = "Columns", "Splitting", "Output", "Running"
MODEL, HARDWARE = "Model", "Hardware"

STRICT_CODE = 3


def option(
    text: str,
    *names: str,
    metavar: str | None = None,
    panel: str | None = None,
    default: str | None = None,
    **more: Any,
) -> Any:
    """An option: its help, its names if not the parameter's, and the default if it needs words."""
    if default is not None:
        text, more = f"{text} [dim]\\[default: {default}][/]", {**more, "show_default": False}
    return typer.Option(*names, help=text, metavar=metavar, rich_help_panel=panel, **more)


def argument(text: str, metavar: str | None = None, **more: Any) -> Any:
    """An argument: its help, and what it is called there."""
    return typer.Argument(help=text, metavar=metavar, **more)


def column(
    text: str, *names: str, panel: str | None = COLUMNS, default: str | None = None
) -> Any:  # fmt: skip
    """An option that names a column of the user's table."""
    return option(text, *names, metavar="COL", panel=panel, default=default)


def number(
    text: str, metavar: str, least: float, panel: str | None = None, **more: Any
) -> Any:  # fmt: skip
    """An option that is a number, at least so large."""
    return option(text, metavar=metavar, min=least, panel=panel, **more)


def one_of(*names: str) -> dict[str, Any]:
    """What makes an option or argument one of these words, once or several times."""

    def check(given: str | list[str] | None) -> str | list[str] | None:
        for word in [given] if isinstance(given, str) else given or ():
            if word not in names:
                known = ", ".join(map(repr, names))
                hint = did_you_mean(word, names)
                raise typer.BadParameter(f"{word!r} is not one of {known}{hint}")
        return given

    def complete(incomplete: str) -> Iterable[str]:
        return (name for name in names if name.startswith(incomplete))

    return {"metavar": f"[{'|'.join(names)}]", "callback": check, "autocompletion": complete}


Model = Annotated[Path, argument("A model: model.gad of a training run.", "MODEL")]
Smiles = Annotated[str | None, column("The column of the molecules; guessed if left out.")]
Workers = Annotated[
    int | None, number("Processes that prepare molecules; all cores if left out.", "N", 1, RUNNING)
]
Json = Annotated[
    bool,
    option("Print one JSON object on stdout, and nothing else there.", "--json", panel=OUTPUT),
]
Strict = Annotated[
    bool, option("Exit with 3 if any row was rejected.", "--strict", panel=OUTPUT)
]  # fmt: skip
Recipe = Annotated[str, option("See `gad recipes`; or a TOML file.", metavar="NAME|FILE")]
Settings = Annotated[
    list[str] | None,
    option("Change a setting of the recipe; once for each.", "--set", metavar="KEY=VALUE"),
]
Seed = Annotated[int | None, option("Short for --set seed=S.", metavar="S")]
Minutes = Annotated[
    float | None, number("Stop after M minutes; --resume goes on.", "M", 0, RUNNING)
]  # fmt: skip
Accelerator = Annotated[
    str, option("Lightning's: cpu, gpu, mps, …", metavar="A", panel=HARDWARE)
]  # fmt: skip


@dataclass(frozen=True)
class Learning:
    """What is learned, from which rows, by which recipe: of `gad train` and `gad tune` alike."""

    data: Annotated[
        str,
        argument(
            "A table (CSV, TSV, SMI, SDF, Parquet, Excel), or a known set: esol, zinc, qm9.", "DATA"
        ),
    ]
    target: Annotated[
        list[str] | None,
        column("What to learn; once for each column. Guessed if only one is numeric.", panel=None),
    ] = None
    split: Annotated[
        str | None,
        option(
            "How rows are divided 80:10:10.",
            default="random",
            **one_of("random", "stratified", "scaffold", "cluster", "time", "column", "file"),
        ),
    ] = None
    recipe: Recipe = "default"
    settings: Settings = None
    seed: Seed = None
    smiles: Smiles = None
    weight: Annotated[str | None, column("How much each row counts.")] = None
    feature: Annotated[
        list[str] | None, column("A numeric column given to the model; once for each.")
    ] = None
    task: Annotated[
        str | None,
        option(
            "The labels decide if left out.",
            panel=COLUMNS,
            **one_of("regression", "classification", "multiclass"),
        ),
    ] = None
    relation: Annotated[
        list[str] | None,
        column(
            "The column that says >, < or = of the labels; once for each target. Labels such as "
            ">10 need none."
        ),
    ] = None
    transform: Annotated[
        str,
        option(
            "log10 learns the logarithm of the labels; auto does where they are positive, span an "
            "order of magnitude and most lie far below the rest.",
            panel=COLUMNS,
            **one_of("none", "log10", "auto"),
        ),
    ] = "auto"
    standardise: Annotated[
        bool,
        option(
            "Bring molecules into one form first, here and whenever the model predicts: largest "
            "fragment, uncharged, canonical tautomer. Some: --set standardise=fragment,uncharge.",
            "--standardise",
            panel=COLUMNS,
        ),
    ] = False
    merge_duplicates: Annotated[
        str | None,
        option(
            "Make one row of a molecule that is listed several times: the mean or median of its "
            "labels; drop leaves it out where they contradict one another.",
            panel=COLUMNS,
            **one_of("mean", "median", "drop"),
        ),
    ] = None
    metric: Annotated[
        str | None,
        option(
            "By which the report judges and the best epoch is chosen: MAE, RMSE, R2, Spearman, "
            "ROC-AUC, PR-AUC, F1, MCC, balanced accuracy, log loss, …",
            metavar="NAME",
            panel=MODEL,
        ),
    ] = None
    split_column: Annotated[
        str | None,
        column(
            "The column that says train, val or test; with --split time the dates.", panel=SPLITTING
        ),
    ] = None
    split_file: Annotated[
        Path | None,
        option(
            "A file that lists the rows of each part, such as split.json of a run.",
            metavar="FILE",
            panel=SPLITTING,
        ),
    ] = None
    workers: Workers = None
    threads: Annotated[
        int | None,
        number(
            "Threads of the training itself.", "N", 1, HARDWARE,
            default="OMP_NUM_THREADS, or the idle cores up to four; for `gad tune` 1",
        ),
    ] = None  # fmt: skip
    accelerator: Accelerator = "auto"

    def arguments(self) -> dict[str, Any]:
        """The same as `gad.train` and `tune` in Python take it."""
        return {
            "data": self.data,
            "smiles": self.smiles,
            "target": self.target or None,
            "weight": self.weight,
            "features": self.feature or (),
            "task": self.task,
            "relation": self.relation or None,
            "transform": self.transform,
            "standardise": self.standardise,
            "merge_duplicates": self.merge_duplicates,
            "metric": self.metric,
            "split": self._split_kind(),
            "split_column": self.split_column,
            "split_file": self.split_file,
            "recipe": self.recipe,
            "settings": changes(self.settings, self.seed),
            "workers": self.workers,
        }

    def _split_kind(self) -> str:
        """The kind of split that the three options agree on."""
        split, column, file = self.split, self.split_column, self.split_file
        if column is not None and file is not None:
            raise typer.BadParameter("--split-column and --split-file exclude each other")
        implied = "column" if column is not None else "file" if file is not None else None
        if split == "time":
            if column is None:
                raise typer.BadParameter("--split time needs --split-column, the column of dates")
            return split
        if split is not None and implied is not None and split != implied:
            raise typer.BadParameter(f"--split {split} contradicts --split-{implied}")
        chosen = split or implied or "random"
        if implied is None and chosen in {"column", "file"}:
            raise typer.BadParameter(f"--split {chosen} needs --split-{chosen}")
        return chosen

    def set_threads(self) -> None:
        """So many threads as were asked for, or OMP_NUM_THREADS, or one."""
        import os

        import torch

        if self.threads is not None or "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(self.threads or 1)


def changes(settings: list[str] | None, seed: int | None = None) -> dict[str, str]:
    """The settings that ``--set`` and ``--seed`` change."""
    from gad.settings.recipe import parse_setting

    given = dict(parse_setting(text) for text in settings or ())
    return given if seed is None else {**given, "seed": str(seed)}


def examples(*lines: str) -> str:
    """Examples for the end of a help page, one a line."""
    return "\n".join(["[bold]Examples[/]", *(f"$ {line}" for line in lines)])


def unfolded(command: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """The command as Typer wants it: with a parameter for each field of a group, and ``--json``.

    The guard reads ``--json`` and prints; a command asks for it where it makes a difference.
    """
    own = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {k: p.annotation for k, p in own.items() if is_dataclass(p.annotation)}
    parts = {name: inspect.signature(of, eval_str=True).parameters for name, of in groups.items()}
    shown = {
        inner: parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, outer in own.items()
        for inner, parameter in parts.get(name, {name: outer}).items()
    }
    asks = "as_json" in shown
    shown["as_json"] = inspect.Parameter(
        "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json
    )

    @wraps(command)
    def call(**given: Any) -> Outcome:
        if not asks:
            del given["as_json"]
        built = {
            name: of(**{field: given.pop(field) for field in parts[name]})
            for name, of in groups.items()
        }
        return command(**built, **given)

    call.__signature__ = inspect.Signature(list(shown.values()))  # type: ignore[attr-defined]
    del call.__wrapped__
    call.__annotations__ = {}
    return call
