"""The README as a package index shows it: there the files of the repository are not beside it.

The address in ``README_BASE``, below which the files of this release can be read, makes its
relative links and pictures whole. Without one they would be broken: a link becomes its words, and
a picture what it shows. Hatch calls this for every wheel and source distribution.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = re.compile(r"(!?)\[([^]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")


def away(text: str, base: str) -> str:
    """A page that is read elsewhere; the files it links to are below ``base``, or nowhere."""

    def change(found: re.Match[str]) -> str:
        picture, words, path = found.groups()
        if base:
            return f"{picture}[{words}]({base.rstrip('/')}/{path})"
        return f"*({words}; the picture is in the repository.)*" if picture else words

    return _RELATIVE.sub(change, text)


class Readme(MetadataHookInterface):
    """What pyproject.toml leaves to the build."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = away(text, os.environ.get("README_BASE", ""))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
