"""The compiled library: made once, kept safely, done without where it cannot be had."""

from __future__ import annotations

import os
import stat

import pytest
import torch

import gad
from gad import native
from gad.nn import GADBlock

pytestmark = pytest.mark.skipif(native.library() is None, reason="there is no C compiler")


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """A cache of its own, and no library in memory."""
    monkeypatch.setenv("GAD_CACHE", str(tmp_path))
    native.library.cache_clear()
    native._function.cache_clear()
    yield tmp_path / "kernels"
    monkeypatch.undo()
    native.library.cache_clear()
    native._function.cache_clear()


def test_it_is_made_once(fresh):
    assert native.library() is not None
    (made,) = fresh.iterdir()
    when = made.stat().st_mtime_ns
    native.library.cache_clear()
    assert native.library() is not None
    assert [made.stat().st_mtime_ns] == [f.stat().st_mtime_ns for f in fresh.iterdir()] == [when]
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_a_file_that_others_can_write_is_not_trusted(fresh):
    native.library()
    (made,) = fresh.iterdir()
    made.unlink()  # what is in memory stays whole: the process still has to leave through it
    made.write_bytes(b"not a library")
    made.chmod(0o777)
    native.library.cache_clear()
    assert native.library() is not None
    assert made.read_bytes()[:4] == b"\x7fELF"


def test_without_a_compiler_everything_works(fresh, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert native.library() is None
    ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
    block = GADBlock(8, diffusion=gad.nn.ImplicitDiffusion(8), towers=2)
    block(torch.randn(3, 8), gad.build_operators(ring, 3)).sum().backward()
    assert not fresh.exists()


@pytest.mark.parametrize("script", ["exit 1", "echo fine"])
def test_a_compiler_that_fails_is_done_without(fresh, tmp_path, monkeypatch, script):
    broken = tmp_path / "broken-cc"
    broken.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    assert native.library() is None
    assert not any(fresh.glob("*.so"))


def test_it_can_be_switched_off(fresh, monkeypatch):
    monkeypatch.setenv("GAD_NATIVE", "0")
    assert native.library() is None


def test_a_folder_that_cannot_be_written(fresh, monkeypatch):
    if os.getuid() == 0:
        blocked = fresh.parent / "file"
        blocked.write_text("", encoding="utf-8")
        monkeypatch.setenv("GAD_CACHE", str(blocked))
    else:
        fresh.parent.chmod(0o500)
    assert native.library() is None


def test_other_types_and_devices_are_left_to_pytorch():
    assert native.usable(torch.zeros(1))
    assert not native.usable(torch.zeros(1, dtype=torch.float64))
    assert not native.usable(torch.zeros(1), torch.zeros(1, device="meta"))
