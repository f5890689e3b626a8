"""Python processes of a job that use torch without stepscope's probe in them, and why, as far as /proc tells.

The probe comes in through PYTHONPATH. It is lost where a script sets that variable anew, where Python is told not to
look at it (-E, -I) or not to import `site` (-S), and where the environment is cleared. Children that were forked have
the environment of their parent, so that they are no case of their own.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

TYPE_CHECKING = False  # the typing module costs milliseconds at start
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Unprobed", "UnprobedWatch"]

_PROC = "/proc"
_TORCH = b"libtorch_python"
_LOOKS = (1, 2, 4, 8, 16, 32, 64)  # looks at a process, counted in calls, of which a later one may find torch
_ISOLATING = frozenset("EIS")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_LARGEST_SCRIPT = 1 << 20
_ANCESTORS = 16
_SETS = re.compile(r"\bPYTHONPATH=(\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unprobed:
    """A process: its command, why the probe is not in it, and what to change ("" where nobody knows)."""

    pid: int
    command: tuple[str, ...]
    why: str
    advice: str


class UnprobedWatch:
    """Looks at the processes of a job; `inject` is the folder of PYTHONPATH with the probe."""

    def __init__(self, inject: str, variable: str) -> None:
        self._inject, self._variable = inject, variable
        self._looked: dict[int, int] = {}  # process -> how often it was looked at; 0: no more

    def look(self, pids: Iterable[int]) -> list[Unprobed]:
        """Those of `pids` that are found now, each once. Call it about every second."""
        found = []
        for pid in pids:
            looked = self._looked.get(pid, 1)
            if looked:
                reason = _reason(pid, self._inject, self._variable)
                self._looked[pid] = 0 if reason is None or looked > _LOOKS[-1] else looked + 1
                if reason is not None and looked in _LOOKS and _has_torch(pid):
                    self._looked[pid] = 0
                    found.append(Unprobed(pid=pid, command=_command(pid), why=reason[0], advice=reason[1]))
        return found


def _reason(pid: int, inject: str, variable: str) -> tuple[str, str] | None:
    """Why the probe is not in this process and what to change; None: it is, or this is no Python."""
    command, environment = _command(pid), _environment(pid)
    if not environment or not _is_python(pid):
        return None
    options = _isolating_options(command)
    if options:
        return f"Python runs with {options}, which keeps PYTHONPATH out", f"leave out {options}"
    if variable not in environment:
        return "its environment was cleared", f"keep PYTHONPATH and {variable} in its environment"
    path = environment.get("PYTHONPATH", "")
    if inject in path.split(os.pathsep):
        return None
    line = _line_that_sets(pid)
    if line is None:
        return f"PYTHONPATH was set to {path!r}", f"set `PYTHONPATH={path}:$PYTHONPATH` instead"
    place, before, after = line
    return f"{place} sets `{before}`", f"write `{after}` in {place}"


def _is_python(pid: int) -> bool:
    try:
        return "python" in os.path.basename(os.readlink(f"{_PROC}/{pid}/exe"))
    except OSError:
        return False


def _isolating_options(command: tuple[str, ...]) -> str:
    words = iter(command[1:])
    for word in words:
        if word in _WITH_VALUE:
            next(words, None)
        elif word in ("-c", "-m", "-") or not word.startswith("-"):
            return ""
        elif not word.startswith("--") and _ISOLATING & set(word[1:].partition("c")[0].partition("m")[0]):
            return word
    return ""


def _has_torch(pid: int) -> bool:
    try:
        with open(f"{_PROC}/{pid}/maps", "rb") as maps:
            return _TORCH in maps.read()
    except OSError:
        return False


def _line_that_sets(pid: int) -> tuple[str, str, str] | None:
    """File and line of the shell script above this process that sets PYTHONPATH; what it says, and should say."""
    for _ in range(_ANCESTORS):
        pid = _parent(pid)
        if pid <= 1:
            return None
        for word in _command(pid)[1:3]:
            path = os.path.join(f"{_PROC}/{pid}/cwd", word)
            found = None if word.startswith("-") or word.endswith(".py") else _in_script(path)
            if found is not None:
                number, text = found
                value = text.partition("=")[2].strip("\"'")
                return f"{word}:{number}", text, f'PYTHONPATH="{value}:$PYTHONPATH"'
    return None


def _in_script(path: str) -> tuple[int, str] | None:
    """Line and words of the last place that sets PYTHONPATH without what was in it."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > _LARGEST_SCRIPT:
            return None
        with open(path, encoding="utf-8", errors="replace") as script:
            lines = script.read().splitlines()
    except OSError:
        return None
    found = None
    for number, line in enumerate(lines, 1):
        for setting in _SETS.finditer(line.partition(" #")[0]):
            if "$PYTHONPATH" not in setting[0] and "${PYTHONPATH" not in setting[0]:
                found = number, setting[0]
    return found


def _command(pid: int) -> tuple[str, ...]:
    return tuple(os.fsdecode(word) for word in _read(pid, "cmdline").split(b"\0")[:-1])


def _environment(pid: int) -> dict[str, str]:
    words = (os.fsdecode(word).partition("=") for word in _read(pid, "environ").split(b"\0") if b"=" in word)
    return {name: value for name, _, value in words}


def _parent(pid: int) -> int:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"{_PROC}/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""
