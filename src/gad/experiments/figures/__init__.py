"""The paper's figures, and the same on real molecules with a trained model.

>>> import tempfile
>>> made = paper_figures(tempfile.mkdtemp())
>>> sorted(made)
['figure-1a', 'figure-1b', 'figure-3']
>>> round(made["figure-1a"]["t = 1"][0], 1)
56.9
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from gad.chem.draw import layout
from gad.chem.picture import Picture
from gad.data.atomic import write_atomic
from gad.experiments.figures.draw import (
    MoleculeKernels,
    figure_1a,
    filter_figure,
    kernels_figure,
    paper_layout,
    times_figure,
)
from gad.experiments.figures.kernels import (
    FIGURE_1A_TIMES,
    FIGURE_3_TIME,
    PAPER_EDGES,
    PAPER_NODE,
    PAPER_TOWARDS,
    FirstLayer,
    central_node,
    filter_kernels,
    has_signs,
    paper_graph,
    spread,
)
from gad.nn.diffusion import Diffusion
from gad.prediction.model_file import Model, load_model
from gad.reporter import Reporter
from gad.training.run import train

MOLECULES = {
    "paracetamol": "CC(=O)Nc1ccc(O)cc1",
    "ibuprofen": "CC(C)Cc1ccc(cc1)C(C)C(=O)O",
    "penicillin G": "CC1(C)SC2C(NC(=O)Cc3ccccc3)C(=O)N2C1C(=O)O",
}
"""Drawn unless others are asked for."""
EQUATIONS = "by the paper's equations: the black node's row of the field F"
DRAWN = "as the paper draws it: its column of F, the transposed field"
Numbers: TypeAlias = dict[str, object]
"""What a figure shows, as JSON can hold it."""
_NAMES = {"heat": "diffusion", "av": "B_av", "dx": "B_dx"}


def make_figures(
    out: str | Path,
    *,
    model: str | Path | None = None,
    smiles: Sequence[str] = (),
    reporter: Reporter | None = None,
) -> dict[str, Numbers]:
    """Draw all figures into a folder, each as SVG and PNG, with their numbers in figures.json.

    Args:
        out: the folder.
        model: a model file; if left out, a model is trained on the embedded solubilities and kept
            in the folder, where a second call finds it.
        smiles: molecules to draw kernels on, each "SMILES" or "SMILES name".
        reporter: is told how it goes.

    Returns:
        For each figure its files and the numbers it shows.
    """
    reporter = reporter or Reporter()
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    trained = load_model(model) if model is not None else _train(folder / "esol", reporter)
    numbers = {**paper_figures(folder), **model_figures(folder, trained, smiles)}
    made = {
        name: {"files": [str(folder / f"{name}.{kind}") for kind in ("svg", "png")], **values}
        for name, values in numbers.items()
    }
    write_atomic(folder / "figures.json", json.dumps(numbers, indent=1).encode())
    return made


def _train(folder: Path, reporter: Reporter) -> Model:
    reporter.message(f"no --model: one is trained on esol and kept in {folder}")
    run = train("esol", out=folder, resume=True, baselines=False, reporter=reporter)
    return run.model.model


def paper_figures(out: str | Path) -> dict[str, Numbers]:
    """Figures 1(a), 1(b) and 3, on the paper's graph."""
    operators, places = paper_graph(), paper_layout(PAPER_EDGES)
    heat = {t: _list(100 * spread(operators, t)[:, PAPER_NODE]) for t in FIGURE_1A_TIMES}
    _write(out, "figure-1a", figure_1a(places, heat))
    told: dict[str, Numbers] = {"figure-1a": {f"t = {t:g}": row for t, row in heat.items()}}
    titles = {
        "figure-1b": "Figure 1(b): the filters B_av and B_dx at the black node",
        "figure-3": "Figure 3: diffusion and then the filter, the kernels of the black node, "
        f"t = {FIGURE_3_TIME:g}",
    }
    for (name, title), time in zip(titles.items(), (0.0, FIGURE_3_TIME), strict=True):
        H = spread(operators, time)
        rows = {
            heading: _lists(filter_kernels(graph, PAPER_NODE, H, PAPER_TOWARDS))
            for heading, graph in (
                (EQUATIONS, operators),
                (DRAWN, paper_graph(transposed=True)),
            )
        }
        names = {key: _NAMES[key] + (" after diffusion" if time else "") for key in ("av", "dx")}
        _write(out, name, filter_figure(title, places, PAPER_NODE, rows, names))
        told[name] = {"time": time, "equations": rows[EQUATIONS], "drawn": rows[DRAWN]}
    return told


