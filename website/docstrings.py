"""An extension of Griffe, which reads the source for mkdocstrings."""

from __future__ import annotations

from typing import Any

from griffe import Extension, Module, Object

from website.markup import markdown_docstring


class Docstrings(Extension):
    """Griffe reads our docstrings as Markdown, and shows what is imported only where it is made."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Change the docstring of whatever was read."""
        if obj.docstring is not None:
            obj.docstring.value = markdown_docstring(obj.docstring.value)

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Names in ``__all__`` are listed by the page itself."""
        pkg.exports = None
        for module in pkg.modules.values():
            if not module.is_alias:
                self.on_package(pkg=module)
