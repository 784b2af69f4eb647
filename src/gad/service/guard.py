"""Around every request: who may ask, how much may come, what is counted."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Iterable
from contextlib import suppress

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gad.service.limits import Limits, Refusal
from gad.service.metrics import Metrics

# Nothing comes from elsewhere, nothing runs that is not ours, nobody frames the page.
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_UPLOAD = "/v1/predict/file"
# What is read and thrown away of a body that is too large, so that its sender hears why.
_DRAINED = 64 << 20


class Guard:
    """ASGI middleware: API key, limits of body and time, headers, metrics.

    Args:
        app: what is guarded.
        paths: the paths that are counted under their own name.
        limits: of a request.
        metrics: is told of every request.
        api_key: what ``X-API-Key`` or ``Authorization: Bearer`` must have; None for no key.
    """

    def __init__(
        self,
        app: ASGIApp,
        paths: Iterable[str],
        limits: Limits,
        metrics: Metrics,
        api_key: str | None,
    ) -> None:
        self._app, self._paths, self._limits = app, frozenset(paths), limits
        self._metrics = metrics
        self._key = None if api_key is None else api_key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or say why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"] if scope["path"] in self._paths else "other"
        if scope["method"] == "HEAD":  # as GET; the server leaves the body out
            scope = {**scope, "method": "GET"}
        started, answered = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = message["status"]
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] += [
                    (name.encode(), value.encode())
                    for name, value in HEADERS.items()
                    if name.encode() not in given
                ]
            await send(message)

        body = _Body(scope, receive, self._limits)
        try:
            self._admit(scope)
            body.check()
            await self._app(scope, body, sending)
        except Refusal as refusal:
            if answered:
                raise
            await body.drain()
            await problem(refusal)(scope, receive, sending)
        finally:
            self._metrics.request(path, answered, time.perf_counter() - started)

    def _admit(self, scope: Scope) -> None:
        """Those who have the key; the page, its health and its description are for everybody."""
        if self._key is None or not scope["path"].startswith(("/v1/", "/metrics")):
            return
        headers = dict(scope["headers"])
        kind, _, token = headers.get(b"authorization", b"").partition(b" ")
        given = headers.get(b"x-api-key") or (token if kind.lower() == b"bearer" else b"")
        if not hmac.compare_digest(given, self._key):
            raise Refusal(
                401,
                "this service wants its API key, as the header X-API-Key",
                headers={"WWW-Authenticate": "Bearer"},
            )


class _Body:
    """A request's body, as long as it is not too long and does not take too long."""

    def __init__(self, scope: Scope, receive: Receive, limits: Limits) -> None:
        self._receive, self._seconds = receive, limits.seconds
        self._upload = scope["path"] == _UPLOAD
        self._most = limits.upload if self._upload else limits.body
        headers = dict(scope["headers"])
        self._packed = headers.get(b"content-encoding", b"identity").lower() != b"identity"
        told = headers.get(b"content-length", b"")
        self._told = int(told) if told.isdigit() else None
        self._deadline = time.monotonic() + limits.seconds
        self._read, self._over = 0, False

    def check(self) -> None:
        """Refuse what says of itself that it is too long, or packed: it could become any size."""
        if self._packed:
            raise Refusal(415, "the body is compressed: send it without a Content-Encoding")
        if self._told is not None and self._told > self._most:
            raise self._too_long()

    async def __call__(self) -> Message:
        """The next message of the client."""
        if self._over:
            return await self._receive()  # only the end of the connection is still to come
        rest = self._seconds if self._upload else self._deadline - time.monotonic()
        try:
            message = await asyncio.wait_for(self._receive(), max(rest, 0.001))
        except asyncio.TimeoutError:
            raise Refusal(
                408, f"the request did not arrive within {self._seconds:g} seconds"
            ) from None
        self._note(message)
        if self._read > self._most:
            raise self._too_long()
        return message

    async def drain(self) -> None:
        """Read the rest, within reason: who is still sending does not hear an answer."""
        if (self._told or 0) > _DRAINED:
            return
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._rest(), 5)

    async def _rest(self) -> None:
        while not self._over and self._read < _DRAINED:
            self._note(await self._receive())

    def _note(self, message: Message) -> None:
        self._read += len(message.get("body", b""))
        self._over = message["type"] == "http.disconnect" or not message.get("more_body", False)

    def _too_long(self) -> Refusal:
        return Refusal(
            413, f"the body is too large: at most {self._most:,} bytes are read at {self._where}"
        )

    @property
    def _where(self) -> str:
        return _UPLOAD if self._upload else "this address"


def problem(error: HTTPException) -> JSONResponse:
    """An error as JSON."""
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)
