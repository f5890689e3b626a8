"""Notes of what is not recorded: each is written once, with how often it came."""

from __future__ import annotations

import os
import re
import time

from ..run_format.files import NOTES
from .append import append_bytes, overwrite, write_new

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from typing import Any

__all__ = ["NOTES_SIZE", "Notes", "collected_notes", "leave_note", "line"]

NOTES_SIZE = 4096
"""Bytes of blanks that the file of a process is created with: writing over them needs no free block of a full disk."""

_REASON_LENGTH = 400  # a note is one line for a person, not a log
_MOST_KINDS = 500  # notes of one process
_MOST_BESIDE = 1 << 17  # bytes of the notes that processes without a folder leave: 500 of them
_OF_PROCESS = re.compile(r"\b(process|pid[ -]?)\s*\d+(?:\.\d+)?")
_TIMES = '"times":{:10d}}}\n'  # of one width, to be written over


class Notes:
    """The notes of one process, in its `directory`. Raises OSError when they cannot be made, and never afterwards."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, NOTES)
        self._end = 0
        self._written: dict[tuple[str, str], list[int]] = {}  # what, why -> end of its line, how often
        write_new(self._path, b" " * (NOTES_SIZE - 1) + b"\n")

    def note(self, what: str, why: object) -> None:
        """Say what was not recorded and why; the same again is counted."""
        try:
            row = _note(what, why)
            known = self._written.get((what, row["why"]))
            if known is not None:
                known[1] += 1
                if not known[1] & (known[1] - 1):  # 2, 4, 8 …: a note in every step is no write in every step
                    self._tell_times(known)
            elif len(self._written) < _MOST_KINDS:
                text = line(row)[:-2] + b"," + _TIMES.format(1).encode()
                overwrite(self._path, text, self._end)
                self._end += len(text)
                self._written[what, row["why"]] = [self._end, 1]
        except Exception:
            return

    def close(self) -> None:
        """Write down how often each came."""
        try:
            for known in self._written.values():
                if known[1] > 1:
                    self._tell_times(known)
        except Exception:
            return

    def _tell_times(self, known: list[int]) -> None:
        text = _TIMES.format(known[1]).encode()
        overwrite(self._path, text, known[0] - len(text))


def leave_note(run_dir: str, what: str, why: object) -> None:
    """A note beside the folders of the processes, for one that has no folder. Never raises."""
    try:
        path = os.path.join(run_dir, NOTES)
        if not os.path.exists(path) or os.path.getsize(path) < _MOST_BESIDE:
            append_bytes(path, line(_note(what, why)))
    except Exception:
        return


def collected_notes(run_dir: str) -> list[dict[str, str]]:
    """What the processes of a job have noted: in their own folders, and beside them before they had one. Those that
    differ in the number of a process only are one, which says of how many it is."""
    try:
        folders = ["", *sorted(name for name in os.listdir(run_dir) if name.startswith("rank-"))]
    except OSError:
        return []
    alike: dict[tuple[str, str], list[dict[str, str]]] = {}
    for folder in folders:
        for row in _read(run_dir, folder):
            kind = _OF_PROCESS.sub(r"\1 #", row["what"]), _OF_PROCESS.sub(r"\1 #", row["why"])
            alike.setdefault(kind, []).append(row)
    for rows in alike.values():
        if len(rows) > 1:
            rows[0]["what"] += f" and {len(rows) - 1} other{'s' if len(rows) > 2 else ''}"
    return [rows[0] for rows in alike.values()]


def _read(run_dir: str, folder: str) -> list[dict[str, str]]:
    import json

    found: list[dict[str, str]] = []
    try:
        with open(os.path.join(run_dir, folder, NOTES), encoding="utf-8", errors="replace") as lines:
            for text in filter(str.strip, lines):
                row = json.loads(text)
                where = f" of {folder}" if folder else ""
                why = "{}; {}".format(row["why"], row["next"]) if row.get("next") else str(row["why"])
                found.append({"what": "{}{}".format(row["what"], where), "why": why})
    except FileNotFoundError:
        return found
    except (OSError, ValueError, KeyError, TypeError) as error:
        found.append({"what": "notes of {}".format(folder or "the run"), "why": str(error)})
    return found


def line(row: dict[str, Any]) -> bytes:
    """A row of a JSON-lines file."""
    import json  # not at the top: most processes of a job never write a line

    return json.dumps(row, default=str, separators=(",", ":")).encode("utf-8", "backslashreplace") + b"\n"


def _note(what: str, why: object) -> dict[str, Any]:
    reason = why if isinstance(why, str) else f"{type(why).__name__}: {why}"
    return {"what": what, "why": reason[:_REASON_LENGTH], "epoch_ns": time.time_ns()}
