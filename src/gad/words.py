"""Words that people type."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, capitals or not; None if none is near.

    >>> nearest("wdith", ["width", "layers"]), nearest("LOGS", ["logS"]), nearest("x", ["width"])
    ('width', 'logS', None)
    """
    lower = {other.lower(): other for other in known}
    close = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.5)
    return lower[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The same as a question at the end of an error message, empty if no word is near.

    >>> did_you_mean("wdith", ["width", "layers"])
    " (did you mean 'width'?)"
    """
    found = nearest(word, known)
    return "" if found is None else f" (did you mean {found!r}?)"
