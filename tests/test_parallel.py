"""Several processes: the same results in the same order, and nobody waits for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial

import psutil
import pytest
import torch

from gad.chem import Featurizer
from gad.data.store.molecules import Preparation, read_molecules
from gad.nn import GADBlock, ImplicitDiffusion
from gad.parallel import in_order


def scaled(factor, number):
    return factor * number


def refused(number):
    if number == 3:
        raise ValueError("three is refused")
    return number


def killed(number):
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def threads_and_tensor(number):
    return torch.get_num_threads(), torch.full((3,), float(number))


def filtered(block, packed, x):
    batch = packed.batch(torch.arange(len(packed)))
    return block(x, batch.operators)


def prepared(texts):
    return read_molecules(texts, Preparation(Featurizer(), descriptors=True)).operators.eigenvalues


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_come_in_order_and_items_are_read_as_they_are_needed(workers):
    read = []

    def items():
        for number in range(40):
            read.append(number)
            yield number

    results = in_order(partial(scaled, 10), items(), workers)
    assert read == []
    assert next(results) == 0
    assert len(read) <= 2 * workers + 1
    assert list(results) == [10 * number for number in range(1, 40)]


def test_an_error_comes_back_and_ends_it():
    results = in_order(refused, range(20), 2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three is refused"):
        next(results)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_process_is_told_of():
    with pytest.raises(RuntimeError, match="was killed"):
        list(in_order(killed, range(4), 2))


def test_processes_have_one_thread_whatever_this_one_has():
    """Copies of a process whose pools of threads have been used, for products and gradients."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        weights = torch.randn(300, 300, requires_grad=True)
        (weights @ weights).sum().backward()
        found = list(in_order(threads_and_tensor, range(4), 2))
        texts = ["CCO", "c1ccccc1O", "CC(C)C"]
        for values in in_order(prepared, [texts] * 4, 2):
            torch.testing.assert_close(values, prepared(texts))
    finally:
        torch.set_num_threads(before)
    assert [threads for threads, _ in found] == [1] * 4
    torch.testing.assert_close(torch.stack([t for _, t in found])[:, 0], torch.arange(4.0))


def test_a_block_works_in_processes_after_it_worked_on_two_threads_here():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        packed = read_molecules(["CCCCO", "c1ccccc1O"] * 40, Preparation(Featurizer()))
        block = GADBlock(20, diffusion=ImplicitDiffusion(20), towers=2).eval().requires_grad_(False)
        x = torch.randn(packed.operators.num_nodes, 20)
        work = partial(filtered, block, packed)
        here = work(x)
        for there in in_order(work, [x] * 4, 2):
            torch.testing.assert_close(there, here)
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux only")
def test_no_process_outlives_its_parent():
    program = (
        "import os, time\n"
        "from gad.parallel import in_order\n"
        "def work(number):\n"
        "    time.sleep(0 if number < 2 else 60)\n"
        "    return os.getpid()\n"
        "results = in_order(work, range(9), 2)\n"
        "print(next(results), next(results), flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    workers = {int(word) for word in process.stdout.readline().split()}
    assert workers
    process.kill()
    process.communicate()
    for _ in range(300):
        left = [pid for pid in workers if psutil.pid_exists(pid)]
        if not left:
            return
        time.sleep(0.1)
    pytest.fail(f"still there: {left}")
