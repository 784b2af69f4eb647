"""The routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, PlainTextResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from gad import __version__
from gad.service import pages
from gad.service.answers import card_of, targets_of
from gad.service.batching import Batcher, Wants
from gad.service.files import MEDIA, Files, Wish
from gad.service.geometry import drawings
from gad.service.guard import Guard, problem
from gad.service.limits import Limits, Refusal, checked
from gad.service.metrics import Metrics
from gad.service.models import Models, Served
from gad.service.schemas import (
    DrawAnswer,
    DrawRequest,
    FileQuery,
    ModelsAnswer,
    PredictAnswer,
    PredictRequest,
    Problem,
)

_REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "description": text}
    for code, text in {
        401: "The API key is missing or wrong.",
        404: "There is no such model.",
        408: "It took too long.",
        413: "The body, the number of molecules or a molecule is too large.",
        415: "The body has a type that is not read here, or is compressed.",
        422: "The request is not what it should be.",
        429: "Too much is waiting already.",
    }.items()
}
_TABLE = {"type": "string", "format": "binary"}
_UPLOAD = {
    "requestBody": {
        "required": True,
        "content": {
            **{kind: {"schema": _TABLE} for kind in MEDIA},
            "multipart/form-data": {
                "schema": {"type": "object", "properties": {"file": _TABLE}, "required": ["file"]}
            },
        },
    }
}
_CSV_EXAMPLE = "smiles,logS_pred,logS_lower,logS_upper,warning,reject_reason\nCCO,0.9,0.1,1.7,,\n"


def build_app(
    models: Models,
    limits: Limits | None = None,
    api_key: str | None = None,
    metrics: Metrics | None = None,
) -> ASGIApp:
    """The service as an ASGI application; its threads end when its lifespan does.

    Args:
        models: what can be asked.
        limits: of a request.
        api_key: who knows it may ask; None for everybody.
        metrics: what was done so far.
    """
    limits, metrics = limits or Limits(), metrics or Metrics()
    batcher, tables = Batcher(limits, metrics), Files(limits, metrics)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        tables.stop()
        await asyncio.to_thread(batcher.stop)

    app = FastAPI(
        title="Graph Anisotropic Diffusion",
        version=__version__,
        description="Molecules in, predictions out. Nothing is fetched from the network.",
        docs_url=None,  # it would load its scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    app.add_exception_handler(HTTPException, _told)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _failed)

    @app.post(
        "/v1/predict",
        response_model=None,
        responses={200: {"model": PredictAnswer}, **_REFUSALS},
        tags=["predict"],
    )
    async def predict(asked: PredictRequest) -> Response:
        """Predict SMILES. A molecule that cannot be read has its reason in its own place."""
        model = models.find(asked.model)
        counts = checked(asked.smiles, limits)
        wants = Wants(asked.uncertainty, asked.explain, asked.neighbours)
        own = _features(asked, model)
        rows = await batcher.predict(model, wants, asked.smiles, counts, own)
        return _json(
            PredictAnswer.model_construct(
                model=model.name,
                targets=targets_of(model.predictor.model.task),
                predictions=rows,
            )
        )

    @app.post(
        "/v1/predict/file",
        response_model=None,
        responses={
            200: {"content": {"text/csv": {"example": _CSV_EXAMPLE}}},
            **_REFUSALS,
        },
        openapi_extra=_UPLOAD,
        tags=["predict"],
    )
    async def predict_file(request: Request, asked: Annotated[FileQuery, Query()]) -> Response:
        """Predict a table (CSV, TSV, SMI, SDF or Parquet), as `gad predict` does.

        It is the body itself, with its Content-Type, or the part `file` of a form. Every row comes
        back, in order, with its own columns first; the answer is streamed.
        """
        model = models.find(asked.model)
        wish = Wish(model, asked.uncertainty, asked.smiles, asked.format)
        return await tables.predict(request, wish)

    @app.get("/v1/models", response_model=None, responses={200: {"model": ModelsAnswer}})
    async def list_models() -> Response:
        """All models, with what they predict and everything their files say of themselves."""
        return _json(ModelsAnswer.model_construct(models=[card_of(model) for model in models]))

    @app.post("/v1/draw", response_model=None, responses={200: {"model": DrawAnswer}, **_REFUSALS})
    def draw(asked: DrawRequest) -> Response:
        """Draw molecules, with the places of their atoms and, if asked for, their eigenbasis."""
        found = drawings(asked, limits)
        return _json(DrawAnswer.model_construct(drawings=found))

    @app.get("/healthz")
    async def health() -> dict[str, str]:
        """Whether the service is there."""
        return {"status": "ok"}

    @app.get("/metrics", response_class=PlainTextResponse)
    async def told_metrics() -> PlainTextResponse:
        """Counts and times in Prometheus' text format."""
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return PlainTextResponse(metrics.text(), media_type=kind)

    @app.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    async def listing() -> str:
        return pages.listing(app.openapi())

    def asset(content: bytes, kind: str) -> Any:
        async def found() -> Response:
            return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

        return found

    for path, (content, kind) in pages.assets().items():
        app.add_api_route(path, asset(content, kind), include_in_schema=False)
    paths = [getattr(route, "path", "") for route in app.routes]
    return Guard(app, paths, limits, metrics, api_key)


