"""What stands between a command and the shell: exit codes, errors in one sentence, pure JSON.

====  =============================================================================
code  meaning
====  =============================================================================
0     done; rows that could not be used are counted in what is printed
1     failed: a file, the data, a model or the machine
2     the command line itself is wrong: an option, a value, a recipe
3     done, but rows were rejected and ``--strict`` was given
130   interrupted
====  =============================================================================
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

import typer

from gad.cli.app import app
from gad.cli.console import Outcome, print_error, print_json, show
from gad.machine import is_first

INTERRUPTED = 130
_RESUMABLE = frozenset({"train", "predict", "pretrain", "reproduce"})


def main() -> None:
    """Run the command line of this process, and end it with the exit code."""
    # A request to end is an interruption: what is due is written first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough; nobody wants to hear of it at the exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command, print what it has to say, and return the exit code.

    >>> run(["draw"])
    2
    """
    arguments = _spelled_out(arguments) or ["--help"]
    debug = os.environ.get("GAD_DEBUG") == "1"
    as_json = "--json" in arguments
    with contextlib.ExitStack() as stack:
        if not debug:
            stack.enter_context(_without_warnings())
        if as_json:
            # A library that prints must not spoil the one object on stdout.
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        code, message, outcome = _call(arguments, debug)
    if message is not None:
        if as_json and is_first():
            print_json({"error": message, "exit_code": code})
        elif is_first() or code != INTERRUPTED:
            print_error(message, label="" if code == INTERRUPTED else "error: ")
    elif outcome is not None and is_first():
        with contextlib.suppress(BrokenPipeError):
            print_json(outcome.data) if as_json else show(outcome)
    return code


def _spelled_out(arguments: Sequence[str]) -> list[str]:
    """The arguments with the value that ``--freeze`` has when it stands alone.

    >>> _spelled_out(["train", "--freeze", "data.csv"]), _spelled_out(["--freeze", "2"])
    (['train', '--freeze', 'all', 'data.csv'], ['--freeze', '2'])
    """
    spelled = []
    for word, after in zip_longest(arguments, arguments[1:], fillvalue=""):
        spelled.append(word)
        if word == "--freeze" and after != "all" and not after.isdecimal():
            spelled.append("all")
    return spelled


def _call(arguments: list[str], debug: bool) -> tuple[int, str | None, Outcome | None]:
    """The exit code, what went wrong if anything did, and what the command returned."""
    try:
        result = app(args=arguments, prog_name="gad", standalone_mode=False)
    except BaseException as error:  # noqa: BLE001  # the last chance to say it in a sentence
        if debug:
            traceback.print_exc()
        code, message = _explain(error, arguments)
        return code, message, None
    if isinstance(result, Outcome):
        return result.code, None, result
    code = result if isinstance(result, int) else 0
    return code, _interruption(arguments) if code == INTERRUPTED else None, None


def _explain(error: BaseException, arguments: Sequence[str]) -> tuple[int, str | None]:
    """The exit code and the sentence for an exception; no sentence for a plain exit."""
    from gad.settings.recipe import RecipeError

    # Lightning leaves by sys.exit when it is interrupted.
    cause = error.__context__ if isinstance(error, SystemExit) else error
    if isinstance(cause, (KeyboardInterrupt, typer.Abort)):
        return INTERRUPTED, _interruption(arguments)
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1, None
    if hasattr(error, "format_message"):  # Typer's own errors, whichever Click it is built on
        return int(getattr(error, "exit_code", 2)), _usage(error)
    return 2 if isinstance(error, RecipeError) else 1, _told(error)


def _usage(error: Any) -> str:
    """What is wrong with the command line, and where to read about it."""
    context = getattr(error, "ctx", None)
    path = "gad" if context is None else context.command_path
    text = _line(error.format_message())
    return f"{text if text.endswith(('.', '?')) else text + '.'} See: {path} --help"


def _told(error: BaseException) -> str:
    """An exception in one sentence."""
    if isinstance(error, MemoryError):
        return "the memory of this machine is not enough: use fewer --workers or a smaller batch"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    text = _line(str(error)) or type(error).__name__
    expected = (ValueError, OSError, ArithmeticError, ImportError)
    if isinstance(error, expected) or type(error).__name__ == "MisconfigurationException":
        return text
    return (
        f"unexpected {type(error).__name__}: {text}. This is a fault of gad: please report it, "
        "with the command and what GAD_DEBUG=1 prints"
    )


def _line(text: str) -> str:
    return " ".join(text.split())


def _interruption(arguments: Sequence[str]) -> str:
    resumable = bool(arguments) and arguments[0] in _RESUMABLE
    return "interrupted; continue with --resume" if resumable else "interrupted"


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Warnings of libraries are for their users; ours get messages. Child processes inherit it."""
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore"
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before
