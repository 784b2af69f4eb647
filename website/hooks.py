"""What MkDocs calls while it builds the site; see ``mkdocs.yml``."""

from __future__ import annotations

import logging
import shutil
import tempfile
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from website import notebooks, reference, tutorials
from website.links import faults
from website.markup import mathml
from website.paths import PAGES, ROOT, linked_file, links, relinked, repository_path, site_uri

_LOG = logging.getLogger("mkdocs.website")
_WORK = Path(tempfile.mkdtemp(prefix="gad-site-"))
_executing = True


def on_startup(command: str, **_: object) -> None:
    """``mkdocs serve``, for those who write, shows tutorials without running them."""
    global _executing  # noqa: PLW0603 — MkDocs calls functions of a module
    _executing = command != "serve"


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the generated pages, the tutorials' output and the files that pages link to."""
    for uri, text in reference.pages().items():
        files.append(File.generated(config, uri, content=text))
    for path, uri in PAGES.items():
        if (ROOT / path).is_file():
            _take(files, config, path, uri)
    if _executing:
        for page in tutorials.tutorials():
            _execute(page, files, config)
    for file in [file for file in files if file.is_documentation_page()]:
        page = repository_path(file.src_uri)
        for link in links(file.content_string):
            path = linked_file(page, link)
            if path and files.get_file_from_path(site_uri(path)) is None:
                _take(files, config, path, site_uri(path))
    return files


def _take(files: Files, config: MkDocsConfig, path: str, uri: str) -> None:
    """Take a file of the repository along."""
    if uri.endswith(".md"):
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, uri, content=text))
    else:
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))


def _execute(page: Path, files: Files, config: MkDocsConfig) -> None:
    """Put a tutorial with its output in the place of its source, and what it made beside it."""
    _LOG.info("executing %s", page.name)
    folder = _WORK / page.stem
    folder.mkdir()
    uri = f"tutorials/{page.name}"
    if page.stem in tutorials.NOTEBOOKS:
        parts, book = notebooks.execute(page, folder)
        files.append(File.generated(config, f"tutorials/{page.stem}.ipynb", content=book))
    else:
        parts = tutorials.execute(page, folder)
    text = "".join(part.markdown() for part in parts)
    for link in dict.fromkeys(links(text)):
        if (folder / link).is_file():
            place = f"tutorials/{page.stem}/{link}"
            files.append(File.generated(config, place, abs_src_path=str(folder / link)))
            text = text.replace(f"]({link})", f"]({page.stem}/{link})")
    old = files.get_file_from_path(uri)
    assert old is not None
    files.remove(old)
    files.append(File.generated(config, uri, content=text))


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Links that follow files of the repository to their place on the site."""
    return relinked(markdown, repository_path(page.file.src_uri))


def on_page_content(html: str, **_: object) -> str:
    """Formulas as MathML."""
    return mathml(html)


def on_post_build(*, config: MkDocsConfig) -> None:
    """Every link arrives, nothing is loaded from elsewhere, and output is plain text."""
    shutil.rmtree(_WORK, ignore_errors=True)
    wrong = faults(Path(config.site_dir))
    for fault in wrong:
        _LOG.error(fault)
    if wrong:
        raise PluginError(f"{len(wrong)} things on the site are wrong")
