"""Tries an installation: ``python .ci/trial.py [EXTRA]``, with the Python of that environment.

What the package and the extra ask for is there and can be imported, and the program starts.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.metadata import distribution, packages_distributions, requires

from packaging.requirements import Requirement

NAME = "graph-anisotropic-diffusion"


def asked_for(extra: str) -> list[str]:
    """The distributions that the package and one extra name."""
    wanted = map(Requirement, requires(NAME) or [])
    return [
        requirement.name
        for requirement in wanted
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra})
    ]


def main() -> None:
    """Import what was asked for, then start the program."""
    extra = sys.argv[1] if len(sys.argv) > 1 else ""
    homes = packages_distributions()
    for name in asked_for(extra):
        wanted = distribution(name).metadata["Name"]
        modules = [m for m, owners in homes.items() if wanted in owners and m.isidentifier()]
        public = [module for module in modules if not module.startswith("_")]
        for module in public[:1]:
            import_module(module)
    import_module("gad")
    for arguments in (["--version"], ["--help"], ["doctor", "--json"]):
        command = [sys.executable, "-m", "gad.cli", *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    print(f"{extra or 'the base'}: {', '.join(asked_for(extra))}")


if __name__ == "__main__":
    main()
