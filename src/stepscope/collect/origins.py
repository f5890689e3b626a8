"""Whose code a source file is."""

from __future__ import annotations

import os
import sys
import sysconfig

from .warning_frames import PREFIXES as OWN_PREFIXES

__all__ = ["COLLECTING", "LIBRARY", "RECORDER", "STANDARD", "TRACING", "USER", "Origins"]

STANDARD, LIBRARY, USER, RECORDER, TRACING, COLLECTING = range(6)
"""Whose code: Python's own; an installed package; the user's; stepscope's; stepscope's while it traces, or while it
takes the time of the garbage collector."""

_OWN_FILES = {"window.py": TRACING, "recording.py": TRACING, "tracer.py": TRACING, "garbage.py": COLLECTING}


class Origins:
    """Sorts source files by whose they are; each file name is judged once."""

    def __init__(self) -> None:
        paths = sysconfig.get_paths()
        self._own = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
        self._standard = _folders({paths["stdlib"], paths["platstdlib"], os.path.dirname(os.__file__)})
        self._library = _folders({paths["purelib"], paths["platlib"]})
        self._scripts = _folders({paths["scripts"], os.path.dirname(sys.executable or paths["scripts"])})
        temporary = os.path.join(os.path.abspath(os.environ.get("TMPDIR") or "/tmp"), "torchinductor_")
        self._generated = (temporary, os.environ.get("TORCHINDUCTOR_CACHE_DIR") or temporary)
        self._known: dict[str, int] = {}

    def of(self, filename: str) -> int:
        """STANDARD, LIBRARY, USER, RECORDER, TRACING or COLLECTING."""
        kind = self._known.get(filename)
        if kind is None:
            kind = self._known[filename] = self._judge(filename)
        return kind

    def shown(self, filename: str) -> str:
        """The name to write down: library paths relative to their site directory."""
        if self.of(filename) not in (STANDARD, LIBRARY):
            return os.path.abspath(filename) if self._is_path(filename) else filename
        for marker in ("site-packages", "dist-packages"):
            _, found, rest = filename.rpartition(os.sep + marker + os.sep)
            if found:
                return rest
        for folder in (*self._library, *self._standard):
            if filename.startswith(folder):
                return filename[len(folder) :]
        return filename

    def package(self, filename: str) -> str:
        """The top-level name of the installed package that a LIBRARY file belongs to."""
        return self.shown(filename).split(os.sep, 1)[0]

    def _judge(self, filename: str) -> int:
        if filename.startswith(OWN_PREFIXES):
            return RECORDER
        if not self._is_path(filename):
            typed = filename == "<stdin>" or filename.startswith("<ipython-input")
            return USER if typed or (filename == "<string>" and sys.argv[:1] == ["-c"]) else STANDARD
        path = os.path.abspath(filename)
        if path.startswith(self._own):
            return _OWN_FILES.get(os.path.basename(path), RECORDER)
        if f"{os.sep}site-packages{os.sep}" in path or f"{os.sep}dist-packages{os.sep}" in path:
            return LIBRARY
        if path.startswith((*self._library, *self._generated)):
            return LIBRARY
        if path.startswith(self._standard):
            return STANDARD
        started_by_pip = path.startswith(self._scripts) and not path.endswith(".py")
        return STANDARD if started_by_pip else USER

    @staticmethod
    def _is_path(filename: str) -> bool:
        return not filename.startswith("<")


def _folders(paths: set[str]) -> tuple[str, ...]:
    return tuple({os.path.abspath(path).rstrip(os.sep) + os.sep for path in paths if path})
