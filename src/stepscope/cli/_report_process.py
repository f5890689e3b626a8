"""The process that says what limits a job: started while the job ends, so that nobody waits for its imports.

Torch takes some tenths of a second to end, and so do the imports of an analysis. Standard library only.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from stepscope.run_format.files import ENDINGS

TYPE_CHECKING = False  # the typing module and those below cost the job's start milliseconds
if TYPE_CHECKING:
    import subprocess

__all__ = ["NOT_TOLD", "PARTLY", "ReportProcess", "told"]

PARTLY = "failed unexpectedly, please report it: "
"""How a report says, behind everything else, which of its views failed."""

NOT_TOLD = os.EX_TEMPFAIL
"""Exit code of a process that stood by in vain."""

_PATIENCE_S = 20.0  # a job that trains on elsewhere must not have a second process in memory for hours
_GO = b"go\n"


class ReportProcess:
    """The verdict on the run in `folder`, printed to stderr by a process of its own, whose failures stay there."""

    def __init__(self, folder: str) -> None:
        self._folder, self._ending = folder, os.path.join(folder, ENDINGS)
        self._process: subprocess.Popen[bytes] | None = None

    def watch(self) -> None:
        """Start the process once a process of the job begins to end. Where that fails `verdict` will say so."""
        if self._process is None and os.path.exists(self._ending):
            with suppress(OSError):
                self._process = self._start("--report-process")

    def verdict(self) -> tuple[int, str]:
        """Have it printed; the exit code, and what went wrong. Raises OSError where it cannot be started."""
        if self._process is not None:
            stands_by = self._process.poll() is None
            done = self._finish(self._process)
            if stands_by and done[0] != NOT_TOLD:
                return done
        return self._finish(self._start())

    def _start(self, *options: str) -> subprocess.Popen[bytes]:
        import subprocess

        command = [sys.executable, "-P", "-m", "stepscope", "report", *options, "--", self._folder]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=sys.stderr.fileno(), stderr=subprocess.PIPE
        )  # fmt: skip

    def _finish(self, process: subprocess.Popen[bytes]) -> tuple[int, str]:
        try:
            _, said = process.communicate(_GO)
        except KeyboardInterrupt:
            process.kill()  # nobody waits for what it says
            raise
        return process.returncode, said.decode(errors="replace").strip()


def told() -> bool:
    """In the process that stands by: wait for the word, and then begin as a process would that was started now."""
    import select
    import signal

    ready, _, _ = select.select([sys.stdin.buffer], [], [], _PATIENCE_S)
    word = sys.stdin.buffer.readline() if ready else b""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    for number in blocked:  # a Ctrl-C that ended the job was blocked here, and must not end the verdict
        before = signal.signal(number, signal.SIG_IGN)
        signal.signal(number, before)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return word == _GO
