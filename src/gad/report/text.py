"""Numbers and settings as people write them."""

from __future__ import annotations

import math
from collections.abc import Mapping


def number(value: float | None, decimals: int | None = None) -> str:
    """A number for people: three significant digits, or so many decimals; a dash for none.

    >>> number(0.012345), number(-1234.5), number(2.0, 3), number(1e-9), number(None)
    ('0.0123', '−1,234', '2.000', '1e−9', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if decimals is None:
        size = abs(value)
        decimals = 0 if size == 0 else 2 - math.floor(math.log10(size))
        if not -5 < decimals < 7:
            digits, power = f"{value:.2e}".split("e")
            return f"{float(digits):g}e{int(power)}".replace("-", "−")
        text = f"{value:,.{max(decimals, 0)}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        text = f"{value:,.{decimals}f}"
    if not text.strip("-0.,"):
        text = text.lstrip("-")  # rounded to nothing: −0.00 is 0.00
    return text.replace("-", "−")


def plain(value: object) -> str:
    """A setting as people would write it.

    >>> plain(["mean", "dx"]), plain(True), plain(None), plain({"torch": "2.6"})
    ('mean, dx', 'yes', '–', 'torch 2.6')
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {plain(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(plain, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return "–" if value is None else str(value)
