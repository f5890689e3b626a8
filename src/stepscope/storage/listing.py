"""The runs in a folder that holds one below the other, such as `stepscope-runs` or that of a tuning."""

import json
from dataclasses import dataclass
from pathlib import Path

from stepscope.core.errors import BadInput
from stepscope.core.importing import Sink
from stepscope.core.paths import is_folder, place
from stepscope.run_format.files import RUN, TUNING
from stepscope.storage.folders import holds_ranks

__all__ = ["RecordedRun", "runs_in"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A run folder: its command, and when it was started (ns since the Unix epoch); None where it does not tell."""

    path: Path
    command: tuple[str, ...]
    started: int | None


def runs_in(word: str) -> list[RecordedRun]:
    """The runs directly below a folder of this machine, the newest first.

    Empty for anything else: a run, a folder of traces, that of a tuning which has ended, a file, a URL, a pattern, and
    for no word at all, which would be the folder where one is.
    """
    if not word:
        return []
    try:
        folder = place(word)
        if not isinstance(folder, Path) or not is_folder(folder) or holds_ranks(folder, Sink()):
            return []
        if (folder / TUNING).is_file():
            return []
        found = [_recorded(file.parent) for file in folder.glob(f"*/{RUN}")]
    except (OSError, ValueError, BadInput):
        return []  # whoever opens it says what is wrong with it
    return sorted(found, key=lambda run: (-(run.started or 0), run.path.name))


def _recorded(folder: Path) -> RecordedRun:
    try:
        told = json.loads((folder / RUN).read_text(encoding="utf-8"))
        command, started = told.get("command"), told.get("started_epoch_ns")
    except (OSError, ValueError, AttributeError):
        return RecordedRun(path=folder, command=(), started=None)
    return RecordedRun(
        path=folder,
        command=tuple(map(str, command)) if isinstance(command, list) else (),
        started=started if isinstance(started, int) else None,
    )
