"""A few hundred requests of ``benchmarks/serve``."""

from __future__ import annotations

import asyncio
from itertools import cycle, islice

import httpx
import numpy as np
import pytest

import gad
from benchmarks.serve.client import Line, closed, paced
from gad.data.known import load_esol

pytestmark = pytest.mark.slow


def test_three_hundred_requests_are_answered_and_lose_nothing(url, esol):
    port = httpx.URL(url).port
    smiles = list(islice(cycle(load_esol().smiles[:100]), 300))
    batches = iter([[text] for text in smiles])
    assert asyncio.run(closed(port, batches, lines=8)) == 300
    assert len(asyncio.run(paced(port, smiles[:60], rate=200.0, lines=8))) == 60

    async def large() -> list[float]:
        async with Line(port) as line:
            return [row["values"]["target"] for row in await line.predict(smiles[:256], "esol")]

    alone = gad.load(esol).predict(smiles[:256])
    np.testing.assert_allclose(asyncio.run(large()), alone, rtol=1e-4, atol=1e-4)