def model_figures(out: str | Path, model: Model, smiles: Sequence[str] = ()) -> dict[str, Numbers]:
    """The kernels of a model's first layer on molecules, and the times of all its layers."""
    layer = FirstLayer.of(model)
    pairs = _named(smiles) or list(MOLECULES.items())
    drawn, told = [], []
    for name, text in pairs:
        operators = layer.operators(text)
        atom = central_node(operators)
        kernels = _lists(layer.kernels(operators, atom))
        hydrogens = layer.preparation.featurizer.explicit_hydrogens
        flat = layout(text, explicit_hydrogens=hydrogens)
        signed = has_signs(operators) or "dx" not in kernels
        drawn.append(MoleculeKernels(name, flat, atom, kernels, signed))
        told.append({"name": name, "smiles": text, "atom": atom, "kernels": kernels})
    origin = _origin(model)
    first = drawn[0].kernels
    then = "diffusion, then " if layer.diffusion is not None else ""
    names = {key: _NAMES[key] if key == "heat" else then + _NAMES[key] for key in first}
    title = "Kernels of the ringed atoms: what they receive from every atom"
    about, reach = f"a model trained on {origin['data']}", math.sqrt(layer.time)
    when = f"largest time t = {layer.time:.3g}, reach {reach:.2g} bonds"
    below = f"{about}: first layer, {when if layer.diffusion is not None else 'no diffusion'}"
    _write(out, "kernels", kernels_figure(title, below, drawn, names))
    made: dict[str, Numbers] = {
        "kernels": {"model": origin, "time": layer.time, "reach": reach, "molecules": told}
    }
    diffusions = model.members[0].diffusions()
    if diffusions:
        learned = [_list(d.reach) for d in diffusions]
        start = [_list(Diffusion(d.channels, d.scheme).reach) for d in diffusions]
        title = "Learned diffusion times: the reach of every channel, layer by layer"
        _write(out, "times", times_figure(title, about, learned, start))
        made["times"] = {"model": origin, "reach": learned, "start": start}
    return made


def _origin(model: Model) -> Numbers:
    """Which model it is: what it was trained on, and by which code."""
    title = str(model.notes.get("data", {}).get("title") or "unknown data")
    return {
        "data": title.encode("ascii", "replace").decode(),
        "targets": list(model.task.names),
        "scheme": model.recipe.model.scheme,
        "seed": model.recipe.training.seed,
        "commit": model.notes.get("commit"),
    }


def _named(smiles: Sequence[str]) -> list[tuple[str, str]]:
    """Name and SMILES of each text "SMILES name"; without a name, the SMILES is it."""
    pairs = []
    for text in smiles:
        parts = text.split(maxsplit=1)
        if not parts:
            raise ValueError("--smiles is empty: write a molecule as SMILES, in quotes")
        name = parts[-1].encode("ascii", "replace").decode()
        pairs.append((name if len(name) <= 80 else name[:77] + "...", parts[0]))
    return pairs


def _write(folder: str | Path, name: str, picture: Picture) -> None:
    write_atomic(Path(folder) / f"{name}.svg", picture.svg())
    write_atomic(Path(folder) / f"{name}.png", picture.png())


def _list(values: Tensor) -> list[float]:
    """Numbers without the rounding that is left of a zero."""
    values = values.detach().to(torch.float64)
    tiny = values.abs() < 1e-9 * max(1e-300, float(values.abs().max()))
    rounded: list[float] = values.masked_fill(tiny, 0.0).tolist()
    return rounded


def _lists(kernels: Mapping[str, Tensor]) -> dict[str, list[float]]:
    return {key: _list(values) for key, values in kernels.items()}
