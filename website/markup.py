"""Formulas as MathML, drawings as SVG, and docstrings as Markdown: nothing is left to the browser.

So the site needs no script or font from elsewhere.
"""

from __future__ import annotations

import html
import re
from pkgutil import resolve_name
from typing import Any

_MATH = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
_BARS = {r"\lVert": r"\|", r"\rVert": r"\|", r"\lvert": "|", r"\rvert": "|"}
_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`~?([^`]+)`")
_LITERAL = re.compile(r"::(?=\n\n? +\S)")


def mathml(page: str) -> str:
    """The HTML of a page with the formulas that arithmatex has marked as MathML."""
    from latex2mathml.converter import convert

    def formula(found: re.Match[str]) -> str:
        tex = html.unescape(found[2]).strip()
        for bar, plain in _BARS.items():
            tex = tex.replace(bar, plain)
        made: str = convert(tex, display="block" if found[1] == "div" else "inline")
        if left := re.findall(r"\\[a-zA-Z]+", made):
            raise ValueError(f"{', '.join(left)} is no MathML, in the formula {tex}")
        return made

    return _MATH.sub(formula, page)


def mermaid(source: str, *_: Any, **__: Any) -> str:
    """A drawing of a ``mermaid`` fence: SVG, made once by Mermaid itself."""
    import mermaidx

    svg = mermaidx.render(source, theme="neutral").svg()
    return f'<figure class="drawing">{svg}</figure>'


def canonical(name: str) -> str:
    """Where a public name is defined, which is where the reference has it.

    >>> canonical("gad.nn.GAD")
    'gad.nn.model.GAD'
    """
    try:
        value = resolve_name(name)
    except (ImportError, AttributeError):
        return name
    return f"{value.__module__}.{value.__qualname__}" if hasattr(value, "__qualname__") else name


def markdown_docstring(text: str) -> str:
    """A docstring, written for readers of the code, as Markdown with links.

    >>> markdown_docstring("See :class:`gad.nn.GAD`, :meth:`predict`.")
    'See <autoref identifier="gad.nn.model.GAD" optional><code>GAD</code></autoref>, `predict`.'
    """

    def reference(role: re.Match[str]) -> str:
        name = role[1]
        if not name.startswith("gad."):
            return f"`{name}`"
        short = f"<code>{name.rpartition('.')[2]}</code>"
        return f'<autoref identifier="{canonical(name)}" optional>{short}</autoref>'

    text = _LITERAL.sub(":", _ROLE.sub(reference, text))
    text = re.sub(r"(?m)^Example:$", "Examples:", text)  # a section that Griffe knows
    parts = text.split("\n\n")
    for number, part in enumerate(parts):
        if ">>> " not in part:
            parts[number] = re.sub(r"\]( ?)\[", r"]\1\\[", part)  # shapes [N] [C] are no links
        elif part.startswith(">>> "):
            parts[number] = f"```pycon\n{part.rstrip()}\n```"
    return "\n\n".join(parts)
