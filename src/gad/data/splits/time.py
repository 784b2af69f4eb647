"""A split by time: a model is judged on what was measured after everything it has seen."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

import numpy as np

from gad.data.splits.groups import Fractions, checked_fractions, part_sizes
from gad.data.splits.split import Split, some

_FORMATS = ("%Y-%m", "%Y/%m/%d", "%Y/%m", "%d.%m.%Y", "%Y%m%d")


def time_split(
    dates: Sequence[str], fractions: Fractions, rows_of: Sequence[int] | None = None
) -> Split:
    """The earliest rows train, the next validate, the latest test; rows of one date stay together.

    Args:
        dates: one per row: ISO dates or times, 2024/03/31, 31.3.2024, or years and other numbers.
        fractions: shares of the three parts, kept as nearly as dates allow.
        rows_of: the number of each row in its table, from 0, for what is said of it.

    Example:
        >>> split = time_split(["2021", "2019", "2020", "2020", "2022"], (0.6, 0.2, 0.2))
        >>> [rows.tolist() for _, rows in split.parts()]
        [[1, 2, 3], [0], [4]]
    """
    moments = [moment(text) for text in dates]
    if unread := [row for row, found in enumerate(moments) if found is None]:
        numbers = [(unread[0] if rows_of is None else rows_of[unread[0]]) + 1]
        raise ValueError(
            f"{len(unread)} rows have no date that can be read, such as {dates[unread[0]]!r} in "
            f"{some(numbers, 'row')}: write 2024-03-31, or numbers that grow with time"
        )
    _, place = np.unique(np.array(moments, dtype=np.float64), return_inverse=True)
    order = np.argsort(place, kind="stable")
    ends = np.cumsum(part_sizes(len(order), checked_fractions(fractions)))[:2]
    # A part ends where a date does.
    later = [
        int(np.searchsorted(place[order], place[order[end - 1]], side="right")) for end in ends
    ]
    train, val, test = np.split(order, later)
    if not len(train) or (fractions[2] > 0 and not len(test)):
        raise ValueError("the dates are too few to be divided: too many rows have the same one")
    return Split(np.sort(train), np.sort(val), np.sort(test))


def said_of_time(split: Split, dates: Sequence[str]) -> str:
    """Where one part ends and the next begins, for people."""
    spans = []
    for part, rows in split.parts():
        inside = sorted((dates[row] for row in rows.tolist()), key=_key)
        if inside:
            spans.append(f"{part} {inside[0]} to {inside[-1]}")
    return f"split by time: {', '.join(spans)}"


def _key(text: str) -> float:
    found = moment(text)
    assert found is not None
    return found


def moment(text: str) -> float | None:
    """A date as a number that grows with time; None if it is none.

    >>> moment("1970-01-02"), moment("2.1.1970"), moment("1970"), moment("soon")
    (86400.0, 86400.0, 1970.0, None)
    """
    text = text.strip()
    try:
        return float(text) if np.isfinite(float(text)) else None
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text.removesuffix("Z"))
    except ValueError:
        for form in _FORMATS:
            try:
                found = datetime.strptime(text, form)  # noqa: DTZ007
                break
            except ValueError:
                continue
        else:
            return None
    return found.replace(tzinfo=found.tzinfo or timezone.utc).timestamp()
