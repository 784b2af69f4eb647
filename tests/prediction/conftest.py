"""The tests of this folder keep prepared molecules to themselves."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_cache(molecule_cache):
    return molecule_cache
