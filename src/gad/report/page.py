"""A web page that needs nothing but itself: a frame, tables and lists, every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final


class Html(str):
    """Text that is markup already; a plain ``str`` is escaped wherever it is put.

    >>> cell("a < b"), cell(Html("a<b>c</b>"))
    ('a &lt; b', 'a<b>c</b>')
    """

    __slots__ = ()


def cell(content: object) -> str:
    """Anything as markup."""
    return str(content) if isinstance(content, Html) else escape(str(content))


def tag(name: str, content: object, css: str = "") -> Html:
    """An element around some content."""
    attribute = f' class="{css}"' if css else ""
    return Html(f"<{name}{attribute}>{cell(content)}</{name}>")


def join(parts: Iterable[object]) -> Html:
    """Several contents, one after the other."""
    return Html("".join(map(cell, parts)))


def section(title: str, *parts: object) -> Html:
    """A titled part of the page, or nothing if there is nothing in it."""
    content = join(part for part in parts if part)
    return Html(f"<section><h2>{escape(title)}</h2>{content}</section>") if content else Html("")


def table(rows: Iterable[Sequence[object]], head: Sequence[object] = ()) -> Html:
    """A table; the first cell of a row names it. Too wide a table scrolls by itself."""
    top = join(tag("th", content) for content in head)
    body = join(
        tag("tr", join([tag("th", row[0]), *(tag("td", content) for content in row[1:])]))
        for row in rows
    )
    if not body:
        return Html("")
    thead = f"<thead><tr>{top}</tr></thead>" if top else ""
    return Html(f'<div class="scroll"><table>{thead}<tbody>{body}</tbody></table></div>')


def bullets(items: Iterable[object]) -> Html:
    """A list, or nothing."""
    content = join(tag("li", item) for item in items)
    return tag("ul", content) if content else Html("")


def figure(picture: str, caption: object) -> Html:
    """A picture with what is to be seen in it."""
    if not picture:
        return Html("")
    return Html(f"<figure>{picture}<figcaption>{cell(caption)}</figcaption></figure>")


def page(title: str, content: Html, footer: str) -> str:
    """The whole document. Its own policy forbids it to fetch anything."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{content}\n</main>\n<footer>{escape(footer)}</footer>\n</body>\n</html>\n"
    )


# Colours are those of Okabe and Ito, told apart with any colour vision; line styles differ as well.
_STYLE: Final = """
:root{--paper:#fff;--ink:#1b1f24;--quiet:#59636e;--line:#d8dee4;--card:#f6f8fa;
--a:#0072b2;--b:#d55e00;--good:#00795a;--warn:#b34e00}
@media (prefers-color-scheme:dark){:root{--paper:#14181d;--ink:#e6e9ec;--quiet:#a0abb6;
--line:#333b44;--card:#1d2329;--a:#56b4e9;--b:#e69f00;--good:#35c79c;--warn:#f0a04b}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main,footer{max-width:60rem;margin:auto;padding:1.25rem}
footer{color:var(--quiet);font-size:.85rem;padding-bottom:3rem}
h1{font-size:1.7rem;line-height:1.2;margin:.4rem 0 .2rem;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:2.4rem 0 .6rem;padding-bottom:.3rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:1.4rem 0 .4rem}
p{margin:.5rem 0;max-width:46rem}
.sub,figcaption,.note{color:var(--quiet)}
.sub{overflow-wrap:anywhere}
figcaption,.note{font-size:.88rem}
.lead{font-size:1.12rem;padding:.8rem 1rem;margin:1.1rem 0;background:var(--card);max-width:none;
border-left:4px solid var(--good);border-radius:0 6px 6px 0}
.lead.warn{border-color:var(--warn)}
.scroll{overflow-x:auto;margin:.6rem 0}
table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums}
th,td{padding:.32rem .75rem .32rem 0;text-align:left;vertical-align:top;
border-bottom:1px solid var(--line)}
thead th{color:var(--quiet);font-weight:600;white-space:nowrap;vertical-align:bottom}
tbody th{font-weight:400}
td{overflow-wrap:anywhere;min-width:3.2rem}
tbody .part{font-weight:600;padding-top:.8rem}
.best{font-weight:700}
.numbers td,.numbers th{white-space:nowrap}
.numbers td,.numbers thead th{text-align:right}
.numbers thead th.name{text-align:left}
.numbers tbody th{white-space:normal;max-width:14rem;overflow-wrap:break-word}
code{font:.88em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
.figures{display:grid;gap:.6rem 1.6rem;align-items:start;
grid-template-columns:repeat(auto-fill,minmax(min(100%,20rem),1fr))}
.cards{display:grid;gap:.8rem;grid-template-columns:repeat(auto-fill,minmax(10rem,1fr))}
figure{margin:.4rem 0;min-width:0;max-width:34rem}
figure svg{width:100%;height:auto;display:block}
.cards figure{border:1px solid var(--line);border-radius:6px;overflow:hidden;margin:0}
.cards svg{background:#fff}
.cards figcaption{padding:.4rem .6rem .5rem;overflow-wrap:anywhere}
.cards figcaption b{color:var(--ink)}
details{margin:.6rem 0}
summary{cursor:pointer;color:var(--a)}
ul{padding-left:1.2rem;margin:.4rem 0}
li{overflow-wrap:anywhere}
.plot text{font-size:13px;fill:var(--quiet)}
.plot .tick{text-anchor:end;font-size:12px}
.plot .mid{text-anchor:middle}
.plot .grid{stroke:var(--line);stroke-width:.6}
.plot .axis{stroke:var(--quiet);fill:none}
.plot .rule{stroke:var(--quiet);fill:none;stroke-width:1}
.plot .soft{stroke:var(--quiet);fill:none;stroke-width:1;stroke-dasharray:2 4}
.plot .a{--c:var(--a)}.plot .b{--c:var(--b)}
.plot .dot{fill:var(--c);fill-opacity:.45}
.plot .dot:hover{fill-opacity:1}
.plot .line{stroke:var(--c);fill:none;stroke-width:1.8;stroke-linejoin:round}
.plot polyline.b{stroke-dasharray:6 3}
.plot .best{fill:var(--paper);stroke:var(--c);stroke-width:2.2}
.plot .box{fill:none;stroke:var(--ink);stroke-width:1}
.plot .hover{fill:transparent}
.plot .hover:hover{fill:var(--b);fill-opacity:.5}
.key{display:inline-block;width:1.6rem;border-top:3px solid var(--a);vertical-align:middle}
.key.b{border-top:3px dashed var(--b)}
@media print{section{break-inside:avoid}}
"""
