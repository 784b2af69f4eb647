"""``gad join``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gad.cli.console import Outcome, facts
from gad.cli.options import Json, argument, option


def join(
    parts: Annotated[
        list[Path],
        argument("The outputs of all parts, in any order.", "PART..."),
    ],
    out: Annotated[
        Path, option("The whole; same ending as the parts.", "--out", "-o", metavar="OUT")
    ],
    as_json: Json = False,
) -> Outcome:
    """Put together what gad predict --part I/N has written.

    A part that is missing, there twice, changed or of another run is refused. The result is the
    very file that one run would have written, with its rejects.csv beside it.
    """
    from gad.cli.progress import listener
    from gad.prediction.engines.join import join_parts

    with listener(quiet=as_json) as reporter:
        done = join_parts(parts, out, reporter)
    shown = {"joined": f"{done.rows:,} rows of {len(parts)} parts", "written": done.output}
    return Outcome({**done.to_dict(), "messages": reporter.messages}, facts(shown))
