"""Tries an installation: ``python .ci/trial.py FOLDER [EXTRA]``, with that environment's Python.

What the package and the extra ask for is there and can be imported, the program starts, and a
command that needs the extra does its work. The base trains the model that the extras use, in the
same folder.
"""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.metadata import distribution, packages_distributions, requires
from pathlib import Path
from urllib.request import Request, urlopen

from packaging.requirements import Requirement

NAME = "graph-anisotropic-diffusion"
GAD = [sys.executable, "-m", "gad.cli"]
SHORT = ["few.csv", "--recipe", "quick", "--set", "epochs=1"]


def asked_for(extra: str) -> list[str]:
    """The distributions that the package and one extra name."""
    wanted = map(Requirement, requires(NAME) or [])
    return [
        requirement.name
        for requirement in wanted
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra})
    ]


def run(*command: str) -> None:
    """Run a command; one that fails fails the trial."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def a_few_molecules() -> list[tuple[str, ...]]:
    """A header and eighty rows of ESOL, also as few.csv."""
    from gad.data.known import load_esol

    esol = load_esol()
    labels = (str(label) for (label,) in esol.targets)
    rows = [("smiles", "logS"), *list(zip(esol.smiles, labels, strict=True))[:80]]
    with Path("few.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return rows


def base() -> None:
    """A training by defaults, from the base that the wheel brings along."""
    run(*GAD, "train", "esol", "--set", "epochs=1", "--out", "run")


def tensorboard() -> None:
    """A training that writes its events."""
    run(*GAD, "train", *SHORT, "--logger", "tensorboard", "--out", "logged")
    assert list(Path("logged").rglob("events.out.tfevents.*"))


def tune() -> None:
    """A search of one trial."""
    run(*GAD, "tune", *SHORT, "--trials", "1", "--out", "tuned")
    assert Path("tuned/best.toml").is_file()


def ray() -> None:
    """A prediction by Ray."""
    run(*GAD, "predict", "run/model.gad", "few.csv", "-o", "by-ray", "--engine", "ray")
    assert list(Path("by-ray").iterdir())


def excel() -> None:
    """A prediction of a sheet."""
    from openpyxl import Workbook

    book = Workbook()
    for row in a_few_molecules():
        book.active.append(row)
    book.save("few.xlsx")
    run(*GAD, "predict", "run/model.gad", "few.xlsx", "-o", "sheet.csv")
    assert len(Path("sheet.csv").read_text(encoding="utf-8").splitlines()) == 81


def serve() -> None:
    """The service answers, shows its page and stops when it is told to."""
    command = [*GAD, "serve", "run/model.gad", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
        try:
            place = re.search(r"http://\S+/", service.stderr.readline())[0]
            assert b"<html" in urlopen(place, timeout=60).read()
            body = json.dumps({"smiles": ["CCO"]}).encode()
            ask = Request(f"{place}v1/predict", body, {"Content-Type": "application/json"})
            assert json.load(urlopen(ask, timeout=60))["predictions"]
        finally:
            service.terminate()
    assert service.returncode == 0


def docs() -> None:
    """The program that makes the site starts; `make docs` makes it."""
    run(sys.executable, "-m", "mkdocs", "--version")


def dev() -> None:
    """The programs of `make lint` and so on start; the tests are run by `make package` itself."""
    for program in ("ruff", "mypy", "pytest", "build", "twine"):
        run(sys.executable, "-m", program, "--version")


def main() -> None:
    """Import what was asked for, start the program, use the extra."""
    folder, extra = Path(sys.argv[1]), "".join(sys.argv[2:])
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    homes = packages_distributions()
    for name in asked_for(extra):
        wanted = distribution(name).metadata["Name"]
        modules = [m for m, owners in homes.items() if wanted in owners and m.isidentifier()]
        public = [module for module in modules if not module.startswith("_")]
        for module in public[:1]:
            import_module(module)
    import_module("gad")
    for arguments in (["--version"], ["--help"], ["doctor", "--json"]):
        run(*GAD, *arguments)
    a_few_molecules()
    globals()[extra or "base"]()
    print(f"{extra or 'the base'}: {', '.join(asked_for(extra))}")


if __name__ == "__main__":
    main()
