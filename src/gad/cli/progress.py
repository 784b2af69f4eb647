"""Progress on stderr: bars on a terminal, a few plain lines elsewhere, nothing with ``--json``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gad.cli.console import errors
from gad.machine import is_first
from gad.reporter import Reporter

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID
    from typing_extensions import Self

# Seconds between plain lines about the same piece of work, and lines a training run may take.
_QUIET_SECONDS = 30.0
_LINES = 10


class Listener(Reporter):
    """Keeps the messages and says nothing: what ``--json`` wants.

    Attributes:
        messages: all that was told, in order.
    """

    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        """Keep it."""
        self.messages.append(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the display."""


class Lines(Listener):
    """A few plain lines, for log files and pipes."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._said: dict[str, float] = {}

    def message(self, text: str) -> None:
        """Print it."""
        super().message(text)
        self._print(text)

    def progress(self, what: str, done: int, total: int | None) -> None:
        """A line at the end, and from time to time before."""
        if done == total or self._is_time(what):
            self._print(f"{what}: {done:,}" + ("" if total is None else f" of {total:,}"))

    def epoch(self, name: str, row: Mapping[str, float], epochs: int) -> None:
        """The first epoch, the last, and some in between."""
        number = int(row["epoch"]) + 1
        if number in {1, epochs} or number % max(1, epochs // _LINES) == 0:
            self._print(f"{name}: epoch {number} of {epochs}, loss {losses(row)}")

    def _is_time(self, what: str) -> bool:
        now = time.monotonic()
        due = now - self._said.setdefault(what, now) >= _QUIET_SECONDS
        if due:
            self._said[what] = now
        return due

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)


class Bars(Listener):
    """Live bars with the losses, the rate and the time left."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        super().__init__()
        self._display = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[note]}", markup=False),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {}
        self._began: dict[str, tuple[float, int]] = {}
        self._training: str | None = None

    def __enter__(self) -> Self:
        self._display.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the bars as they are."""
        self._display.stop()

    def message(self, text: str) -> None:
        """Print it above the bars."""
        super().message(text)
        self._display.console.print(text, markup=False, highlight=False)

    def progress(self, what: str, done: int, total: int | None) -> None:
        """Move a bar, and tell the rate since it began."""
        now = time.monotonic()
        began, before = self._began.setdefault(what, (now, done))
        seconds = now - began
        rate = f", {(done - before) / seconds:,.0f}/s" if seconds > 0 and done > before else ""
        self._move(what, done, total, f"{done:,}{rate}")

    def epoch(self, name: str, row: Mapping[str, float], epochs: int) -> None:
        """Move the bar of a model; the bar of the model before it goes."""
        if self._training not in {None, name}:
            self._display.update(self._tasks[str(self._training)], visible=False)
        self._training = name
        number = int(row["epoch"]) + 1
        self._move(name, number, epochs, f"{number}/{epochs}, {losses(row)}")

    def _move(self, what: str, done: int, total: int | None, note: str) -> None:
        if what not in self._tasks:
            self._tasks[what] = self._display.add_task(what, total=total, note="")
        self._display.update(self._tasks[what], completed=done, total=total, note=note)


def losses(row: Mapping[str, float]) -> str:
    """The losses of an epoch.

    >>> losses({"train_loss": 0.51234, "val_loss": 0.6})
    'train 0.5123, validation 0.6'
    """
    return f"train {row['train_loss']:.4g}, validation {row['val_loss']:.4g}"


def listener(quiet: bool) -> Listener:
    """The listener that suits where stderr goes."""
    if quiet or not is_first():
        return Listener()
    console = errors()
    return Bars(console) if console.is_terminal else Lines(console)
