"""Where data sets are looked for."""

from __future__ import annotations

import os
from pathlib import Path

from gad.folders import cache_folder

__all__ = ["cache_folder", "data_folder"]


def data_folder() -> Path | None:
    """The folder named by ``GAD_DATA``, or None when that is not set; a wrong name is an error."""
    value = os.environ.get("GAD_DATA")
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"GAD_DATA={value} is not a folder; correct it, or unset it")
    return folder
