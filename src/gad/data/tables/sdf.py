"""Tables in SDF files: a mol block for each molecule, and its properties as columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gad.data.tables.base import LIMIT, Record, RecordTable, TableError, clean_name
from gad.data.tables.text import open_text

_SEPARATOR = re.compile(r"^\$\$\$\$[^\n]*\n", re.MULTILINE)
_END = re.compile(r"^M  END[^\n]*\n", re.MULTILINE)
_PROPERTY = re.compile(r"^>[^<\n]*<([^\n]*)>[^>\n]*\n((?:[^\n]*\S[^\n]*\n)*)", re.MULTILINE)


class SDFTable(RecordTable):
    """SDF, V2000 or V3000: the mol blocks are handed on as they are, the properties become columns.

    Properties differ from record to record, so the file is read once to know its columns. The
    title line of the mol block is the column ``name``, unless a property has that name.
    """

    format = "sdf"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        names: dict[str, None] = {"name": None}
        rows = 0
        for text in self._texts():
            rows += 1
            names.update(dict.fromkeys(_parse(text)[1]))
        if not rows:
            raise TableError(f"{path}: is empty; an SDF has a mol block for each molecule.")
        self.names = tuple(names)
        self.rows = rows

    def records(self) -> Iterator[Record]:
        """Yield all molecules; one whose mol block is incomplete is rejected."""
        for text in self._texts():
            block, properties = _parse(text)
            reason = None
            if len(text) >= LIMIT:
                reason = f"the record is longer than {LIMIT:,} characters; is a $$$$ line missing?"
            elif not block:
                reason = "the mol block has no 'M  END' line"
            elif "\0" in text:
                reason = "the record has a NUL byte, which no text has"
            title = text.split("\n", 1)[0].replace("\0", "").strip()
            cells = {"name": title, **properties}
            yield Record([cells.get(name, "") for name in self.names], reason, block)

    def _texts(self) -> Iterator[str]:
        """The text of each record, line ends made equal; an endless one is cut at the limit."""
        rest, endless = "", False
        with open_text(self.path) as stream:
            stream.reconfigure(newline=None)
            while piece := stream.read(1 << 20) or (rest.strip() and "\n$$$$\n"):
                *done, rest = _SEPARATOR.split(rest + piece)
                if endless and done:  # here the endless record ends after all
                    del done[0]
                    endless = False
                yield from done
                if not endless and len(rest) > LIMIT:
                    yield rest[:LIMIT]
                    endless = True
                if endless:  # whether its last line is a separator is all that matters
                    rest = rest[rest.rfind("\n") + 1 :][:5]


def _parse(text: str) -> tuple[str, dict[str, str]]:
    r"""Mol block ("" if it does not end) and properties of one record.

    >>> _parse("\n  x\n\nM  END\n>  <logS>  (1)\n-0.77\n\n")
    ('\n  x\n\nM  END\n', {'logS': '-0.77'})
    """
    text = text.replace("\0", "")
    end = _END.search(text)
    cut = end.end() if end else 0
    found = _PROPERTY.findall(text, cut)
    named = ((clean_name(name), value[:-1]) for name, value in found)
    return text[:cut], {name: value for name, value in named if name}
