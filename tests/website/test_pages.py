"""The pages of the site: links arrive, generated pages are complete, nothing is left out."""

from __future__ import annotations

import doctest
import itertools
import posixpath
import re
from dataclasses import fields

import pytest

from website import markup, paths, reference, tutorials
from website.links import faults
from website.paths import DOCS, ROOT, linked_file, links, relinked, repository_path, site_uri
from website.tutorials import NOTEBOOKS, blocks

PAGES = [
    *sorted(path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md")),
    "CHANGELOG.md",
    "CONTRIBUTING.md",
]
GENERATED = ("reference/commands.md", "reference/settings.md", "reference/python/index.md")


def made_by_the_site(page: str, link: str) -> bool:
    """Whether a link leads to a generated page, a notebook, or what a tutorial's commands name."""
    path = link.partition("#")[0]
    if posixpath.normpath(posixpath.join(posixpath.dirname(site_uri(page)), path)) in GENERATED:
        return True
    if (ROOT / page).parent != tutorials.TUTORIALS:
        return False
    parts = blocks((ROOT / page).read_text(encoding="utf-8"))
    code = [part.source for part in parts if part.kind != "text"]
    return path.removesuffix(".ipynb") in NOTEBOOKS or path.partition("/")[0] in "".join(code)


@pytest.mark.parametrize("page", [*PAGES, "README.md"])
def test_every_link_arrives(page):
    found = links((ROOT / page).read_text(encoding="utf-8"))
    lost = [link for link in found if not linked_file(page, link)]
    assert [link for link in lost if not made_by_the_site(page, link)] == []


@pytest.mark.parametrize("path", ["docs/theory.md", "CHANGELOG.md", "results/speed.json"])
def test_a_file_is_found_again_by_its_place(path):
    assert repository_path(site_uri(path)) == path


def test_links_follow_files_to_their_place():
    text = "[a](../results/README.md#a-record) [b](theory.md) [c](https://example.org)"
    told = relinked(text, "docs/scale.md")
    assert told == "[a](results.md#a-record) [b](theory.md) [c](https://example.org)"
    assert relinked("[a](docs/theory.md)", "CHANGELOG.md") == "[a](theory.md)"
    assert relinked("[a](../../pyproject.toml)", "docs/howto/index.md") == (
        "[a](../repository/pyproject.toml)"
    )


def test_a_bar_in_a_table_is_escaped_outside_of_code():
    assert reference._row(["a|b", "`c|d`"]) == r"| a\|b | `c|d` |"


@pytest.mark.parametrize("module", [markup, paths, reference], ids=lambda m: m.__name__)
def test_the_examples_in_docstrings_hold(module):
    assert doctest.testmod(module).failed == 0


def test_links_inside_a_fence_are_code():
    assert links("```\n[a](b.md)\n```\n[c](d.md)") == ["d.md"]


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"(?m)^ +- (?:.+: )?(\S+\.md)$", navigation))
    written = {site_uri(page) for page in PAGES}
    assert written <= listed
    assert listed <= written | {*GENERATED, "results.md", "benchmarks.md", "security.md"}


def test_every_option_of_every_command_is_described():
    page = reference.commands_page()
    for name, command in reference.all_commands().items():
        section = page.partition(f"## {name}\n")[2].partition("\n## ")[0]
        assert section, name
        for parameter in command.params:
            if parameter.name != "help" and parameter.param_type_name == "option":
                names = [*parameter.opts, *parameter.secondary_opts]
                assert f"`{names[0]}" in section, (name, names)
        assert "```sh\n" + name in section, f"{name} has no example"


def written_commands(page: str) -> list[list[str]]:
    """The words of every ``gad …`` that a page writes: in a block of code, or within a line."""
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    found = re.findall(
        r"(?m)^ *(?:\$ )?(gad [^#\n]+)", "\n".join(re.findall(r"(?ms)^```.*?^```", text))
    )
    found += [" ".join(code.split()) for code in re.findall(r"(?<!`)`(gad [^`]+)`", text)]
    parts = [re.split(r" [|;>&]| 2>", command)[0] for command in found]
    return [re.findall(r"\"[^\"]*\"|\S+", part) for part in parts]


@pytest.mark.parametrize("page", [*PAGES, "README.md", "SECURITY.md", "results/README.md"])
def test_every_command_that_is_written_can_be_given(page):
    from gad.settings.nodes import NodeSettings
    from gad.settings.sections import all_settings

    nodes = {field.name for field in fields(NodeSettings)}
    commands = reference.all_commands()
    groups = {name.rsplit(" ", 1)[0] for name in commands}
    for words in written_commands(page):
        names = [" ".join(words[:n]) for n in (3, 2)]
        command = next((commands[name] for name in names if name in commands), None)
        if command is None:  # a group of commands, a word such as COMMAND, or the program itself
            assert names[1] in groups or re.match(r"[A-Z…-]", words[1]), words
            continue
        known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)} | {"--help"}
        given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert given <= known, words
        for flag, setting in itertools.pairwise(words):
            if flag == "--set" and "=" in setting:
                settings = nodes if "nodes" in words else {*all_settings(), "KEY"}
                assert setting.partition("=")[0] in settings, words


def test_every_setting_is_described():
    from gad.settings.sections import all_settings

    page = reference.settings_page()
    assert {key for key in all_settings() if f"| `{key}` |" not in page} == set()
    for file in (ROOT / "src" / "gad" / "recipes").glob("*.toml"):
        assert f"### {file.stem}\n" in page


def test_every_public_name_is_listed():
    import gad

    page = reference.python_page()
    callables = {name for name in gad._HOMES if callable(getattr(gad, name))}
    assert {name for name in callables if f"<code>gad.{name}</code>" not in page} == set()


def test_a_site_is_looked_through(tmp_path):
    """A lost link, a lost anchor, something from elsewhere and a terminal's codes are found."""
    ways = ("b.html#top", "b.html#end", "c.html")
    body = "".join(f'<a href="{way}">there</a>' for way in ways)
    (tmp_path / "a.html").write_text(body, encoding="utf-8")
    (tmp_path / "b.html").write_text(
        '<p id="top">\x1b[2K</p><script src="https://example.org/x.js"></script>', encoding="utf-8"
    )
    assert sorted(faults(tmp_path)) == [
        "/a.html links to b.html#end, which has no such anchor",
        "/a.html links to c.html, which is not there",
        "/b.html loads https://example.org/x.js",
        "/b.html shows what was meant for a terminal",
    ]
