"""How a long piece of work tells how it goes; the command line and Python listen their own way."""

from __future__ import annotations

from collections.abc import Mapping


class Reporter:
    """Hears what happens, and by default says nothing."""

    def message(self, text: str) -> None:
        """Something the user should know."""

    def progress(self, what: str, done: int, total: int | None) -> None:
        """``done`` of ``total`` (None: unknown) are done of what is going on."""

    def epoch(self, name: str, row: Mapping[str, float], epochs: int) -> None:
        """An epoch has ended; ``row`` has epoch, train_loss, val_loss, lr and seconds."""
