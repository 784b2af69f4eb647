"""The compiled library: made once, kept safely, done without where it cannot be had."""

from __future__ import annotations

import ctypes
import os
import stat
from contextlib import nullcontext

import pytest
import torch

import gad
from gad import native
from gad.native import bindings, build
from gad.nn import GADBlock

pytestmark = pytest.mark.skipif(native.library() is None, reason="there is no C compiler")


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """A cache of its own, and no library in memory."""
    monkeypatch.setenv("GAD_CACHE", str(tmp_path))
    build._load.cache_clear()
    yield tmp_path / "kernels"
    monkeypatch.undo()
    build._load.cache_clear()


@pytest.mark.slow
def test_it_is_made_once(fresh):
    assert native.library() is not None
    (made,) = fresh.iterdir()
    when = made.stat().st_mtime_ns
    build._load.cache_clear()
    assert native.library() is not None
    assert [made.stat().st_mtime_ns] == [f.stat().st_mtime_ns for f in fresh.iterdir()] == [when]
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


@pytest.mark.slow
def test_a_file_that_others_can_write_is_not_trusted(fresh):
    native.library()
    (made,) = fresh.iterdir()
    made.unlink()  # what is in memory stays whole: the process still has to leave through it
    made.write_bytes(b"not a library")
    made.chmod(0o777)
    build._load.cache_clear()
    assert native.library() is not None
    assert made.read_bytes()[:4] == b"\x7fELF"


def test_without_a_compiler_everything_works(fresh, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert native.library() is None
    assert native.status().reason == "there is no C compiler (no-such-compiler)"
    ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
    block = GADBlock(8, diffusion=gad.nn.ImplicitDiffusion(8), towers=2)
    block(torch.randn(3, 8), gad.build_operators(ring, 3)).sum().backward()
    assert not fresh.exists()


@pytest.mark.parametrize("script", ["echo broken >&2; exit 1", "echo fine"])
def test_a_compiler_that_fails_is_said_once_and_remembered(fresh, tmp_path, monkeypatch, script):
    broken, calls = tmp_path / "broken-cc", tmp_path / "calls"
    broken.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n{script}\n', encoding="utf-8")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    with pytest.warns(UserWarning, match="could not compile the kernels"):
        assert native.library() is None
    assert not any(fresh.glob("*.so"))
    (marker,) = fresh.glob("*.failed")
    told = native.status()
    assert not told.active
    assert told.library is None
    assert "broken-cc could not compile" in told.reason
    assert ("broken" in told.reason.split(":")[-1]) == ("broken >&2" in script)

    def compilations() -> int:
        return sum("-shared" in line for line in calls.read_text("utf-8").splitlines())

    assert compilations() == 1
    build._load.cache_clear()  # as another process
    assert native.library() is None
    assert str(marker) in native.status().reason
    assert compilations() == 1
    # Another compiler, or another version of it, is another matter.
    broken.write_text(
        broken.read_text("utf-8").replace("#!/bin/sh", "#!/bin/sh\necho 2.0"), "utf-8"
    )
    build._load.cache_clear()
    with pytest.warns(UserWarning, match="could not compile the kernels"):
        assert native.library() is None
    assert compilations() == 2


def test_a_compiler_without_time_is_tried_again(fresh, tmp_path, monkeypatch):
    idle = tmp_path / "idle-cc"
    idle.write_text('#!/bin/sh\ncase "$1" in --version) ;; *) exec sleep 60;; esac\n', "utf-8")
    idle.chmod(0o755)
    monkeypatch.setenv("CC", str(idle))
    monkeypatch.setattr(build, "_PATIENCE", 0.2)
    for _ in range(2):
        build._load.cache_clear()  # as another process
        with pytest.warns(UserWarning, match="did not compile the kernels within 0.2 s"):
            assert native.library() is None
    assert not any(fresh.glob("*.failed"))


@pytest.mark.slow
def test_what_is_in_use_is_told(fresh):
    told = native.status()
    assert (told.active, told.reason) == (True, "compiled for this machine")
    assert told.library in list(fresh.iterdir())


@pytest.mark.slow
def test_a_library_of_other_structures_is_refused(fresh, monkeypatch):
    class Longer(bindings.Basis):
        _fields_ = (("more", ctypes.c_int64),)

    structures = [Longer if s is bindings.Basis else s for s in bindings._STRUCTURES]
    monkeypatch.setattr(bindings, "_STRUCTURES", structures)
    assert native.library() is None
    assert "Longer has 56 bytes in C, 64 here" in native.status().reason


@pytest.mark.parametrize(("code", "error"), [(0, None), (1, MemoryError), (7, RuntimeError)])
def test_return_codes_become_exceptions(code, error):
    class Library:
        @staticmethod
        def kernel(*_):
            return code

    with pytest.raises(error, match="kernel") if error else nullcontext():
        bindings.call(Library, "kernel")


@pytest.mark.slow
def test_a_kernel_without_memory_says_so():
    """As many units as no machine has room for."""
    basis = bindings.struct(bindings.Basis, units=1 << 55)
    response = bindings.struct(bindings.Response)
    with pytest.raises(MemoryError, match="diffuse"):
        native.call("diffuse", basis, response, 1, None, None, None, 0)


def test_elsewhere_it_says_that_it_is_for_linux(fresh, monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    assert native.status().reason == "the kernels are made for Linux, not darwin"


def test_it_can_be_switched_off(fresh, monkeypatch):
    monkeypatch.setenv("GAD_NATIVE", "0")
    assert native.library() is None
    assert native.status().reason == "switched off by GAD_NATIVE=0"


def test_a_folder_that_cannot_be_written(fresh, monkeypatch):
    if os.getuid() == 0:
        blocked = fresh.parent / "file"
        blocked.write_text("", encoding="utf-8")
        monkeypatch.setenv("GAD_CACHE", str(blocked))
    else:
        fresh.parent.chmod(0o500)
    assert native.library() is None


def test_other_types_and_devices_are_left_to_pytorch():
    assert native.accepts(torch.zeros(1))
    assert not native.accepts(torch.zeros(1, dtype=torch.float64))
    assert not native.accepts(torch.zeros(1), torch.zeros(1, device="meta"))
