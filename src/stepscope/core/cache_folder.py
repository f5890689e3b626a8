"""Where this user's cache lies. Light: what is kept there is looked for before anything that reads runs is imported."""

import os
from pathlib import Path

__all__ = ["VARIABLE", "cache_folder"]

VARIABLE = "STEPSCOPE_CACHE_DIR"
"""Environment variable with the folder of the cache; without it the user's cache folder (XDG_CACHE_HOME on Linux)."""


def cache_folder() -> Path | None:
    """The folder, which may not be there yet; None if the system has no place for one."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(os.path.abspath(given))
    from platformdirs import user_cache_path

    folder = user_cache_path("stepscope", appauthor=False)
    return folder if folder.is_absolute() and os.path.isdir(os.path.expanduser("~")) else None
