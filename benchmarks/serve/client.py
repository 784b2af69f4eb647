"""A client that costs little: HTTP/1.1 over connections that stay open, on the loopback address."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Any


class Line:
    """One connection. Use it as ``async with Line(port) as line: await line.post(…)``."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Line:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def post(self, path: str, body: Any) -> tuple[int, bytes]:
        """Send JSON; the code and the content of the answer."""
        content = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        self._writer.write(head.encode() + content)
        told = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next(int(line[15:]) for line in told if line.startswith("content-length:"))
        return int(told[0].split()[1]), await self._reader.readexactly(length)

    async def predict(self, smiles: Sequence[str], model: str | None = None) -> list[Any]:
        """The rows of these molecules; every answer must be one."""
        body = {"smiles": list(smiles), "model": model, "uncertainty": False}
        code, content = await self.post("/v1/predict", body)
        assert code == 200, content[:300]
        rows: list[Any] = json.loads(content)["predictions"]
        return rows


async def closed(port: int, batches: Iterator[Sequence[str]], lines: int) -> int:
    """Send batches over some lines, each as soon as the one before is answered; the molecules."""
    done = 0

    async def work(line: Line) -> None:
        nonlocal done
        for smiles in batches:
            rows = await line.predict(smiles)
            done += len(rows)

    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(Line(port)) for _ in range(lines)]
        await asyncio.gather(*map(work, opened))
    return done


async def paced(port: int, smiles: Sequence[str], rate: float, lines: int = 32) -> list[float]:
    """Single molecules at a rate, whether or not others are answered; seconds of each.

    A request's time begins when it is due, so that waiting for a free line counts.
    """
    free: asyncio.Queue[Line] = asyncio.Queue()
    begin = time.perf_counter() + 0.1

    async def ask(number: int, text: str) -> float:
        due = begin + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        line = await free.get()
        try:
            await line.predict([text])
        finally:
            free.put_nowait(line)
        return time.perf_counter() - due

    async with AsyncExitStack() as stack:
        for _ in range(lines):
            free.put_nowait(await stack.enter_async_context(Line(port)))
        return await asyncio.gather(*(ask(n, text) for n, text in enumerate(smiles)))
