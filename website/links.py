"""Looks through the built site: links arrive, nothing is from elsewhere, output is plain text."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

# Attributes by which a browser loads something without being asked.
_LOADED = {
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("link", "href"),
}
_INERT = {"canonical", "alternate", "prev", "next", "edit"}


class _Page(HTMLParser):
    """The anchors of a page, where its links lead, and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        for name in ("href", "src"):
            if name in given:
                self.targets.append(given[name])
                if (tag, name) in _LOADED and given.get("rel") not in _INERT:
                    self.loaded.append(given[name])


def faults(site: Path) -> list[str]:
    """What is wrong with the pages of a site, a sentence each."""
    pages, found = {}, []
    for file in site.rglob("*.html"):
        page, place = _Page(), "/" + file.relative_to(site).as_posix()
        text = file.read_text(encoding="utf-8")
        page.feed(text)
        pages[place] = page
        if "\x1b" in text:
            found.append(f"{place} shows what was meant for a terminal")
    for place, page in pages.items():
        found += [f"{place} loads {url}" for url in page.loaded if urlsplit(url).netloc]
        if place == "/404.html":
            continue  # it is shown at any depth, so its links begin at the root of the host
        for url in page.targets:
            if urlsplit(url).scheme or urlsplit(url).netloc:
                continue
            target, anchor = urldefrag(urljoin(place, url))
            target = unquote(target) + ("index.html" if target.endswith("/") else "")
            if not (site / target.lstrip("/")).is_file():
                found.append(f"{place} links to {url}, which is not there")
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                found.append(f"{place} links to {url}, which has no such anchor")
    return found
