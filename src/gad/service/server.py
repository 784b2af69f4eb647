"""The process: a socket, a start that is told, a stop that finishes what was begun."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

import torch
import uvicorn
from starlette.types import ASGIApp


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens, or an error in a sentence."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    place = socket.socket(family, socket.SOCK_STREAM)
    try:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind((host, port))
    except OSError as error:
        place.close()
        raise OSError(
            f"cannot listen at {host}:{port} ({error.strerror or error}): choose another --port"
        ) from None
    return place


def address(place: socket.socket) -> str:
    """Where a browser finds it."""
    host, port, *_ = place.getsockname()
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{shown}:{port}/"


class Server(uvicorn.Server):
    """uvicorn, told how long requests under way may take at a stop, and telling when it is ready.

    Args:
        app: what is served.
        grace: seconds.
        ready: is called when requests are answered.
    """

    def __init__(
        self, app: ASGIApp, grace: float = 10, ready: Callable[[], None] = lambda: None
    ) -> None:
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=max(1, round(grace)),
            timeout_keep_alive=30,
            backlog=512,
        )
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()


def run(server: Server, place: socket.socket) -> None:
    """Serve until interrupted or terminated; requests under way are answered first."""
    # The networks are small: threads of our own are quicker than PyTorch's.
    torch.set_num_threads(1)
    # uvicorn repeats the signal when it is done; a stop that was asked for is no failure.
    with suppress(KeyboardInterrupt):
        server.run(sockets=[place])