def _features(asked: PredictRequest, model: Served) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """The user's own columns, of the right shape."""
    names = model.predictor.model.features
    rows = asked.features
    if rows is None and not names:
        return None
    if rows is None or any(len(row) != len(names) for row in rows):
        wanted = f"the columns {', '.join(names)}" if names else "no features"
        raise Refusal(422, f"features: the model {model.name!r} wants {wanted} for each molecule")
    if len(rows) != len(asked.smiles):
        raise Refusal(422, f"features: {len(rows)} rows for {len(asked.smiles)} molecules")
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(names))


def _json(answer: BaseModel) -> Response:
    """An answer as JSON; what is not a finite number is null."""
    return Response(answer.model_dump_json(warnings=False), media_type="application/json")


async def _told(request: Request, error: Exception) -> Response:
    """A refusal; those of the framework in words that say what to do."""
    assert isinstance(error, HTTPException)
    code, detail = error.status_code, error.detail
    if code == 404 and not isinstance(error, Refusal):
        detail = "there is nothing at this address; /docs lists what there is"
    if code == 405:
        ways = (error.headers or {}).get("Allow", "nothing")
        detail = f"this address answers {ways}, not {request.method}"
    if code == 400:  # a body that the framework could not take apart
        code = 422
        if _is_json(request):
            detail = "the body is not JSON in UTF-8, or is nested too deeply"
    return problem(HTTPException(code, detail, error.headers))


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


async def _invalid(request: Request, error: Exception) -> Response:
    """What is wrong with a body and where, without repeating the body."""
    assert isinstance(error, RequestValidationError)
    if isinstance(error.body, bytes) and not _is_json(request):
        return problem(HTTPException(415, "send JSON, with Content-Type: application/json"))
    told = "; ".join(map(_complaint, error.errors()[:5]))
    return problem(HTTPException(422, told.encode("ascii", "replace").decode()))


# pydantic's name of a mistake → what people are told of it; other mistakes in pydantic's words.
_MISTAKES = {
    "json_invalid": "is not JSON",
    "missing": "is missing",
    "extra_forbidden": "is not known here",
    "model_attributes_type": 'must be an object, as in {"smiles": ["CCO"]}',
    "list_type": 'must be a list, as in ["CCO"]',
    "string_type": "must be text, in quotes",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "finite_number": "must be a finite number",
}


def _complaint(one: dict[str, Any]) -> str:
    """Where something is wrong, and what.

    >>> _complaint({"type": "list_type", "loc": ("body", "smiles"), "msg": "?"})
    'smiles: must be a list, as in ["CCO"]'
    >>> _complaint({"type": "json_invalid", "loc": ("body", 14), "msg": "?"})
    'the body is not JSON, from character 14 on'
    """
    said = _MISTAKES.get(one["type"], one["msg"].removeprefix("Value error, "))
    where = one["loc"][1:]
    if one["type"] == "json_invalid":
        return f"the body {said}, from character {where[0]} on"
    named = ".".join(str(part)[:40] for part in where)
    return f"{named}: {said}" if named else f"the body {said}"


async def _failed(_: Request, __: Exception) -> Response:
    return problem(HTTPException(500, "this is a fault of the service; its log says more"))
