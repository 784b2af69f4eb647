"""``gad serve``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gad.cli.console import Outcome, errors, facts
from gad.cli.options import argument, number, option

_MEGABYTE = 1 << 20


def _limit(text: str, least: float = 1, metavar: str = "N") -> Any:
    return number(text, metavar, least, "Limits of a request")


def serve(
    model: Annotated[
        list[str],
        argument(
            "Model files. A request names them by the name of the file, or of its folder for a "
            "model.gad; NAME=FILE gives another.",
            "MODEL …",
        ),
    ],
    host: Annotated[
        str, option("Where to listen; 0.0.0.0 for the whole network.", metavar="ADDRESS")
    ] = "127.0.0.1",
    port: Annotated[int, number("0 for any free one.", "N", 0, max=65535)] = 8000,
    api_key: Annotated[
        str | None,
        option(
            "What requests must send as X-API-Key; better as the environment variable, which other "
            "users of the machine do not see.",
            envvar="GAD_API_KEY",
            metavar="KEY",
        ),
    ] = None,
    max_body: Annotated[float, _limit("Megabytes of JSON.", 0.001, "MB")] = 4,
    max_upload: Annotated[float, _limit("Megabytes of a table.", 0.001, "MB")] = 256,
    max_rows: Annotated[int, _limit("Rows of a table.")] = 1_000_000,
    max_molecules: Annotated[int, _limit("Molecules in JSON.")] = 4096,
    max_atoms: Annotated[int, _limit("Atoms of a molecule.")] = 1000,
    max_seconds: Annotated[float, _limit("Until it is answered.", 0.1, "S")] = 60,
    grace: Annotated[
        float, number("Seconds that requests under way have to end at a stop.", "S", 1)
    ] = 10,
) -> Outcome:  # fmt: skip
    """Answer HTTP requests with predictions, and show a page to look at molecules.

    The page is at the address that is printed; the interface is described at /openapi.json and
    /docs. Stop it with Ctrl-C or SIGTERM: requests under way are answered first.
    """
    from rich.text import Text

    from gad.service import EXTRA

    try:
        import fastapi  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ImportError(EXTRA) from error
    from gad.service.app import build_app
    from gad.service.limits import Limits
    from gad.service.metrics import Metrics
    from gad.service.models import Models, named
    from gad.service.server import Server, address, listen, run

    if api_key == "":
        raise typer.BadParameter("--api-key: an empty key is none; leave it out")
    limits = Limits(
        body=round(max_body * _MEGABYTE),
        upload=round(max_upload * _MEGABYTE),
        rows=max_rows,
        molecules=max_molecules,
        atoms=max_atoms,
        seconds=max_seconds,
        waiting=4 * max_molecules,
    )
    models = Models.load(named(model))
    metrics = Metrics()
    with listen(host, port) as place:
        url = address(place)

        def ready() -> None:
            names = ", ".join(models.names)
            line = ("the page: ", (url, "bold"), f"   models: {names}   stop: Ctrl-C")
            errors().print(Text.assemble(*line))

        run(Server(build_app(models, limits, api_key, metrics), grace, ready), place)
    told = {"address": url, "models": models.names, "requests": metrics.requests}
    return Outcome(told, facts({"stopped after": f"{metrics.requests:,} requests"}))
