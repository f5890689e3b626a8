"""Runs a command for a short while, beside the user's terminal, and leaves no process of it behind.

The job gets a session of its own, no input, and a file for its output. It is asked to end by SIGTERM, as a scheduler
would; what is left of it is found by the run folder in its environment, also where a launcher such as torchrun gave
it a session of its own, and is ended too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass

from ..run_format.files import RUN_DIR
from ..run_format.options import RecordingOptions
from .launch import begin_run, finish_run, job_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

__all__ = ["OUTPUT", "Ending", "run_until"]

OUTPUT = "output.txt"
"""File of the run folder with what the job printed."""

_POLL_S = 0.05  # short beside the start of Python, long beside a look
_GRACE_S = 10.0  # for SIGTERM: a job may have to write a checkpoint
_REST_S = 6.0  # a DataLoader worker notices within 5 s that its parent is gone


@dataclass(frozen=True)
class Ending:
    """How a trial ended. `cut`: it was ended from outside; `code`: else the exit code, negative for a signal."""

    cut: bool
    code: int | None
    wall_s: float
    why_not: str | None = None


def run_until(
    command: Sequence[str],
    run_dir: str,
    options: RecordingOptions,
    enough: Callable[[], bool],
    cores: Mapping[str, Any] | None = None,
    cwd: str | None = None,
) -> Ending:
    """Run `command`, recorded in `run_dir`, until it ends or `enough()`; `options` and `cores` as for `launch`.

    It runs in the folder `cwd`, or in this process's own. Raises OSError where it cannot be recorded.
    """
    run_dir = os.path.abspath(run_dir)
    missing: list[dict[str, str]] = []
    if not begin_run(command, run_dir, options, cores, missing, cwd):
        raise OSError(missing[0]["why"])
    started = time.monotonic_ns()
    process, cut = None, False
    with open(os.path.join(run_dir, OUTPUT), "wb") as output:
        try:
            process = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=cwd,
                env=job_environment(run_dir, options, missing), start_new_session=True,
            )  # fmt: skip
            while process.poll() is None and not cut:
                time.sleep(_POLL_S)
                cut = process.returncode is None and enough()
        except OSError as error:
            if process is not None:
                raise
            return Ending(False, None, 0.0, f"{command[0]}: {error.strerror}")
        finally:
            _end(process, run_dir)
    code = process.returncode
    wall_ns = time.monotonic_ns() - started
    finish_run(run_dir, code if code >= 0 else None, -code if code < 0 else None, wall_ns, missing)
    return Ending(cut, None if cut else code, wall_ns / 1e9)


def _end(process: subprocess.Popen[bytes] | None, run_dir: str) -> None:
    """End the job and all that it has started, first by SIGTERM, and wait until they are gone.

    Where Ctrl-C has come while the job was being started there is no `process` of it, and yet it may run.
    """
    if process is not None and process.poll() is None:
        process.terminate()
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    asked: set[int] = set()
    patient_until = time.monotonic() + (_GRACE_S if process is None else _REST_S)
    while time.monotonic() < patient_until + _GRACE_S:
        left = _processes_of(run_dir)
        if not left:
            return
        kill = time.monotonic() > patient_until
        for pid in left if kill else set(left) - asked:
            try:
                os.kill(pid, signal.SIGKILL if kill else signal.SIGTERM)
            except ProcessLookupError:
                continue
        asked.update(left)
        time.sleep(_POLL_S)


def _processes_of(run_dir: str) -> list[int]:
    """Processes that have the run folder in their environment and have not ended."""
    mark = RUN_DIR.encode() + b"=" + os.fsencode(run_dir) + b"\0"
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read():
                    found.append(int(name))
        except OSError:
            continue  # ended meanwhile, or another user's
    return found
