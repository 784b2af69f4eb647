"""Where data sets are looked for, and where downloads are kept."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def data_folder() -> Path | None:
    """The folder named by ``GAD_DATA``, or None when that is not set; a wrong name is an error."""
    value = os.environ.get("GAD_DATA")
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"GAD_DATA={value} is not a folder; correct it, or unset it")
    return folder


def cache_folder() -> Path:
    """``GAD_CACHE``, or ``gad`` in the platform's cache folder; it need not exist yet."""
    value = os.environ.get("GAD_CACHE")
    if value:
        return Path(value).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gad"
