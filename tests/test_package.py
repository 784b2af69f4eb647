"""The package as a whole: quick to import, complete, and honest about its version."""

from __future__ import annotations

import re
import subprocess
import sys
from fnmatch import fnmatch
from importlib import import_module, metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import gad

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("torch", "numpy", "scipy", "rdkit", "pyarrow", "sklearn", "lightning", "torch_geometric")


def python(code: str) -> str:
    """What a fresh interpreter prints: this one has imported too much already."""
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120
    ).stdout.strip()


def test_import_loads_nothing_heavy():
    loaded = python("import sys, gad; dir(gad); print(*sorted(sys.modules))").split()
    assert "gad" in loaded
    assert set(HEAVY).isdisjoint(loaded)


@pytest.mark.slow
def test_subpackages_are_attributes():
    assert python("import gad; print(gad.nn.__name__, gad.operators.__name__)") == (
        "gad.nn gad.operators"
    )


@pytest.mark.parametrize("name", gad.__all__)
def test_public_name_resolves_and_is_listed(name):
    assert getattr(gad, name) is not None
    assert name in dir(gad)


@pytest.mark.parametrize(("name", "home"), sorted(gad._HOMES.items()))
def test_public_name_is_the_one_of_its_home(name, home):
    assert getattr(gad, name) is getattr(import_module(home), name)


def test_all_names_exactly_what_is_loaded_lazily():
    assert set(gad.__all__) == {"__version__", *gad._HOMES, *gad._SUBPACKAGES}


def test_unknown_name_says_so():
    with pytest.raises(AttributeError, match="module 'gad' has no attribute 'nonsense'"):
        _ = gad.nonsense


def test_version_is_the_installed_one():
    assert metadata.version("graph-anisotropic-diffusion") == gad.__version__


def test_version_is_written_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"(?m)^version: (\S+)$", citation) == [gad.__version__]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"(?m)^## \[(\d.*?)\]", changelog)
    assert released[:1] in ([], [gad.__version__])


def test_the_source_distribution_leaves_nothing_out():
    """Its tests run as those of the repository do, so it has every file that is kept under git."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone: git cannot tell which files belong to the project")
    listed = ["git", "ls-files"]
    files = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = settings.partition("[tool.hatch.build.targets.sdist]")[2].partition("\n[")[0]
    included = [pattern.removeprefix("/") for pattern in re.findall(r'"(.+?)"', section)]
    # What hatchling adds of its own accord.
    included += ["pyproject.toml", ".gitignore", "LICENSE"]
    kept = {file.partition("/")[0] for file in files.splitlines()}
    assert [n for n in kept if not any(fnmatch(n, pattern) for pattern in included)] == []


def test_package_is_typed():
    assert (Path(gad.__file__).parent / "py.typed").is_file()


def pins() -> list[Requirement]:
    """What constraints.txt pins and is installed here, as it is pinned."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = [Requirement(line) for line in lines if not line.startswith("#")]
    here = {
        (canonicalize_name(found.name), found.version.partition("+")[0])
        for found in metadata.distributions()
    }
    return [pin for pin in pinned if (canonicalize_name(pin.name), str(pin.specifier)[2:]) in here]


def test_pins_leave_out_the_pythons_that_a_version_does_not_run_on():
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    stated = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', settings)
    assert stated
    assert pins()
    for pin in pins():
        runs_on = SpecifierSet(metadata.metadata(pin.name).get("Requires-Python") or "")
        for python in stated:
            if pin.marker is None or pin.marker.evaluate({"python_version": python}):
                assert f"{python}.99" in runs_on, f"{pin} is imposed on Python {python}"
