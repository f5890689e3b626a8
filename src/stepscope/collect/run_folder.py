"""The folder of a run: nobody else's, and in it whole files only."""

from __future__ import annotations

import json
import os
import stat

from .append import write_new

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["make_folder", "write_json"]


def make_folder(path: str) -> None:
    """Make the folder of a run, for its owner alone, and those above it. Raises OSError.

    In a folder that all may write to, such as /tmp, somebody else may have laid a link or a folder of their own in its
    place, or above it: PermissionError.
    """
    above = os.path.dirname(path)
    try:
        os.makedirs(above, exist_ok=True)
    except FileExistsError:
        pass  # a file: making a folder in it says so
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    while len(above) > 1:
        _check_owner(path, above)
        path, above = above, os.path.dirname(above)


def write_json(path: str, row: Mapping[str, Any]) -> None:
    """All of it or nothing: a reader never sees half a file, a full disk leaves none."""
    try:
        write_new(path + ".new", json.dumps(row, default=str).encode() + b"\n")
        os.replace(path + ".new", path)
    except OSError:
        try:
            os.unlink(path + ".new")
        except OSError:
            pass
        raise


def _check_owner(path: str, above: str) -> None:
    if not os.stat(above).st_mode & stat.S_IWOTH:
        return
    for status in (os.lstat(path), os.stat(path)):
        if status.st_uid not in (os.geteuid(), 0):
            raise PermissionError(1, f"{path} belongs to another user, in a folder that all may write to")
