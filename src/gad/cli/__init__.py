"""The command line. It parses, calls and prints; what it does is done elsewhere.

Nothing heavy is imported until a command needs it, so ``gad --help`` answers at once.
"""

from gad.cli.guard import main, run

__all__ = ["main", "run"]
