"""The machine, and this process's share of it."""

from __future__ import annotations

import os

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from gad.machine import cores, is_first, machine, one_thread_each


@pytest.mark.parametrize(
    ("environment", "first"),
    [
        ({}, True),
        ({"LOCAL_RANK": "1"}, False),
        ({"RANK": "0", "LOCAL_RANK": "0"}, True),
        # The first process of the second machine does not speak.
        ({"RANK": "2", "LOCAL_RANK": "0"}, False),
    ],
)
def test_one_process_of_all_machines_speaks(monkeypatch, environment, first):
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert is_first() == first


def test_cores_are_those_this_process_may_use():
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("this system does not say which cores a process may use")
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert cores() == 1
        assert machine()["cores"] == os.cpu_count()
    finally:
        os.sched_setaffinity(0, before)


def test_one_thread_each_is_given_back():
    import sklearn.ensemble  # noqa: F401  loaded later, it would not be limited below
    with threadpool_limits(2):
        with one_thread_each():
            assert {pool["num_threads"] for pool in threadpool_info()} == {1}
        assert {pool["num_threads"] for pool in threadpool_info()} == {2}
