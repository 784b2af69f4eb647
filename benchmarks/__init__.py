"""Speed and memory, measured on the machine at hand and recorded with it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The repository."""
