"""Where the files of the repository stand on the site, and links that follow them.

A page is written to be read in the repository as well, so it links ``../results/speed.json`` or
``docs/theory.md``. On the site what lies in ``docs`` is at the top, and any other file that a page
links to is taken along below ``repository/``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
# Pages of the repository that have a place of their own in the site's navigation.
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "results/README.md": "results.md",
    "benchmarks/README.md": "benchmarks.md",
}
_LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
_FENCE = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2 *$", re.MULTILINE | re.DOTALL)


def site_uri(path: str) -> str:
    """The place on the site of a file of the repository.

    >>> site_uri("docs/theory.md"), site_uri("CHANGELOG.md"), site_uri("results/speed.json")
    ('theory.md', 'changelog.md', 'repository/results/speed.json')
    """
    if path in PAGES:
        return PAGES[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else f"repository/{path}"


def repository_path(uri: str) -> str:
    """The file of the repository that stands at a place of the site.

    >>> repository_path("theory.md"), repository_path("repository/results/speed.json")
    ('docs/theory.md', 'results/speed.json')
    """
    back = {place: path for path, place in PAGES.items()}
    if uri in back:
        return back[uri]
    return uri.removeprefix("repository/") if uri.startswith("repository/") else f"docs/{uri}"


def outside_fences(text: str, change: Callable[[str], str]) -> str:
    """Change what is not inside a fenced block."""
    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(text[end:])])


def links(text: str) -> list[str]:
    """The targets of the links of a page that point to files, with their anchors.

    >>> links("[a](b.md#c), [d](https://example.org), [e](#f)")
    ['b.md#c']
    """
    found: list[str] = []

    def collect(part: str) -> str:
        found.extend(_LINK.findall(part))
        return part

    outside_fences(text, collect)
    return [link for link in found if not re.match(r"[a-z]+:|#|/", link)]


def linked_file(page: str, link: str) -> str | None:
    """The file of the repository that a link on a page means; None if there is none.

    A folder is its ``README.md``.
    """
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link.partition("#")[0]))
    if path.startswith(".."):
        return None
    if (ROOT / path).is_dir():
        path = f"{path}/README.md"
    return path if (ROOT / path).is_file() else None


def relinked(text: str, page: str) -> str:
    """A page (a path in the repository) with its links as the site needs them."""
    here = posixpath.dirname(site_uri(page))

    def change(link: re.Match[str]) -> str:
        target = None if link[1] not in links(f"]({link[1]})") else linked_file(page, link[1])
        if target is None:
            return link[1]
        _, mark, anchor = link[1].partition("#")
        return posixpath.relpath(site_uri(target), here or ".") + mark + anchor

    return outside_fences(text, lambda part: _LINK.sub(change, part))
