"""The commands, put together."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated

import typer

from gad import __version__
from gad.cli.console import Outcome
from gad.cli.doctor import doctor
from gad.cli.draw import draw
from gad.cli.embed import embed
from gad.cli.explain import explain
from gad.cli.figures import figures
from gad.cli.info import info, recipes
from gad.cli.join import join
from gad.cli.nodes import predict as predict_nodes
from gad.cli.nodes import reproduce as reproduce_nodes
from gad.cli.nodes import train as train_nodes
from gad.cli.options import examples, unfolded
from gad.cli.predict import evaluate, predict
from gad.cli.pretrain import pretrain
from gad.cli.reproduce import qm9, zinc
from gad.cli.serve import serve
from gad.cli.table import table
from gad.cli.train import train
from gad.cli.tune import tune

app = typer.Typer(
    name="gad",
    help="Graph Anisotropic Diffusion: train a network on molecules, predict with it, look at it.",
    epilog=examples(
        "gad train esol --out runs/esol",
        "gad predict runs/esol/model.gad molecules.csv -o predictions.csv",
    )
    + "\n\nExit codes: 0 done, 1 failed, 2 wrong usage, 3 rows rejected with --strict, "
    "130 interrupted.",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gad {__version__}")
        raise typer.Exit


@app.callback()
def gad(
    _: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_version, help="Print the version and leave."
        ),
    ] = False,
) -> None:
    """Stand above the commands; the help text is the application's."""


def _group(panel: str, name: str, text: str, *lines: str) -> typer.Typer:
    """A command that has commands of its own."""
    group = typer.Typer(
        name=name,
        help=text,
        epilog=examples(*lines),
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
    )
    app.add_typer(group, rich_help_panel=panel)
    return group


