"""Where a run is recorded: a folder of its own, named after the script and the time."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence

from stepscope.core.errors import BadInput

__all__ = ["run_folder"]

_DEFAULT = "stepscope-runs"
_NAME_LENGTH = 60


def run_folder(out: str | None, command: Sequence[str], prefix: str = "") -> str:
    """The folder asked for, or a fresh one under ./stepscope-runs. Raises BadInput for one that is in use.

    It is not made here: a folder that cannot be made must not keep the job from running.
    """
    if out is not None:
        _check(out)
        return out
    base = os.path.join(_DEFAULT, f"{prefix}{_job_name(command)}-{time.strftime('%Y%m%d-%H%M%S')}")
    folder, number = base, 1
    while os.path.lexists(folder):
        number += 1
        folder = f"{base}-{number}"
    return folder


def _check(out: str) -> None:
    if not out:
        raise BadInput("--out", "names no folder", next_step="name a folder that does not exist yet")
    if os.path.lexists(out) and not os.path.isdir(out):
        raise BadInput("--out", f"{out} is a file", next_step="name a folder that does not exist yet")
    try:
        used = os.path.isdir(out) and bool(os.listdir(out))
    except OSError:
        return  # the launcher finds out, and the job runs without a recording
    if used:
        raise BadInput("--out", f"{out} is not empty", next_step="name a new folder, or drop --out")


def _job_name(command: Sequence[str]) -> str:
    """The script or module that the command runs, else its program."""
    for before, word in zip(("", *command), command, strict=False):
        if before == "-m" and not os.path.basename(command[0]).startswith("stepscope"):
            return _safe(word.rpartition(".")[2])
        if word.endswith(".py"):
            return _safe(os.path.basename(word).removesuffix(".py"))
    return _safe(os.path.basename(command[0]))


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:_NAME_LENGTH] or "job"
