"""The page and all it is made of, read once: no request ever opens a file."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

MEDIA = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


@cache
def assets() -> dict[str, tuple[bytes, str]]:
    """Path → content and media type of everything the page is made of.

    >>> assets()["/"][1]
    'text/html; charset=utf-8'
    """
    found: dict[str, tuple[bytes, str]] = {}
    for file in files("gad.service").joinpath("page").iterdir():
        kind = MEDIA.get(file.name.rpartition(".")[2])
        if kind is not None:
            path = "/" if file.name == "index.html" else f"/page/{file.name}"
            found[path] = (file.read_bytes(), kind)
    return found


def listing(openapi: dict[str, Any]) -> str:
    """The interface as a plain page that loads nothing but our style sheet."""
    parts = []
    for path, methods in openapi["paths"].items():
        for method, told in methods.items():
            parts.append(f"<h2><code>{method.upper()} {escape(path)}</code></h2>")
            text = escape(told.get("description", told.get("summary", "")))
            parts.append("<p>" + re.sub("`(.+?)`", r"<code>\1</code>", text) + "</p>")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>GAD interface</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="/page/icon.svg" type="image/svg+xml">'
        '<link rel="stylesheet" href="/page/page.css"></head><body class="plain"><main>'
        f"<h1>{escape(openapi['info']['title'])}</h1><p>The full description, with examples, is "
        '<a href="/openapi.json">openapi.json</a>. <a href="/">The page</a>.</p>'
        f"{''.join(parts)}</main></body></html>"
    )
