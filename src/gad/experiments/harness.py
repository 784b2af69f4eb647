"""Training the runs of an experiment: resumable, recorded from the first moment, side by side."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from gad.experiments.models import Run, fitted_recipe, is_current, recipe_of
from gad.experiments.records import (
    Record,
    forget_checkpoint,
    keep_checkpoint,
    read_record,
    record_path,
    restore_checkpoint,
    trimmed,
)
from gad.experiments.sheet import OutOfTime, Place, Sheet
from gad.reporter import Reporter

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from gad.data.known.graphset import GraphSet
    from gad.prediction.predictor import Predictor
    from gad.settings.recipe import Recipe


def check(run: Run, place: Place) -> None:
    """Refuse to begin what is there already, and to go on with something else."""
    path = record_path(place.results, run)
    if not place.resume:
        for found in (place.folder(run) / "run.json", path):
            if found.exists():
                raise FileExistsError(
                    f"{found} is there already: go on with that run (--resume), or name another "
                    "--out and --results"
                )
    record = read_record(path)
    if record is not None and not is_current(record):
        raise ValueError(
            f"{path} was made by an earlier version of the recipe {run.recipe_name}: what was "
            "tried stays recorded, so give the new version another name"
        )


def perform(run: Run, place: Place, reporter: Reporter | None = None) -> Record:
    """Train one run, or go on with it, and return its record.

    A run that is over is not repeated. The record is written when the run begins and after every
    epoch, so that even a run that is killed has left its validation errors; the test error enters
    it once, at the end, by the weights of the best validation epoch.
    """
    reporter = reporter or Reporter()
    check(run, place)
    before = read_record(record_path(place.results, run))
    if before is not None and before.is_finished:
        reporter.message(f"{run.name} is finished")
        return before
    sheet = Sheet(run, place, before, reporter)
    try:
        _train(run, place, sheet, reporter)
    except OutOfTime:
        sheet.close("unfinished")
        kept = keep_checkpoint(place.folder(run), place.results, run)
        where = "" if kept else f" (all there is is in {place.folder(run)})"
        reporter.message(f"{run.name}: the time is up; go on with --resume{where}")
    except Exception as error:
        sheet.close("failed", error=f"{type(error).__name__}: {error}")
        raise
    except BaseException:  # interrupted; Lightning leaves by sys.exit
        sheet.close("unfinished")
        raise
    return sheet.opened


def _train(run: Run, place: Place, sheet: Sheet, reporter: Reporter) -> None:
    import numpy as np
    import torch

    from gad.experiments.sets import inputs_of, load_graphs
    from gad.settings.task import Scale, Task
    from gad.training.run import train

    torch.set_num_threads(1)
    folder = place.folder(run)
    if place.resume:
        restore_checkpoint(folder, place.results, run)
    graphs = load_graphs(run.data, run.target, run.limit)
    recipe = fitted_recipe(run, inputs_of(graphs, recipe_of(run)))
    labels = graphs.targets[graphs.split.train]
    task = Task.of("regression", graphs.target_names, graphs.units, labels, recipe.training.loss)
    scale = Scale.of(task, labels, np.ones(len(labels)), torch.zeros(len(labels), 0))
    sheet.open(
        recipe=recipe.to_dict(),
        scale=float(scale.labels[1, 0]),
        unit=graphs.units[0],
        fingerprint=graphs.fingerprint,
        rows={part: len(rows) for part, rows in graphs.split.parts()},
    )
    trained = train(
        graphs,
        target=graphs.target_names[0],
        task="regression",
        recipe=recipe,
        out=folder,
        resume=place.resume,
        baselines=False,
        reporter=sheet,
    )
    sheet.finish(trained, trimmed(_errors(trained.model, graphs, recipe)))
    forget_checkpoint(place.results, run)
    record = sheet.opened
    if record.model_file is None:
        reporter.message(f"{run.name}: the model stays in {folder}")
    reporter.message(f"{run.name}: test error {record.test_mae:.4g} {record.unit}".rstrip())


def _errors(predictor: Predictor, graphs: GraphSet, recipe: Recipe) -> npt.NDArray[np.float64]:
    """Of each validation molecule, in the target's units."""
    from gad.data.store.graphs import pack_graphs
    from gad.settings.model import preparation_of

    some = graphs.take(graphs.split.val)
    outputs = predictor.run(pack_graphs(some, preparation_of(recipe)))[0].mean(0).numpy()
    errors: npt.NDArray[np.float64] = predictor.trust.recalibrated(outputs) - some.targets
    return errors[:, 0]


def job_of(run: Run, place: Place) -> str:
    """A run and its place as text, for a process of its own."""
    return json.dumps(
        {
            "run": asdict(run),
            "runs": str(place.runs),
            "results": str(place.results),
            "until": place.until,
            "resume": place.resume,
        }
    )


def read_job(text: str) -> tuple[Run, Place]:
    """Read back :func:`job_of`.

    >>> run = Run("qm9", "dgn", "qm9", True, 1, "mu", (("epochs", "3"),))
    >>> read_job(job_of(run, Place(Path("a"), Path("b"))))[0] == run
    True
    """
    job = json.loads(text)
    fields = job["run"]
    fields["settings"] = tuple((key, value) for key, value in fields["settings"])
    place = Place(Path(job["runs"]), Path(job["results"]), job["until"], job["resume"])
    return Run(**fields), place
