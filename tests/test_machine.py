"""The machine, and this process's share of it."""

from __future__ import annotations

import os

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from gad import machine as place
from gad.machine import as_many_threads, cores, idle_cores, is_first, machine, one_thread_each


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


@pytest.mark.parametrize(("running", "idle"), [("1/9", 2), ("2/9", 1), ("9/99", 1), ("nothing", 2)])
def test_cores_that_others_use_are_not_idle(monkeypatch, tmp_path, running, idle):
    file = tmp_path / "loadavg"
    file.write_text(f"0.1 0.2 0.3 {running} 4711\n")
    monkeypatch.setattr(place, "_RUNNING", file)
    monkeypatch.setattr(place, "cores", lambda: 2)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert idle_cores() == idle
    file.unlink()
    assert idle_cores() == 2


def test_threads_are_those_of_idle_cores_unless_they_are_asked_for(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setattr(place, "idle_cores", lambda: 1)
    try:
        torch.set_num_threads(2)
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        with as_many_threads():
            assert torch.get_num_threads() == 2
        monkeypatch.delenv("OMP_NUM_THREADS")
        with as_many_threads():
            assert torch.get_num_threads() == 1
        with as_many_threads(3):
            assert torch.get_num_threads() == 3
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