def _add(
    command: Callable[..., Outcome],
    panel: str | None,
    *lines: str,
    to: typer.Typer = app,
    name: str | None = None,
) -> None:
    """Register a command; a paragraph of its docstring is one line, which the terminal breaks."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    to.command(name, help=text, rich_help_panel=panel, epilog=examples(*lines))(unfolded(command))


_USE, _LOOK, _PAPER = "Train and use a model", "Look", "The paper's experiments"
_add(
    train,
    _USE,
    "gad train esol --out runs/esol",
    "gad train measured.csv --target logS --split scaffold --out runs/logS",
    "gad train tox.csv --target NR-AR --target NR-AhR --ensemble 5",
    "gad train new.csv --from runs/logS/model.gad --set epochs=30 --seed 1",
    "gad train measured.csv --target logS --out runs/logS --resume",
)
_add(
    predict,
    _USE,
    "gad predict runs/esol/model.gad molecules.csv -o predictions.csv",
    "gad predict model.gad library.sdf -o out.parquet --uncertainty --workers 4",
    "gad predict model.gad library.csv -o out.csv --uncertainty --neighbours 3",
    "gad predict model.gad library.smi -o out.tsv --resume",
    "gad predict model.gad library.csv -o part-3.csv --part 3/8",
    "gad predict model.gad 's3://bucket/parts/*.parquet' -o s3://bucket/out --engine ray",
)
_add(join, _USE, "gad join part-*.csv -o predictions.csv")
_add(
    evaluate,
    _USE,
    "gad evaluate runs/esol/model.gad measured.csv --target logS",
    "gad evaluate model.gad zinc --json",
)
_add(
    serve,
    _USE,
    "gad serve runs/esol/model.gad",
    "gad serve sol=runs/esol/model.gad tox=runs/tox/model.gad --port 8080",
    "GAD_API_KEY=secret gad serve model.gad --host 0.0.0.0",
    'curl -s localhost:8000/v1/predict --json \'{"smiles": ["CCO"]}\'',
    "curl -s localhost:8000/v1/predict/file -F file=@molecules.csv > predictions.csv",
)
_add(
    tune,
    _USE,
    "gad tune measured.csv --target logS --trials 30 --out runs/tune",
    "gad tune measured.csv --target logS --space mine.toml --set epochs=20 --prune",
    "gad tune qm9 --target mu --recipe qm9 --space qm9-paper --trials 100 --storage qm9.db",
    "gad train measured.csv --target logS --recipe runs/tune/best.toml",
)
_add(
    pretrain,
    _USE,
    "gad pretrain molecules.csv.gz -o base.gad",
    "gad pretrain molecules.csv.gz -o base.gad --resume",
    "gad pretrain library.smi -o wide.gad --set width=200 --set epochs=20",
    "gad train measured.csv --target logS --from base.gad",
)
_add(
    embed,
    _USE,
    "gad embed molecules.csv -o embeddings.parquet",
    "gad embed library.smi -o embeddings.parquet --model runs/esol/model.gad --workers 4",
)
nodes = _group(
    _USE,
    "nodes",
    "The nodes of one graph: train a classifier of them, predict with it.",
    "gad nodes train cora",
    "gad nodes predict model.gad nodes.csv -o out.csv",
)
_add(
    train_nodes,
    None,
    "gad nodes train cora --out runs/cora",
    "gad nodes train papers.csv --edges citations.csv --label subject",
    "gad nodes train graph.pt --set model=gad-s --set layers=8 --set norm=batch --seed 1",
    to=nodes,
)
_add(
    predict_nodes,
    None,
    "gad nodes predict runs/papers/model.gad papers.csv --edges citations.csv -o classes.csv",
    to=nodes,
)
_add(
    explain,
    _LOOK,
    'gad explain runs/esol/model.gad "CC(=O)Oc1ccccc1C(=O)O" -o aspirin.html',
    "gad explain model.gad molecules.csv -o why.html --target logS",
    "gad explain model.gad molecules.csv -o atoms.csv",
    'gad explain model.gad "c1ccccc1O" -o phenol.png --kernel 6',
)
_add(info, _LOOK, "gad info runs/esol/model.gad", "gad info model.gad --json")
_add(
    draw,
    _LOOK,
    'gad draw "CC(=O)Oc1ccccc1C(=O)O" -o aspirin.svg',
    'gad draw "c1ccccc1O" --atom 0 --time 4 --scheme spectral -o heat.png',
)
_add(recipes, _LOOK, "gad recipes", "gad train esol --recipe default")
_add(doctor, _LOOK, "gad doctor", "gad doctor --json")
reproduce = _group(
    _PAPER,
    "reproduce",
    "The paper's experiments: train, record, draw.",
    "gad reproduce zinc --model gad-i",
    "gad table zinc",
)
_add(
    zinc,
    None,
    "gad reproduce zinc --model gad-i --seeds 3 --jobs 2",
    "gad reproduce zinc --model dgn --model pna --no-edges --minutes 150",
    "gad reproduce zinc --recipe zinc-best --set batch_size=16 --resume",
    "gad reproduce zinc --limit 100 --set epochs=2 --out trial",
    to=reproduce,
)
_add(
    qm9,
    None,
    "gad reproduce qm9 --property mu --property zpve --set epochs=20",
    "gad reproduce qm9 --property all --model gad-s --model dgn --model pna --resume",
    to=reproduce,
)
_add(
    reproduce_nodes,
    None,
    "gad reproduce nodes --data cora --model gad-i --model gcn",
    "gad reproduce nodes --resume",
    "gad reproduce nodes --data minesweeper --model gad-i --set directions=true",
    to=reproduce,
    name="nodes",
)
_add(
    figures,
    None,
    "gad reproduce figures -o figures --model results/zinc/model.gad",
    'gad reproduce figures -o figures --smiles "CC(=O)Oc1ccccc1C(=O)O aspirin"',
    to=reproduce,
)
_add(table, _PAPER, "gad table zinc", "gad table nodes --markdown", "gad table qm9 --json")
