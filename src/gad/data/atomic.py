"""Files that appear whole or not at all.

A program can be killed at any moment. What it leaves at a path is either the old file or the new
one, never half of it: bytes go to a temporary file in the same folder, reach the disk, and take the
name in one step.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from typing_extensions import Self


class Uncommitted(ABC):
    """Work that counts once it is committed.

    Leaving the ``with`` block without a commit, by an exception or otherwise, removes what was
    written and keeps an older file of that name as it was.
    """

    @abstractmethod
    def commit(self) -> None:
        """Let it count."""

    @abstractmethod
    def discard(self) -> None:
        """Forget what was written; after a commit there is nothing to forget."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()


class AtomicFile(Uncommitted):
    """A file being written; nothing is seen at ``path`` until :meth:`commit`.

    A symbolic link is followed, not replaced. The temporary file lives in ``folder``, if given,
    which must be on the same disk.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with AtomicFile(folder / "a.txt") as out:
        ...     _ = out.file.write(b"whole")
        ...     out.commit()
        >>> [p.name for p in folder.iterdir()], (folder / "a.txt").read_bytes()
        (['a.txt'], b'whole')
    """

    def __init__(self, path: str | os.PathLike[str], folder: Path | None = None) -> None:
        self.path = Path(os.path.realpath(path))
        name = f".{self.path.name}.{secrets.token_hex(4)}.tmp"
        self._temporary = (folder or self.path.parent) / name
        self.file: BinaryIO = self._temporary.open("xb")  # mode "x" obeys the user's umask

    def commit(self) -> None:
        """Give the written bytes their name, durably."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        self._temporary.replace(self.path)
        _sync_folder(self.path.parent)

    def discard(self) -> None:
        """Forget what was written; after a commit there is nothing to forget."""
        with contextlib.suppress(OSError):  # a full disk may refuse the last flush
            self.file.close()
        self._temporary.unlink(missing_ok=True)


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Write ``data`` to ``path``: whole, or not at all."""
    with AtomicFile(path) as out:
        out.file.write(data)
        out.commit()


def _sync_folder(folder: Path) -> None:
    """Make a new name durable; systems that cannot open a folder (Windows) do so on their own."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
